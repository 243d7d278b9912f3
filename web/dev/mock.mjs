// A development fixture only: it answers like a hub, so that the page can be worked on without one. Nothing is durable,
// nothing is checked, and no test of the product runs against it. `npm run build && node web/dev/mock.mjs`
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { randomUUID } from "node:crypto";
import { extname, join, normalize } from "node:path";
import { WebSocketServer } from "ws";

const PORT = Number(process.env.PORT ?? 8099);
const DIST = new URL("../dist/", import.meta.url).pathname;
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

let model = process.env.MODEL === "none" ? null : "scripted";
const id = (n) => `01990000-0000-7000-8000-${String(n).padStart(12, "0")}`;
const PHONE = id(1);
const DESK = id(2);
const now = (ago = 0) => new Date(Date.now() - ago * 1000).toISOString();
const baseline = { path: "/home/ada/projects/orchard-backend", branch: "main", commit: "a1b2c3d4e5f60718", dirty: "d".repeat(64) };
const sender = (own) => (own ? { device_id: PHONE, name: "Ada's phone", client_type: "phone" } : { device_id: DESK, name: "desk", client_type: "cli" });
const devices = [
  { device_id: PHONE, name: "Ada's phone", client_type: "phone", trust: "trusted", online: true, paired_at: now(90000), own: true, workspaces: [], tools: [] },
  { device_id: DESK, name: "desk", client_type: "cli", trust: "trusted", online: true, paired_at: now(900000), workspaces: [], tools: [] },
  { device_id: id(3), name: "workshop", client_type: "device", trust: "standard", online: true, paired_at: now(900000), tools: ["run_command"], workspaces: [{ workspace_id: id(60), name: "orchard-backend", baseline }, { workspace_id: id(61), name: "notes", baseline: { path: "/home/ada/notes" } }] },
  { device_id: id(4), name: "old tablet", client_type: "tablet", trust: "standard", online: false, paired_at: now(9000000), workspaces: [], tools: [] },
];
const commands = [
  { name: "/show", usage: "/show PATH", description: "Shows a file of the workspace" },
  { name: "/run", usage: "/run COMMAND", description: "Runs a command in the workspace" },
  { name: "/status", usage: "/status", description: "Says where the work stands" },
];

class Session {
  constructor(sessionId, title, extra = {}) {
    this.id = sessionId;
    this.seq = 0;
    this.entities = new Map();
    this.partial = null;
    this.put({ kind: "session", id: sessionId, title, language: "en", created_at: now(4000), updated_at: now(extra.ago ?? 30), epoch: 3, holder: extra.holder === undefined ? DESK : extra.holder, transfer: null, state: extra.state ?? "pending", activity: extra.activity ?? "idle", active_task: extra.task ?? null, workspace_id: id(60), waiting: extra.waiting ?? 0 });
    this.line = extra.line ?? "";
    this.progress = extra.progress ?? 0;
  }
  get head() {
    return this.entities.get(`session/${this.id}`);
  }
  put(...entities) {
    this.seq += 1;
    for (const entity of entities) {
      const key = `${entity.kind}/${entity.id}`;
      const old = this.entities.get(key);
      this.entities.set(key, { created_seq: old?.created_seq ?? this.seq, ...old, ...entity, version: this.seq });
    }
    const change = { type: "change", session_id: this.id, seq: this.seq, event: { type: "message_added", v: 1, at: now(), lane: "main", actor: { kind: "hub" }, data: {} }, upserts: entities.map((entity) => this.entities.get(`${entity.kind}/${entity.id}`)) };
    for (const socket of sockets) if (socket.follows.has(this.id)) socket.tell(change);
  }
  view() {
    const all = [...this.entities.values()];
    const timeline = all.filter((each) => ["message", "call"].includes(each.kind));
    const shown = new Set(all.length > 1000 ? timeline.slice(-60) : timeline);
    return { type: "view", session_id: this.id, seq: this.seq, entities: all.filter((each) => !["message", "call"].includes(each.kind) || shown.has(each)), history_before: shown.size < timeline.length ? [...shown][0].version : null };
  }
  summary() {
    const s = this.head;
    return { session_id: this.id, title: s.title, language: "en", state: s.state, activity: s.activity, line: this.line, progress: this.progress, task_id: s.active_task, waiting: s.waiting, epoch: s.epoch, holder: s.holder, workspace_id: s.workspace_id, seq: this.seq, updated_at: s.updated_at };
  }
}

