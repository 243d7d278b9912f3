// The road, driven through the console from end to end: a task is begun on one end, goes on at another, and is taken back, with both
// conversations of the command line's road on the published admin template. A scripted model over HTTP; the hub, its device, the
// workspace and both browsers are real.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { context, Hub, launch, missing, until } from "./hub.mjs";

const TEMPLATE = fileURLToPath(new URL("../../node_modules/startbootstrap-sb-admin/dist", import.meta.url));
const skip = missing() || (existsSync(TEMPLATE) ? false : "not tested: the admin template isn't installed (npm ci --ignore-scripts)");

const ENGLISH = {
  locale: "en-US",
  first: "set the home page button's corner radius to 8px, and check whether the contrast is good enough in dark mode",
  second: "do the table page in the same style",
  third: "watch the page until I say stop",
  steps: ["Give the button a corner radius of 8px", "Check the contrast in dark mode"],
  firstDone: "The home page button has a corner radius of 8px, and its contrast is good enough in dark mode.",
  secondDone: "The table page's button has the same corner radius of 8px.",
  question: "Should the table's own buttons get it too?",
  options: ["Only the search button", "All of them"],
  says: { card: "May Baton do this?", here: "Continue here", stopped: "Stopped" },
};
const CHINESE = {
  locale: "zh-CN",
  first: "把首页按钮的圆角改成 8px,并检查深色模式下的对比度是否足够",
  second: "表格页也用同样的风格",
  third: "一直看着页面,直到我说停",
  steps: ["把按钮的圆角改成 8px", "检查深色模式下的对比度"],
  firstDone: "首页按钮的圆角已改为 8px,深色模式下对比度足够。",
  secondDone: "表格页的按钮已使用同样的 8px 圆角。",
  question: "表格自己的按钮也要改吗?",
  options: ["只改搜索按钮", "全部都改"],
  says: { card: "允许 Baton 这样做吗？", here: "在这里继续", stopped: "已停止" },
};

const BUTTON = '<button class="btn btn-primary" id="btnNavbarSearch" type="button">';
const ROUNDED = '<button class="btn btn-primary" id="btnNavbarSearch" type="button" style="border-radius: 8px">';

/** The second task knows the radius from the first one's state only: its rule doesn't hold without the fact. */
function script(words) {
  const call = (name, args) => ({ name, arguments: args });
  const rule = (user, results, reply, more = {}) => ({ when: { last_user_contains: user, results, ...more }, reply });
  return [
    rule(words.first, 0, { thinking: "Two steps.", text: "…", calls: [
      call("set_plan", { steps: [{ id: "radius", title: words.steps[0] }, { id: "contrast", title: words.steps[1], depends_on: ["radius"] }] }),
      call("start_step", { step_id: "radius" }),
      call("find_text", { pattern: "btnNavbarSearch", path: "index.html", literal: true }),
    ] }),
    rule(words.first, 3, { calls: [
      call("read_file", { path: "index.html", start_line: 15, end_line: 30 }),
      call("edit_file", { path: "index.html", old_text: BUTTON, new_text: ROUNDED }),
      call("record_fact", { key: "button.corner_radius", value: "8px", scope: "session", source: "the user" }),
    ] }),
    rule(words.first, 6, { calls: [
      call("finish_step", { step_id: "radius", conclusion: "8px", product: "index.html" }),
      call("start_step", { step_id: "contrast" }),
      call("run_command", { argv: ["sh", "-c", "echo checked >> contrast.txt; grep -c btn-primary index.html"] }),
    ] }),
    rule(words.first, 9, { calls: [call("finish_step", { step_id: "contrast", conclusion: "7.2 : 1" }), call("finish_task", { summary: words.firstDone })] }),
    rule(words.second, 0, { calls: [call("ask_user", { question: words.question, options: words.options })] }, { system_contains: ["button.corner_radius = 8px"] }),
    rule(words.second, 1, { calls: [
      call("read_file", { path: "tables.html", start_line: 15, end_line: 30 }),
      call("edit_file", { path: "tables.html", old_text: BUTTON, new_text: ROUNDED }),
    ] }, { last_result_contains: words.options[0] }),
    rule(words.second, 3, { calls: [call("finish_task", { summary: words.secondDone })] }),
    rule(words.third, 0, { calls: [call("run_command", { argv: ["sh", "-c", "sleep 600"] })] }),
  ];
}

