import assert from "node:assert/strict";
import { test } from "node:test";
import { Kept, MemoryStorage, SessionState, type EntityView, type SessionView } from "../src/index.ts";

class DurableStorage extends MemoryStorage {
  override readonly durable = true as unknown as false;
}

const message = (n: number, text = `message ${n}`): EntityView =>
  ({ kind: "message", id: `m${n}`, version: n, created_seq: n, role: "user", text, at: "2026-01-01T00:00:00Z" }) as unknown as EntityView;
const viewOf = (first: number, last: number): SessionView =>
  ({ session_id: "s", seq: last, entities: Array.from({ length: last - first + 1 }, (_, n) => message(first + n)), history_before: first > 1 ? first : null }) as unknown as SessionView;

test("what is kept of a long session is its end, and the history goes on before it", async () => {
  const state = new SessionState("s");
  state.applyView(viewOf(1, 500));
  const kept = new Kept(new DurableStorage());
  await kept.keepView("s", (most) => state.kept(most, "2026-01-02T00:00:00Z"));
  const back = new SessionState("s");
  const view = await kept.view("s");
  assert.ok(view);
  back.applyKept(view);
  assert.equal(back.all("message").length, 160);
  assert.equal(back.cursor, 500);
  assert.equal(back.historyBefore, 341);
  assert.equal(back.keptAt, "2026-01-02T00:00:00Z");
});

test("a view that comes after a gap replaces what was kept; changes that follow it are added", () => {
  const source = new SessionState("s");
  source.applyView(viewOf(1, 20));
  const kept = source.kept(160, "2026-01-02T00:00:00Z");
  const jumped = new SessionState("s");
  jumped.applyKept(kept);
  jumped.applyView(viewOf(400, 500));
  assert.deepEqual(jumped.all("message").map((each) => each.id).slice(0, 1), ["m400"]);
  assert.equal(jumped.historyBefore, 400);
  assert.equal(jumped.keptAt, null);
  const followed = new SessionState("s");
  followed.applyKept(kept);
  assert.equal(followed.applyChange({ session_id: "s", seq: 21, event: { type: "message_added" }, upserts: [message(21)] } as never), "applied");
  assert.equal(followed.all("message").length, 21);
  assert.equal(followed.keptAt, null);
  // What the hub has said isn't replaced by what was kept.
  followed.applyKept(kept);
  assert.equal(followed.cursor, 21);
});

test("what is too large is kept with fewer entries, or not at all, and the oldest session gives way", async () => {
  const storage = new DurableStorage();
  const kept = new Kept(storage);
  const large = new SessionState("large");
  large.applyView({ ...viewOf(1, 1), entities: Array.from({ length: 100 }, (_, n) => message(n + 1, "x".repeat(10_000))), seq: 100 } as SessionView);
  await kept.keepView("large", (most) => large.kept(most, "2026-01-01T00:00:00Z"));
  assert.ok(((await kept.view("large"))?.entities.length ?? 0) < 40);
  const huge = new SessionState("huge");
  huge.applyView({ ...viewOf(1, 1), entities: [message(1, "x".repeat(1_000_000))], seq: 1 } as SessionView);
  await kept.keepView("huge", (most) => huge.kept(most, "2026-01-01T00:00:00Z"));
  assert.equal(await kept.view("huge"), null);
  const small = new SessionState("small");
  small.applyView(viewOf(1, 2));
  for (let n = 0; n < 30; n += 1) await kept.keepView(`s${n}`, (most) => small.kept(most, `2026-01-02T00:00:${String(n).padStart(2, "0")}Z`));
  assert.equal(await kept.view("large"), null);
  assert.ok(await kept.view("s29"));
});

test("what another form has stored is left alone, and nothing is written after the end", async () => {
  const storage = new DurableStorage();
  await storage.put("kept/list", { form: 0, value: { sessions: "?" } });
  const kept = new Kept(storage);
  assert.equal(await kept.load(), null);
  kept.close();
  await kept.keepList({ at: "2026-01-01T00:00:00Z", sessions: [], before: null, devices: null, info: null });
  assert.deepEqual(await storage.entries("kept/list"), [["kept/list", { form: 0, value: { sessions: "?" } }]]);
});
