/** The wire's types: those generated from the hub's own, and names for parts of them that the client speaks of. */
export * from "./types.gen.ts";
import type { Operation } from "./types.gen.ts";

export const PROTOCOL_VERSION = 1;

/** What is asked for, without the envelope. */
export type Intent = Operation extends infer Each
  ? Each extends { intent: infer Name; payload: infer Payload }
    ? { intent: Name; payload: Payload }
    : never
  : never;

export type IntentName = Intent["intent"];

/** Stopping and answering are always possible, so they name no epoch; neither does what begins a session. */
export function needsEpoch(intent: IntentName): boolean {
  return !["new_session", "confirm", "answer", "cancel", "pause"].includes(intent);
}
