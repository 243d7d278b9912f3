// The console in a real Chromium: a session that has become very long.
import assert from "node:assert/strict";
import { test } from "node:test";
import { operate, until } from "./hub.mjs";
import { PHONE, at, desk, done, hub, phone, rests, skip } from "./house.mjs";
import { scroll } from "./scroll.mjs";

test("a session of 5,000 messages opens at its end, can be scrolled to its beginning, and stays small in memory", { skip }, async (t) => {
  const made = await operate(hub, desk, { intent: "new_session", payload: {} });
  const id = made.session_id;
  const began = performance.now();
  let last = 0;
  let seen = 0;
  // What is said, and what is answered to it.
  for (let messages = 0; messages < 5_000; ) {
    for (let n = 0; n < 200; n += 1) {
      last += 1;
      await operate(hub, desk, { intent: "say", session_id: id, epoch: made.epoch, payload: { text: `Message ${last}: what was said here is long enough to go over more than one line on a phone, as most of what people say does.` } });
    }
    for (let more = true; more; ) {
      const { changes } = await hub.call(desk, "GET", `/v1/sessions/${id}/events?after=${seen}&limit=500`);
      seen += changes.length;
      messages += changes.flatMap(({ upserts }) => upserts).filter(({ kind, version, created_seq }) => kind === "message" && version === created_seq).length;
      more = changes.length > 0;
    }
  }
  await until(hub, desk, id, rests, "rest");
  t.diagnostic(`${last} messages said, and answered, in ${Math.round((performance.now() - began) / 1000)} s`);
  const opened = performance.now();
  const page = await at(id, { who: phone, size: PHONE, touch: true });
  await page.getByText(`Message ${last}:`).waitFor();
  t.diagnostic(`opened at its end in ${Math.round(performance.now() - opened)} ms`);
  const atEnd = await page.getByTestId("timeline").evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight);
  assert.ok(atEnd < 80, `${atEnd} px above the end`);
  let rounds = 0;
  for (; rounds < 400 && (await page.locator(".older").count()) > 0; rounds += 1) {
    await page.locator(".older").click({ force: true });
    await page.waitForFunction(() => !document.querySelector(".older")?.disabled);
  }
  await page.getByTestId("timeline").evaluate((box) => { box.scrollTop = 0; });
  await page.getByText("Message 1:").first().waitFor();
  const there = await page.locator("[data-chunk]").count();
  const drawn = await page.locator("[data-testid=message]").count();
  t.diagnostic(`${rounds} looks backwards; ${there} chunks, ${drawn} messages drawn; scrolling ${JSON.stringify(await scroll(page, "[data-testid=timeline]", 40_000))}`);
  assert.ok(drawn < 1_500, `${drawn} messages are drawn`);
  await done(page);
});
