/** The list of sessions as people look for them: what needs the user first, and what a filter leaves. */
import type { DeviceView, SessionSummary } from "@baton/sdk";

/** How a session stands, for its mark, its words and its place on the board. */
export type Standing = "needs_you" | "running" | "resting" | "failed" | "done" | "stopped";

export function standingOf(session: Pick<SessionSummary, "waiting" | "state" | "activity">): Standing {
  if (session.waiting > 0 || session.state === "awaiting_input") return "needs_you";
  // The loop gave up on something: without the user nothing goes on.
  if (session.activity === "error" || session.state === "failed") return "failed";
  if (session.state === "running") return "running";
  if (session.state === "completed") return "done";
  if (session.state === "cancelled") return "stopped";
  return "resting";
}

export interface Filter {
  words: string;
  standing: "" | Standing | "archived";
  device: string;
  project: string;
}

export const EVERYTHING: Filter = { words: "", standing: "", device: "", project: "" };

export const isFiltered = (filter: Filter): boolean => Object.values(filter).some((each) => each !== "");

export function matches(session: SessionSummary, filter: Filter): boolean {
  if (filter.standing && filter.standing !== "archived" && standingOf(session) !== filter.standing) return false;
  if (filter.device && session.holder !== filter.device) return false;
  if (filter.project && session.workspace_id !== filter.project) return false;
  const text = `${session.title}\n${session.line}`.toLowerCase();
  return filter.words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** The workspaces that the devices bring, by id; two of one name are told apart by their device. */
export function projectsOf(devices: readonly DeviceView[]): { id: string; name: string; device: DeviceView }[] {
  return devices
    .filter((device) => !device.revoked_at)
    .flatMap((device) => (device.workspaces ?? []).map((each) => ({ id: each.workspace_id, name: each.name, device })));
}

/** How many things wait for the user in all sessions that are known: the number on the badge. */
export const waitingIn = (sessions: readonly SessionSummary[]): number => sessions.reduce((sum, each) => sum + each.waiting, 0);

/** The columns of the board. */
export const COLUMNS: readonly { key: "needs_you" | "under_way" | "ended"; standings: readonly Standing[] }[] = [
  { key: "needs_you", standings: ["needs_you"] },
  { key: "under_way", standings: ["running", "failed", "resting"] },
  { key: "ended", standings: ["done", "stopped"] },
];
