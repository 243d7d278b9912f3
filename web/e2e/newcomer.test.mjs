// The console in a real Chromium for whoever sees it first: what it advises works, and what was asked for is seen.
import assert from "node:assert/strict";
import { test } from "node:test";
import { context, Hub, open, until } from "./hub.mjs";
import { PHONE, at, browser, composer, desk, done, hub, inView, phone, rests, session, skip } from "./house.mjs";

test("without a model it names options of the program that exist, in both languages", { skip }, async () => {
  const bare = await Hub.start({ script: null });
  try {
    const cookie = await bare.pair(bare.link, "Newcomer");
    for (const locale of ["en-US", "zh-CN"]) {
      const page = await open(await context(browser, bare, { cookie, locale }), bare);
      const words = await page.getByTestId("model-missing").first().innerText();
      assert.match(words, /--model-url/);
      assert.doesNotMatch(words, /doctor/);
      await page.context().close();
    }
  } finally {
    await bare.stop();
  }
});

test("what a command of the user's shows is open, and what the agent looks for itself isn't", { skip }, async () => {
  const id = await session("Is the README any good?", rests);
  const page = await at(id, { who: phone, size: PHONE, touch: true });
  await composer(page).fill("/show README.md");
  await composer(page).press("Control+Enter");
  const call = page.locator("[data-testid=call][data-state=succeeded]").last();
  await call.getByText("Apples.").waitFor();
  assert.equal(await call.evaluate((element) => element.open), true);
  // It can be closed, and stays so while the session goes on.
  await call.locator("summary").first().click();
  await composer(page).fill("Thank you");
  await composer(page).press("Control+Enter");
  await page.getByTestId("message").filter({ hasText: "All right." }).nth(1).waitFor();
  assert.equal(await call.evaluate((element) => element.open), false);
  await done(page);
  const other = await at(await session("Round the search button to 8px", (head) => head.waiting > 0));
  assert.equal(await other.locator("[data-testid=call][data-tool=read_file]").evaluate((element) => element.open), false);
  await done(other);
});

test("a refusal comes into sight, however much stands above it", { skip }, async () => {
  const id = await session("Tell me a lot", rests);
  const page = await at(id, { who: phone, size: PHONE, touch: true });
  // The reader is far back, and what was sent is refused.
  await page.getByTestId("timeline").evaluate((element) => (element.scrollTop = 0));
  await page.getByTestId("jump").waitFor();
  await page.getByTestId("session-menu").click();
  await page.getByTestId("rename").click();
  await page.getByTestId("rename-title").evaluate((element) => element.removeAttribute("maxlength"));
  await page.getByTestId("rename-title").fill("x".repeat(2_000));
  await page.keyboard.press("Enter");
  const refused = page.locator("[data-testid=outgoing][data-state=refused]");
  await refused.waitFor();
  await page.getByTestId("jump").waitFor({ state: "detached" });
  await page.waitForFunction(() => {
    const { top, bottom } = document.querySelector("[data-testid=outgoing]").getBoundingClientRect();
    return top >= 0 && bottom <= document.querySelector(".dock").getBoundingClientRect().top;
  });
  assert.ok(await inView(refused.getByRole("button").last()));
  await refused.getByRole("button").last().click();
  await done(page);
});

test("who is at the end stays there, also where something comes in while the page is still on its way", { skip }, async () => {
  const id = await session("Tell me a lot", rests);
  const page = await at(id, { who: phone, size: PHONE, touch: true });
  const timeline = page.getByTestId("timeline");
  const settle = () => page.evaluate(() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next))));
  await timeline.evaluate((element) => (element.scrollTop = element.scrollHeight - element.clientHeight - 50));
  await settle();
  await timeline.evaluate((element) => {
    element.scrollTop = element.scrollHeight;
    const late = document.createElement("div");
    late.style.height = "300px";
    element.querySelector(".timeline-content").append(late);
  });
  await settle();
  assert.ok(await timeline.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight) < 2);
  assert.equal(await page.getByTestId("jump").count(), 0);
  // Who goes back does leave it.
  await timeline.evaluate((element) => (element.scrollTop -= 400));
  await page.getByTestId("jump").waitFor();
  await done(page);
});

test("a new device is let in without a detour: the field has the focus, trust is explained, and an address of this machine only says how to mend it", { skip }, async () => {
  const page = await open(await context(browser, hub, { cookie: desk }), hub);
  await page.getByTestId("devices").first().click();
  await page.getByTestId("approve-device").click();
  assert.equal(await page.evaluate(() => document.activeElement.dataset.testid), "approve-code");
  assert.match(await page.getByTestId("invite-loopback").innerText(), /--tls.*--listen/);
  await page.getByTestId("invite").click();
  const told = [];
  for (const level of ["trusted", "standard", "guest"]) {
    await page.getByTestId("invite-trust").selectOption(level);
    told.push(await page.getByTestId("invite-trust-text").innerText());
  }
  assert.equal(new Set(told).size, 3);
  await page.getByTestId("invite-show").click();
  assert.match(await page.getByTestId("scan-not").innerText(), /--tls.*--listen/);
  await done(page);
});

test("a browser that was revoked says so, and not that it was never paired", { skip }, async () => {
  const cookie = await hub.invite(desk, "standard", "Old laptop");
  const page = await open(await context(browser, hub, { cookie }), hub);
  const { devices } = await hub.call(desk, "GET", "/v1/devices");
  await fetch(`${hub.origin}/v1/devices/${devices.find((device) => device.name === "Old laptop").device_id}`, { method: "DELETE", headers: { cookie: desk, origin: hub.origin } });
  const lead = page.locator(".lead").filter({ hasText: "no longer paired" });
  await lead.waitFor();
  await page.reload();
  await lead.waitFor();
  await page.context().close();
});
