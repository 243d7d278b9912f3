// The client against the hub itself: started here, over real sockets, which are cut at random.
// `BATON_BIN` names the program; without it the one that was built last is taken.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { uuidv7 } from "../dist/src/index.js";
import { House, skip, until } from "./support/house.mjs";

let house, cookie;

before(async () => {
  if (!skip) house = await House.open();
});
after(() => house?.close());

test("the owner link pairs once, with a cookie that no script sees", { skip }, async () => {
  const response = await claim(house.ownerLink, "a page");
  assert.equal(response.status, 200, await response.clone().text());
  const set = response.headers.get("set-cookie");
  assert.match(set, /HttpOnly/i);
  assert.match(set, /SameSite=Strict/i);
  const credentials = await response.json();
  assert.ok(!credentials.token, "the token is in the cookie only");
  cookie = set.split(";")[0];
  assert.equal((await claim(house.ownerLink, "a page")).ok, false, "the link works once");
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
      setTimeout(client.cut, Math.random() * 60);
      const reply = await said.settled;
      assert.equal(reply.error ?? null, null);
      client.cut();
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
  const other = await house.invite(cookie, "standard", "another page", "web");
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
  return fetch(`${house.origin}/v1/invitations/claim`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: house.origin },
    body: JSON.stringify({ secret, name, client_type: "web", cookie: true }),
  });
}

const page = (own = cookie) => house.client(own);
const call = (method, path, body) => house.call(cookie, method, path, body);
