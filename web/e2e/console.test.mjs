// The console in a real Chromium against a real hub: what people do with it.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { context, open, until } from "./hub.mjs";
import { PHONE, at, browser, card, composer, desk, done, framesOf, hub, inView, phone, rests, session, skip, waits } from "./house.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SMALL = [320, 568];

test("axe finds nothing serious in any main state, in either scheme", { skip }, async () => {
  const approval = await session("Round the search button to 8px");
  const danger = await session("Delete the old page");
  const question = await session("Which colour should it have?");
  const close = (page) => page.keyboard.press("Escape");
  const phoneStates = [
    ["home", "#/"],
    ["danger", `#/sessions/${danger}`],
    ["question", `#/sessions/${question}`],
    ["devices", "#/", (page) => page.getByTestId("devices").first().click(), close],
    ["approve a device", "#/", async (page) => { await page.getByTestId("devices").first().click(); await page.getByTestId("approve-device").click(); await page.getByTestId("invite").click(); }, close],
    ["unknown session", "#/sessions/0199d2a4-6f00-7a00-8000-00000000ffff", (page) => page.getByTestId("unshown").waitFor()],
    ["board", "#/", (page) => page.setViewportSize({ width: 820, height: 1180 }), (page) => page.setViewportSize({ width: PHONE[0], height: PHONE[1] })],
    ["offline", `#/sessions/${approval}`, async (page) => { await page.context().setOffline(true); await page.locator("[data-testid=connection][data-state=offline]").waitFor({ state: "attached" }); }],
  ];
  const deskStates = [
    ["approval", `#/sessions/${approval}`],
    ["help", "#/", (page) => page.getByTestId("keys").click(), close],
  ];
  const wrong = [];
  const look = async (page, name) => {
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
      for (const each of violations.filter((one) => ["serious", "critical"].includes(one.impact))) wrong.push(`${name}, ${scheme}: ${each.id}: ${each.nodes[0].target.join(" ")}`);
    }
  };
  for (const [cookie, size, states] of [[phone, PHONE, phoneStates], [desk, [1440, 900], deskStates]]) {
    const own = await context(browser, hub, { cookie, size, bypassCSP: true, reducedMotion: "reduce" });
    const page = await open(own, hub);
    await page.evaluate(axe);
    for (const [name, hash, act, leave] of states) {
      await page.evaluate((where) => { location.hash = where; }, hash);
      if (hash !== "#/") await page.locator("[data-testid=timeline][data-loaded=true], [data-testid=unshown]").first().waitFor();
      else await page.getByTestId("session-item").first().waitFor();
      await act?.(page);
      await look(page, name);
      await leave?.(page);
    }
    await own.close();
  }
  const fresh = await context(browser, hub, { size: PHONE, bypassCSP: true, reducedMotion: "reduce" });
  const page = await fresh.newPage();
  await page.goto(hub.origin);
  await page.getByTestId("pair-name").waitFor();
  await page.evaluate(axe);
  await look(page, "pairing");
  await page.getByTestId("pair-start").click();
  await page.getByTestId("device-code").waitFor();
  await look(page, "code");
  await fresh.close();
  assert.deepEqual(wrong, []);
});

test("a draft survives a reload, is the same in a second tab, and goes when it is sent", { skip }, async () => {
  const id = await session("Is the README any good?", rests);
  const page = await at(id);
  await composer(page).fill("half a thought");
  await page.reload();
  assert.equal(await composer(page).inputValue(), "half a thought");
  const tab = await open(page.context(), hub, `#/sessions/${id}`);
  await composer(tab).fill("a whole thought");
  await page.waitForFunction(() => document.querySelector("[data-testid=composer]").value === "a whole thought");
  await composer(page).press("Enter");
  await tab.waitForFunction(() => document.querySelector("[data-testid=composer]").value === "");
  await page.getByTestId("message").filter({ hasText: "a whole thought" }).waitFor();
  assert.equal(await page.getByTestId("message").filter({ hasText: "a whole thought" }).count(), 1);
  await done(page);
});

