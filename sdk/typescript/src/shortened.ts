/** Whether the hub has sent an entry in a shorter form; the history has the whole. */
import type { CallEntity } from "./types.ts";

/** What the hub writes where it leaves something of a settled call out. It says so in the text, for ends that know nothing of it. */
const LEFT_OUT = /\[(?:… \d+ bytes not shown here|\d+ more(?: changed files)?): see the history/;

export function isShortened(call: CallEntity): boolean {
  if (!call.ended_at) return false;
  const { arguments: given, result, error } = call;
  return LEFT_OUT.test(JSON.stringify([given, result?.content, error?.message, error?.hint]));
}
