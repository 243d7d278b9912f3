// The stories of the wire, played by the TypeScript client against a real hub.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { uuidv7 } from "../dist/src/index.js";
import { fileURLToPath } from "node:url";
import { House, skip, until } from "./support/house.mjs";

const STORIES = new URL("../stories/", import.meta.url);
let house;

before(async () => {
  if (!skip) house = await House.open({ script: fileURLToPath(new URL("model/script.json", STORIES)) });
});
after(() => house?.close());

for (const file of readdirSync(STORIES).filter((name) => name.endsWith(".json")).sort()) {
  const story = JSON.parse(readFileSync(new URL(file, STORIES), "utf8"));
  test(story.name, { skip }, () => tell(story));
}

// What a story had approved was done as often as it was approved.
test("what was approved in the stories was done once", { skip }, () => {
  assert.deepEqual([house.file("story_approval.txt"), house.file("story_restart.txt")], ["once\n", "once\n"]);
});

async function tell(story) {
  await house.hands();
  const ends = new Map();
  const kept = new Map();
  const sent = new Map();
  const fill = (value) => {
    if (typeof value === "string" && value.startsWith("$")) {
      assert.ok(kept.has(value.slice(1)), `nothing was kept as ${value}`);
      return kept.get(value.slice(1));
    }
    if (Array.isArray(value)) return value.map(fill);
    if (value !== null && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, fill(each)]));
    return value;
  };
  async function join(name, { trust = "trusted", client_type: clientType = "web", unknown = [] } = {}) {
    const cookie = await house.pair(name, clientType, trust);
    const client = await house.client(cookie, { clientType });
    client.unknown = new Set(unknown);
    assert.equal(await client.paired(), true);
    client.connect();
    await until(client, () => client.connection === "live", `${name}'s connection`);
    const end = { cookie, client };
    ends.set(name, end);
    return end;
  }

  for (const [place, raw] of story.steps.entries()) {
    const { keep, ...step } = raw;
    const where = `step ${place + 1}, ${step.do}`;
    if (step.do === "hub") {
      if (step.is === "killed") {
        await house.kill();
        for (const { client } of ends.values()) await until(client, () => client.connection !== "live", "the hub to be gone");
      } else await house.start();
      continue;
    }
    const end = step.do === "join" ? await join(step.end, step) : (ends.get(step.end) ?? (await join(step.end)));
    const session = fill(step.session);
    switch (step.do) {
      case "join":
        break;
      case "op": {
        const first = sent.get(step.again);
        const operation = first
          ? { ...first, ...(step.payload ? { payload: step.payload } : {}) }
          : {
              v: 1,
              operation_id: uuidv7(),
              intent: step.intent,
              payload: fill(step.payload),
              ...(session === undefined ? {} : { session_id: session }),
              ...(step.epoch === undefined ? {} : { epoch: fill(step.epoch) }),
            };
        if (step.as) sent.set(step.as, operation);
        const reply = await house.call(end.cookie, "POST", "/v1/ops", operation);
        // A refusal before the session is reached comes as a problem; its code is the same.
        contains(reply.code ? { ...reply, error: { code: reply.code } } : reply, fill(step.expect), where);
        for (const [name, field] of Object.entries(keep ?? {})) kept.set(name, reply[field]);
        break;
      }
      case "follow":
        end.client.follow(session);
        await until(end.client, () => end.client.state(session).loaded, "the view");
        break;
      case "cut":
        end.client.cut();
        break;
      case "live":
        await until(end.client, () => end.client.connection === "live", where);
        break;
      case "put":
        await end.client.ask({ intent: step.intent, payload: fill(step.payload) }, session);
        break;
      case "settled":
        await until(end.client, () => end.client.outbox.list().length === 0, where);
        break;
      case "until": {
        const wanted = fill(step.entity);
        const found = () => {
          const state = end.client.state(session);
          const known = wanted.id === undefined ? state.all(wanted.kind) : [state.get(wanted.kind, wanted.id)];
          return known.find((entity) => holds(entity, wanted));
        };
        await until(end.client, () => found() !== undefined, where);
        for (const [name, field] of Object.entries(keep ?? {})) kept.set(name, found()[field]);
        break;
      }
      case "count": {
        const events = (await house.call(end.cookie, "GET", `/v1/sessions/${session}/events?after=0&limit=1000`)).changes.map(({ event }) => event.type);
        assert.equal(events.filter((type) => type === step.event).length, step.is, `${where}: ${events}`);
        break;
      }
      case "met_unknown":
        assert.ok(end.client.renamed >= step.at_least, where);
        break;
      case "events": {
        const { head } = await house.call(end.cookie, "GET", `/v1/sessions/${session}/events?after=0`);
        const after = step.after ?? 0;
        assert.deepEqual(await eventIds(end.cookie, session, after, head), Array.from({ length: head - after }, (_, index) => after + index + 1), where);
        break;
      }
      case "same": {
        const state = end.client.state(session);
        const view = await house.call(end.cookie, "GET", `/v1/sessions/${session}`);
        await until(end.client, () => state.cursor >= view.seq, "the last change");
        assert.equal(state.cursor, view.seq, where);
        for (const entity of view.entities) assert.deepEqual(state.get(entity.kind, entity.id), entity, where);
        break;
      }
      default:
        assert.fail(`${where}: this runner doesn't know it`);
    }
  }
  for (const { client } of ends.values()) client.close();
}

/** The ids of a stream of server-sent events, until the head has come. */
async function eventIds(cookie, session, after, head) {
  const ended = new AbortController();
  const response = await fetch(`${house.origin}/v1/sessions/${session}/events${after === 0 ? "?after=0" : ""}`, {
    headers: { cookie, origin: house.origin, accept: "text/event-stream", ...(after > 0 ? { "last-event-id": String(after) } : {}) },
    signal: ended.signal,
  });
  assert.equal(response.status, 200);
  const ids = [];
  let text = "";
  const decoder = new TextDecoder();
  for await (const piece of response.body) {
    text += decoder.decode(piece, { stream: true });
    const lines = text.split("\n");
    text = lines.pop();
    for (const line of lines) if (line.startsWith("id:")) ids.push(Number(line.slice(3)));
    if ((ids.at(-1) ?? 0) >= head) break;
  }
  ended.abort();
  return ids;
}

function holds(actual, expected) {
  if (expected === null || typeof expected !== "object") return actual === expected;
  return actual !== null && typeof actual === "object" && Object.entries(expected).every(([key, value]) => holds(actual[key], value));
}

function contains(actual, expected, where) {
  assert.ok(holds(actual, expected), `${where}: ${JSON.stringify(actual)} doesn't contain ${JSON.stringify(expected)}`);
}
