// What models, files and commands say is shown as text: nothing of it is fetched, run or opened by itself (S7, S21).
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { context, Hub, launch, missing, open, operate, until } from "./hub.mjs";

const skip = missing();
const EVIL = "http://evil.test";
/** Every way that a page might be talked into asking somebody else. */
const HOSTILE = [
  `![pixel](${EVIL}/image.png)`,
  `[![both](${EVIL}/inner.png)](${EVIL}/outer)`,
  `[a link](${EVIL}/link) and ${EVIL}/bare and <${EVIL}/angle>`,
  `[script](javascript:globalThis.pwned=1) [data](data:text/html,<script>globalThis.pwned=1</script>)`,
  `[reference]: ${EVIL}/reference`,
  `![reference][reference]`,
  `<img src="${EVIL}/img" onerror="globalThis.pwned=1">`,
  `<svg onload="globalThis.pwned=1"><image href="${EVIL}/svg"/><use href="${EVIL}/use#x"/></svg>`,
  `<script>globalThis.pwned=1</script><script src="${EVIL}/script"></script>`,
  `<iframe src="${EVIL}/iframe" srcdoc="<script>parent.pwned=1</script>"></iframe><object data="${EVIL}/object"></object><embed src="${EVIL}/embed">`,
  `<link rel="stylesheet" href="${EVIL}/css"><link rel="prefetch" href="${EVIL}/prefetch"><meta http-equiv="refresh" content="0;url=${EVIL}/refresh">`,
  `<style>@import url("${EVIL}/import"); body { background: url("${EVIL}/background") }</style>`,
  `<video poster="${EVIL}/poster" src="${EVIL}/video" autoplay></video><audio src="${EVIL}/audio" autoplay></audio>`,
  `<form action="${EVIL}/form"><input autofocus onfocus="globalThis.pwned=1"></form><base href="${EVIL}/">`,
  "```html", `<img src="${EVIL}/code">`, "```",
  `| ![cell](${EVIL}/cell) |`, "|---|", `| <img src=${EVIL}/row> |`,
].join("\n");
const NAME = "<img src=x onerror=pwned=1> ![p](evil).md";
const say = (results, reply) => ({ when: { last_user_contains: "Show me", results }, reply });
const call = (name, args) => ({ name, arguments: args });
const SCRIPT = [
  say(0, { thinking: HOSTILE, text: HOSTILE, calls: [call("read_file", { path: NAME }), call("find_text", { text: "evil.test" }), call("record_fact", { key: HOSTILE.slice(0, 90), value: HOSTILE.slice(0, 900) })] }),
  say(3, { text: HOSTILE, calls: [call("write_file", { path: "made.svg", content: HOSTILE })] }),
  say(4, { calls: [call("run_command", { argv: ["sh", "-c", `cat <<'X'\n${HOSTILE}\nX\ntouch ran`] })] }),
  say(5, { calls: [call("ask_user", { question: HOSTILE.slice(0, 900), options: [`<img src=${EVIL}/option>`, `![o](${EVIL}/option2)`] })] }),
  say(6, { text: HOSTILE }),
];

let hub;
let browser;
before(async () => {
  if (skip) return;
  [hub, browser] = await Promise.all([Hub.start({ script: SCRIPT, files: { [NAME]: HOSTILE, "README.md": HOSTILE }, git: true }), launch()]);
});
after(async () => {
  await browser?.close();
  await hub?.stop();
});

test("s7 hostile words of a model, a file and a command are shown, and nobody else is asked for anything", { skip }, async () => {
  const desk = await hub.pair(hub.link, `<img src=${EVIL}/device>`, "web");
  for (;;) {
    const { devices } = await hub.call(desk, "GET", "/v1/devices");
    if (devices.some((device) => device.online && device.workspaces?.length)) break;
    await new Promise((next) => setTimeout(next, 25));
  }
  const { session_id: id, epoch } = await operate(hub, desk, { intent: "new_session", payload: { title: `![t](${EVIL}/title)` } });
  const own = await context(browser, hub, { cookie: desk });
  const [asked, troubles] = [[], []];
  own.on("request", (request) => asked.push(request.url()));
  own.on("page", (page) => troubles.push(`opened ${page.url()}`));
  // What the page's policy held back was tried all the same.
  await own.addInitScript(() => {
    globalThis.heldBack = [];
    addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => globalThis.heldBack.push(`${violatedDirective} ${blockedURI}`));
  });
  const page = await open(own, hub, `#/sessions/${id}`);
  troubles.length = 0;
  page.on("websocket", (socket) => asked.push(socket.url()));
  page.on("dialog", (dialog) => troubles.push(dialog.message()));
  await page.locator("[data-testid=timeline][data-loaded=true]").waitFor();
  await operate(hub, desk, { intent: "say", payload: { text: `Show me ${HOSTILE}` }, session_id: id, epoch });

  // The whole of it, opened as far as it opens.
  await page.locator("[data-testid=approval][data-open-card=true]").waitFor();
  const openAll = () => page.evaluate(() => {
    for (const details of document.querySelectorAll("details")) details.open = true;
    for (const button of document.querySelectorAll("main [aria-expanded=false]")) button.click();
  });
  await openAll();
  const openOne = async (kind) => (await hub.call(desk, "GET", `/v1/sessions/${id}`)).entities.find((entity) => entity.kind === kind && entity.state === "open");
  await operate(hub, desk, { intent: "confirm", session_id: id, payload: { approval_id: (await openOne("approval")).id, decision: "approve" } });
  await page.locator("[data-testid=question]").first().waitFor();
  await openAll();
  await operate(hub, desk, { intent: "answer", session_id: id, payload: { question_id: (await openOne("question")).id, text: HOSTILE } });
  await until(hub, desk, id, (head) => head.activity === "idle" && head.waiting === 0, "the end");
  await page.getByTestId("message").filter({ hasText: "image.png" }).nth(1).waitFor();
  await openAll();
  // Hovering a link asks nobody either.
  for (const link of await page.locator(`main a[href^="${EVIL}"]`).all()) {
    assert.match((await link.getAttribute("rel")) ?? "", /noreferrer/);
    if (await link.isVisible()) await link.hover();
  }
  await page.evaluate(() => { location.hash = "#/"; });
  await page.getByTestId("session-item").first().waitFor();
  await page.getByTestId("devices").first().click();
  await page.getByTestId("device").first().waitFor();

  const foreign = asked.filter((url) => !/^(data|blob):/.test(url) && new URL(url).host !== new URL(hub.origin).host);
  assert.deepEqual(foreign, []);
  assert.deepEqual(troubles, []);
  assert.deepEqual(await page.evaluate(() => [globalThis.pwned ?? null, globalThis.heldBack]), [null, []]);
  // That something was shown and looked at.
  assert.ok(asked.length > 3);
  const made = await page.evaluate(() => document.querySelectorAll("iframe, object, embed, video, audio, base, meta[http-equiv=refresh], body style").length);
  assert.equal(made, 0);
  await own.close();
});
