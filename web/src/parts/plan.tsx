/** The plan of a task: how far it is, in a line and a bar, and its steps. */
import { makeVisible, type FactEntity, type TaskEntity } from "@baton/sdk";
import { useWords } from "../context.tsx";
import type { Key } from "../i18n/index.ts";
import { Facts } from "./facts.tsx";
import { Icon } from "./icons.tsx";

export function Plan({ task, facts, unfolded = false }: { task: TaskEntity; facts: FactEntity[]; unfolded?: boolean }) {
  const { t } = useWords();
  const steps = task.steps ?? [];
  const done = steps.filter((step) => step.status === "done").length;
  const line = makeVisible(task.line) || makeVisible(task.title);
  return (
    <details className="plan" open={unfolded} data-state={task.state}>
      <summary>
        <span className="plan-line">{line}</span>
        {steps.length > 0 && <span className="plan-count">{t("plan_steps", { done, all: steps.length })}</span>}
        <Icon name="chevron" className="turns" />
        <progress max={100} value={task.progress} aria-label={`${t("plan")} ${task.progress} %`} />
      </summary>
      <div className="plan-body">
        {task.core_intent.goal && (
          <p className="goal">
            <span className="quiet small">{t("goal")}</span> {makeVisible(task.core_intent.goal)}
          </p>
        )}
        {steps.length > 0 && (
          <ol className="steps">
            {steps.map((step) => (
              <li key={step.step_id} data-testid="plan-step" data-status={step.status}>
                <span className="tick" role="img" aria-label={t(`step_${step.status}` as Key)}>
                  {step.status === "done" && <Icon name="check" />}
                </span>
                <span>
                  {makeVisible(step.title)}
                  {step.conclusion && <span className="conclusion">{makeVisible(step.conclusion)}</span>}
                </span>
              </li>
            ))}
          </ol>
        )}
        {task.last_error && <p className="plan-error">{makeVisible(task.last_error)}</p>}
        {facts.length > 0 && <Facts facts={facts} taskId={task.id} />}
      </div>
    </details>
  );
}
