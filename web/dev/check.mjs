// Checks the page's main states against the mock: axe's rules in both schemes, a few gestures, and a session of 10,000
// entries. `npm run build && node web/dev/check.mjs`; ends with 1 when something is wrong.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const PORT = 8097;
const ORIGIN = `http://127.0.0.1:${PORT}`;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const mock = spawn(process.execPath, [new URL("mock.mjs", import.meta.url).pathname], { env: { ...process.env, PORT: String(PORT), PAIR_AFTER: "9999" }, stdio: ["ignore", "pipe", "inherit"] });
await new Promise((ready) => mock.stdout.once("data", ready));
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
const id = (n) => `01990000-0000-7000-8000-${String(n).padStart(12, "0")}`;
const session = (n) => `#/sessions/${id(n)}`;
const wrong = [];

async function open({ scheme = "light", size = [390, 844], hash = "", paired = true, locale = "en" } = {}) {
  const context = await browser.newContext({ viewport: { width: size[0], height: size[1] }, colorScheme: scheme, locale, bypassCSP: true, reducedMotion: "reduce" });
  if (paired) await context.addCookies([{ name: "baton", value: "1", url: ORIGIN }]);
  const page = await context.newPage();
  page.on("pageerror", (error) => wrong.push(`${hash}: ${error}`));
  await page.goto(`${ORIGIN}/${hash}`);
  await page.waitForSelector(paired ? "[data-testid=connection][data-state=live]" : "[data-testid=pair-name]", { state: "attached" });
  if (hash.includes("sessions/")) await page.waitForSelector("[data-testid=timeline][data-loaded=true]");
  return page;
}

async function inspect(name, options, act) {
  for (const scheme of ["light", "dark"]) {
    for (const size of [[390, 844], [1280, 800]]) {
      const page = await open({ ...options, scheme, size });
      await act?.(page);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
      for (const each of violations) {
        const line = `${name} ${scheme} ${size[0]}: ${each.impact} ${each.id}: ${each.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(" | ")}`;
        if (["serious", "critical"].includes(each.impact)) wrong.push(line);
        else console.log(`minor: ${line}`);
      }
      await page.context().close();
    }
  }
}

function expect(holds, words) {
  if (!holds) wrong.push(words);
}

await inspect("pairing", { paired: false, hash: "#invite=good" });
await inspect("code", { paired: false }, async (page) => { await page.getByTestId("pair-start").click(); await page.waitForSelector("[data-testid=device-code]"); });
await inspect("home", {});
await inspect("approval", { hash: session(10) });
await inspect("questions", { hash: session(11), locale: "zh-CN" });
await inspect("delivery", { hash: session(15) }, (page) => page.getByTestId("composer").last().fill("Also the videos"));
await inspect("commands", { hash: session(13) }, (page) => page.getByTestId("composer").last().fill("/"));
await inspect("behind", { hash: session(16) });
await inspect("paused", { hash: session(17) });
await inspect("continue on", { hash: session(15) }, (page) => page.getByTestId("continue-on").click());
await inspect("handing", { hash: session(18) });
await inspect("offered", { hash: session(19) }, (page) => page.waitForSelector("[data-testid=handoff-offer]"));
await inspect("shortened", { hash: session(21) }, (page) => page.getByTestId("call").first().locator("summary").click());
await inspect("devices", {}, async (page) => { await page.getByTestId("devices").click(); for (const n of [0, 1]) await page.getByTestId("device-edit").nth(n).click(); });