const sockets = new Set();
const sessions = new Map();
seed();

function seed() {
  const a = new Session(id(10), "Mend the failing price tests", { state: "awaiting_input", activity: "awaiting_user", waiting: 1, task: id(20), line: "Waits for your approval to run the migration", progress: 60, ago: 20 });
  sessions.set(a.id, a);
  const turn = id(30);
  a.put({ kind: "workspace", id: id(60), device_id: id(3), name: "orchard-backend", baseline });
  a.put({ kind: "task", id: id(20), title: "Mend the failing price tests", core_intent: { goal: "All tests in pricing pass, without changing the public API", constraints: [], acceptance: [], version: 1, source: "user" }, phase: "waiting_user", state: "awaiting_input", progress: 60, line: "Waits for your approval to run the migration", steps: [
    { step_id: "1", title: "Run the tests and read what fails", status: "done", conclusion: "3 of 41 fail, all in rounding" },
    { step_id: "2", title: "Find where prices are rounded", status: "done" },
    { step_id: "3", title: "Round half up in one place", status: "done" },
    { step_id: "4", title: "Run the migration on the test database", status: "running" },
    { step_id: "5", title: "Run all tests again", status: "pending" },
  ], current_step: "4", created_at: now(300), updated_at: now(20) });
  a.put({ kind: "fact", id: id(70), key: "rounding", value: "half up, to two places", scope: "task", task_id: id(20), source: "user", at: now(100), valid: true });
  a.put({ kind: "fact", id: id(71), key: "test command", value: "cargo nextest run -p pricing", scope: "session", source: "run_command", at: now(100), valid: true });
  a.put({ kind: "message", id: id(40), role: "user", text: "Three tests in pricing fail since yesterday. Can you find out why and mend it?", turn_id: turn, sender: sender(false), at: now(280) });
  a.put({ kind: "turn", id: turn, state: "waiting", iterations: 4, unread: [id(46)], started_at: now(280), ended_at: null, answering: null });
  a.put({ kind: "message", id: id(41), role: "agent", text: "I'll run the tests first to see what fails.", thinking: "The user wants the pricing tests mended. Start by running them, then look at rounding.", turn_id: turn, at: now(270) });
  const call = (n, tool, args, rest) => a.put({ kind: "call", id: id(n), turn_id: turn, tool, arguments: args, origin: "model", effect: "once", risk: "sensitive", state: "succeeded", attempt: 1, device_id: id(3), at: now(260), started_at: now(259), ended_at: now(250), ...rest });
  call(50, "run_command", { command: "cargo nextest run -p pricing" }, { result: { content: "     Summary [0.512s] 41 tests run: 38 passed, 3 failed\n        FAIL pricing::rounding half_cents_go_up\n        FAIL pricing::rounding negative_amounts\n        FAIL pricing::invoice totals_match\n", bytes: 180 } });
  call(51, "search_files", { pattern: "round(", path: "crates/pricing/src" }, { result: { content: "crates/pricing/src/money.rs:88\ncrates/pricing/src/invoice.rs:41", bytes: 64 } });
  call(52, "edit_file", { path: "crates/pricing/src/money.rs", old: "amount.round()", new: "round_half_up(amount)" }, { result: { content: "Edited 1 place.", bytes: 15, changes: [{ path: "crates/pricing/src/money.rs", before: "a", after: "b", added: 9, removed: 2 }] } });
  call(53, "read_file", { path: "crates/pricing/README" }, { state: "failed", result: null, error: { code: "not_found", message: "There is no file 'crates/pricing/README'.", hint: "List the directory and use a name that is there.", state_modified: "no" } });
  a.put({ kind: "message", id: id(42), role: "agent", text: "Prices were rounded in **two places** that disagree about half cents:\n\n1. `money.rs` rounds half to even\n2. `invoice.rs` rounds half up\n\nI made `money.rs` the only place:\n\n```rust\npub fn round_half_up(amount: Decimal) -> Decimal {\n    amount.round_dp_with_strategy(2, MidpointAwayFromZero)\n}\n```\n\nThe test database still holds totals that were rounded the old way, so the migration has to run once. See [the strategy](https://docs.rs/rust_decimal).", turn_id: turn, at: now(60) });
  call(54, "run_command", { command: "sqlx migrate run --database-url postgres://localhost/orchard_test && psql orchard_test -c 'select count(*) from invoices'" }, { state: "awaiting_approval", approval_id: id(80), result: null, ended_at: null, started_at: null });
  a.put({ kind: "approval", id: id(80), call_id: id(54), state: "open", arguments: {}, at: now(20), workspace_changed: true, binding: { task_id: id(20), turn_id: turn, tool: "run_command", argument_digest: "a".repeat(64), file_digests: {}, risk: "dangerous", risk_reason: "It changes a database, which can't be taken back.", preview: "sqlx migrate run \\\n  --database-url postgres://localhost/orchard_test\npsql orchard_test -c 'select count(*) from invoices'", directory: "/home/ada/projects/orchard-backend", device_id: id(3), epoch: 3 } });
  a.put({ kind: "message", id: id(46), role: "user", text: "Please also keep the changelog up to date.", turn_id: turn, sender: sender(true), at: now(5) });

  const b = new Session(id(11), "整理旅行计划", { state: "awaiting_input", activity: "awaiting_user", waiting: 2, holder: PHONE, ago: 400, line: "需要你选择出发日期", progress: 30 });
  sessions.set(b.id, b);
  b.put({ kind: "message", id: id(47), role: "user", text: "帮我安排下个月去杭州的三天行程，预算三千元。", sender: sender(true), at: now(500) });
  b.put({ kind: "turn", id: id(31), state: "waiting", iterations: 1, unread: [], started_at: now(500), ended_at: null, answering: null });
  b.put({ kind: "call", id: id(55), turn_id: id(31), tool: "ask_user", arguments: { question: "你想哪天出发？" }, origin: "model", effect: "read", risk: "safe", state: "awaiting_answer", attempt: 1, question_id: id(90), at: now(480) });
  b.put({ kind: "question", id: id(90), question_kind: "agent", call_id: id(55), text: "你想哪天出发？周五晚上的车票还有余票。", options: ["周五晚上", "周六早上"], known: null, state: "open", at: now(480) });
  b.put({ kind: "call", id: id(56), turn_id: id(31), tool: "send_mail", arguments: { path: "订房确认.eml" }, origin: "model", effect: "once", risk: "sensitive", state: "unknown", unknown: "hub_restarted", attempt: 1, question_id: id(91), at: now(470) });
  b.put({ kind: "question", id: id(91), question_kind: "outcome", call_id: id(56), text: "给旅馆的邮件发出去了吗？", options: ["happened", "do_it", "skip"], known: "邮件已交给设备；设备在发送途中断电，没有收到回执。", state: "open", at: now(470) });

  sessions.set(id(12), new Session(id(12), "Write the release notes for 2.4", { state: "running", activity: "thinking", ago: 3000, holder: DESK, line: "Reads the commits since 2.3", progress: 45 }));
  sessions.set(id(13), new Session(id(13), "Why is the build slow?", { state: "completed", ago: 90000, holder: null, line: "The linker took most of it; lld is set up now" }));
  states();
  const long = new Session(id(14), "Deceptive and long", { state: "awaiting_input", activity: "awaiting_user", waiting: 1, ago: 200000, holder: null, line: "A command of many lines" });
  sessions.set(long.id, long);
  long.put({ kind: "call", id: id(57), turn_id: id(32), tool: "run_command", arguments: { command: "cat > x <<EOF" }, origin: "model", effect: "once", risk: "sensitive", state: "awaiting_approval", approval_id: id(81), attempt: 1, at: now(10) });
  long.put({ kind: "approval", id: id(81), call_id: id(57), state: "open", arguments: {}, at: now(10), binding: { turn_id: id(32), tool: "run_command", argument_digest: "a", file_digests: {}, risk: "sensitive", risk_reason: "", preview: `cat > notes.txt <<'EOF'\n${Array.from({ length: 500 }, (_, n) => `line ${n} \u202e of a heredoc`).join("\n")}\nEOF\n${"y".repeat(10000)}`, directory: "/home/ada/projects/with/a/very/long/path/that/does/not/end/soon/enough", device_id: id(3), epoch: 1 } });
}

