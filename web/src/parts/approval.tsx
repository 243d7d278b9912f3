/** The card on which the user allows or refuses a call: exactly what, where, how risky and why. */
import { makeVisible, type ApprovalEntity, type OutboxEntry, type Remember, type RememberChoice, type Said, type Sender } from "@baton/sdk";
import { useContext, useMemo, useState, type FormEvent } from "react";
import { findDevice, SessionContext, useClient, useWords } from "../context.tsx";
import { clock, deviceName } from "../format.ts";
import type { Key } from "../i18n/index.ts";
import { sayAll, sayOne } from "../i18n/said.ts";
import { Icon } from "./icons.tsx";
import { OriginWords, saysOrigins } from "./origins.tsx";
import { Trouble } from "./trouble.tsx";
import { measure, Verbatim } from "./verbatim.tsx";
import { argumentsText } from "./call.tsx";

export function ApprovalCard({ approval, askedBy }: { approval: ApprovalEntity; askedBy?: Sender | undefined }) {
  const client = useClient();
  const { t, language } = useWords();
  const [read, setRead] = useState(false);
  const { binding, state } = approval;
  const open = state === "open";
  const exact = binding.preview || argumentsText(approval.arguments);
  const long = useMemo(() => measure(exact).folds, [exact]);
  const device = findDevice(client, binding.device_id);
  const entry = client.outbox
    .list()
    .find((one) => one.operation.intent === "confirm" && one.operation.payload.approval_id === approval.id);

  if (!open) {
    const who = approval.decided_by ? makeVisible(deviceName(approval.decided_by, t)) : "";
    return (
      <div className="settled" data-testid="approval" data-state={state} data-id={approval.id}>
        <Icon name={state === "approved" ? "check" : "cross"} />
        <p>
          {t(`approval_${state}` as Key, { name: who })}
          {approval.decided_at && <> · <time dateTime={approval.decided_at}>{clock(approval.decided_at, language)}</time></>}
          {state === "voided" && approval.reason && <> · {makeVisible(approval.reason)}</>}
        </p>
      </div>
    );
  }

  const facts: [Key, string | undefined, boolean][] = [
    ["approval_directory", binding.directory ?? undefined, true],
    ["approval_device", device && deviceName(device, t), false],
    ["approval_asked_by", askedBy && deviceName(askedBy, t), false],
  ];
  return (
    <section
      className="card asks"
      data-testid="approval"
      data-state={state}
      data-risk={binding.risk}
      data-id={approval.id}
      data-open-card="true"
      tabIndex={-1}
      aria-label={`${t("approval_title")} ${t(`risk_${binding.risk}` as Key)}`}
    >
      <header className="card-head">
        <Icon name="shield" />
        <h2>{t("approval_title")}</h2>
        <span className="chip" data-risk={binding.risk}>{t(`risk_${binding.risk}` as Key)}</span>
      </header>
      {binding.risk_reason && <p className="reason" data-testid="risk-reason">{sayAll(binding.risk_said, binding.risk_reason, t)}</p>}
      <Verbatim text={exact} open={read} onOpen={() => setRead(true)} label={t("approval_command")} />
      <dl className="where-what">
        {facts.map(([key, value, code]) => value && (
          <div key={key}>
            <dt>{t(key)}</dt>
            <dd>{code ? <code>{makeVisible(value)}</code> : makeVisible(value)}</dd>
          </div>
        ))}
        {saysOrigins(binding.origins) && (
          <div>
            <dt>{t("approval_origins")}</dt>
            <dd><OriginWords origins={binding.origins} /></dd>
          </div>
        )}
      </dl>
      {approval.workspace_changed && (
        <p className="changed"><Icon name="alert" /> {t("approval_changed")}</p>
      )}
      <Answer approval={approval} entry={entry} unread={long && !read} />
    </section>
  );
}

