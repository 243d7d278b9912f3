import assert from "node:assert/strict";
import { test } from "node:test";
import { SessionState, type EntityView } from "@baton/sdk";
import { callTitle } from "../src/call_title.ts";
import { en } from "../src/i18n/en.ts";
import { zh } from "../src/i18n/zh.ts";
import { parseInline, parseMarkdown } from "../src/markdown.ts";
import { readings, restOf } from "../src/rest.ts";

test("markdown becomes data, never markup", () => {
  const blocks = parseMarkdown("# Done\n\nUse **two** `cargo` calls:\n\n1. one\n2. two\n\n```rust\nfn main() {}\n\n```\n<img src=x onerror=alert(1)>");
  assert.deepEqual(blocks.map((block) => block.kind), ["heading", "paragraph", "list", "code", "paragraph"]);
  assert.deepEqual(blocks[3], { kind: "code", text: "fn main() {}\n", language: "rust" });
  assert.deepEqual(blocks[4], { kind: "paragraph", inner: [{ kind: "text", text: "<img src=x onerror=alert(1)>" }] });
});

test("an answer that is still being written parses too", () => {
  assert.deepEqual(parseMarkdown("```sh\nls"), [{ kind: "code", text: "ls", language: "sh" }]);
  assert.deepEqual(parseMarkdown("so **bo"), [{ kind: "paragraph", inner: [{ kind: "text", text: "so **bo" }] }]);
});

test("links lead to the web only, and say where when their text doesn't", () => {
  const kinds = (source: string) => parseInline(source).map((piece) => (piece.kind === "link" ? [piece.href, piece.host] : piece.kind));
  assert.deepEqual(kinds("[bank](https://evil.example/x)"), [["https://evil.example/x", "evil.example"]]);
  assert.deepEqual(kinds("https://docs.rs/axum."), [["https://docs.rs/axum", null], "text"]);
  assert.deepEqual(kinds("[x](javascript:alert(1))"), ["text"]);
  assert.deepEqual(kinds("[x](data:text/html,hi)"), ["text"]);
  assert.deepEqual(parseInline("![p](https://e.example/p.png)")[0]?.kind, "link");
});

test("text can't deceive by direction, and emoji stay whole", () => {
  assert.deepEqual(parseInline("a\u202eb 👩‍💻"), [{ kind: "text", text: "a⟨U+202E⟩b 👩‍💻" }]);
});

test("hostile markdown is read to its end", () => {
  // Written for patterns that take time squared or worse: a regression shows as a test that doesn't come back.
  for (const piece of ["*", "**a", "[", "`", "[a](", "https://", "> ", "- ", "**a `"]) {
    assert.ok(parseMarkdown(piece.repeat(200_000 / piece.length)).length > 0);
  }
});

test("a call's line comes from what says most", () => {
  const rows: [unknown, string][] = [
    [{ command: "cargo test\n  --all" }, "cargo test ⏎ --all"],
    [{ path: "src/main.rs", old: "a", new: "b" }, "src/main.rs"],
    [{ path: "src", pattern: "TODO" }, "TODO in src"],
    [{ key: "language", value: "Rust" }, "language = Rust"],
    [{ steps: [{ title: "Look" }, { title: "Mend" }] }, "Look · Mend"],
    [{ command: "x".repeat(500) }, `${"x".repeat(160)}…`],
    [{}, ""],
    [null, ""],
  ];
  for (const [given, shown] of rows) assert.equal(callTitle(given), shown);
});

test("both languages say everything, with the same parts to fill in", () => {
  const parts = (text: string) => (text.match(/\{\w+\}/g) ?? []).sort();
  for (const key of Object.keys(en) as (keyof typeof en)[]) {
    assert.notEqual(zh[key].trim(), "", key);
    assert.deepEqual(parts(zh[key]), parts(en[key]), key);
  }
});

function sessionOf(head: object, ...rest: object[]): SessionState {
  const state = new SessionState("s");
  const session = { kind: "session", id: "s", version: 1, waiting: 0, active_task: "t", ...head };
  state.applyView({ session_id: "s", seq: 1, entities: [session, ...rest] as EntityView[] });
  return state;
}

test("a message that isn't read yet says when it will be", () => {
  const turn = { kind: "turn", id: "u", version: 1, unread: ["a"] };
  const both = { queued: ["b"] };
  assert.deepEqual([...readings(sessionOf(both, turn))], [["a", "step"], ["b", "turn"]]);
  assert.deepEqual([...readings(sessionOf(both, { ...turn, ended_at: "now" }))], [["b", "rest"]]);
  assert.deepEqual([...readings(sessionOf({}))], []);
});

test("a task that rests may be gone on with, unless it ended, somebody works, or a card waits", () => {
  const task = (phase: string, more: object = {}) => ({ kind: "task", id: "t", version: 1, phase, ...more });
  const ended = { kind: "turn", id: "u", version: 1, ended_at: "now" };
  const rows: [SessionState, boolean | undefined][] = [
    [sessionOf({}, task("paused"), ended), true],
    [sessionOf({}, task("waiting_user"), ended), true],
    [sessionOf({}, task("paused"), { ...ended, ended_at: null }), undefined],
    [sessionOf({ waiting: 1 }, task("waiting_user"), ended), undefined],
    [sessionOf({ transfer: "h" }, task("paused"), ended), undefined],
    [sessionOf({ active_task: null }, task("failed", { last_error: "why" }), ended), false],
    [sessionOf({ active_task: null }, task("done"), ended), undefined],
    [sessionOf({}), undefined],
  ];
  for (const [state, expected] of rows) assert.equal(restOf(state)?.mayGoOn, expected);
});