/** One session for each state of interest that takes work with other devices or time to reach. */
function states() {
  const make = (n, title, head, build) => {
    const made = new Session(id(n), title, { ago: 4000 + n, ...head });
    sessions.set(made.id, made);
    made.put({ ...made.head, ...head.more });
    build(made, (base) => id(n * 100 + base));
  };
  const said = (made, n, text) => made.put({ kind: "message", id: n, role: "user", text, sender: sender(true), at: now(60) });
  const task = (made, n, rest) => made.put({ kind: "task", id: n, title: "Sort the photos", core_intent: { goal: "All photos of 2026 in one folder a month", constraints: [], acceptance: [], version: 1, source: "user" }, phase: "executing", state: "running", progress: 40, line: "Moves the photos of March", steps: [], created_at: now(300), updated_at: now(20), ...rest });
  make(15, "Steer, queue, interrupt", { state: "running", activity: "executing", holder: PHONE, more: { queued: [id(1503)], active_task: id(1505) } }, (made, n) => {
    task(made, n(5), {});
    said(made, n(1), "Sort the photos of this year into folders by month.");
    made.put({ kind: "turn", id: n(9), state: "running", iterations: 2, unread: [n(2)], started_at: now(50), ended_at: null, answering: null });
    said(made, n(2), "Leave the screenshots where they are.");
    said(made, n(3), "Afterwards, tell me how much space they take.");
  });
  make(16, "Waits for the workspace", { state: "pending", activity: "awaiting_workspace", holder: PHONE, more: { active_task: id(1605) } }, (made, n) => {
    task(made, n(5), { waiting_on: { for: "workspace", behind: id(10), title: "Mend the failing price tests" }, line: "Waits for the workspace", state: "pending" });
    said(made, n(1), "Bring the dependencies up to date.");
    made.put({ kind: "turn", id: n(9), state: "waiting", iterations: 0, unread: [], started_at: now(50), ended_at: null, answering: null });
  });
  make(17, "Paused", { state: "pending", activity: "error", holder: PHONE, more: { active_task: id(1705), queued: [id(1702)] } }, (made, n) => {
    task(made, n(5), { phase: "paused", state: "pending", last_error: "The model can't be reached: connection refused at http://127.0.0.1:11434. Start it, then go on.", line: "Paused" });
    said(made, n(1), "Sort the photos of this year into folders by month.");
    made.put({ kind: "turn", id: n(9), state: "failed", reason: "the model can't be reached", iterations: 2, unread: [], started_at: now(50), ended_at: now(10), answering: null });
    said(made, n(2), "And the videos.");
  });
  make(18, "Handed to the desk", { state: "pending", holder: PHONE, more: { transfer: id(1808) } }, (made, n) => {
    said(made, n(1), "Let's go on at the desk.");
    made.put({ kind: "handoff", id: n(8), from: PHONE, to: DESK, deadline: now(-30), state: "offered" });
  });
  make(19, "Write the talk about beekeeping", { state: "pending", holder: DESK, more: { transfer: id(1908) } }, (made, n) => {
    said(made, n(1), "I'll finish this on the phone.");
    made.put({ kind: "handoff", id: n(8), from: DESK, to: PHONE, deadline: now(-30), state: "offered" });
  });
  make(21, "An old, long call", { state: "completed", holder: PHONE }, (made, n) => {
    said(made, n(1), "Run all the tests.");
    made.put({ kind: "turn", id: n(9), state: "finished", iterations: 2, unread: [], started_at: now(50), ended_at: now(10) });
    made.put({ kind: "call", id: n(2), turn_id: n(9), tool: "run_command", arguments: { command: "cargo test" }, origin: "model", effect: "once", risk: "sensitive", state: "succeeded", attempt: 1, at: now(40), ended_at: now(30), result: { content: "running 812 tests\n[… 48211 bytes not shown here: see the history …]\ntest result: ok", bytes: 50000 } });
    made.put({ kind: "call", id: n(3), turn_id: n(9), tool: "run_command", arguments: { command: "git push" }, origin: "model", effect: "once", risk: "sensitive", state: "cancelled", reason: "Nobody answered in time.", approval_id: n(4), attempt: 0, at: now(40), ended_at: now(30) });
    made.put({ kind: "approval", id: n(4), call_id: n(3), state: "voided", reason: "the files it was about have changed", arguments: {}, at: now(30), binding: { tool: "run_command", argument_digest: "a", file_digests: {}, risk: "sensitive", risk_reason: "", preview: "git push", epoch: 1 } });
  });
  make(22, "Five thousand entries", { state: "completed", holder: PHONE }, (made, n) => {
    made.put({ kind: "turn", id: n(9), state: "finished", iterations: 2, unread: [], started_at: now(50), ended_at: now(10) });
    for (let k = 0; k < 5000; k += 1) {
      const big = (base) => `01990000-0000-7000-9${base}00-${String(k).padStart(12, "0")}`;
      made.put({ kind: "message", id: big(0), role: k % 2 ? "agent" : "user", text: `Entry ${k}. ${"Some **words** about it, and more of them. ".repeat(1 + (k % 5))}`, sender: sender(true), at: now(5000 - k) });
      made.put({ kind: "call", id: big(1), turn_id: n(9), tool: "read_file", arguments: { path: `src/file_${k}.rs` }, origin: "model", effect: "read", risk: "safe", state: "succeeded", attempt: 1, at: now(5000 - k), ended_at: now(5000 - k), result: { content: `fn number_${k}() {}`, bytes: 20 } });
    }
  });
}