const PHONE = { name: "Phone", size: [390, 844], touch: true };
const TABLET = { name: "Tablet", size: [820, 1180], touch: true };
const DESK = { name: "Desk", size: [1440, 900], touch: false };

let browser;
before(async () => {
  if (!skip) browser = await launch();
});
after(() => browser?.close());

/** A page of its own device. Every change that comes in over its socket is kept, in order of arrival. */
async function end(hub, { name, size, touch }, locale) {
  const own = await context(browser, hub, { size, touch, locale });
  const page = await own.newPage();
  Object.assign(page, { end: name, troubles: [], changes: [] });
  page.on("pageerror", (error) => page.troubles.push(String(error)));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !/Failed to load resource|WebSocket connection|Service Worker registration blocked/.test(message.text())) page.troubles.push(message.text());
  });
  page.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => {
    const frame = JSON.parse(String(payload));
    if (frame.type === "change") page.changes.push({ session_id: frame.session_id, seq: frame.seq, type: frame.event.type });
    if (frame.type === "view") page.changes.push({ session_id: frame.session_id, seq: frame.seq, type: "(view)" });
  }));
  return page;
}

const live = (page) => page.locator("[data-testid=connection][data-state=live]").first().waitFor({ state: "attached" });
const composer = (page) => page.getByTestId("composer").last();
const openCard = (page) => page.locator("[data-testid=approval][data-open-card=true]");
const steps = (page, status) => page.locator(`[data-testid=plan-step][data-status=${status}]`);

async function say(page, words) {
  await composer(page).fill(words);
  await page.getByTestId("send").last().click();
}

async function joinByLink(page, link) {
  await page.goto(link);
  await page.getByTestId("pair-name").fill(page.end);
  await page.getByTestId("pair-start").click();
  await live(page);
  assert.ok(!page.url().includes("invite="), "the link stays in the address");
}

/** The new end shows a code; the other one types it in. */
async function joinByCode(page, hub, trusted) {
  await page.goto(hub.origin);
  await page.getByTestId("pair-name").fill(page.end);
  await page.getByTestId("pair-start").click();
  const code = await page.getByTestId("device-code").innerText();
  await trusted.getByTestId("devices").first().click();
  await trusted.getByTestId("approve-device").click();
  await trusted.getByTestId("approve-code").fill(code);
  await trusted.getByTestId("approve-check").click();
  await letIn(page, trusted);
}

/** The new end shows a QR code; a trusted one that opens its link is asked. */
async function joinByPicture(page, hub, trusted) {
  await page.goto(hub.origin);
  await page.getByTestId("pair-name").fill(page.end);
  await page.getByTestId("pair-start").click();
  const code = await page.getByTestId("device-code").innerText();
  await trusted.goto(`${hub.origin}/#pair=${code}`);
  await trusted.reload();
  await letIn(page, trusted);
}

async function letIn(page, trusted) {
  await trusted.getByTestId("pairing-preview").filter({ hasText: page.end }).waitFor();
  await trusted.getByTestId("approve-as-trusted").click();
  await live(page);
  await trusted.keyboard.press("Escape");
  await trusted.locator("dialog[open]").waitFor({ state: "detached" });
}

