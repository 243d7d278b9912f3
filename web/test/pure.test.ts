import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { SessionState, type CallEntity, type EntityView, type SessionSummary } from "@baton/sdk";
import { changedFiles } from "../src/changes.ts";
import { callTitle } from "../src/call_title.ts";
import { diffLines } from "../src/diff_lines.ts";
import { en } from "../src/i18n/en.ts";
import { sayAll } from "../src/i18n/said.ts";
import { translator, type Key } from "../src/i18n/index.ts";
import { zh } from "../src/i18n/zh.ts";
import { parseInline, parseMarkdown } from "../src/markdown.ts";
import { qrCode } from "../src/qr.ts";
import { readings, restOf } from "../src/rest.ts";
import { EVERYTHING, matches, standingOf } from "../src/sessions.ts";

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

test("a link to a file of the workspace has its path, without the line, and its name where the text is another", () => {
  const files = (source: string) => parseInline(source).map((piece) => (piece.kind === "file" ? [piece.path, piece.named] : piece.kind));
  assert.deepEqual(files("[src/main.rs](src/main.rs)"), [["src/main.rs", false]]);
  assert.deepEqual(files("[here](src/main.rs:12-14)"), [["src/main.rs", true]]);
  assert.deepEqual(files("[a](./a%20b.md#L3)"), [["./a b.md", true]]);
  assert.deepEqual(files("[说明](文档/说明.md)"), [["文档/说明.md", true]]);
  for (const nothing of ["[x](//evil.example/x)", "[x](javascript:alert(1))", "[x](#top)", "[x](?a=b)", "[x](file:///etc/passwd)"]) assert.deepEqual(files(nothing), ["text"], nothing);
});

test("what the hub says with a code is said in the reader's language, and else as it came", () => {
  const said = [{ code: "deletes_file", text: "It deletes a file." }, { code: "acts_later.packages", params: { path: "package.json" }, text: "…" }];
  assert.equal(sayAll(said, "", translator("zh")), "它会删除一个文件。“package.json”之后会在沙箱外生效：包管理器会运行其中指定的脚本。");
  assert.equal(sayAll([{ code: "brand_new", text: "Something newer." }], "", translator("zh")), "Something newer.");
  assert.equal(sayAll(undefined, "Plain words.", translator("en")), "Plain words.");
});

test("the lines of a diff know their places before and after", () => {
  const lines = diffLines("--- a/x\n+++ b/x\n@@ -3,3 +3,3 @@\n same\n-old\n+new\n\\ No newline at end of file\n");
  assert.deepEqual(lines.map(({ kind, old, new: now }) => [kind, old, now]), [["head", null, null], ["same", 3, 3], ["removed", 4, null], ["added", null, 4], ["head", null, null]]);
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
    [{ argv: ["sh", "-c", "echo 'hi'; echo oops"], directory: "" }, "sh -c 'echo '\\''hi'\\''; echo oops'"],
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

test("a session stands as what it needs of the user says, before what its task says", () => {
  const rows: [object, string][] = [
    [{ waiting: 1, state: "running", activity: "executing" }, "needs_you"],
    [{ waiting: 0, state: "awaiting_input", activity: "idle" }, "needs_you"],
    [{ waiting: 0, state: "pending", activity: "error" }, "failed"],
    [{ waiting: 0, state: "running", activity: "thinking" }, "running"],
    [{ waiting: 0, state: "pending", activity: "awaiting_device" }, "resting"],
    [{ waiting: 0, state: "completed", activity: "idle" }, "done"],
    [{ waiting: 0, state: "cancelled", activity: "idle" }, "stopped"],
  ];
  for (const [session, standing] of rows) assert.equal(standingOf(session as SessionSummary), standing);
});

test("a filter leaves what fits all of its parts, in any script", () => {
  const session = { title: "把按钮改成圆角", line: "Check the Contrast", waiting: 0, state: "running", activity: "thinking", holder: "a", workspace_id: "w" } as SessionSummary;
  const fits = (part: object) => matches(session, { ...EVERYTHING, ...part });
  assert.deepEqual([{}, { words: "contrast" }, { words: "圆角 check" }, { standing: "running", device: "a", project: "w" }].map(fits), [true, true, true, true]);
  assert.deepEqual([{ words: "contrast pears" }, { standing: "done" }, { device: "b" }, { project: "v" }].map(fits), [false, false, false, false]);
});

test("changed files are summed over a task's calls; what was made and is gone again isn't shown", () => {
  const call = (seq: number, changes: object[], task = "t") => ({ created_seq: seq, task_id: task, result: { changes } }) as unknown as CallEntity;
  const files = changedFiles(
    [
      call(3, [{ path: "a", before: "2", after: "3", added: 1, removed: 4 }, { path: "gone", before: "1", after: null, removed: 2 }]),
      call(1, [{ path: "a", before: null, after: "2", added: 5 }, { path: "gone", before: null, after: "1", added: 2 }]),
      call(2, [{ path: "old", before: "1", after: null, removed: 9 }]),
      call(4, [{ path: "elsewhere", before: null, after: "1" }], "other"),
    ],
    "t",
  );
  assert.deepEqual(files, [
    { path: "a", added: 6, removed: 4, state: "created" },
    { path: "old", added: 0, removed: 9, state: "deleted" },
  ]);
});

test("a link becomes a QR code whose size follows its length, and what is too long none", () => {
  assert.deepEqual([5, 62, 106, 213].map((length) => qrCode("x".repeat(length))?.length), [21, 33, 41, 57]);
  assert.equal(qrCode("x".repeat(214)), null);
  // Read once by a decoder of another make, and kept as it was then.
  const grid = qrCode("http://192.168.1.20:7440/#pair=K7QM-3XPA") ?? [];
  const digest = createHash("sha256").update(grid.map((row) => row.map(Number).join("")).join("\n")).digest("hex");
  assert.equal(digest.slice(0, 16), "0a140a55f76e5c32");
});

test("a state that a newer hub has invented is shown by its own name", () => {
  assert.equal(translator("zh")("call_in_orbit" as Key), "in orbit");
  assert.equal(translator("en")("call_started"), "running");
});