function reply(socket, operation, rest) {
  const session = sessions.get(rest.session_id ?? operation.session_id);
  socket.tell({ type: "ack", operation_id: operation.operation_id, status: "accepted", session_id: session?.id ?? null, version: session?.seq ?? 0, epoch: session?.head.epoch ?? 0, turn_id: null, task_id: null, error: null, ...rest });
}
const refuse = (socket, operation, code, message, hint) => reply(socket, operation, { status: "rejected", error: { code, message, hint } });
const seen = new Map();

function operate(socket, operation) {
  const payload = operation.payload ?? {};
  const session = sessions.get(operation.session_id);
  if (seen.has(operation.operation_id)) return reply(socket, operation, { status: "duplicate", session_id: seen.get(operation.operation_id) });
  if (operation.intent === "new_session") {
    const made = new Session(randomUUID(), "New session", { holder: PHONE });
    sessions.set(made.id, made);
    seen.set(operation.operation_id, made.id);
    return reply(socket, operation, { session_id: made.id });
  }
  if (!session) return refuse(socket, operation, "not_found", "There is no such session.", "Check the id.");
  if (payload.text === "stale") return refuse(socket, operation, "stale_epoch", "The session is at epoch 4; this was written at epoch 3.", "Send it again if it still fits.");
  if (payload.text === "big") return refuse(socket, operation, "too_large", "The text has 40,000 bytes; 32,768 are allowed.", "Shorten it, or send it in parts.");
  if (operation.intent === "confirm") {
    const approval = session.entities.get(`approval/${payload.approval_id}`);
    if (approval.binding.risk === "dangerous" && payload.decision === "approve" && !operation.confirmed)
      return refuse(socket, operation, "needs_confirmation", "This changes a database and can't be taken back.", "Confirm if you mean it.");
    reply(socket, operation, {});
    seen.set(operation.operation_id, session.id);
    const approved = payload.decision === "approve";
    session.put({ kind: "approval", id: approval.id, state: approved ? "approved" : "rejected", decided_by: sender(true), decided_at: now() }, { kind: "call", id: approval.call_id, state: approved ? "succeeded" : "cancelled", reason: approved ? null : "You said no.", ended_at: now(), result: approved ? { content: "Applied 20261130/migrate rounding (12.4ms)\n count\n-------\n  1284", bytes: 60 } : null }, { ...session.head, waiting: 0, activity: "thinking", state: "running" });
    return;
  }
  if (operation.intent === "answer") {
    reply(socket, operation, {});
    const question = session.entities.get(`question/${payload.question_id}`);
    session.put({ kind: "question", id: question.id, state: "answered", answer: payload.option ?? payload.text, answered_by: sender(true) }, { kind: "call", id: question.call_id, state: "succeeded", ended_at: now() }, { ...session.head, waiting: Math.max(0, session.head.waiting - 1) });
    return;
  }
  if (operation.intent === "accept_handoff" || operation.intent === "decline_handoff") {
    reply(socket, operation, {});
    const accepted = operation.intent === "accept_handoff";
    session.put({ kind: "handoff", id: payload.handoff_id, state: accepted ? "accepted" : "declined" }, { ...session.head, transfer: null, ...(accepted ? { holder: PHONE, epoch: session.head.epoch + 1 } : {}) });
    return;
  }
  if (operation.intent === "cancel") {
    reply(socket, operation, {});
    session.stopped = true;
    for (const entity of [...session.entities.values()]) if (entity.kind === "turn" && !entity.ended_at) session.put({ ...entity, state: "interrupted", reason: "you asked to stop", ended_at: now(), answering: null }, { ...session.head, state: "cancelled", activity: "idle" });
    return;
  }
  seen.set(operation.operation_id, session.id);
  reply(socket, operation, {});
  void answer(session, payload.text ?? "");
}

