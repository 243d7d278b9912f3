// The link under bad weather: cut at random instants, silent without a close, and woken from sleep. A proxy stands between client and hub.
import assert from "node:assert/strict";
import { connect, createServer } from "node:net";
import { after, before, describe, test } from "node:test";
import { ALONE, MemoryStorage, uuidv7 } from "../dist/src/index.js";
import { House, skip, until } from "./support/house.mjs";

/** Reconnects in the named case; `RECONNECTS=1000` is the whole of it. */
const RECONNECTS = Number(process.env.RECONNECTS ?? 25);
let house, cookie;
const proxies = [];

before(async () => {
  if (skip) return;
  house = await House.open();
  cookie = await house.pair("page");
});
after(async () => {
  // First, for a hub waits for connections that it takes to be alive.
  for (const proxy of proxies) proxy.close();
  await house?.close();
});

async function live(options) {
  const client = await house.client(cookie, options);
  assert.equal(await client.paired(), true);
  client.connect();
  await until(client, () => client.connection === "live", "a connection");
  return client;
}

describe("the link", { concurrency: true }, () => {
  test(`c17 after ${RECONNECTS} reconnects at random instants of a busy session the stream equals the log`, { skip }, async () => {
    const client = await live();
    const made = await (await client.ask({ intent: "new_session", payload: {} })).settled;
    const id = made.session_id;
    client.follow(id);
    const state = client.state(id);
    await until(client, () => state.loaded, "the view");
    // What the client takes in, in the order in which it does.
    const taken = [];
    const apply = state.applyChange.bind(state);
    state.applyChange = (change) => {
      const result = apply(change);
      if (result === "applied") taken.push(change.seq);
      return result;
    };
    const from = state.cursor;
    let cuts = 0;
    let busy = true;
    const work = (async () => {
      for (let round = 0; busy; round += 1) {
        const note = { v: 1, operation_id: uuidv7(), session_id: id, epoch: made.epoch, intent: "set_note", payload: { key: `k${round % 7}`, value: String(round) } };
        await house.call(cookie, "POST", "/v1/ops", note);
      }
    })();
    while (cuts < RECONNECTS) {
      await new Promise((next) => setTimeout(next, Math.random() * 20));
      client.cut();
      cuts += 1;
      await until(client, () => client.connection === "reconnecting", "the loss");
      client.wake();
      await until(client, () => client.connection === "live", `connection ${cuts}`);
    }
    busy = false;
    await work;
    const { head } = await house.call(cookie, "GET", `/v1/sessions/${id}/events?after=0&limit=1`);
    await until(client, () => state.cursor >= head, "the last change");
    // A view on the way may stand for many changes; what comes one by one comes in order, once, without a gap.
    for (let index = 1; index < taken.length; index += 1) assert.ok(taken[index] > taken[index - 1], `${taken[index]} after ${taken[index - 1]}`);
    assert.equal(new Set(taken).size, taken.length);
    assert.equal(taken.length, head - from, "a change is missing");
    const view = await client.hub.view(id);
    for (const entity of view.entities) assert.deepEqual(state.get(entity.kind, entity.id), entity);
    client.close();
  });

  test("c20 a half-open link is noticed within fifteen seconds, and mends by itself", { skip }, async () => {
    const proxy = await Proxy.open(house.port);
    const client = await live({ port: proxy.port });
    // The first heartbeat has to be answered before its absence says anything.
    await new Promise((next) => {
      for (const socket of client.sockets) socket.on("message", (frame) => String(frame).includes('"type":"heartbeat"') && next());
    });
    const from = Date.now();
    proxy.swallow();
    await until(client, () => client.connection === "reconnecting", "the loss to be noticed");
    assert.ok(Date.now() - from < 15_000, `noticed after ${Date.now() - from} ms`);
    proxy.pass();
    await until(client, () => client.connection === "live", "the link to mend");
    client.close();
  });

  test("c20 a page that wakes up on a dead link is live again within three seconds, and has what it missed", { skip }, async () => {
    const proxy = await Proxy.open(house.port);
    const client = await live({ port: proxy.port });
    const made = await (await client.ask({ intent: "new_session", payload: {} })).settled;
    client.follow(made.session_id);
    const state = client.state(made.session_id);
    await until(client, () => state.loaded, "the view");
    // Old connections lead nowhere; new ones work: the phone was in a pocket.
    proxy.swallowOld();
    await house.call(cookie, "POST", "/v1/ops", { v: 1, operation_id: uuidv7(), session_id: made.session_id, epoch: made.epoch, intent: "set_note", payload: { key: "k", value: "missed" } });
    await new Promise((next) => setTimeout(next, 1_100));
    const from = Date.now();
    client.wake();
    await until(client, () => state.get("note", "k")?.value === "missed", "what was missed");
    assert.ok(Date.now() - from < 3_500, `caught up after ${Date.now() - from} ms`);
    client.close();
  });

  test("what one tab discards no other tab sends, and a draft is the same in both", { skip }, async () => {
    const storage = new MemoryStorage();
    const [one, other] = linkedTabs();
    const first = await house.client(cookie, { storage, tabs: one });
    const second = await house.client(cookie, { storage, tabs: other });
    assert.equal(await second.paired(), true);
    // Written without a link, and seen in both.
    const kept = await first.ask({ intent: "new_session", payload: { title: "Kept" } });
    const gone = await first.ask({ intent: "new_session", payload: { title: "Gone" } });
    assert.equal(second.outbox.list().length, 2);
    first.drafts.set("new", "half a thought");
    assert.equal(second.drafts.get("new"), "half a thought");
    await second.outbox.discard(gone.operationId);
    assert.equal(await gone.settled, null);
    assert.deepEqual(first.outbox.list().map((entry) => entry.operation.operation_id), [kept.operationId]);
    // The first tab is gone for good; the second brings it out after a while.
    second.connect();
    await until(second, () => second.outbox.list().length === 0, "what was kept to go out");
    const { sessions } = await house.call(cookie, "GET", "/v1/sessions");
    assert.equal(sessions.filter((session) => session.title === "Kept").length, 1);
    assert.equal(sessions.filter((session) => session.title === "Gone").length, 0);
    assert.equal((await kept.settled).session_id, sessions.find((session) => session.title === "Kept").session_id);
    second.close();
  });

  test("a storage that breaks keeps nobody from speaking, and says that it keeps nothing", { skip }, async () => {
    const { GuardedStorage } = await import("../dist/src/index.js");
    const broken = { durable: true, entries: async () => [], put: async () => { throw new Error("quota"); }, remove: async () => { throw new Error("quota"); }, clear: async () => undefined };
    const client = await house.client(cookie, { storage: new GuardedStorage(broken), tabs: ALONE });
    assert.equal(client.durable, true);
    assert.equal(await client.paired(), true);
    client.connect();
    await until(client, () => client.connection === "live", "a connection");
    const made = await (await client.ask({ intent: "new_session", payload: { title: "Spoken" } })).settled;
    assert.equal(made.error ?? null, null);
    assert.equal(client.durable, false);
    client.close();
  });
});

