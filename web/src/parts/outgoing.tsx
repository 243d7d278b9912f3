/** What the user said and the hub has not taken yet: visible, editable, cancellable, sent once. */
import { makeVisible, type OutboxEntry, type SessionId } from "@baton/sdk";
import { useEffect, useRef } from "react";
import { useClient, useWords } from "../context.tsx";
import type { Key } from "../i18n/index.ts";
import { keepFiles, keptFiles } from "../files.ts";
import { MessageFiles } from "./attachments.tsx";
import { Trouble } from "./trouble.tsx";

/** Answers to cards show their fate on the card itself. */
const ON_CARDS = ["confirm", "answer", "accept_handoff", "decline_handoff"];

/** `onRefused`: something came back that the user has to see. */
export function Outgoing({ sessionId, onRefused }: { sessionId: SessionId; onRefused: () => void }) {
  const client = useClient();
  const entries = client.outbox
    .list()
    .filter((entry) => entry.operation.session_id === sessionId && !ON_CARDS.includes(entry.operation.intent))
    .filter((entry) => entry.operation.intent === "say" || entry.state !== "sent");
  const back = entries.filter((entry) => entry.state === "refused" || entry.state === "held" || entry.state === "unconfirmed").length;
  const before = useRef(back);
  useEffect(() => {
    if (back > before.current) onRefused();
    before.current = back;
  }, [back]);
  return entries.map((entry) => <Row key={entry.operation.operation_id} entry={entry} />);
}

function Row({ entry }: { entry: OutboxEntry }) {
  const client = useClient();
  const { t } = useWords();
  const { operation, state, error } = entry;
  const id = operation.operation_id;
  const text = operation.intent === "say" ? operation.payload.text : t(`intent_${operation.intent}` as Key);
  const waits = state === "waiting" || state === "sent";
  const words = state === "sent" ? t("out_sending") : state === "waiting" ? t(error ? "out_again" : "out_waiting") : "";
  // What is on its way may already count: only what has not gone out can be taken back for certain.
  const changeable = state !== "sent";

  function edit() {
    const place = operation.session_id;
    if (!place) return;
    const draft = client.drafts.get(place);
    client.drafts.set(place, draft === "" ? text : `${text}\n${draft}`);
    if (operation.intent === "say" && operation.payload.attachments) keepFiles(client, place, [...operation.payload.attachments, ...keptFiles(client, place)]);
    void client.outbox.discard(id);
  }

  return (
    <article className="message outgoing" data-testid="outgoing" data-state={state} data-role="user">
      {text !== "" && <div className="bubble">{makeVisible(text)}</div>}
      {operation.intent === "say" && operation.payload.attachments && <MessageFiles files={operation.payload.attachments} />}
      {waits && <p className="meta" role="status">{words}</p>}
      {!waits && error && <Trouble tone={state === "refused" ? "bad" : "warn"} error={state === "held" ? { ...error, message: `${t("out_held")} ${error.message}` } : error} />}
      {changeable && (
        <div className="row-actions">
          {state === "unconfirmed" && (
            <button type="button" className="primary" data-testid="confirm-send" onClick={() => void client.outbox.confirm(id)}>{t("out_confirm")}</button>
          )}
          {(state === "held" || state === "refused") && (
            <button type="button" className="primary" data-testid="send-held" onClick={() => void client.retry(id)}>{t("out_send")}</button>
          )}
          {operation.intent === "say" && <button type="button" onClick={edit}>{t("out_edit")}</button>}
          <button type="button" onClick={() => void client.outbox.discard(id)}>{t("out_discard")}</button>
        </div>
      )}
    </article>
  );
}
