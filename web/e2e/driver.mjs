// Drives a real Chromium for tests: one JSON command a line on standard input, one JSON answer a line on standard output.
// The test decides everything; this file knows nothing of what is tested.
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const WIDTH = Number(process.env.DRIVER_WIDTH ?? 390);
const HEIGHT = Number(process.env.DRIVER_HEIGHT ?? 844);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const context = await browser.newContext({
  viewport: { width: WIDTH, height: HEIGHT },
  hasTouch: WIDTH < 800,
  isMobile: WIDTH < 800,
  locale: process.env.DRIVER_LOCALE ?? "en-US",
});
const page = await context.newPage();

/** Every change that came in over a WebSocket, in order of arrival, by session. */
const changes = [];
const troubles = [];
page.on("websocket", (socket) => {
  socket.on("framereceived", ({ payload }) => {
    if (typeof payload !== "string") return;
    const frame = JSON.parse(payload);
    if (frame.type === "change") changes.push({ session_id: frame.session_id, seq: frame.seq, type: frame.event.type });
    if (frame.type === "view") changes.push({ session_id: frame.session_id, seq: frame.seq, type: "(view)" });
  });
});
page.on("pageerror", (error) => troubles.push(String(error)));
page.on("console", (message) => {
  if (message.type() === "error" && !/Failed to load resource|WebSocket connection|Service Worker registration blocked/.test(message.text())) troubles.push(message.text());
});

const byId = (id, attributes = {}) =>
  page.locator(`[data-testid="${id}"]${Object.entries(attributes).map(([name, value]) => `[data-${name}="${value}"]`).join("")}`);

const commands = {
  goto: ({ url }) => page.goto(url, { waitUntil: "domcontentloaded" }).then(() => null),
  url: () => page.url(),
  fill: ({ id, text }) => byId(id).first().fill(text).then(() => null),
  press: ({ key }) => page.keyboard.press(key).then(() => null),
  click: ({ id, attributes, text, timeout = 30000 }) => {
    const found = byId(id, attributes);
    return (text === undefined ? found : found.filter({ hasText: text })).first().click({ timeout }).then(() => null);
  },
  wait: async ({ id, attributes, text, timeout = 60000, state = "visible" }) => {
    const found = byId(id, attributes);
    await (text === undefined ? found : found.filter({ hasText: text })).first().waitFor({ timeout, state });
    return null;
  },
  count: ({ id, attributes }) => byId(id, attributes).count(),
  texts: ({ id, attributes }) => byId(id, attributes).allInnerTexts(),
  attribute: ({ id, name }) => byId(id).first().getAttribute(name),
  evaluate: ({ script }) => page.evaluate(script),
  screenshot: ({ path }) => page.screenshot({ path, fullPage: false }).then(() => null),
  size: ({ width, height }) => page.setViewportSize({ width, height }).then(() => null),
  reload: () => page.reload({ waitUntil: "domcontentloaded" }).then(() => null),
  changes: () => changes,
  troubles: () => troubles,
  body: () => page.locator("body").innerText(),
};

for await (const line of createInterface({ input: process.stdin })) {
  if (!line.trim()) continue;
  const command = JSON.parse(line);
  try {
    const value = await commands[command.do](command);
    process.stdout.write(`${JSON.stringify({ ok: true, value: value ?? null })}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ ok: false, error: String(error), body: (await page.locator("body").innerText().catch(() => "")).slice(0, 4000) })}\n`);
  }
}
await browser.close();