/** Two tabs of one browser, without a browser. */
function linkedTabs() {
  const ends = [new Set(), new Set()];
  return ends.map((own, index) => ({
    tell: (message) => ends[1 - index].forEach((listener) => listener(structuredClone(message))),
    listen: (listener) => own.add(listener),
    close: () => own.clear(),
  }));
}

/** Carries bytes between client and hub until it swallows them, without closing anything. */
class Proxy {
  port;
  #server;
  #pairs = new Set();
  #swallows = false;

  static async open(target) {
    const proxy = new Proxy();
    proxies.push(proxy);
    proxy.#server = createServer((client) => {
      const hub = connect(target, "127.0.0.1");
      const pair = { client, hub, dead: false };
      proxy.#pairs.add(pair);
      const carry = (from, to) => from.on("data", (bytes) => {
        if (!pair.dead && !proxy.#swallows) to.write(bytes);
      });
      carry(client, hub);
      carry(hub, client);
      for (const [one, other] of [[client, hub], [hub, client]]) {
        one.on("error", () => undefined);
        one.on("close", () => {
          if (!pair.dead && !proxy.#swallows) other.destroy();
          proxy.#pairs.delete(pair);
        });
      }
    });
    await new Promise((ready) => proxy.#server.listen(0, "127.0.0.1", ready));
    proxy.port = proxy.#server.address().port;
    return proxy;
  }
  swallow() {
    this.#swallows = true;
    this.swallowOld();
  }
  swallowOld() {
    for (const pair of this.#pairs) pair.dead = true;
  }
  pass() {
    this.#swallows = false;
  }
  close() {
    for (const { client, hub } of this.#pairs) {
      client.destroy();
      hub.destroy();
    }
    this.#server.close();
  }
}
