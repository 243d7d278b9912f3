// One hub, one browser, a desk and a phone for the tests of a file, and the gestures that they share.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { context, Hub, launch, missing, open, operate, until } from "./hub.mjs";
import { FILES, SCRIPT } from "./scenes.mjs";

export const skip = missing();
export const PHONE = [390, 844];
export let hub;
export let browser;
/** Cookies: each is a device. */
export let desk;
export let phone;

before(async () => {
  if (skip) return;
  [hub, browser] = await Promise.all([Hub.start({ script: SCRIPT, files: FILES, git: true }), launch()]);
  desk = await hub.pair(hub.link, "Ada's desk", "web");
  phone = await hub.invite(desk, "trusted", "Ada's phone", "phone");
  for (;;) {
    const { devices } = await hub.call(desk, "GET", "/v1/devices");
    if (devices.some((device) => device.online && device.workspaces?.length)) break;
    await new Promise((next) => setTimeout(next, 25));
  }
});
after(async () => {
  await browser?.close();
  await hub?.stop();
});

/** A session in which something was said, once it stands as wanted. */
export async function session(text, holds = waits, who = desk) {
  const made = await operate(hub, who, { intent: "new_session", payload: {} });
  await operate(hub, who, { intent: "say", payload: { text }, session_id: made.session_id, epoch: made.epoch });
  await until(hub, desk, made.session_id, holds, text);
  return made.session_id;
}
export const waits = (head) => head.waiting > 0;
export const rests = (head) => head.activity === "idle";

export async function at(sessionId, { who = desk, ...options } = {}) {
  const own = await context(browser, hub, { cookie: who, ...options });
  const page = await open(own, hub, `#/sessions/${sessionId}`);
  await page.locator("[data-testid=timeline][data-loaded=true]").waitFor();
  return page;
}
export const card = (page) => page.locator("[data-testid=approval][data-open-card=true]");
export const composer = (page) => page.getByTestId("composer").last();
export const done = async (page) => {
  assert.deepEqual(page.troubles, []);
  await page.context().close();
};
export const inView = (locator) => locator.evaluate((element) => {
  const { top, bottom, left, right } = element.getBoundingClientRect();
  const there = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
  return top >= 0 && left >= 0 && bottom <= innerHeight && right <= innerWidth && element.contains(there);
});

/** The operations that a page sends from its next load on. */
export function framesOf(page) {
  const frames = [];
  page.on("websocket", (socket) => socket.on("framesent", ({ payload }) => {
    const frame = JSON.parse(String(payload));
    if (frame.type === "op") frames.push(frame);
  }));
  return frames;
}
