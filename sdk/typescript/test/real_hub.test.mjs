// The client against the hub itself: started here, over real sockets, which are cut at random.
// `BATON_BIN` names the program; without it the one that was built last is taken.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { WebSocket } from "ws";
import { BatonClient, MemoryStorage, uuidv7 } from "../dist/src/index.js";

const named = process.env.BATON_BIN;
const program = named ?? fileURLToPath(new URL("../../../target/debug/baton", import.meta.url));
// A program that was named must be there; without a name, an unbuilt one only means that this is not tested.
const skip = named || existsSync(program) ? false : `not tested: ${program} isn't built (cargo build -p baton)`;
const PATIENCE_MS = 60_000;

let directory, hub, origin, cookie, link;
const sockets = new Set();

before(async () => {
  if (skip) return;
  directory = mkdtempSync(join(tmpdir(), "baton-sdk-"));
  const workspace = join(directory, "workspace");
  mkdirSync(workspace);
  writeFileSync(join(workspace, "README.md"), "# Orchard\n\nApples.\n");
  const port = await freePort();
  origin = `http://127.0.0.1:${port}`;
  const { BATON_MODEL_URL, BATON_MODEL, BATON_MODEL_KEY, ...rest } = process.env;
  const environment = { ...rest, BATON_LOCAL_MODELS: "none" };
  hub = spawn(program, ["--json", "up", "--data", join(directory, "data"), "--listen", `127.0.0.1:${port}`, "--workspace", workspace], {
    env: environment,
    stdio: ["ignore", "pipe", "ignore"],
  });
  hub.on("error", () => undefined);
  const lines = createInterface({ input: hub.stdout });
  const ready = await new Promise((resolve, reject) => {
    lines.once("line", (line) => resolve(JSON.parse(line)));
    lines.once("close", () => reject(new Error("the hub ended before it was ready")));
  });
  assert.equal(ready.event, "ready");
  link = ready.owner_link;
});

after(async () => {
  if (!hub) return;
  if (hub.exitCode === null) {
    const ended = new Promise((resolve) => hub.once("exit", resolve));
    hub.kill("SIGINT");
    await ended;
  }
  // The device beside the hub is looked after by it, and ends with it; one that doesn't is ended here.
  try {
    process.kill(JSON.parse(readFileSync(join(directory, "data/device/device.json"), "utf8")).pid, "SIGKILL");
  } catch {
    // It is gone, as it should be.
  }
  rmSync(directory, { recursive: true, force: true });
});

test("the owner link pairs once, with a cookie that no script sees", { skip }, async () => {
  const response = await claim(link, "a page");
  assert.equal(response.status, 200, await response.clone().text());
  const set = response.headers.get("set-cookie");
  assert.match(set, /HttpOnly/i);
  assert.match(set, /SameSite=Strict/i);
  const credentials = await response.json();
  assert.ok(!credentials.token, "the token is in the cookie only");
  cookie = set.split(";")[0];
  assert.equal((await claim(link, "a page")).ok, false, "the link works once");
});

test("a conversation through cut sockets ends with what the hub has, once each", { skip }, async () => {
  const client = await page();
  try {
    assert.equal(await client.paired(), true);
    client.connect();
    await until(client, () => client.connection === "live", "a connection");
    // The device beside the hub brings the workspace.
    await until(client, () => (client.devices ?? []).some((device) => device.online && device.workspaces?.length), "a workspace");

    const made = await (await client.ask({ intent: "new_session", payload: {} })).settled;
    assert.equal(made.error ?? null, null);
    const sessionId = made.session_id;
    client.follow(sessionId);
    const state = client.state(sessionId);
    await until(client, () => state.loaded, "the view");

    const rounds = 6;
    for (let round = 0; round < rounds; round += 1) {
      const said = await client.ask({ intent: "say", payload: { text: "/show README.md" } }, sessionId);
      // At any moment: before the operation is out, between it and its reply, or in mid-turn.
      setTimeout(cut, Math.random() * 60);
      const reply = await said.settled;
      assert.equal(reply.error ?? null, null);
      cut();
      // What happens while the client is away must reach it too, and nothing touches these again.
      for (const key of [`first of ${round}`, `second of ${round}`]) {
        const note = { v: 1, operation_id: uuidv7(), session_id: sessionId, epoch: made.epoch, intent: "set_note", payload: { key, value: "kept" } };
        assert.equal((await call("POST", "/v1/ops", note)).status, "accepted");
      }
      await until(client, () => state.all("turn").filter((turn) => turn.ended_at).length === round + 1, `the end of turn ${round + 1}`);
    }
    await until(client, () => client.connection === "live", "the last connection");

    const view = await client.hub.view(sessionId);
    await until(client, () => state.cursor >= view.seq, "the last change");
    assert.equal(state.cursor, view.seq);
    for (const entity of view.entities) assert.deepEqual(state.get(entity.kind, entity.id), entity);

    const log = await call("GET", `/v1/sessions/${sessionId}/events?after=0&limit=1000`);
    assert.equal(log.head, view.seq);
    assert.deepEqual(log.changes.map((change) => change.seq), Array.from({ length: view.seq }, (_, index) => index + 1));
    // The newest version of each entity in the log is what the client keeps.
    const newest = new Map();
    for (const change of log.changes) for (const entity of change.upserts) newest.set(`${entity.kind}/${entity.id}`, entity);
    for (const entity of newest.values()) assert.deepEqual(state.get(entity.kind, entity.id), entity);
    // Nothing was lost and nothing done twice.
    assert.equal(state.all("message").filter((message) => message.role === "user").length, rounds);
    assert.equal(state.all("note").length, 2 * rounds);
    const calls = state.all("call");
    assert.equal(calls.length, rounds);
    for (const each of calls) assert.match(each.result?.content ?? "", /Apples/);
    assert.equal(client.outbox.list().length, 0);
  } finally {
    client.close();
  }
});

