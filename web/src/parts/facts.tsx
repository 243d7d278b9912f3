/** What the agent goes by: facts with where they come from. */
import { makeVisible, type FactEntity } from "@baton/sdk";
import { useWords } from "../context.tsx";
import { Icon } from "./icons.tsx";
import { OriginWords, saysOrigins } from "./origins.tsx";

export function validFacts(facts: FactEntity[], taskId: string): FactEntity[] {
  return facts.filter((fact) => fact.valid && (fact.scope === "session" || fact.task_id == null || fact.task_id === taskId));
}

export function Facts({ facts, taskId, unfolded = false }: { facts: FactEntity[]; taskId: string; unfolded?: boolean }) {
  const { t } = useWords();
  const valid = validFacts(facts, taskId);
  if (valid.length === 0) return null;
  return (
    <details className="panel facts" data-testid="facts" open={unfolded}>
      <summary>
        <span>{t("facts")}</span>
        <span className="plan-count">{valid.length}</span>
        <Icon name="chevron" className="turns" />
      </summary>
      <dl>
        {valid.map((fact) => (
          <div key={fact.id} data-testid="fact">
            <dt>{makeVisible(fact.key)}</dt>
            <dd>
              {makeVisible(fact.value)}
              <span className="quiet small">
                {t("facts_source", { source: makeVisible(fact.source) })} · {t(fact.scope === "task" ? "facts_task" : "facts_session")}
              </span>
              {saysOrigins(fact.origins) && <span className="quiet small">{t("facts_origins")} <OriginWords origins={fact.origins} /></span>}
            </dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
