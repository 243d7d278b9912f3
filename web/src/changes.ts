/** The files that calls have changed, as their results say. */
import type { CallEntity } from "@baton/sdk";

export interface ChangedFile {
  path: string;
  added: number;
  removed: number;
  state: "created" | "changed" | "deleted";
}

/** By path, those that were touched last first. A file that was made and is gone again isn't shown. */
export function changedFiles(calls: readonly CallEntity[], taskId: string | undefined): ChangedFile[] {
  const files = new Map<string, ChangedFile & { before: boolean }>();
  const settled = calls.filter((call) => call.result && (taskId === undefined || call.task_id === taskId)).sort((a, b) => a.created_seq - b.created_seq);
  for (const call of settled) {
    for (const change of call.result?.changes ?? []) {
      const known = files.get(change.path);
      const before = known ? known.before : change.before != null;
      files.delete(change.path);
      if (!before && change.after == null) continue;
      files.set(change.path, {
        path: change.path,
        before,
        added: (known?.added ?? 0) + (change.added ?? 0),
        removed: (known?.removed ?? 0) + (change.removed ?? 0),
        state: change.after == null ? "deleted" : before ? "changed" : "created",
      });
    }
  }
  return [...files.values()].reverse().map(({ before: _, ...file }) => file);
}
