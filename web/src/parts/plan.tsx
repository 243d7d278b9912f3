/** What stands beside the conversation, or above it where there is no room: the plan, the facts, the files that were changed. */
import { makeVisible, type SessionState, type TaskEntity } from "@baton/sdk";
import { useMemo } from "react";
import { changedFiles } from "../changes.ts";
import { useClient, useWords } from "../context.tsx";
import { tagOf, type Key } from "../i18n/index.ts";
import { Changes } from "./changed_files.tsx";
import { Facts, validFacts } from "./facts.tsx";
import { Icon } from "./icons.tsx";

/** Beside the conversation: one section under another, each can be folded. Nothing where it would only repeat the title. */
export function Beside({ state, task, onShowDiff }: { state: SessionState; task: TaskEntity; onShowDiff: () => void }) {
  const { t } = useWords();
  const planned = saysMore(task);
  const facts = validFacts(state.all("fact"), task.id).length;
  const calls = state.all("call");
  const files = useMemo(() => changedFiles(calls, task.id).length, [calls, task.id]);
  if (!planned && facts === 0 && files === 0) return null;
  return (
    <aside className="beside" id="beside" aria-label={t("beside")}>
      {planned && (
        <details className="panel plan" open data-state={task.state}>
          <PlanSummary task={task} />
          <PlanBody task={task} used={state.session?.context_tokens ?? 0} />
        </details>
      )}
      <Facts facts={state.all("fact")} taskId={task.id} unfolded />
      <Changes calls={calls} taskId={task.id} unfolded onShowDiff={onShowDiff} />
    </aside>
  );
}

const saysMore = ({ steps = [], title, core_intent: intent }: TaskEntity): boolean =>
  steps.length > 0 || (intent.goal !== "" && intent.goal !== title) || (intent.constraints ?? []).length > 0 || (intent.acceptance ?? []).length > 0;

/** Above the conversation: a line and a bar, and all of it when it is opened. Nothing where it would only repeat the title. */
export function PlanOnTop({ state, task, onShowDiff }: { state: SessionState; task: TaskEntity; onShowDiff: () => void }) {
  const facts = validFacts(state.all("fact"), task.id).length;
  const calls = state.all("call");
  const files = useMemo(() => changedFiles(calls, task.id).length, [calls, task.id]);
  if (facts === 0 && files === 0 && !saysMore(task)) return null;
  return (
    <div className="plan-top">
      <details className="panel plan" data-state={task.state}>
        <PlanSummary task={task} />
        <PlanBody task={task} used={state.session?.context_tokens ?? 0} />
        <Facts facts={state.all("fact")} taskId={task.id} />
        <Changes calls={calls} taskId={task.id} unfolded onShowDiff={onShowDiff} />
      </details>
    </div>
  );
}

function PlanSummary({ task }: { task: TaskEntity }) {
  const { t } = useWords();
  const steps = task.steps ?? [];
  const done = steps.filter((step) => step.status === "done").length;
  return (
    <summary>
      <span className="plan-line">{makeVisible(task.line) || makeVisible(task.title)}</span>
      {steps.length > 0 && <span className="plan-count">{t("plan_steps", { done, all: steps.length })}</span>}
      <Icon name="chevron" className="turns" />
      {steps.length > 0 && <progress max={100} value={task.progress} aria-label={`${t("plan")} ${task.progress} %`} />}
    </summary>
  );
}

function PlanBody({ task, used }: { task: TaskEntity; used: number }) {
  const client = useClient();
  const { t, language } = useWords();
  const window = client.info?.context_tokens ?? 0;
  const short = new Intl.NumberFormat(tagOf(language), { notation: "compact", maximumFractionDigits: 1 });
  const { goal, constraints = [], acceptance = [] } = task.core_intent;
  return (
    <div className="plan-body">
      {goal && goal !== task.line && <Intent label="goal" text={goal} />}
      {constraints.length > 0 && <Intent label="constraints" text={constraints.join(" · ")} />}
      {acceptance.length > 0 && <Intent label="acceptance" text={acceptance.join(" · ")} />}
      {(task.steps ?? []).length > 0 && (
        <ol className="steps">
          {(task.steps ?? []).map((step) => (
            <li key={step.step_id} data-testid="plan-step" data-status={step.status}>
              <span className="tick" role="img" aria-label={t(`step_${step.status}` as Key)}>
                {step.status === "done" && <Icon name="check" />}
              </span>
              <span>
                {makeVisible(step.title)}
                {step.conclusion && <span className="conclusion">{makeVisible(step.conclusion)}</span>}
                {step.product && <span className="conclusion"><code>{makeVisible(step.product)}</code></span>}
              </span>
            </li>
          ))}
        </ol>
      )}
      {task.usage && task.usage.input_tokens + task.usage.output_tokens > 0 && (
        <p className="quiet small" data-testid="tokens">{t("tokens_used", { read: short.format(task.usage.input_tokens), written: short.format(task.usage.output_tokens) })}</p>
      )}
      {used > 0 && (
        <p className="quiet small" data-testid="context-used">
          {window > 0 ? t("context_used_of", { used: short.format(used), window: short.format(window), percent: Math.round((used / window) * 100) }) : t("context_used", { used: short.format(used) })}
        </p>
      )}
      {task.last_error && <p className="plan-error">{makeVisible(task.last_error)}</p>}
    </div>
  );
}

function Intent({ label, text }: { label: Key; text: string }) {
  const { t } = useWords();
  return (
    <p className="goal">
      <span className="quiet small">{t(label)}</span> {makeVisible(text)}
    </p>
  );
}
