import assert from "node:assert/strict";
import { test } from "node:test";
import { Overlay, type Delta } from "../src/index.ts";

const delta = (offset: number, text: string, rest: Partial<Delta> = {}): Delta => ({
  message_id: "m",
  attempt: 1,
  part: "text",
  offset,
  text,
  ...rest,
});

test("offsets count bytes of UTF-8, so text of several bytes a character lines up", () => {
  const overlay = new Overlay();
  assert.equal(overlay.apply(delta(0, "你好")), "applied");
  assert.equal(overlay.apply(delta(6, "，世界🌍")), "applied");
  assert.equal(overlay.apply(delta(19, "!")), "applied");
  assert.equal(overlay.get("m")?.text, "你好，世界🌍!");
});

test("what is sent again is taken once, and a whole that overlaps adds only its end", () => {
  const overlay = new Overlay();
  overlay.apply(delta(0, "你好"));
  assert.equal(overlay.apply(delta(3, "好")), "ignored");
  assert.equal(overlay.apply(delta(0, "你好吗")), "applied");
  assert.equal(overlay.get("m")?.text, "你好吗");
});

test("missing text is noticed instead of being closed over", () => {
  const overlay = new Overlay();
  overlay.apply(delta(0, "one"));
  assert.equal(overlay.apply(delta(4, "three")), "gap");
  assert.equal(overlay.get("m")?.text, "one");
});

test("a new attempt starts over, and the old one's rest is ignored", () => {
  const overlay = new Overlay();
  overlay.apply(delta(0, "first try"));
  assert.equal(overlay.apply(delta(0, "second", { attempt: 2 })), "applied");
  assert.equal(overlay.apply(delta(9, " goes on")), "ignored");
  assert.equal(overlay.get("m")?.text, "second");
});

test("thinking and text are counted apart", () => {
  const overlay = new Overlay();
  overlay.apply(delta(0, "hm, ", { part: "thinking" }));
  overlay.apply(delta(0, "Yes"));
  overlay.apply(delta(4, "so", { part: "thinking" }));
  assert.deepEqual([overlay.get("m")?.thinking, overlay.get("m")?.text], ["hm, so", "Yes"]);
});