async function answer(session, text) {
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const turn = randomUUID();
  const message = randomUUID();
  session.stopped = false;
  session.put({ kind: "message", id: randomUUID(), role: "user", text, sender: sender(true), at: now() }, { ...session.head, holder: PHONE, state: "running", activity: "thinking", title: session.head.title === "New session" ? text.slice(0, 40) : session.head.title });
  session.put({ kind: "turn", id: turn, state: "running", iterations: 1, unread: [], started_at: now(), ended_at: null, answering: message });
  const full = "Here is what I found, 一步一步来：\n\n- the first thing 🌍\n- the second thing\n\n```sh\ncargo test --all\n```\n\nThat is all there is to say about it.";
  const bytes = Buffer.from(full);
  let sent = 0;
  await wait(400);
  const words = full.match(/\S+\s*/g);
  for (const word of words) {
    if (session.stopped) return;
    const frame = { type: "delta", session_id: session.id, message_id: message, attempt: 1, offset: sent, part: "text", text: word };
    sent += Buffer.byteLength(word);
    for (const socket of sockets) if (socket.follows.has(session.id)) socket.tell(frame);
    await wait(Number(process.env.SLOW ?? 60));
  }
  void bytes;
  session.put({ kind: "message", id: message, role: "agent", text: full, turn_id: turn, at: now() });
  session.put({ kind: "turn", id: turn, state: "finished", ended_at: now(), answering: null }, { ...session.head, state: "completed", activity: "idle" });
  for (const socket of sockets) socket.tell({ type: "changed", what: "sessions" });
}

