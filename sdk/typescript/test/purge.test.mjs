// What a client keeps, against the hub itself: it goes when the hub says so, and is another's never.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { ALONE, BatonClient, MemoryStorage, uuidv7 } from "../dist/src/index.js";
import { House, skip, until } from "./support/house.mjs";
import { WebSocket } from "ws";

/** As a browser's, which is there after a reload. */
class Disk extends MemoryStorage {
  durable = true;
}

let house, cookie;
const clients = [];

before(async () => {
  if (skip) return;
  house = await House.open();
  cookie = await house.pair("page");
});
after(async () => {
  for (const client of clients) client.close();
  await house?.close();
});

/** A page over the storage of its browser. `asked` are the subscriptions and hellos that it sends; `who.cookie` may become another's. */
async function page(storage, { who = { cookie }, version, tabs = ALONE } = {}) {
  const asked = [];
  const info = (text) => (version ? text.replaceAll(/"version":"[^"]*"/g, `"version":"${version}"`) : text);
  const client = await BatonClient.start({
    clientType: "web",
    capabilities: () => ({ inputs: ["text"], features: [] }),
    base: house.origin,
    storage,
    tabs,
    fetch: async (input, init = {}) => {
      const answer = await fetch(input, { ...init, headers: { ...init.headers, cookie: who.cookie, origin: house.origin } });
      return String(input).endsWith("/v1/hub") ? new Response(info(await answer.text()), answer) : answer;
    },
    openSocket: (url) => {
      const socket = new WebSocket(url, { headers: { cookie: who.cookie }, origin: house.origin });
      const emit = socket.emit.bind(socket);
      socket.emit = (name, data, ...rest) => emit(name, name === "message" && String(data).includes('"welcome"') ? Buffer.from(info(String(data))) : data, ...rest);
      const send = socket.send.bind(socket);
      socket.send = (text) => {
        asked.push(JSON.parse(text));
        send(text);
      };
      socket.on("error", () => undefined);
      client.cut = () => socket.terminate();
      return socket;
    },
  });
  clients.push(client);
  client.asked = asked;
  return client;
}

async function live(storage, options) {
  const client = await page(storage, options);
  assert.equal(await client.paired(), true);
  client.connect();
  await until(client, () => client.connection === "live" && client.sessions !== null, "a connection");
  return client;
}
const op = (who, operation) => house.call(who, "POST", "/v1/ops", { v: 1, operation_id: uuidv7(), ...operation });
const begin = (title, who = cookie) => op(who, { intent: "new_session", payload: { title } });
const archive = (made) => op(cookie, { intent: "archive", payload: { archived: true }, session_id: made.session_id, epoch: made.epoch });
const has = (client, made) => (client.sessions ?? []).some((one) => one.session_id === made.session_id);
/** Everything that is stored, once what is due was written. */
const stored = async (storage) => new Map(await storage.entries(""));
async function storedList(storage, holds, what) {
  for (let tries = 0; tries < 400; tries += 1) {
    if (holds((await stored(storage)).get("kept/list")?.value)) return;
    await new Promise((next) => setTimeout(next, 25));
  }
  assert.fail(`waited in vain for ${what}`);
}

test("an archived session leaves the list, here and in what is stored, also one that was far back when the page was opened again", { skip }, async () => {
  const storage = new Disk();
  const first = await begin("Gone first");
  const far = await begin("Far back");
  const client = await live(storage);
  await until(client, () => has(client, first) && has(client, far), "both");
  await archive(first);
  await until(client, () => !has(client, first), "the archived one to leave");
  assert.ok(has(client, far));
  // More than a page of newer ones: the old one is loaded as an older one.
  for (let n = 0; n < 55; n += 1) await begin(`Newer ${n}`);
  await until(client, () => client.sessions.length >= 56, "all of them");
  while (client.sessionsBefore !== null) await client.loadMoreSessions();
  assert.ok(has(client, far));
  await client.refreshSessions();
  assert.ok(has(client, far), "what was loaded further back stays");
  client.cut();
  await until(client, () => client.connection === "reconnecting", "the loss");
  await archive(far);
  client.wake();
  await until(client, () => client.connection === "live" && !has(client, far), "the one far back to leave");
  await storedList(storage, (list) => list && !list.sessions.some((one) => one.session_id === far.session_id), "the list without it");
  client.close();
  // What was stored before an archive elsewhere doesn't outlive it either.
  const last = client.sessions.at(-1);
  await archive(last);
  const again = await page(storage);
  assert.ok(has(again, last), "the stored list has it still");
  assert.equal(await again.paired(), true);
  again.connect();
  await until(again, () => again.connection === "live" && !has(again, last), "the stored one to leave");
  // It begins with one page again, however far back the list once was loaded.
  assert.notEqual(again.sessionsBefore, null);
  again.close();
});

test("in a browser that became another user's nothing of the former one stays, and what the new one has stored does", { skip }, async () => {
  const storage = new Disk();
  const old = await house.pair("shared browser");
  const who = { cookie: old };
  const made = await begin("Ada's own", old);
  const background = await live(storage, { who });
  background.follow(made.session_id);
  await until(background, () => has(background, made) && background.state(made.session_id).loaded, "the session");
  background.drafts.set(made.session_id, "Ada's draft");
  await storedList(storage, (list) => list?.sessions.length > 0, "the list");
  // Another tab signs out, and Grace pairs this browser, before this tab has tried anything.
  const added = JSON.parse(execFileSync(process.env.BATON_BIN ?? new URL("../../../target/debug/baton", import.meta.url).pathname, ["--json", "user", "add", "Grace", "--data", house.data], { encoding: "utf8" }));
  const grace = await house.claim(added.owner_link, "shared browser", "web");
  const hers = await begin("Grace's own", grace);
  who.cookie = grace;
  await storage.clear();
  const front = await live(storage, { who });
  front.drafts.set("new", "Grace's draft");
  background.cut();
  await until(background, () => background.connection === "live" && has(background, hers), "the other user");
  assert.equal(has(background, made), false);
  assert.equal(background.drafts.get(made.session_id), "");
  await until(background, () => background.state(made.session_id).trouble !== null, "the old session to be refused");
  await until(background, () => background.drafts.get("new") === "Grace's draft", "what the new user has stored");
  front.close();
  background.close();
  await new Promise((next) => setTimeout(next, 1_000));
  const left = JSON.stringify([...(await stored(storage))]);
  assert.equal(left.includes("Ada's"), false, "something of the former user is stored");
  assert.ok(left.includes("Grace's draft"));
});

test("a kept view of a session that the hub refuses isn't shown as live, and is forgotten", { skip }, async () => {
  const storage = new Disk();
  const gone = uuidv7();
  const view = { at: "2026-01-01T00:00:00Z", seq: 7, entities: [{ kind: "note", id: "n", version: 7, created_seq: 7, key: "k", value: "kept" }], historyBefore: null, hub: (await house.call(cookie, "GET", "/v1/hub")).version };
  await storage.put(`kept/view/${gone}`, { form: 1, value: view });
  await storage.put(`kept/at/${gone}`, view.at);
  const client = await page(storage);
  client.follow(gone);
  await until(client, () => client.state(gone).loaded, "what was kept");
  assert.equal(await client.paired(), true);
  client.connect();
  await until(client, () => client.state(gone).trouble !== null, "the refusal");
  assert.equal(client.state(gone).trouble.code, "not_found");
  assert.equal(client.asked.find((frame) => frame.type === "hello").cursors[gone], 7);
  assert.equal(client.trouble, null);
  await new Promise((next) => setTimeout(next, 1_000));
  assert.equal((await stored(storage)).has(`kept/view/${gone}`), false);
  // Asked for again it is refused again, in the same place.
  client.tryAgain(gone);
  assert.equal(client.state(gone).trouble, null);
  await until(client, () => client.state(gone).trouble !== null, "the second refusal");
  client.close();
});

test("a browser that was revoked while away keeps nothing, also where no list was kept", { skip }, async () => {
  const storage = new Disk();
  const own = await house.pair("lost phone");
  const client = await live(storage, { who: { cookie: own } });
  client.drafts.set("new", "a secret thought");
  const { device_id: id } = client.welcome;
  client.close();
  for (const key of (await stored(storage)).keys()) if (key.startsWith("kept/")) await storage.remove(key);
  await new Promise((next) => setTimeout(next, 20));
  const answer = await fetch(`${house.origin}/v1/devices/${id}`, { method: "DELETE", headers: { cookie, origin: house.origin } });
  assert.ok(answer.ok);
  const again = await page(storage, { who: { cookie: own } });
  assert.equal(again.drafts.get("new"), "a secret thought");
  assert.equal(await again.paired(), false);
  assert.equal(again.drafts.get("new"), "");
  assert.deepEqual([...(await stored(storage)).keys()], ["left"]);
  assert.equal(again.revoked, true);
  // It says so after a reload too, and one that was never paired doesn't.
  assert.equal((await page(storage, { who: { cookie: own } })).revoked, true);
  const stranger = await page(new Disk(), { who: { cookie: "a=b" } });
  assert.equal(await stranger.paired(), false);
  assert.equal(stranger.revoked, false);
});

test("a view that another version of the hub has made is read afresh, kept or in memory", { skip }, async () => {
  const storage = new Disk();
  const made = await begin("Two versions");
  const client = await live(storage);
  client.follow(made.session_id);
  await until(client, () => client.state(made.session_id).loaded, "the view");
  client.cut();
  await until(client, () => client.connection === "live" && client.asked.filter((frame) => frame.type === "hello").length === 2, "the second link");
  assert.ok(client.asked.at(-1) && client.asked.filter((frame) => frame.type === "hello")[1].cursors[made.session_id] > 0, "the same version goes on");
  for (let tries = 0; !(await stored(storage)).has(`kept/at/${made.session_id}`); tries += 1) {
    assert.ok(tries < 200, "the view isn't kept");
    await new Promise((next) => setTimeout(next, 25));
  }
  client.close();
  const newer = await page(storage, { version: "99.0.0" });
  // Something that only the older version has shown.
  newer.follow(made.session_id);
  const state = newer.state(made.session_id);
  await until(newer, () => state.loaded, "what was kept");
  state.applyHistory({ entries: [{ kind: "note", id: "of the older version", version: 1, created_seq: 1 }], before: null });
  assert.equal(await newer.paired(), true);
  newer.connect();
  await until(newer, () => newer.connection === "live" && state.keptAt === null, "the view");
  assert.deepEqual(newer.asked.find((frame) => frame.type === "hello").cursors, {});
  assert.deepEqual(newer.asked.find((frame) => frame.type === "subscribe"), { type: "subscribe", session_id: made.session_id });
  assert.equal(state.get("note", "of the older version"), undefined);
  assert.equal(state.hub, "99.0.0");
  newer.close();
});

test("what is kept to be quick goes on the user's word, and nothing else does", { skip }, async () => {
  const storage = new Disk();
  const client = await live(storage);
  client.drafts.set("new", "half a thought");
  await storedList(storage, (list) => list, "the list");
  await client.forgetKept();
  client.close();
  await new Promise((next) => setTimeout(next, 900));
  const left = await stored(storage);
  assert.deepEqual([...left.keys()].sort(), ["draft/new", "owner"]);
});
