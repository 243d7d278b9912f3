// The console in a real Chromium for everyone: by keys alone, at 200 %, without motion, in either scheme.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { context, open, until } from "./hub.mjs";
import { PHONE, at, browser, card, composer, desk, done, hub, phone, rests, session, skip } from "./house.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Presses Tab until the wanted part has the focus. What it stops at must be visible, and show that it has the focus. */
async function tabTo(page, testId, most = 60) {
  for (let presses = 0; presses < most; presses += 1) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const element = document.activeElement;
      if (!element || element === document.body) return null;
      const { width, height } = element.getBoundingClientRect();
      const style = getComputedStyle(element);
      const shows = style.outlineStyle !== "none" || getComputedStyle(element.parentElement).outlineStyle !== "none";
      return { testId: element.dataset.testid ?? "", label: element.getAttribute("aria-label") ?? element.textContent.slice(0, 40), seen: width > 0 && height > 0 && element.checkVisibility(), shows };
    });
    if (!at) continue;
    assert.ok(at.seen, `the focus is on something that isn't seen: ${JSON.stringify(at)}`);
    assert.ok(at.shows, `nothing shows where the focus is: ${JSON.stringify(at)}`);
    if (at.testId === testId) return;
  }
  assert.fail(`${testId} isn't reached by Tab`);
}

for (const [name, size] of [["desk", [1440, 900]], ["phone", PHONE]]) {
  test(`ux29 from pairing to approving to sending by keyboard alone, at the size of a ${name}`, { skip }, async () => {
    const own = await context(browser, hub, { size });
    const page = await own.newPage();
    await page.goto(hub.origin);
    await page.getByTestId("pair-name").waitFor();
    await tabTo(page, "pair-name");
    await page.keyboard.press("Control+a");
    await page.keyboard.type(`By keys on a ${name}`);
    await page.keyboard.press("Enter");
    const code = await page.getByTestId("device-code").innerText();
    const { number } = await hub.call(desk, "GET", `/v1/pairings/${code}`);
    await hub.call(desk, "POST", `/v1/pairings/${code}/approve`, { trust: "trusted", number });
    await page.locator("[data-testid=connection][data-state=live]").first().waitFor({ state: "attached" });
    await tabTo(page, "composer");
    await page.keyboard.type("Round the search button to 8px");
    await page.keyboard.press("Enter");
    await card(page).waitFor();
    await tabTo(page, "approve");
    await page.keyboard.press("Enter");
    await page.locator("[data-testid=approval][data-state=approved]").waitFor();
    await page.getByTestId("message").filter({ hasText: "contrast is good enough" }).waitFor();
    await tabTo(page, "composer");
    await page.keyboard.type("Thank you");
    await page.keyboard.press("Enter");
    await page.getByTestId("message").and(page.locator("[data-id]")).filter({ hasText: "Thank you" }).waitFor();
    await own.close();
  });
}

test("ux29 at 200 % nothing is cut off, and what acts can be reached", { skip }, async () => {
  // A window of 1440 × 900 at 200 % has room for half of it.
  const own = await context(browser, hub, { cookie: desk, size: [720, 450], deviceScaleFactor: 2 });
  const id = await session("Round the search button to 8px");
  const page = await open(own, hub);
  const fits = async (what) => assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, `${what}: the page scrolls sideways`);
  const reached = async (testId) => {
    const part = page.getByTestId(testId).last();
    await part.scrollIntoViewIfNeeded();
    await part.click({ trial: true });
  };
  await page.getByTestId("session-item").first().waitFor();
  await fits("home");
  await reached("composer");
  await page.goto(`${hub.origin}/#/sessions/${id}`);
  await card(page).waitFor();
  await fits("an approval");
  for (const part of ["approve", "reject", "remember", "composer", "session-menu"]) await reached(part);
  await card(page).getByTestId("approve").click();
  await until(hub, desk, id, rests, "the end");
  await page.locator(".plan-top summary").first().click();
  await page.getByTestId("show-diff").first().click();
  await page.getByTestId("diff-file").first().waitFor();
  await fits("a diff");
  await reached("undo");
  await page.getByTestId("diff-close").click();
  await page.goto(`${hub.origin}/#/`);
  await page.getByTestId("devices").first().click();
  await page.getByTestId("device").first().waitFor();
  await fits("the devices");
  await reached("approve-device");
  await done(page);
});

test("ux29 who wants no motion gets none, also while the agent works", { skip }, async () => {
  const id = await session("Take your time");
  const page = await at(id, { reducedMotion: "reduce" });
  await card(page).getByTestId("approve").click();
  await page.locator("[data-testid=call][data-state=started]").waitFor();
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  await page.getByTestId("stop").click();
  await page.locator("[data-testid=call][data-state=cancelled]").waitFor();
  await done(page);
});

test("ux29 streaming is said once it is complete, not word by word", { skip }, async () => {
  const page = await at(await session("Is the README any good?", rests));
  await page.evaluate(() => {
    globalThis.said = [];
    for (const region of document.querySelectorAll("[aria-live=polite]")) new MutationObserver(() => region.textContent && globalThis.said.push(region.textContent)).observe(region, { childList: true, characterData: true, subtree: true });
  });
  await composer(page).fill("Tell me a lot");
  await composer(page).press("Enter");
  await page.getByText("Paragraph 40 of").waitFor();
  await page.waitForFunction(() => globalThis.said.length > 0);
  assert.deepEqual(await page.evaluate(() => globalThis.said), ["Baton has answered."]);
  assert.equal(await page.getByTestId("timeline").getAttribute("aria-live"), "off");
  await done(page);
});

test("ux29 axe finds nothing serious in the menus, the search, a file and the diff, in either scheme", { skip }, async () => {
  const id = await session("Where is it said?", rests);
  const changed = await session("Add a line");
  const wrong = [];
  const page = await at(id, { who: phone, size: PHONE, touch: true, bypassCSP: true, reducedMotion: "reduce" });
  await page.evaluate(axe);
  const look = async (name) => {
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
      for (const each of violations.filter((one) => ["serious", "critical"].includes(one.impact))) wrong.push(`${name}, ${colorScheme}: ${each.id}: ${each.nodes[0].target.join(" ")}`);
    }
  };
  await page.getByTestId("session-menu").click();
  await look("menu");
  await page.getByTestId("rename").click();
  await look("rename");
  await page.keyboard.press("Escape");
  await page.getByTestId("session-menu").click();
  await page.getByTestId("pin").click();
  await page.getByTestId("file-link").nth(1).click();
  await page.getByTestId("file-save").waitFor();
  await look("file");
  await page.getByTestId("file-close").click();
  await composer(page).fill("@READ");
  await page.getByTestId("path-option").first().waitFor();
  await look("paths");
  await composer(page).fill("");
  await page.evaluate((where) => { location.hash = where; }, `#/sessions/${changed}`);
  await card(page).getByTestId("approve").click();
  await until(hub, desk, changed, rests, "the end");
  await page.locator(".plan-top summary").first().click();
  await page.getByTestId("show-diff").first().click();
  await page.getByTestId("diff-number").first().click();
  await look("diff");
  await page.getByTestId("line-comment-remove").click();
  await page.getByTestId("diff-close").click();
  await page.evaluate(() => { location.hash = "#/"; });
  await page.getByTestId("filter").fill("README");
  await page.getByTestId("search-hit").first().waitFor();
  await look("search");
  await page.getByTestId("filter").fill("");
  assert.deepEqual(wrong, []);
  await done(page);
});