test("Enter sends on a desk, begins a line on glass, and never ends a composition", { skip }, async () => {
  const id = await session("Is the README any good?", rests);
  const glass = await at(id, { who: phone, size: PHONE, touch: true });
  await composer(glass).fill("one");
  await composer(glass).press("Enter");
  await composer(glass).pressSequentially("two");
  assert.equal(await composer(glass).inputValue(), "one\ntwo");
  await composer(glass).fill("");
  await done(glass);

  const page = await at(id);
  await composer(page).fill("ni hao");
  const sent = await composer(page).evaluate((field) => {
    // As an input method reports the Enter that chooses a candidate: with the flag, or with code 229 after the composition's end.
    for (const about of [{ isComposing: true, keyCode: 13 }, { isComposing: false, keyCode: 229 }]) {
      field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, ...about }));
    }
    return field.value === "";
  });
  assert.equal(sent, false);
  await page.waitForTimeout(100);
  assert.equal(await composer(page).inputValue(), "ni hao");
  await composer(page).fill("");
  await done(page);
});

test("y and n answer the card in sight, a letter in the composer is a letter, and Enter there approves nothing", { skip }, async () => {
  const id = await session("Round the search button to 8px");
  const page = await at(id);
  await composer(page).focus();
  await page.keyboard.type("y");
  assert.equal(await composer(page).inputValue(), "y");
  assert.equal(await card(page).count(), 1);
  await composer(page).fill("");
  await page.keyboard.press("Enter");
  assert.equal(await card(page).count(), 1);
  // Out of the field, and yes.
  await page.keyboard.press("Escape");
  await page.keyboard.press("y");
  await page.locator("[data-testid=approval][data-state=approved]").waitFor();
  await page.getByTestId("message").filter({ hasText: "contrast is good enough" }).waitFor();
  assert.equal(await page.locator("[data-testid=plan-step][data-status=done]").count(), 3);
  await done(page);

  const other = await at(await session("Round the search button to 8px"));
  await card(other).waitFor();
  // Set aside by Escape: nothing is denied by that.
  await other.keyboard.press("w");
  assert.equal(await other.evaluate(() => document.activeElement?.dataset.testid), "approval");
  await other.keyboard.press("Escape");
  assert.equal(await card(other).count(), 1);
  await other.keyboard.press("Escape");
  await other.keyboard.press("n");
  await other.locator("[data-testid=approval][data-state=rejected]").waitFor();
  await done(other);
});

test("what a task has changed is shown by file, and taken back as a whole", { skip }, async (t) => {
  const before = readFileSync(`${hub.workspace}/index.html`, "utf8");
  const id = await session("Add a line");
  const page = await at(id);
  await card(page).getByTestId("approve").click();
  await until(hub, desk, id, rests, "the end");
  const task = (await hub.call(desk, "GET", `/v1/sessions/${id}`)).entities.find((entity) => entity.kind === "task").id;
  if ((await hub.call(desk, "GET", `/v1/sessions/${id}/diff?task=${task}`)).code === "not_found") return t.skip("this hub tells no changes");
  await page.locator("body").press("v");
  await page.locator("[data-testid=diff-file][data-path='added.txt']").waitFor();
  await page.getByTestId("undo").click();
  await page.getByTestId("undo-yes").click();
  await page.locator("[data-testid=call][data-tool=undo][data-state=succeeded]").waitFor();
  assert.equal(existsSync(`${hub.workspace}/added.txt`), false);
  assert.equal(readFileSync(`${hub.workspace}/index.html`, "utf8"), before);
  await done(page);
});

test("a dangerous card has the refusal first, and what is allowed is asked twice", { skip }, async () => {
  const page = await at(await session("Delete the old page"), { who: phone, size: PHONE, touch: true });
  assert.equal(await page.evaluate(() => document.activeElement?.dataset.testid ?? null), null);
  const buttons = await card(page).locator(".card-actions button").evaluateAll((all) => all.map((each) => each.dataset.testid));
  assert.deepEqual(buttons.slice(0, 2), ["reject", "approve"]);
  await card(page).getByTestId("approve").click();
  await card(page).getByTestId("confirm-yes").waitFor();
  await card(page).getByTestId("confirm-no").click();
  // What is dangerous can't be remembered, and a refusal may say what should be done instead.
  assert.equal(await card(page).getByTestId("remember").count(), 0);
  const sent = framesOf(page);
  await page.reload();
  await card(page).getByTestId("reject-explain").click();
  await page.getByTestId("reject-why").fill("Keep it for now");
  await page.getByTestId("reject-because").click();
  await page.locator("[data-testid=approval][data-state=rejected]").waitFor();
  assert.equal(sent.find((frame) => frame.intent === "confirm").payload.reason, "Keep it for now");
  await done(page);
});

