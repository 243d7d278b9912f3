// A development fixture only: pictures of the page's main states, taken against the mock. `node web/dev/shots.mjs DIRECTORY [NAME…]`
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";

const [directory = "/tmp/shots", ...only] = process.argv.slice(2);
mkdirSync(directory, { recursive: true });
const PORT = 8098;
const ORIGIN = `http://127.0.0.1:${PORT}`;
const mock = spawn(process.execPath, [new URL("mock.mjs", import.meta.url).pathname], { env: { ...process.env, PORT: String(PORT), PAIR_AFTER: "9999" }, stdio: ["ignore", "pipe", "inherit"] });
await new Promise((ready) => mock.stdout.once("data", ready));
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
const id = (n) => `01990000-0000-7000-8000-${String(n).padStart(12, "0")}`;

const SIZES = { phone: [390, 844], small: [320, 568], tablet: [820, 1180], desk: [1280, 800] };
const problems = [];

async function shot(name, size, scheme, { paired = true, hash = "", locale = "en", act } = {}) {
  const label = `${name}-${size}-${scheme}`;
  if (only.length > 0 && !only.some((each) => label.includes(each))) return;
  const [width, height] = SIZES[size];
  const touch = size !== "desk";
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, locale, hasTouch: touch, isMobile: touch, deviceScaleFactor: 1 });
  if (paired) await context.addCookies([{ name: "baton", value: "1", url: ORIGIN }]);
  const page = await context.newPage();
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && !/401/.test(message.text()) && problems.push(`${label}: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(`${label}: ${error}`));
  await page.goto(`${ORIGIN}/${hash}`);
  await page.waitForSelector(paired ? "[data-testid=connection][data-state=live]" : "[data-testid=pair-name]", { state: "attached" });
  if (hash.includes("sessions/")) await page.waitForSelector("[data-testid=timeline][data-loaded=true]");
  await act?.(page);
  await page.waitForTimeout(300);
  const wide = await page.evaluate((width) => [...document.querySelectorAll("body *")].filter((each) => each.checkVisibility() && each.getBoundingClientRect().right > width + 1).map((each) => each.className || each.tagName), width);
  if (wide.length > 0) problems.push(`${label}: beyond the right edge: ${[...new Set(wide)].join(", ")}`);
  const small = await page.evaluate(() =>
    [...document.querySelectorAll("button, a.icon-button, summary, input, select, textarea")]
      .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height > 0 && each.getBoundingClientRect().height < 43.5 && !each.classList.contains("copy"))
      .map((each) => `${each.className || each.tagName} ${Math.round(each.getBoundingClientRect().height)}`),
  );
  if (small.length > 0) problems.push(`${label}: small targets ${[...new Set(small)].join(", ")}`);
  await page.screenshot({ path: `${directory}/${label}.png` });
  await context.close();
}

const session = (n) => `#/sessions/${id(n)}`;
const type = (text) => async (page) => {
  await page.getByTestId("composer").last().fill(text);
};
for (const scheme of ["light", "dark"]) {
  for (const size of ["phone", "small", "tablet", "desk"]) {
    await shot("pair", size, scheme, { paired: false, hash: "#invite=good" });
    await shot("home", size, scheme);
    await shot("session", size, scheme, { hash: session(10) });
    await shot("chinese", size, scheme, { hash: session(11), locale: "zh-CN" });
    await shot("devices", size, scheme, { act: (page) => page.getByTestId("devices").click() });
  }
  for (const size of ["small", "phone", "tablet", "desk"]) {
    await shot("delivery", size, scheme, { hash: session(15), act: type("Also the ones from the old camera, please, if there is time") });
    await shot("behind", size, scheme, { hash: session(16) });
    await shot("paused", size, scheme, { hash: session(17) });
    await shot("paused-chinese", size, scheme, { hash: session(17), locale: "zh-CN" });
    await shot("continue", size, scheme, { hash: session(15), act: async (page) => { await page.getByTestId("continue-on").click(); await page.waitForSelector("[data-testid=handoff-target]"); } });
    await shot("handing", size, scheme, { hash: session(18) });
    await shot("offered", size, scheme, { hash: session(19), act: async (page) => { await page.waitForSelector("[data-testid=handoff-offer] dl"); } });
    await shot("offer", size, scheme, { hash: session(13), act: async (page) => { await fetch(`${ORIGIN}/dev/offer`, { headers: { cookie: "baton=1" } }); await page.waitForSelector("[data-testid=handoff-offer]"); } });
    await shot("shortened", size, scheme, { hash: session(21), act: async (page) => { await page.getByTestId("call").first().locator("summary").click(); await page.waitForSelector("[data-testid=show-all]"); } });
    await shot("edit", size, scheme, { act: async (page) => { await page.getByTestId("devices").click(); for (const n of [0, 1]) await page.getByTestId("device-edit").nth(n).click(); } });
    await shot("signout", size, scheme, { act: async (page) => { await page.getByTestId("devices").click(); await page.getByTestId("device-edit").first().click(); await page.getByTestId("sign-out").click(); } });
  }
  await shot("code", "small", scheme, { paired: false, act: async (page) => { await page.getByTestId("pair-start").click(); await page.waitForSelector("[data-testid=device-code]"); } });
  await shot("badlink", "phone", scheme, { paired: false, hash: "#invite=bad", act: async (page) => { await page.getByTestId("pair-start").click(); await page.waitForSelector("[data-testid=trouble]"); } });
  await shot("sessiontop", "phone", scheme, { hash: session(10), act: async (page) => { await page.evaluate(() => { document.querySelector("[data-testid=timeline]").scrollTop = 0; }); await page.getByTestId("call").first().locator("summary").click(); } });
  await shot("plan", "phone", scheme, { hash: session(10), act: (page) => page.locator(".plan-top summary").first().click() });
  await shot("confirm", "phone", scheme, { hash: session(10), act: async (page) => { await page.getByTestId("approve").click(); await page.waitForSelector("[data-testid=confirm-step]"); } });
  await shot("long", "small", scheme, { hash: session(14) });
  await shot("long", "phone", scheme, { hash: session(14) });
  await shot("slash", "phone", scheme, { hash: session(13), act: type("/") });
  await shot("approve", "phone", scheme, { act: async (page) => { await page.getByTestId("devices").click(); await page.getByTestId("approve-device").click(); await page.getByTestId("approve-code").fill("kxrm7fwq"); await page.getByTestId("approve-check").click(); await page.waitForSelector("[data-testid=pairing-preview]"); } });
  for (const size of ["phone", "desk"]) {
    await shot("stream", size, scheme, { hash: session(13), act: async (page) => { await type("Tell me more")(page); await page.getByTestId("send").last().click(); await page.waitForSelector("[data-streaming=true]"); await page.waitForTimeout(700); } });
    await shot("held", size, scheme, { hash: session(13), act: async (page) => { for (const text of ["stale", "big"]) { await type(text)(page); await page.getByTestId("send").last().click(); await page.waitForTimeout(150); } } });
    await shot("offline", size, scheme, { hash: session(13), act: async (page) => { await page.context().setOffline(true); await page.waitForSelector("[data-testid=connection][data-state=offline]", { state: "attached" }); await type("Later, please")(page); await page.getByTestId("send").last().click(); } });
    await fetch(`${ORIGIN}/dev/model`, { headers: { cookie: "baton=1" } });
    await shot("nomodel", size, scheme);
    await fetch(`${ORIGIN}/dev/model`, { headers: { cookie: "baton=1" } });
  }
}
await fetch(`${ORIGIN}/dev/empty`, { headers: { cookie: "baton=1" } });
await shot("empty", "phone", "light");
await shot("empty", "desk", "light");
await browser.close();
mock.kill();
console.log(problems.length === 0 ? "no problems" : [...new Set(problems)].join("\n"));
