/** What a session shows of how it stands, worked out from its entities. */
import type { MessageId, SessionState, TaskEntity } from "@baton/sdk";

/** The task that input goes to, else the one touched last. */
export function currentTask(state: SessionState): TaskEntity | undefined {
  const active = state.get("task", state.session?.active_task);
  return active ?? state.all("task").sort((a, b) => b.version - a.version)[0];
}

/** The current task if it rests before it is done: nobody works, and nothing on a card waits for the user. */
export function restOf(state: SessionState): { task: TaskEntity; mayGoOn: boolean } | null {
  const task = currentTask(state);
  const session = state.session;
  if (!task || !session || session.waiting > 0 || session.transfer) return null;
  if (state.all("turn").some((turn) => !turn.ended_at)) return null;
  const mayGoOn = task.id === session.active_task && (task.phase === "paused" || task.phase === "waiting_user");
  // What has ended can't be gone on with; why it failed is still said.
  if (mayGoOn || (task.phase === "failed" && task.last_error)) return { task, mayGoOn };
  return null;
}

/** When a message will be read: at the next step, after the turn under way, or once the task goes on. */
export type Reading = "step" | "turn" | "rest";

export function readings(state: SessionState): Map<MessageId, Reading> {
  const found = new Map<MessageId, Reading>();
  let works = false;
  for (const turn of state.all("turn")) {
    if (turn.ended_at) continue;
    works = true;
    for (const id of turn.unread ?? []) found.set(id, "step");
  }
  for (const id of state.session?.queued ?? []) found.set(id, works ? "turn" : "rest");
  return found;
}