/** What stands in the conversation, from its first entry to its last, whatever is drawn at a time. */
async function entries(page) {
  return page.getByTestId("timeline").evaluate(async (box) => {
    const found = [];
    const frame = () => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));
    for (let top = 0; ; top += box.clientHeight / 2) {
      box.scrollTop = top;
      await frame();
      for (const each of box.querySelectorAll("[data-id]")) {
        const entry = `${each.dataset.testid} ${each.dataset.state ?? each.dataset.role} ${each.dataset.id}`;
        if (!found.includes(entry)) found.push(entry);
      }
      if (top + box.clientHeight >= box.scrollHeight) break;
    }
    return found;
  });
}

/** No gap, no repeat, nothing out of order: an end's stream is the log. */
async function sawTheLog(page, hub, cookie, sessionId) {
  const log = [];
  for (;;) {
    const { changes } = await hub.call(cookie, "GET", `/v1/sessions/${sessionId}/events?after=${log.length}&limit=500`);
    if (changes.length === 0) break;
    for (const change of changes) log.push(change.event.type);
  }
  let last = 0;
  for (const change of page.changes.filter((each) => each.session_id === sessionId)) {
    if (change.type === "(view)") {
      assert.ok(change.seq >= last, `${page.end} was shown an older view: ${change.seq} after ${last}`);
    } else {
      assert.equal(change.seq, last + 1, `${page.end}'s stream has a gap or a repeat`);
      assert.equal(change.type, log[change.seq - 1], `${page.end}: event ${change.seq}`);
    }
    last = change.seq;
  }
  assert.equal(last, log.length, `${page.end} saw the log to its end`);
}

