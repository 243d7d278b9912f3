import assert from "node:assert/strict";
import { test } from "node:test";
import { isShortened, SessionState, type CallEntity, type Change, type EntityView } from "../src/index.ts";

const ID = "01990000-0000-7000-8000-000000000001";

function message(id: string, version: number, text: string): EntityView {
  return { kind: "message", id, version, created_seq: 1, role: "user", text, at: "2026-11-30T10:00:00.000Z" };
}

function change(seq: number, type: string, upserts: EntityView[] = []): Change {
  return { session_id: ID, seq, upserts, event: { type, v: 1, at: "2026-11-30T10:00:00.000Z", actor: { kind: "hub" }, data: {} } };
}

test("changes are taken in once, in order, and a missing one is noticed", () => {
  const state = new SessionState(ID);
  state.applyView({ session_id: ID, seq: 5, entities: [message("a", 5, "five")] });
  assert.equal(state.applyChange(change(5, "message_added", [message("a", 5, "again")])), "repeated");
  assert.equal(state.get("message", "a")?.text, "five");
  assert.equal(state.applyChange(change(7, "message_added", [message("b", 7, "seven")])), "gap");
  assert.equal(state.cursor, 5);
  assert.equal(state.get("message", "b"), undefined);
  assert.equal(state.applyChange(change(6, "message_added", [message("a", 6, "six")])), "applied");
  assert.equal(state.applyChange(change(7, "message_added", [message("b", 7, "seven")])), "applied");
  assert.equal(state.cursor, 7);
  assert.equal(state.get("message", "a")?.text, "six");
});

test("history never replaces what is newer", () => {
  const state = new SessionState(ID);
  state.applyView({ session_id: ID, seq: 9, entities: [message("a", 9, "new")], history_before: 4 });
  state.applyHistory({ entries: [message("a", 3, "old"), message("z", 2, "older")], before: null });
  assert.equal(state.get("message", "a")?.text, "new");
  assert.equal(state.all("message").length, 2);
  assert.equal(state.historyBefore, null);
});

test("after a reset nothing of the old view stays, and stray changes are left alone", () => {
  const state = new SessionState(ID);
  state.applyView({ session_id: ID, seq: 9, entities: [message("a", 9, "gone")] });
  state.reset();
  assert.equal(state.applyChange(change(10, "message_added", [message("c", 10, "stray")])), "repeated");
  state.applyView({ session_id: ID, seq: 20, entities: [message("b", 20, "here")] });
  assert.deepEqual(state.all("message").map((one) => one.id), ["b"]);
  assert.equal(state.cursor, 20);
});

test("c19 an event or entity of a newer hub is a neutral line, and the cursor goes on", () => {
  const state = new SessionState(ID);
  state.applyView({ session_id: ID, seq: 1, entities: [] });
  const strange = { kind: "hologram", id: "h", version: 2 } as unknown as EntityView;
  assert.equal(state.applyChange(change(2, "hologram_shown", [strange])), "applied");
  assert.deepEqual(state.unfamiliar, [{ seq: 2, name: "hologram_shown" }, { seq: 2, name: "hologram" }]);
  assert.equal(state.applyChange(change(3, "message_added", [message("a", 3, "goes on")])), "applied");
});

test("the message replaces its partial text, and a late delta doesn't bring it back", () => {
  const state = new SessionState(ID);
  state.applyView({ session_id: ID, seq: 1, entities: [] });
  const delta = { message_id: "a", attempt: 1, offset: 0, part: "text" as const, text: "Hel" };
  assert.equal(state.applyDelta(delta), "applied");
  state.applyChange(change(2, "model_finished", [message("a", 2, "Hello")]));
  assert.equal(state.overlay.get("a"), undefined);
  assert.equal(state.applyDelta({ ...delta, offset: 3, text: "lo" }), "ignored");
  assert.equal(state.overlay.get("a"), undefined);
});

test("partial text goes when its turn ends without a message, and stays while it is being written", () => {
  const turn = (version: number, ended: string | null): EntityView => ({
    kind: "turn", id: "t", version, created_seq: 2, state: ended ? "interrupted" : "running", iterations: 1, started_at: "2026-11-30T10:00:00.000Z", ended_at: ended, answering: ended ? null : "a",
  });
  const state = new SessionState(ID);
  state.applyView({ session_id: ID, seq: 1, entities: [] });
  state.applyDelta({ message_id: "a", attempt: 1, offset: 0, part: "text", text: "Hel" });
  state.applyChange(change(2, "turn_started", [turn(2, null)]));
  assert.equal(state.overlay.get("a")?.text, "Hel");
  state.applyChange(change(3, "turn_interrupted", [turn(3, "2026-11-30T10:00:01.000Z")]));
  assert.equal(state.overlay.get("a"), undefined);
});

test("what was loaded whole isn't shortened by a later view, and gives way to a newer version", () => {
  const state = new SessionState(ID);
  const view = (version: number, text: string) => ({ session_id: ID, seq: 9, entities: [message("a", version, text)], history_before: null });
  state.applyView(view(3, "short"));
  state.applyWhole({ entries: [message("a", 3, "the whole")] });
  assert.equal(state.get("message", "a")?.text, "the whole");
  state.applyView(view(3, "short"));
  assert.equal(state.get("message", "a")?.text, "the whole");
  state.applyView(view(4, "newer"));
  assert.equal(state.get("message", "a")?.text, "newer");
});

test("trimming forgets the oldest, keeps what is open, and leaves the way back to all of it", () => {
  const state = new SessionState(ID);
  const entry = (seq: number, version = seq): EntityView => ({ ...(message(`m${seq}`, version, "") as EntityView & { kind: "message" }), created_seq: seq });
  const question = { kind: "question", id: "q", version: 1, created_seq: 1, call_id: "c", question_kind: "agent", text: "?", options: [], state: "open", at: "" } as unknown as EntityView;
  state.applyView({ session_id: ID, seq: 30, entities: [question, entry(2, 25), entry(3), entry(4), entry(5)], history_before: null });
  state.trim(2);
  assert.deepEqual(state.all("message").map((one) => one.id), ["m4", "m5"]);
  assert.equal(state.all("question").length, 1);
  // The first of them was touched late, by the 25th event: the way back begins behind that.
  assert.equal(state.historyBefore, 26);
  state.trim(2);
  assert.equal(state.historyBefore, 26);
});

test("a call that the hub shortened is known by what it says, and an open one never is", () => {
  const call = (content: string, ended_at: string | null) => ({ kind: "call", arguments: {}, result: { content, bytes: 1 }, ended_at }) as unknown as CallEntity;
  assert.equal(isShortened(call("a\n[… 48211 bytes not shown here: see the history …]\nb", "now")), true);
  assert.equal(isShortened(call("a\n[3 more changed files: see the history]", "now")), true);
  assert.equal(isShortened(call("a\n[… 48211 bytes not shown here: see the history …]\nb", null)), false);
  assert.equal(isShortened(call("nothing is left out", "now")), false);
});