test("the same operation twice is a duplicate with the first outcome", { skip }, async () => {
  const operation = { v: 1, operation_id: uuidv7(), intent: "new_session", payload: { title: "Once" }, confirmed: false };
  const first = await call("POST", "/v1/ops", operation);
  const second = await call("POST", "/v1/ops", operation);
  assert.deepEqual([first.status, second.status], ["accepted", "duplicate"]);
  assert.equal(second.session_id, first.session_id);
  const other = await call("POST", "/v1/ops", { ...operation, payload: { title: "Twice" } });
  assert.equal(other.error?.code ?? other.code, "operation_conflict");
});

test("what was trimmed comes back from the history, and the log agrees", { skip }, async () => {
  const client = await page();
  try {
    assert.equal(await client.paired(), true);
    client.connect();
    await until(client, () => client.connection === "live" && client.sessions !== null, "a connection");
    const longest = [...client.sessions].sort((a, b) => b.seq - a.seq)[0];
    client.follow(longest.session_id);
    const state = client.state(longest.session_id);
    await until(client, () => state.loaded, "the view");
    const ids = () => ["message", "call"].flatMap((kind) => state.all(kind).map((entity) => entity.id)).sort();
    const whole = ids();
    assert.ok(whole.length > 6);
    client.trim(longest.session_id, 4);
    assert.ok(ids().length <= 4);
    for (let page = 0; state.historyBefore !== null && page < 20; page += 1) await client.loadHistory(longest.session_id);
    assert.deepEqual(ids(), whole);
  } finally {
    client.close();
  }
});

test("a session is offered to another device, which sees the brief and takes it over", { skip }, async () => {
  const { url } = await call("POST", "/v1/invitations", { trust: "standard" });
  const other = (await claim(url, "another page")).headers.get("set-cookie").split(";")[0];
  const [here, there] = [await page(), await page(other)];
  try {
    for (const client of [here, there]) {
      assert.equal(await client.paired(), true);
      client.connect();
      await until(client, () => client.connection === "live" && client.devices !== null, "a connection");
    }
    const made = await (await here.ask({ intent: "new_session", payload: { title: "Travels" } })).settled;
    const sessionId = made.session_id;
    here.follow(sessionId);
    const state = here.state(sessionId);
    await until(here, () => state.loaded, "the view");
    const [from, to] = [here.welcome.device_id, there.welcome.device_id];

    for (const accept of [false, true]) {
      const epoch = state.session.epoch;
      const asked = await (await here.ask({ intent: "handoff", payload: { to_device: to } }, sessionId)).settled;
      assert.equal(asked.error ?? null, null);
      await until(there, () => there.offers.size === 1, "the offer");
      const [offer] = there.offers.values();
      assert.equal(offer.session_id, sessionId);
      assert.equal(offer.from, from);
      assert.equal(typeof offer.brief.text, "string");
      await until(here, () => state.get("handoff", state.session.transfer)?.state === "offered", "the offer on this side");

      const reply = await there.answerOffer(offer, accept);
      assert.equal(reply.error ?? null, null);
      assert.equal(there.offers.size, 0);
      await until(here, () => state.session.transfer == null, "the answer");
      assert.equal(state.session.holder, accept ? to : from);
      assert.equal(state.session.epoch, accept ? epoch + 1 : epoch);
    }
  } finally {
    here.close();
    there.close();
  }
});

test("a device that signs out is unknown from then on", { skip }, async () => {
  const client = await page();
  assert.equal(await client.paired(), true);
  client.connect();
  await until(client, () => client.connection === "live", "a connection");
  await client.signOut();
  assert.equal(client.connection, "signed_out");
  assert.equal(await client.paired(), false);
});

function claim(invitation, name) {
  const secret = decodeURIComponent(new URL(invitation).hash.replace("#invite=", ""));
  return fetch(`${origin}/v1/invitations/claim`, {
    method: "POST",
    headers: { "content-type": "application/json", origin },
    body: JSON.stringify({ secret, name, client_type: "web", cookie: true }),
  });
}

/** A client as a page has it; Node keeps no cookies and names no origin, so both are given by hand. */
function page(own = cookie) {
  return BatonClient.start({
    clientType: "web",
    capabilities: () => ({ inputs: ["text"], features: [] }),
    base: origin,
    storage: new MemoryStorage(),
    fetch: (input, init = {}) => fetch(input, { ...init, headers: { ...init.headers, cookie: own, origin } }),
    openSocket: (url) => {
      const socket = new WebSocket(url, { headers: { cookie: own }, origin });
      // The close that follows an error is what counts.
      socket.on("error", () => undefined);
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      return socket;
    },
  });
}

/** Cuts every connection without a word, as a lost network does. */
function cut() {
  for (const socket of sockets) socket.terminate();
}

async function call(method, path, body) {
  const response = await fetch(origin + path, {
    method,
    headers: { cookie, origin, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return response.json();
}

/** Resolves once it holds; everything that could make it hold makes the client tell its listeners. */
function until(client, holds, what) {
  return new Promise((resolve, reject) => {
    const look = () => {
      if (!holds()) return;
      clearTimeout(timer);
      stop();
      resolve();
    };
    const stop = client.subscribe(look);
    const timer = setTimeout(() => {
      stop();
      reject(new Error(`waited in vain for ${what}; the link is ${client.connection}, trouble: ${client.trouble?.message ?? "none"}`));
    }, PATIENCE_MS);
    look();
  });
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