// Gestures.
{
  const page = await open({ hash: session(15) });
  expect((await page.getByTestId("unread").count()) === 1 && (await page.getByTestId("queued").count()) === 1, "what waits is marked");
  const sent = [];
  page.on("websocket", (socket) => socket.on("framesent", ({ payload }) => sent.push(JSON.parse(String(payload)))));
  await page.reload();
  await page.waitForSelector("[data-testid=connection][data-state=live]", { state: "attached" });
  for (const [button, delivery] of [["send-queue", "queue"], ["send-interrupt", "interrupt"], ["send", "steer"]]) {
    await page.getByTestId("composer").last().fill(`by ${delivery}`);
    await page.getByTestId(button).last().click();
    await page.waitForFunction(() => document.querySelector("[data-testid=composer]").value === "");
    await page.waitForTimeout(100);
    expect(sent.some((frame) => frame.type === "op" && frame.payload.delivery === delivery), `nothing was sent by ${delivery}`);
  }
  await page.context().close();
}
{
  const page = await open({ hash: session(21) });
  await page.getByTestId("call").first().locator("summary").click();
  await page.getByTestId("show-all").click();
  await page.getByTestId("show-all").waitFor({ state: "detached" });
  const code = page.locator(".call-body .code").nth(1);
  await code.locator(".fold").click();
  expect((await code.innerText()).includes("test number_500 ... ok"), "the whole result is not shown");
  expect((await page.getByTestId("approval").innerText()).includes("the files it was about have changed"), "a voided approval doesn't say why");
  await page.context().close();
}
{
  const page = await open({ hash: session(19) });
  await page.getByTestId("offer-accept").click();
  await page.getByTestId("handoff-offer").waitFor({ state: "detached" });
  expect((await page.getByTestId("holder").getAttribute("data-self")) === "true", "the offer was accepted, and the session isn't here");
  await page.context().close();
}
{
  const page = await open();
  await page.getByTestId("devices").click();
  await page.getByTestId("device-edit").first().click();
  await page.getByTestId("device-name").fill("Pocket");
  await page.getByTestId("device-rename").click();
  await page.getByTestId("device").filter({ hasText: "Pocket" }).waitFor();
  await page.getByTestId("device-edit").first().click();
  await page.getByTestId("sign-out").click();
  await page.getByTestId("sign-out-yes").click();
  await page.getByTestId("pair-name").waitFor();
  await page.context().close();
}

// 10,000 entries: opened at the end at once, paged back to the beginning, smooth on the way, and forgotten again at the end.
{
  const page = await open({ hash: session(22) });
  const first = await page.evaluate(() => performance.now());
  expect(await page.getByText("Entry 4999.").isVisible(), "a long session doesn't open at its end");
  let pages = 0;
  await page.evaluate(() => { document.querySelector("[data-testid=timeline]").scrollTop = 0; });
  for (; pages < 400 && (await page.locator(".older").count()) > 0; pages += 1) {
    await page.evaluate(() => document.querySelector(".older")?.click());
    await page.waitForFunction(() => !document.querySelector(".older")?.disabled);
  }
  const rows = await page.locator(".message, .call-group").count();
  expect(rows < 900, `${rows} entries are drawn at once`);
  // To the beginning: what was never drawn comes as it comes into sight, and the beginning is reached.
  await page.evaluate(async () => {
    const box = document.querySelector("[data-testid=timeline]");
    for (let tries = 0; tries < 60 && !document.body.innerText.includes("Entry 0."); tries += 1) {
      box.scrollTop = 0;
      await new Promise((next) => setTimeout(next, 50));
    }
  });
  expect(await page.getByText("Entry 0.").isVisible(), "the beginning of a long session can't be reached");
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  expect(nodes < 20_000, `${nodes} nodes for 10,000 entries`);
  const slow = await page.evaluate(async () => {
    const box = document.querySelector("[data-testid=timeline]");
    const frame = () => new Promise((next) => requestAnimationFrame(next));
    const times = [];
    box.scrollTop = 0;
    for (let step = 0; step < 120; step += 1) {
      const before = performance.now();
      box.scrollTop += 800;
      await frame();
      times.push(performance.now() - before);
    }
    times.sort((a, b) => a - b);
    return { median: times[60], worst: times.at(-1) };
  });
  console.log(`10000 entries: open after ${Math.round(first)} ms, ${pages} pages back; a frame of scrolling takes ${slow.median.toFixed(1)} ms, at worst ${slow.worst.toFixed(1)} ms`);
  expect(slow.median < 34, `scrolling 10000 entries takes ${slow.median} ms a frame`);
  const typed = await page.evaluate(async () => {
    const field = document.querySelector("[data-testid=composer]");
    field.focus();
    const before = performance.now();
    for (let n = 0; n < 10; n += 1) {
      document.execCommand("insertText", false, "x");
      await new Promise((next) => requestAnimationFrame(next));
    }
    return (performance.now() - before) / 10;
  });
  console.log(`a key takes ${typed.toFixed(1)} ms`);
  expect(typed < 100, `typing beside 10000 entries takes ${typed} ms a key`);
  await page.getByTestId("jump").click();
  await page.waitForFunction(() => document.querySelectorAll(".message, .call-group").length <= 400);
  expect(await page.getByText("Entry 4999.").isVisible(), "the end isn't shown after the jump");
  await page.context().close();
}

await browser.close();
mock.kill();
console.log(wrong.length === 0 ? "nothing is wrong" : wrong.join("\n"));
process.exitCode = wrong.length === 0 ? 0 : 1;
