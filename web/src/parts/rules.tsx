/** What is allowed without asking, by whom, and the way to be asked again. */
import { HubError, makeVisible, type Rule } from "@baton/sdk";
import { useCallback, useEffect, useState } from "react";
import { findDevice, useClient, useWords } from "../context.tsx";
import type { Key } from "../i18n/index.ts";
import { asHubError, Trouble } from "./trouble.tsx";

export function Rules() {
  const client = useClient();
  const { t } = useWords();
  const [rules, setRules] = useState<Rule[]>([]);
  const [error, setError] = useState<HubError | null>(null);
  const load = useCallback(
    () => client.hub.rules().then(setRules, (caught: unknown) => {
      // An older hub remembers nothing.
      if (asHubError(caught).code !== "not_found") setError(asHubError(caught));
    }),
    [client],
  );
  useEffect(() => void load(), [load]);
  if (rules.length === 0) return error && <Trouble error={error} />;
  return (
    <section className="rules" data-testid="rules">
      <h2 className="group-title">{t("rules")}</h2>
      {error && <Trouble error={error} onDismiss={() => setError(null)} />}
      <ul className="devices">
        {rules.map((rule) => {
          const device = findDevice(client, rule.device_id);
          const notes = [
            t(`risk_${rule.max_risk}` as Key),
            rule.only ? t("rules_task") : "",
            device ? makeVisible(device.name) : "",
            t("rules_by", { name: makeVisible(rule.granted_by.name) }),
          ].filter(Boolean);
          return (
            <li key={rule.rule_id} className="device" data-testid="rule">
              <div className="device-words">
                <p><code>{makeVisible(rule.pattern.kind === "prefix" ? `${rule.pattern.words.join(" ")} …` : rule.pattern.shown)}</code></p>
                <p className="quiet small">{notes.join(" · ")}</p>
              </div>
              <button type="button" className="quiet-button" data-testid="rule-remove" onClick={() => void client.hub.removeRule(rule.rule_id).then(load, (caught: unknown) => setError(asHubError(caught)))}>
                {t("rules_remove")}
              </button>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
