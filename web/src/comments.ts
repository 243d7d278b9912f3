/** What the user says about lines of a diff: gathered beside the draft, kept like it, and sent as one message. */
import type { BatonClient } from "@baton/sdk";
import { useMemo, useSyncExternalStore } from "react";
import type { DiffLine } from "./diff_lines.ts";
import type { Translate } from "./i18n/index.ts";

export interface LineComment {
  path: string;
  /** The line's number after the change, or before it where it is gone. */
  line: number;
  side: "new" | "old";
  /** The line itself, as the diff has it. */
  quote: string;
  text: string;
}

const placeOf = (sessionId: string): string => `${sessionId}#comments`;

type Place = Pick<LineComment, "path" | "line" | "side" | "quote">;

/** The same number with other words in it is another line: the file has changed, or it is another task's. */
export const isSame = (a: Place, b: Place): boolean => a.path === b.path && a.line === b.line && a.side === b.side && a.quote === b.quote;

/** Where a comment on a line stands. */
export const placeIn = (path: string, line: DiffLine): Place => ({ path, line: line.new ?? line.old ?? 0, side: line.new === null ? "old" : "new", quote: line.text });

/** Those whose line isn't in what is shown: they would be sent without ever being seen. */
export function withoutLine(comments: readonly LineComment[], files: readonly { path: string; lines: () => readonly DiffLine[] }[]): LineComment[] {
  return comments.filter((one) => !files.some((file) => file.path === one.path && file.lines().some((line) => line.kind !== "head" && isSame(one, placeIn(one.path, line)))));
}

/** In the order of the diff: by path, then by line. */
export const commentsOf = (client: BatonClient, sessionId: string): LineComment[] => parse(client.drafts.get(placeOf(sessionId)));

/** The same, followed live. */
export function useComments(client: BatonClient, sessionId: string): LineComment[] {
  const kept = useSyncExternalStore(client.drafts.subscribe, () => client.drafts.get(placeOf(sessionId)));
  return useMemo(() => parse(kept), [kept]);
}

function parse(stored: string): LineComment[] {
  try {
    const kept: unknown = JSON.parse(stored || "[]");
    return Array.isArray(kept) ? (kept as LineComment[]) : [];
  } catch {
    return [];
  }
}

export function keepComments(client: BatonClient, sessionId: string, comments: readonly LineComment[]): void {
  const sorted = [...comments].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : a.line - b.line));
  client.drafts.set(placeOf(sessionId), sorted.length === 0 ? "" : JSON.stringify(sorted));
}

/** One message, with path and line of each. A quoted line is shortened: where it stands is what counts. */
export function messageOf(comments: readonly LineComment[], t: Translate): string {
  const MOST = 200;
  const parts = comments.map(({ path, line, side, quote, text }) => {
    const shown = quote.length > MOST ? `${quote.slice(0, MOST)}…` : quote;
    return `${t(side === "new" ? "comment_at" : "comment_at_old", { path, line })}\n> ${shown}\n${text.trim()}`;
  });
  return [t("comments_lead"), ...parts].join("\n\n");
}
