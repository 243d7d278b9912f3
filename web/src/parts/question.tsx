/** A question of the agent's, or about what became of a call; the first valid answer counts. */
import { makeVisible, type QuestionEntity } from "@baton/sdk";
import { useContext, useState, type FormEvent } from "react";
import { SessionContext, useClient, useWords } from "../context.tsx";
import { deviceName } from "../format.ts";
import type { Key } from "../i18n/index.ts";
import { Icon } from "./icons.tsx";
import { Trouble } from "./trouble.tsx";

const OUTCOMES = ["happened", "do_it", "skip"];

export function QuestionCard({ question }: { question: QuestionEntity }) {
  const client = useClient();
  const { t } = useWords();
  const sessionId = useContext(SessionContext);
  const [text, setText] = useState("");
  const outcome = question.question_kind === "outcome";
  const label = (option: string) => (outcome && OUTCOMES.includes(option) ? t(`outcome_${option}` as Key) : makeVisible(option));

  if (question.state !== "open") {
    const who = question.answered_by ? makeVisible(deviceName(question.answered_by, t)) : "";
    return (
      <div className="settled" data-testid="question" data-state={question.state} data-id={question.id}>
        <Icon name={question.state === "answered" ? "check" : "cross"} />
        <div>
          <p className="quiet small">{makeVisible(question.text)}</p>
          <p>
            {question.state === "answered"
              ? t("question_answered", { answer: label(question.answer ?? ""), name: who })
              : `${t("question_voided")}${question.reason ? ` · ${makeVisible(question.reason)}` : ""}`}
          </p>
        </div>
      </div>
    );
  }

  const entry = client.outbox
    .list()
    .find((one) => one.operation.intent === "answer" && one.operation.payload.question_id === question.id);
  const pending = entry?.state === "waiting" || entry?.state === "sent";
  const answer = (payload: { text: string } | { option: string }) => {
    const ask = () => client.outbox.add({ intent: "answer", payload: { question_id: question.id, ...payload } }, { sessionId });
    void (entry ? client.outbox.discard(entry.operation.operation_id).then(ask) : ask());
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim() !== "") answer({ text: text.trim() });
  };

  return (
    <section
      className="card asks"
      data-testid="question"
      data-state={question.state}
      data-kind={question.question_kind}
      data-id={question.id}
      data-open-card="true"
      tabIndex={-1}
      aria-label={t(outcome ? "outcome_title" : "question_title")}
    >
      <header className="card-head">
        <Icon name="question" />
        <h2>{t(outcome ? "outcome_title" : "question_title")}</h2>
      </header>
      <p className="ask">{makeVisible(question.text)}</p>
      {question.cause && <p className="quiet">{t(`unknown_${question.cause}`)}</p>}
      {question.known && (
        <p className="known">
          <span className="quiet small">{t("outcome_known")}</span>
          {makeVisible(question.known)}
        </p>
      )}
      {entry?.error && !pending && <Trouble error={entry.error} />}
      {question.options.length > 0 && (
        <div className="options">
          {question.options.map((option) => (
            <button key={option} type="button" data-testid="question-option" data-option={option} disabled={pending} onClick={() => answer({ option })}>
              {label(option)}
            </button>
          ))}
        </div>
      )}
      {!outcome && (
        <form className="own-answer" onSubmit={submit}>
          <input value={text} data-testid="question-text" aria-label={t("question_own")} placeholder={t("question_own")} enterKeyHint="send" onChange={(event) => setText(event.target.value)} />
          <button type="submit" data-testid="question-send" disabled={pending || text.trim() === ""}>{t("question_answer")}</button>
        </form>
      )}
      {entry?.state === "unconfirmed" && (
        <div className="card-actions">
          <button type="button" className="danger" data-testid="confirm-yes" onClick={() => void client.outbox.confirm(entry.operation.operation_id)}>{t("approval_confirm")}</button>
          <button type="button" data-testid="confirm-no" onClick={() => void client.outbox.discard(entry.operation.operation_id)}>{t("approval_not_yet")}</button>
        </div>
      )}
      {pending && <p className="meta" role="status">{t(entry.state === "sent" ? "approval_sending" : "approval_waiting_link")}</p>}
    </section>
  );
}
