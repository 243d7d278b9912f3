import assert from "node:assert/strict";
import { test } from "node:test";
import { makeVisible, uuidv7 } from "../src/index.ts";

test("ids are version 7, carry the time, and sort by it", () => {
  const id = uuidv7(0x0199_0a0b_0c0d);
  assert.match(id, /^01990a0b-0c0d-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.ok(uuidv7(1_000) < uuidv7(1_001));
  assert.notEqual(uuidv7(1_000), uuidv7(1_000));
  // Within a millisecond too: what was said first goes out first.
  const burst = Array.from({ length: 50 }, () => uuidv7(2_000));
  assert.deepEqual([...burst].sort(), burst);
});

test("deceptive characters are shown and others kept", () => {
  const rows: [string, string][] = [
    ["rm -rf \u202egpj.exe", "rm -rf ⟨U+202E⟩gpj.exe"],
    ["a\rb\u001b[2J", "a⟨U+000D⟩b⟨U+001B⟩[2J"],
    ["zero\u200bwidth", "zero⟨U+200B⟩width"],
    ["tag\u{e0041}", "tag⟨U+E0041⟩"],
    ["两行\n\t缩进 é 🌍", "两行\n\t缩进 é 🌍"],
  ];
  for (const [given, shown] of rows) assert.equal(makeVisible(given), shown);
});