async function fits(page, what) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${page.end}, ${what}: the page scrolls sideways by ${wide}`);
}

const ROADS = [
  { from: PHONE, to: DESK, join: joinByCode },
  { from: TABLET, to: PHONE, join: joinByPicture },
  { from: DESK, to: TABLET, join: joinByCode },
];

for (const words of [ENGLISH, CHINESE]) {
  for (const { from, to, join } of ROADS) {
    test(`the road in ${words.locale}: begun on the ${from.name.toLowerCase()}, gone on with on the ${to.name.toLowerCase()}`, { skip }, async () => {
      const hub = await Hub.start({ script: script(words), template: TEMPLATE, git: true });
      const published = (name) => readFileSync(`${TEMPLATE}/${name}`, "utf8");
      const file = (name) => readFileSync(`${hub.workspace}/${name}`, "utf8");
      try {
        const here = await end(hub, from, words.locale);
        const there = await end(hub, to, words.locale);
        await joinByLink(here, hub.link);
        await join(there, hub, here);
        const [{ name, value }] = await here.context().cookies();
        const cookie = `${name}=${value}`;

        // Begun here: the plan stands with its first step ticked, and what has to be allowed is asked in place, on both ends.
        await here.goto(`${hub.origin}/#/`);
        await say(here, words.first);
        await openCard(here).waitFor();
        const sessionId = here.url().split("/").at(-1);
        assert.ok((await openCard(here).innerText()).includes(words.says.card));
        assert.equal(await steps(here, "done").count(), 1);
        assert.equal(await steps(here, "running").count(), 1);
        assert.equal(await steps(here, "running").evaluate((step) => step.textContent.trim()), words.steps[1]);
        await fits(here, "an approval");
        await there.locator(`[data-testid=session-item][href$="${sessionId}"]`).click();
        await openCard(there).waitFor();
        await fits(there, "an approval");
        await openCard(here).getByTestId("approve").click();
        await there.locator("[data-testid=approval][data-state=approved]").filter({ hasText: from.name }).waitFor();
        assert.equal(await openCard(there).count(), 0);
        for (const page of [here, there]) {
          await page.locator("[data-testid=message][data-role=agent]").filter({ hasText: words.firstDone }).waitFor();
          await steps(page, "done").nth(1).waitFor({ state: "attached" });
          assert.equal(await steps(page, "done").count(), 2);
        }
        assert.equal(file("index.html"), published("index.html").replace(BUTTON, ROUNDED));
        assert.equal(file("contrast.txt"), "checked\n");

        // Gone on with there, by the session's own state: nothing of the first task is said again.
        assert.ok((await there.getByTestId("continue-here").innerText()).includes(words.says.here));
        await there.getByTestId("continue-here").click();
        await there.locator("[data-testid=holder][data-self=true]").waitFor();
        await here.locator("[data-testid=holder][data-self=false]").filter({ hasText: to.name }).waitFor();
        await say(there, words.second);
        const question = (page) => page.locator("[data-testid=question][data-open-card=true]");
        await question(there).waitFor();
        await question(here).filter({ hasText: words.question }).waitFor();
        await question(here).getByTestId("question-option").filter({ hasText: words.options[0] }).click();
        await there.locator("[data-testid=question][data-state=answered]").filter({ hasText: words.options[0] }).filter({ hasText: from.name }).waitFor();
        for (const page of [here, there]) await page.locator("[data-testid=message][data-role=agent]").filter({ hasText: words.secondDone }).waitFor();
        assert.equal(file("tables.html"), published("tables.html").replace(BUTTON, ROUNDED));
        await until(hub, cookie, sessionId, (head) => head.activity === "idle", "the end of the second task");

        // What it has changed is shown by file, and taken back; what the first task did stays.
        if (!(await there.getByTestId("show-diff").first().isVisible())) await there.locator(".plan-top summary").first().click();
        await there.getByTestId("show-diff").first().click();
        const shown = there.locator("[data-testid=diff-file][data-path='tables.html']");
        await shown.waitFor();
        // Lines are laid out when they come near the view, and that takes a moment.
        await there.waitForFunction((wanted) => document.querySelector("[data-testid=diff-file][data-path='tables.html']")?.innerText.includes(wanted), `+${" ".repeat(20)}${ROUNDED}`);
        assert.equal(await there.getByTestId("diff-file").count(), 1);
        await fits(there, "a diff");
        await there.getByTestId("undo").click();
        await there.getByTestId("undo-yes").click();
        for (const page of [here, there]) await page.locator("[data-testid=call][data-tool=undo][data-state=succeeded]").waitFor();
        assert.equal(file("tables.html"), published("tables.html"));
        assert.equal(file("index.html"), published("index.html").replace(BUTTON, ROUNDED));
        await until(hub, cookie, sessionId, (head) => head.activity === "idle", "the end of the undoing");

        // Said here, it comes back here; what runs is stopped from there.
        await say(here, words.third);
        await openCard(here).getByTestId("approve").click();
        await here.locator("[data-testid=holder][data-self=true]").waitFor();
        await there.locator("[data-testid=call][data-state=started]").waitFor();
        await there.getByTestId("stop").click();
        for (const page of [here, there]) {
          await page.locator("[data-testid=call][data-state=cancelled]").waitFor();
          await page.getByTestId("stop").waitFor({ state: "detached" });
          await page.locator("[data-testid=turn-end][data-state=interrupted]").filter({ hasText: words.says.stopped }).waitFor();
        }

        // The same entries in the same order on both ends, and as the hub has them.
        const view = await until(hub, cookie, sessionId, (head) => head.activity === "idle", "rest");
        const [left, right] = [await entries(here), await entries(there)];
        assert.deepEqual(left, right);
        const told = view.entities.filter(({ kind }) => kind === "message" || kind === "call").sort((a, b) => a.created_seq - b.created_seq).map(({ id }) => id);
        assert.deepEqual(left.filter((entry) => /^(message|call) /.test(entry)).map((entry) => entry.split(" ").at(-1)), told);
        for (const page of [here, there]) {
          await sawTheLog(page, hub, cookie, sessionId);
          assert.deepEqual(page.troubles, [], page.end);
        }
        const asked = await (await fetch(new URL("/script/requests", hub.modelUrl))).json();
        assert.deepEqual(asked.filter((request) => request.rule === null), [], "the model was asked something that its script doesn't know");
      } finally {
        for (const each of browser.contexts()) await each.close();
        await hub.stop();
      }
    });
  }
}
