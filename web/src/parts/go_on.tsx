/** A task that rests before it is done: why, and the button that lets the agent go on with it. */
import { makeVisible, type SessionState } from "@baton/sdk";
import { useClient, useWords } from "../context.tsx";
import { restOf } from "../rest.ts";

export function GoOn({ state }: { state: SessionState }) {
  const client = useClient();
  const { t } = useWords();
  const rest = restOf(state);
  if (!rest) return null;
  const { task, mayGoOn } = rest;
  const asked = client.outbox.list().find((one) => one.operation.intent === "resume" && one.operation.session_id === state.id);
  const pending = asked?.state === "waiting" || asked?.state === "sent";
  // The hub has mostly said it in a message just above.
  const error = task.last_error?.trim();
  const said = error !== undefined && state.all("message").some((message) => message.role === "hub" && (message.text.includes(error) || error.includes(message.text.trim())));
  const reason = error && !said ? makeVisible(error) : t(task.phase === "failed" ? "rest_failed" : task.phase === "paused" ? "rest_paused" : "rest_waits");
  return (
    <div className="go-on" data-testid="go-on" data-phase={task.phase}>
      <p>
        {task.phase === "failed" && error && !said && <strong>{t("state_failed")}. </strong>}
        {reason}
      </p>
      {mayGoOn && client.info?.model != null && (
        <button
          type="button"
          data-testid="resume"
          disabled={pending}
          onClick={() => void client.ask({ intent: "resume", payload: { task_id: task.id } }, state.id)}
        >
          {t("go_on")}
        </button>
      )}
    </div>
  );
}