test("an approval is remembered for what was chosen, and by no single slip of a key", { skip }, async () => {
  const page = await at(await session("Count the lines"));
  const sent = framesOf(page);
  await page.reload();
  await card(page).waitFor();
  await page.locator("body").press("a");
  await card(page).getByTestId("remember-choice").waitFor();
  assert.equal(sent.filter((frame) => frame.intent === "confirm").length, 0);
  await page.getByTestId("remember-pattern").selectOption({ label: "Commands that begin with: touch" });
  await page.getByTestId("remember-always").click();
  await page.locator("[data-testid=approval][data-state=approved]").waitFor();
  assert.deepEqual(sent.find((frame) => frame.intent === "confirm").payload.remember, { scope: "always", prefix_words: 1 });
  // The like of it isn't asked about, until the user wants to be asked again.
  await session("Count the lines", rests);
  await page.getByTestId("devices").first().click();
  await page.getByTestId("rule").filter({ hasText: "touch" }).getByTestId("rule-remove").click();
  await page.getByTestId("rule").waitFor({ state: "detached" });
  await session("Count the lines", waits);
  await done(page);
});

test("however long a command is, it is read before it is allowed, and the buttons stay in sight at 320 × 568", { skip }, async () => {
  for (const [words, last] of [["Write the notes", "line 500 of the notes"], ["A long line", "0123456789'"]]) {
    const page = await at(await session(words), { who: phone, size: SMALL, touch: true });
    assert.equal(await inView(card(page).getByTestId("reject")), true, words);
    assert.equal(await card(page).getByTestId("approve").isDisabled(), true, words);
    await card(page).locator(".fold").click();
    assert.equal(await card(page).getByTestId("approve").isDisabled(), false, words);
    assert.ok((await card(page).locator("pre").innerText()).includes(last), words);
    // At its beginning, in its middle, at its end.
    for (const part of [0, 0.5, 1]) {
      await page.getByTestId("timeline").evaluate((box, where) => { box.scrollTop = box.querySelector("pre").offsetTop + box.querySelector("pre").offsetHeight * where - 100; }, part);
      assert.equal(await inView(card(page).getByTestId("approve")), true, `${words}, at ${part}`);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    assert.equal(wide, false, `${words}: the page scrolls sideways`);
    await done(page);
  }
});

test("characters that deceive are shown as what they are", { skip }, async () => {
  const page = await at(await session("Something hidden"));
  const text = await card(page).locator("pre").innerText();
  for (const sign of ["⟨U+202E⟩", "⟨U+200B⟩", "⟨U+000D⟩"]) assert.ok(text.includes(sign), text);
  await done(page);
});

test("a follower reads along, sees who holds the session, and takes it with one tap", { skip }, async () => {
  const id = await session("Is the README any good?", rests, phone);
  const page = await at(id);
  assert.equal(await page.getByTestId("holder").getAttribute("data-self"), "false");
  assert.match(await page.getByTestId("holder").innerText(), /Ada's phone/);
  await page.getByTestId("continue-here").click();
  await page.locator("[data-testid=holder][data-self=true]").waitFor();
  await page.getByTestId("continue-on").click();
  await page.getByTestId("handoff-target").filter({ hasText: "Ada's phone" }).waitFor();
  await done(page);
});

test("a new device shows a code, the link of its QR code leads a trusted one to the question, and only that one lets it in", { skip }, async () => {
  const fresh = await context(browser, hub, { size: PHONE, touch: true });
  const asking = await fresh.newPage();
  await asking.goto(hub.origin);
  await asking.getByTestId("pair-name").fill("New phone");
  await asking.keyboard.press("Enter");
  const code = await asking.getByTestId("device-code").innerText();
  // Loopback leads nowhere from another device, and is said to.
  await asking.getByTestId("scan-not").waitFor();
  const own = await context(browser, hub, { cookie: desk });
  const page = await open(own, hub, `#pair=${code}`);
  await page.getByTestId("pairing-preview").filter({ hasText: "New phone" }).waitFor();
  assert.ok(!page.url().includes("pair="));
  assert.equal((await hub.call(desk, "GET", "/v1/devices")).devices.some((device) => device.name === "New phone"), false);
  // Both screens show the same number, which nobody chose.
  const number = await asking.getByTestId("pair-number").innerText();
  assert.match(number, /^\d{3}$/);
  assert.equal(await page.getByTestId("approve-number").innerText(), number);
  await page.getByTestId("approve-as-standard").click();
  await asking.locator("[data-testid=connection][data-state=live]").first().waitFor({ state: "attached" });
  await fresh.close();
  await done(page);
});

test("s4 a link lets nobody in before its maker compared the number, and a second one who opens it is told of", { skip }, async () => {
  const own = await context(browser, hub, { cookie: desk });
  const page = await open(own, hub);
  await page.getByTestId("devices").first().click();
  await page.getByTestId("approve-device").click();
  await page.getByTestId("invite").click();
  const made = page.waitForResponse((response) => response.url().endsWith("/v1/invitations") && response.request().method() === "POST");
  await page.getByTestId("invite-show").click();
  const { url } = await (await made).json();
  const [fresh, stranger] = [await context(browser, hub, { size: PHONE, touch: true }), await context(browser, hub, { size: PHONE })];
  const asking = await fresh.newPage();
  await asking.goto(url);
  await asking.getByTestId("pair-name").fill("Invited phone");
  await asking.getByTestId("pair-start").click();
  const number = await asking.getByTestId("pair-number").innerText();
  await page.getByTestId("asking").filter({ hasText: "Invited phone" }).waitFor();
  assert.equal(await page.getByTestId("asking-number").innerText(), number);
  const other = await stranger.newPage();
  await other.goto(url);
  await other.getByTestId("pair-start").click();
  await other.getByTestId("trouble").waitFor();
  await page.getByTestId("asking-others").waitFor();
  assert.equal((await hub.call(desk, "GET", "/v1/devices")).devices.some((device) => device.name === "Invited phone"), false);
  await page.getByTestId("asking-approve").click();
  await asking.locator("[data-testid=connection][data-state=live]").first().waitFor({ state: "attached" });
  await stranger.close();
  await fresh.close();
  await done(page);
});

test("by keyboard alone: to a session that waits, through its card, to the next message", { skip }, async () => {
  await session("Round the search button to 8px");
  const own = await context(browser, hub, { cookie: desk });
  const page = await open(own, hub);
  await page.keyboard.press("?");
  await page.getByTestId("help").waitFor();
  await page.keyboard.press("Escape");
  await page.getByTestId("help").waitFor({ state: "detached" });
  // A key that goes to what waits needs a list that says what does.
  await page.locator("[data-testid=session-item][data-standing=needs_you]").first().waitFor();
  await page.keyboard.press("w");
  await page.locator("[data-testid=timeline][data-loaded=true]").waitFor();
  await page.locator("[data-open-card=true]").first().waitFor();
  await page.keyboard.press("h");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.locator("[data-testid=timeline][data-loaded=true]").waitFor();
  await page.keyboard.press("/");
  await page.getByTestId("slash-option").first().waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+a");
  await page.keyboard.type("by hand");
  assert.equal(await composer(page).inputValue(), "by hand");
  await composer(page).fill("");
  await done(page);
});

test("a question is answered by keys once it has the focus", { skip }, async () => {
  const page = await at(await session("Which colour should it have?"));
  await page.locator("body").press("2");
  assert.equal(await page.locator("[data-testid=question][data-open-card=true]").count(), 1);
  await page.keyboard.press("w");
  await page.keyboard.press("2");
  await page.locator("[data-testid=question][data-state=answered]").filter({ hasText: "Slate blue" }).waitFor();
  await done(page);
});

test("the list is filtered by words, state, device and project", { skip }, async () => {
  await session("Is the orchard in bloom?", rests, phone);
  const own = await context(browser, hub, { cookie: desk });
  const page = await open(own, hub);
  const items = page.getByTestId("session-item");
  await page.locator("[data-testid=session-item][data-standing=needs_you]").first().waitFor();
  const all = await items.count();
  await page.getByTestId("filter").fill("bloom");
  assert.equal(await items.count(), 1);
  await page.getByTestId("filter").fill("");
  await page.getByTestId("filter-more").click();
  await page.getByTestId("filter-standing").selectOption("needs_you");
  const waiting = await items.count();
  assert.ok(waiting > 0 && waiting < all);
  for (const standing of await items.evaluateAll((each) => each.map((item) => item.dataset.standing))) assert.equal(standing, "needs_you");
  await page.getByTestId("filter-standing").selectOption("");
  await page.getByTestId("filter-device").selectOption({ label: "Ada's phone" });
  assert.ok((await items.count()) < all && (await items.count()) > 0);
  await page.getByTestId("filter-device").selectOption("");
  await page.getByTestId("filter-project").selectOption({ index: 1 });
  assert.equal(await items.count(), all);
  await done(page);
});

test("the page's script is at most 250 kB compressed", { skip }, () => {
  const assets = new URL("../dist/assets/", import.meta.url);
  const scripts = readdirSync(assets).filter((name) => name.endsWith(".js"));
  const bytes = scripts.reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, assets))).length, 0);
  assert.ok(bytes <= 250 * 1024, `${bytes} bytes`);
});
