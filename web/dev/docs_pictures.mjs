// The two pictures in the README, against a real hub: `node web/dev/docs_pictures.mjs` writes docs/images/desk.png and phone.png.
import { rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { context, Hub, launch, open, operate, until } from "../e2e/hub.mjs";
import { FILES, SCRIPT } from "../e2e/scenes.mjs";

const directory = fileURLToPath(new URL("../../docs/images/", import.meta.url));
// A place that looks like somebody's, and not like a test's.
const workspace = "/var/tmp/orchard";
rmSync(workspace, { recursive: true, force: true });
const hub = await Hub.start({ script: SCRIPT, files: FILES, git: true, workspace });
const browser = await launch();
try {
  const desk = await hub.pair(hub.link, "Ada's desk", "web");
  const phone = await hub.invite(desk, "trusted", "Ada's phone", "phone");
  for (;;) {
    const { devices } = await hub.call(desk, "GET", "/v1/devices");
    const holder = devices.find((device) => device.online && device.workspaces?.length);
    if (holder) {
      await fetch(`${hub.origin}/v1/devices/${holder.device_id}`, { method: "PATCH", headers: { cookie: desk, origin: hub.origin, "content-type": "application/json" }, body: JSON.stringify({ name: "workshop" }) });
      break;
    }
    await new Promise((next) => setTimeout(next, 50));
  }
  const waits = (head) => head.waiting > 0;
  const rests = (head) => head.activity === "idle";
  async function begin(text, holds, who = desk) {
    const made = await operate(hub, who, { intent: "new_session", payload: {} });
    await operate(hub, who, { intent: "say", payload: { text }, session_id: made.session_id, epoch: made.epoch });
    await until(hub, desk, made.session_id, holds, text);
    return made.session_id;
  }
  await begin("Is the README any good?", rests, phone);
  await begin("Is the orchard's page fast enough?", rests);
  await begin("Which colour should the button have?", waits, phone);
  await begin("把首页按钮改成圆角,并检查深色模式", waits);
  await begin("Delete the old page", waits);
  const approval = await begin("Round the search button to 8px, and check the contrast in dark mode", waits, phone);
  const page = async (cookie, size, more = {}) => {
    const made = await context(browser, hub, { cookie, size, ...more });
    const shown = await open(made, hub, `#/sessions/${approval}`);
    await shown.locator("[data-open-card=true]").waitFor();
    return shown;
  };
  const there = await page(phone, [390, 844], { touch: true, deviceScaleFactor: 2, colorScheme: "dark" });
  const here = await page(desk, [1440, 900]);
  await here.waitForTimeout(600);
  await here.screenshot({ path: `${directory}desk.png` });
  await there.screenshot({ path: `${directory}phone.png` });
} finally {
  await browser.close();
  await hub.stop();
  rmSync(workspace, { recursive: true, force: true });
}
