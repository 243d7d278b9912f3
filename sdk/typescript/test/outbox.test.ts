import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryStorage, Outbox, type ErrorCode, type Reply } from "../src/index.ts";

const SESSION = "01990000-0000-7000-8000-000000000001";
const say = (text: string) => ({ intent: "say" as const, payload: { text } });

function refusal(operationId: string, code: ErrorCode): Reply {
  return { operation_id: operationId, status: "rejected", error: { code, message: "no", hint: "wait" } };
}

test("an operation goes out once per connection and, unanswered, again under the same id", async () => {
  const outbox = new Outbox(new MemoryStorage());
  const { operationId, settled } = await outbox.add(say("hello"), { sessionId: SESSION, epoch: 3 });
  assert.deepEqual(outbox.due().map((one) => one.operation_id), [operationId]);
  assert.deepEqual(outbox.due(), []);
  outbox.connectionLost();
  assert.deepEqual(outbox.due().map((one) => one.operation_id), [operationId]);
  await outbox.settle({ operation_id: operationId, status: "duplicate", epoch: 3, version: 8 });
  assert.equal((await settled)?.version, 8);
  outbox.connectionLost();
  assert.deepEqual(outbox.due(), []);
});

test("what was sent and not answered survives a reload under its id; what was answered doesn't come back", async () => {
  const storage = new MemoryStorage();
  const first = new Outbox(storage);
  const kept = await first.add(say("kept"), { sessionId: SESSION, epoch: 3 });
  const done = await first.add(say("done"), { sessionId: SESSION, epoch: 3 });
  first.due();
  await first.settle({ operation_id: done.operationId, status: "accepted" });

  const second = new Outbox(storage);
  await second.load();
  const due = second.due();
  assert.deepEqual(due.map((one) => one.operation_id), [kept.operationId]);
  assert.equal(due[0]?.epoch, 3);
});

test("when the session has moved, the text waits for a tap and then goes out against the session as it is", async () => {
  const outbox = new Outbox(new MemoryStorage());
  const { operationId } = await outbox.add(say("hello"), { sessionId: SESSION, epoch: 3 });
  outbox.due();
  await outbox.settle(refusal(operationId, "stale_epoch"));
  outbox.connectionLost();
  assert.deepEqual(outbox.due(), []);
  assert.equal(outbox.list()[0]?.state, "held");
  await outbox.retry(operationId, 5);
  const [again] = outbox.due();
  assert.equal(again?.epoch, 5);
  // The refusal is remembered under the old id.
  assert.notEqual(again?.operation_id, operationId);
  assert.equal(outbox.list().length, 1);
});

test("a transfer isn't final: the tap sends the same id", async () => {
  const outbox = new Outbox(new MemoryStorage());
  const { operationId } = await outbox.add(say("hello"), { sessionId: SESSION, epoch: 3 });
  outbox.due();
  await outbox.settle(refusal(operationId, "transferring"));
  await outbox.retry(operationId, 4);
  assert.deepEqual(outbox.due().map((one) => [one.operation_id, one.epoch]), [[operationId, 4]]);
});

test("a confirmation is the same operation again, confirmed, and only after the user's second yes", async () => {
  const storage = new MemoryStorage();
  const outbox = new Outbox(storage);
  const { operationId } = await outbox.add({ intent: "confirm", payload: { approval_id: SESSION, decision: "approve" } }, { sessionId: SESSION });
  outbox.due();
  await outbox.settle(refusal(operationId, "needs_confirmation"));
  outbox.connectionLost();
  assert.deepEqual(outbox.due(), []);
  await outbox.confirm(operationId);
  assert.deepEqual(outbox.due().map((one) => [one.operation_id, one.confirmed, one.epoch]), [[operationId, true, undefined]]);
});

test("a passing trouble of the hub keeps the operation going by itself; a refusal keeps its text", async () => {
  const outbox = new Outbox(new MemoryStorage());
  const one = await outbox.add(say("one"), { sessionId: SESSION, epoch: 3 });
  const two = await outbox.add(say("two"), { sessionId: SESSION, epoch: 3 });
  outbox.due();
  await outbox.settle(refusal(one.operationId, "shutting_down"));
  await outbox.settle(refusal(two.operationId, "too_large"));
  assert.deepEqual(outbox.due().map((each) => each.operation_id), [one.operationId]);
  const refused = outbox.list().find((each) => each.state === "refused");
  assert.equal(refused?.operation.intent === "say" && refused.operation.payload.text, "two");
});