/** `unread`: part of what would be allowed has not been shown yet, so it can only be refused. */
function Answer({ approval, entry, unread }: { approval: ApprovalEntity; entry: OutboxEntry | undefined; unread: boolean }) {
  const client = useClient();
  const { t } = useWords();
  const sessionId = useContext(SessionContext);
  const [opens, setOpens] = useState<"reason" | "remember" | null>(null);
  const [why, setWhy] = useState("");
  const decide = (decision: "approve" | "reject", more: { reason?: string; remember?: Remember } = {}) => {
    const ask = () => client.outbox.add({ intent: "confirm", payload: { approval_id: approval.id, decision, ...more } }, { sessionId });
    // A refused earlier answer is in the way of nothing: it is replaced.
    return entry ? client.outbox.discard(entry.operation.operation_id).then(ask) : ask();
  };
  const refuse = (event: FormEvent) => {
    event.preventDefault();
    if (why.trim() !== "") void decide("reject", { reason: why.trim() });
  };
  if (entry?.state === "unconfirmed") {
    const id = entry.operation.operation_id;
    return (
      <div className="again" data-testid="confirm-step">
        <p><strong>{t("approval_confirm_title")}</strong> {entry.error && makeVisible(entry.error.message)}</p>
        <div className="card-actions">
          <button type="button" data-testid="confirm-no" onClick={() => void client.outbox.discard(id)}>{t("approval_not_yet")}</button>
          <button type="button" className="danger" data-testid="confirm-yes" onClick={() => void client.outbox.confirm(id)}>{t("approval_confirm")}</button>
        </div>
      </div>
    );
  }
  const pending = entry?.state === "waiting" || entry?.state === "sent";
  const dangerous = approval.binding.risk === "dangerous";
  // What may be remembered is the hub's word.
  const choices = approval.remember ?? [];
  const approve = (
    <button key="approve" type="button" className={dangerous ? "risky" : "primary"} data-testid="approve" disabled={pending || unread} aria-keyshortcuts="y" onClick={() => void decide("approve")}>
      {t("approve")}
    </button>
  );
  const reject = (
    <button key="reject" type="button" data-testid="reject" disabled={pending} aria-keyshortcuts="n" onClick={() => void decide("reject")}>
      {t("reject")}
    </button>
  );
  if (opens === "remember" && !pending) {
    return <RememberOne choices={choices} why={approval.not_remembered ?? null} onChoose={(remember) => void decide("approve", { remember })} onCancel={() => setOpens(null)} />;
  }
  if (opens === "reason" && !pending) {
    return (
      <form className="again" onSubmit={refuse}>
        <label>
          <span className="quiet small">{t("reject_why")}</span>
          <input value={why} autoFocus data-testid="reject-why" enterKeyHint="send" maxLength={2_000} onChange={(event) => setWhy(event.target.value)} />
        </label>
        <div className="card-actions">
          <button type="submit" className="primary" data-testid="reject-because" disabled={why.trim() === ""}>{t("reject_send")}</button>
          <button type="button" onClick={() => setOpens(null)}>{t("cancel")}</button>
        </div>
      </form>
    );
  }
  return (
    <>
      {entry?.error && !pending && <Trouble error={entry.error} />}
      {unread && <p className="quiet small">{t("approval_read_first")}</p>}
      <div className="card-actions">
        {/* What can't be taken back isn't the first thing under a thumb or a key. */}
        {dangerous ? [reject, approve] : [approve, reject]}
        <span className="more-choices">
          {choices.length > 0 && (
            <button type="button" className="quiet-button" data-testid="remember" disabled={pending || unread} aria-keyshortcuts="a" onClick={() => setOpens("remember")}>
              {t("approve_remember")}
            </button>
          )}
          <button type="button" className="quiet-button" data-testid="reject-explain" disabled={pending} onClick={() => setOpens("reason")}>
            {t("reject_because")}
          </button>
        </span>
      </div>
      {pending && <p className="meta" role="status">{t(entry.state === "sent" ? "approval_sending" : "approval_waiting_link")}</p>}
    </>
  );
}

/** What is allowed from now on without asking: for this task or always, exactly this or commands that begin like it. */
function RememberOne({ choices, why, onChoose, onCancel }: { choices: readonly RememberChoice[]; why: Said | null; onChoose: (remember: Remember) => void; onCancel: () => void }) {
  const { t } = useWords();
  const [words, setWords] = useState(0);
  const wordsOf = (choice: RememberChoice) => choice.prefix_words ?? 0;
  const patterns = choices.filter((choice, index) => choices.findIndex((one) => wordsOf(one) === wordsOf(choice)) === index);
  const scopes = (["task", "always"] as const).filter((scope) => choices.some((choice) => choice.scope === scope && wordsOf(choice) === words));
  return (
    <div className="again" data-testid="remember-choice">
      {patterns.length > 1 ? (
        <label>
          <span className="quiet small">{t("remember_what")}</span>
          <select value={words} data-testid="remember-pattern" onChange={(event) => setWords(Number(event.target.value))}>
            {patterns.map((choice) => (
              <option key={wordsOf(choice)} value={wordsOf(choice)}>
                {wordsOf(choice) === 0 ? t("remember_exact") : t("remember_prefix", { words: makeVisible((choice.prefix ?? []).join(" ")) })}
              </option>
            ))}
          </select>
        </label>
      ) : (
        <p className="quiet small">{t("remember_exact")}</p>
      )}
      {why && <p className="quiet small" data-testid="not-remembered">{sayOne(why, t)}</p>}
      <div className="card-actions">
        {scopes.map((scope, index) => (
          <button key={scope} type="button" className={index === 0 ? "primary" : ""} data-testid={`remember-${scope}`} onClick={() => onChoose({ scope, ...(words > 0 ? { prefix_words: words } : {}) })}>
            {t(`remember_${scope}`)}
          </button>
        ))}
        <button type="button" className="quiet-button" onClick={onCancel}>{t("cancel")}</button>
      </div>
    </div>
  );
}