const info = () => ({ version: "0.1.0", incarnation: 1, model, commands });
const pairings = new Map();
const problem = (status, code, detail, hint) => ({ status, body: { type: `https://baton.invalid/errors/${code}`, title: code, status, code, detail, hint, instance: "" } });

const brief = { goal: "A talk of twenty minutes about keeping bees in the city", constraints: [], completed_steps: ["Collect the sources", "Outline in five parts"], next_step: "Write the opening", waiting_on: null, workspace: null, deferred: [], text: "" };

function route(method, path, body, paired, query) {
  if (path === "/healthz") return { body: {} };
  if (path === "/v1/invitations/claim")
    return body.secret === "good" ? { cookie: true, body: { state: "approved", device_id: PHONE, user_id: id(9), name: body.name, trust: "trusted" } } : problem(404, "not_found", "The link has been used or has expired.", "Make a new one with `baton pair`, or pair with a code.");
  if (path === "/v1/pairings") {
    const started = { pairing_id: randomUUID(), code: "KXRM-7FWQ", secret: "s", number: "482", expires_at: now(-300) };
    pairings.set(started.pairing_id, 0);
    return { body: started };
  }
  const claim = /^\/v1\/pairings\/([^/]+)\/claim$/.exec(path);
  if (claim) {
    const times = (pairings.get(claim[1]) ?? 0) + 1;
    pairings.set(claim[1], times);
    return times > Number(process.env.PAIR_AFTER ?? 3) ? { cookie: true, body: { state: "approved", device_id: PHONE, user_id: id(9), name: "x", trust: "standard" } } : { body: { state: "waiting", expires_at: now(-300) } };
  }
  if (!paired) return problem(401, "unauthenticated", "This device isn't signed in.", "Pair it.");
  const preview = /^\/v1\/pairings\/([^/]+)$/.exec(path);
  if (preview) return preview[1].startsWith("X") ? problem(404, "not_found", "There is no such code.", "Check it; codes are valid for five minutes.") : { body: { name: "Ada's new laptop", client_type: "web", code: preview[1], number: "482", from: "192.168.1.23", expires_at: now(-200) } };
  if (path.endsWith("/approve")) return { body: {} };
  if (path === "/v1/hub") return { body: info() };
  if (path === "/v1/invitations") return { body: { invitations: [] } };
  if (path === "/v1/devices") return { body: { devices } };
  if (path === "/v1/sessions") return { body: { sessions: [...sessions.values()].map((session) => session.summary()), next: null } };
  if (path === "/v1/signout") return { body: {} };
  if (/^\/v1\/devices\/[^/]+$/.test(path) && method === "PATCH") {
    const device = devices.find((each) => path.endsWith(each.device_id));
    Object.assign(device, body);
    return { body: device };
  }
  const reading = /^\/v1\/sessions\/([^/]+)\/(history|brief)$/.exec(path);
  if (reading?.[2] === "brief") return { body: brief };
  if (reading) {
    // Of the long session another page each time; of the others every call, whole.
    const entries = [...(sessions.get(reading[1])?.entities.values() ?? [])].filter((each) => ["message", "call"].includes(each.kind));
    const before = Number(query.get("before") ?? Infinity);
    const older = entries.filter((each) => each.version < before).slice(-Number(query.get("limit") ?? 50));
    const whole = older.map((each) => (each.result ? { ...each, result: { ...each.result, content: each.result.content.replace(/\[… .*? …\]/, Array.from({ length: 812 }, (_, n) => `test number_${n} ... ok`).join("\n")) } } : each));
    const first = older[0]?.version ?? 0;
    return { body: { entries: whole, before: entries.some((each) => each.version < first) ? first : null } };
  }
  if (path === "/dev/offer") {
    const session = sessions.get(id(19));
    for (const socket of sockets) socket.tell({ type: "handoff_offer", session_id: session.id, handoff_id: id(1908), from: DESK, brief, summary: session.head.title, deadline: now(-30) });
    return { body: {} };
  }
  if (path === "/dev/model") { model = model ? null : "scripted"; return { body: {} }; }
  if (path === "/dev/empty") { sessions.clear(); return { body: {} }; }
  return problem(404, "not_found", "There is no such thing.", "Check the address.");
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://x");
  const paired = /baton=1/.test(request.headers.cookie ?? "");
  if (url.pathname.startsWith("/v1/") || url.pathname.startsWith("/dev/") || url.pathname === "/healthz") {
    let text = "";
    for await (const part of request) text += part;
    const answered = route(request.method, url.pathname, text ? JSON.parse(text) : {}, paired, url.searchParams);
    response.writeHead(answered.status ?? 200, { "content-type": answered.status ? "application/problem+json" : "application/json", ...(answered.cookie ? { "set-cookie": "baton=1; HttpOnly; SameSite=Strict; Path=/" } : {}) });
    response.end(JSON.stringify(answered.body));
    return;
  }
  const file = url.pathname === "/" ? "index.html" : normalize(url.pathname).slice(1);
  try {
    const content = await readFile(join(DIST, file));
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "content-security-policy": CSP });
    response.end(content);
  } catch {
    response.writeHead(404).end();
  }
});

