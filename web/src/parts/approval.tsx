/** The card on which the user allows or refuses a call: exactly what, where, how risky and why. */
import { makeVisible, type ApprovalEntity, type OutboxEntry } from "@baton/sdk";
import { useContext, useMemo, useState } from "react";
import { findDevice, SessionContext, useClient, useWords } from "../context.tsx";
import { deviceName } from "../format.ts";
import type { Key } from "../i18n/index.ts";
import { Icon } from "./icons.tsx";
import { Trouble } from "./trouble.tsx";
import { measure, Verbatim } from "./verbatim.tsx";
import { argumentsText } from "./call.tsx";

export function ApprovalCard({ approval }: { approval: ApprovalEntity }) {
  const client = useClient();
  const { t } = useWords();
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
      <div className="card settled" data-testid="approval" data-state={state} data-id={approval.id}>
        <Icon name={state === "approved" ? "check" : "cross"} />
        <p>
          {t(`approval_${state}` as Key, { name: who })}
          {state === "voided" && approval.reason && <span className="quiet"> · {makeVisible(approval.reason)}</span>}
        </p>
      </div>
    );
  }

  return (
    <section
      className="card asks"
      data-testid="approval"
      data-state={state}
      data-risk={binding.risk}
      data-id={approval.id}
      data-open-card="true"
      tabIndex={-1}
      aria-label={t("approval_title")}
    >
      <header className="card-head">
        <Icon name="shield" />
        <h2>{t("approval_title")}</h2>
        <span className="chip" data-risk={binding.risk}>{t(`risk_${binding.risk}` as Key)}</span>
      </header>
      {binding.risk_reason && <p className="reason">{makeVisible(binding.risk_reason)}</p>}
      <Verbatim text={exact} open={read} onOpen={() => setRead(true)} label={t("approval_command")} />
      <dl className="where-what">
        {binding.directory && (
          <div>
            <dt>{t("approval_directory")}</dt>
            <dd><code>{makeVisible(binding.directory)}</code></dd>
          </div>
        )}
        {device && (
          <div>
            <dt>{t("approval_device")}</dt>
            <dd>{makeVisible(deviceName(device, t))}</dd>
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
  const decide = (decision: "approve" | "reject") => {
    const ask = () => client.outbox.add({ intent: "confirm", payload: { approval_id: approval.id, decision } }, { sessionId });
    // A refused earlier answer is in the way of nothing: it is replaced.
    void (entry ? client.outbox.discard(entry.operation.operation_id).then(ask) : ask());
  };
  if (entry?.state === "unconfirmed") {
    const id = entry.operation.operation_id;
    return (
      <div className="again" data-testid="confirm-step">
        <p><strong>{t("approval_confirm_title")}</strong> {entry.error && makeVisible(entry.error.message)}</p>
        <div className="card-actions">
          <button type="button" className="danger" data-testid="confirm-yes" onClick={() => void client.outbox.confirm(id)}>{t("approval_confirm")}</button>
          <button type="button" data-testid="confirm-no" onClick={() => void client.outbox.discard(id)}>{t("approval_not_yet")}</button>
        </div>
      </div>
    );
  }
  const pending = entry?.state === "waiting" || entry?.state === "sent";
  return (
    <>
      {entry?.error && !pending && <Trouble error={entry.error} />}
      {unread && <p className="quiet small">{t("approval_read_first")}</p>}
      <div className="card-actions">
        <button type="button" className="primary" data-testid="approve" disabled={pending || unread} onClick={() => decide("approve")}>
          {t("approve")}
        </button>
        <button type="button" data-testid="reject" disabled={pending} onClick={() => decide("reject")}>
          {t("reject")}
        </button>
      </div>
      {pending && <p className="meta" role="status">{t(entry.state === "sent" ? "approval_sending" : "approval_waiting_link")}</p>}
    </>
  );
}