const socketServer = new WebSocketServer({ server, path: "/v1/ws" });
socketServer.on("connection", (socket) => {
  socket.follows = new Set();
  socket.tell = (frame) => socket.readyState === 1 && !socket.frozen && socket.send(JSON.stringify(frame));
  sockets.add(socket);
  socket.on("close", () => sockets.delete(socket));
  socket.on("message", (data) => {
    const frame = JSON.parse(data);
    if (globalThis.frozen) return;
    if (frame.type === "hello") {
      socket.tell({ type: "welcome", device_id: PHONE, user_id: id(9), name: "Ada's phone", trust: "trusted", heartbeat_s: 10, limits: { max_frame_bytes: 262144, max_text_bytes: 32768 }, hub: info() });
      for (const session of Object.keys(frame.cursors ?? {})) subscribe(socket, session);
    } else if (frame.type === "subscribe") subscribe(socket, frame.session_id);
    else if (frame.type === "unsubscribe") socket.follows.delete(frame.session_id);
    else if (frame.type === "heartbeat") socket.tell({ type: "heartbeat" });
    else if (frame.type === "op") operate(socket, frame);
  });
});

function subscribe(socket, sessionId) {
  const session = sessions.get(sessionId);
  if (!session) return socket.tell({ type: "error", session_id: sessionId, error: { code: "not_found", message: "There is no such session.", hint: "Choose one from the list." } });
  socket.follows.add(sessionId);
  socket.tell(session.view());
}

// Freezing keeps sockets open and says nothing: packets that vanish without a close.
process.on("SIGUSR2", () => {
  globalThis.frozen = !globalThis.frozen;
  for (const socket of sockets) socket.frozen = globalThis.frozen;
});

server.listen(PORT, "127.0.0.1", () => console.log(`mock hub on http://127.0.0.1:${PORT}/#invite=good`));
