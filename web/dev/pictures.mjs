// A development fixture only: pictures of the page's main states against a real hub. `node web/dev/pictures.mjs DIRECTORY [NAME…]`
import { mkdirSync } from "node:fs";
import { context, Hub, launch, open, operate, until } from "../e2e/hub.mjs";
import { FILES, SCRIPT } from "../e2e/scenes.mjs";

const [directory = "/tmp/pictures", ...only] = process.argv.slice(2);
mkdirSync(directory, { recursive: true });
const SIZES = { small: [320, 568], phone: [390, 844], tablet: [820, 1180], desk: [1440, 900], zoom: [720, 450], land: [1180, 820] };
const SCHEMES = (process.env.SCHEMES ?? "light,dark").split(",");
const hub = await Hub.start({ script: SCRIPT, files: FILES, git: true });
const browser = await launch();
try {
  const desk = await hub.pair(hub.link, "Ada's desk", "web");
  const invite = (name, type, trust = "trusted") => hub.invite(desk, trust, name, type);
  const phone = await invite("Ada's phone", "phone");
  const tablet = await invite("Kitchen tablet", "tablet");
  await invite("Old laptop", "cli", "standard");
  for (let tries = 0; tries < 200; tries += 1) {
    const { devices } = await hub.call(desk, "GET", "/v1/devices");
    if (devices.some((device) => device.online && device.workspaces?.length)) break;
    await new Promise((next) => setTimeout(next, 50));
  }
  const sessions = {};
  async function begin(name, text, holds, who = desk) {
    const made = await operate(hub, who, { intent: "new_session", payload: {} });
    await operate(hub, who, { intent: "say", payload: { text }, session_id: made.session_id, epoch: made.epoch });
    await until(hub, desk, made.session_id, holds, name);
    sessions[name] = made.session_id;
    return made;
  }
  const waits = (head) => head.waiting > 0;
  const rests = (head) => head.activity === "idle" || head.activity === "error";
  await begin("fine", "Is the README any good?", rests);
  const done = await begin("done", "Round the search button to 8px, and check the contrast in dark mode", waits);
  let view = await hub.call(desk, "GET", `/v1/sessions/${done.session_id}`);
  const openOne = (each) => each.entities.find((entity) => entity.kind === "approval" && entity.state === "open").id;
  await operate(hub, desk, { intent: "confirm", session_id: done.session_id, payload: { approval_id: openOne(view), decision: "approve" } });
  await until(hub, desk, done.session_id, rests, "the end");
  await begin("question", "Which colour should it have?", waits);
  await begin("danger", "Delete the old page", waits);
  await begin("notes", "Write the notes", waits);
  await begin("line", "A long line", waits);
  await begin("hidden", "Something hidden", waits, phone);
  await begin("chinese", "把首页按钮改成圆角,并检查深色模式", waits);
  await begin("wrong", "The key is wrong", (head) => head.activity === "error" || head.state === "failed" || head.activity === "idle");
  hub.call(desk, "GET", "/v1/sessions").then(({ sessions: all }) => console.log(all.map((one) => `${one.title} | ${one.state} | ${one.activity} | ${one.line}`).join("\n")));

  const made = await operate(hub, desk, { intent: "new_session", payload: {} });
  await operate(hub, desk, { intent: "say", payload: { text: "Round the search button to 8px, and check the contrast in dark mode" }, session_id: made.session_id, epoch: made.epoch });
  await until(hub, desk, made.session_id, waits, "approval");
  sessions.approval = made.session_id;

  const problems = [];
  const devices = { zoom: desk, land: tablet, small: phone, phone, tablet, desk };
  async function picture(name, { hash = "", locale = "en-US", act, sizes = ["phone", "tablet", "desk"], paired = true } = {}) {
    for (const size of sizes) {
      for (const scheme of SCHEMES) {
        const label = `${name}-${size}-${scheme}`;
        if (only.length > 0 && !only.some((each) => label.includes(each))) continue;
        const own = await context(browser, hub, { ...(paired ? { cookie: devices[size] } : {}), size: SIZES[size], touch: !["desk", "zoom"].includes(size), colorScheme: scheme, locale });
        let page;
        if (paired) {
          page = await open(own, hub, hash);
          if (hash.includes("sessions/")) await page.locator("[data-testid=timeline][data-loaded=true]").waitFor();
        } else {
          page = await own.newPage();
          page.troubles = [];
          await page.goto(`${hub.origin}/${hash}`);
          await page.getByTestId("pair-name").waitFor();
        }
        await act?.(page, size);
        await page.waitForTimeout(350);
        const wide = await page.evaluate((width) => [...document.querySelectorAll("body *")].filter((each) => each.checkVisibility() && each.getBoundingClientRect().right > width + 1).map((each) => String(each.className || each.tagName)), SIZES[size][0]);
        if (wide.length > 0) problems.push(`${label}: beyond the right edge: ${[...new Set(wide)].slice(0, 4).join(", ")}`);
        if (!["desk", "zoom"].includes(size)) {
          const little = await page.evaluate(() => [...document.querySelectorAll("button, a[href], summary, input, select, textarea")]
            .filter((each) => each.checkVisibility() && !each.closest(".rich, .diff-text") && each.getBoundingClientRect().height > 0 && (each.getBoundingClientRect().height < 43.5 || each.getBoundingClientRect().width < 43.5))
            .map((each) => `${each.className || each.tagName} ${Math.round(each.getBoundingClientRect().width)}×${Math.round(each.getBoundingClientRect().height)}`));
          if (little.length > 0) problems.push(`${label}: small targets ${[...new Set(little)].join(", ")}`);
        }
        problems.push(...page.troubles.map((each) => `${label}: ${each}`));
        await page.screenshot({ path: `${directory}/${label}.png` });
        await own.close();
      }
    }
  }
  const at = (name) => ({ hash: `#/sessions/${sessions[name]}` });
  const all = ["small", "phone", "tablet", "desk"];
  await picture("home", { sizes: all });
  await picture("approval", { ...at("approval"), sizes: all });
  await picture("approval", { ...at("approval"), sizes: ["zoom", "land"] });
  await picture("home", { sizes: ["zoom", "land"] });
  await picture("remember", { ...at("approval"), sizes: ["small", "phone", "desk"], act: (page) => page.getByTestId("remember").click() });
  await picture("files", { ...at("approval"), sizes: ["small", "phone", "desk"], act: async (page) => {
    await page.getByTestId("file-input").last().setInputFiles([{ name: "a rather long name of a picture from the holidays.heic", mimeType: "image/heic", buffer: Buffer.from("x".repeat(3_400_000)) }, { name: "rows.csv", mimeType: "text/csv", buffer: Buffer.from("a,b") }]);
    await page.getByTestId("draft-file").nth(1).waitFor();
    await page.getByTestId("composer").last().fill("Compare these");
  } });
  await picture("menu", { ...at("done"), sizes: ["phone", "desk"], act: (page) => page.getByTestId("session-menu").click() });
  await picture("search", { sizes: ["phone", "desk"], act: async (page) => { await page.getByTestId("filter").fill("page"); await page.getByTestId("search-hit").first().waitFor(); } });
  await picture("diff", { ...at("done"), sizes: ["phone", "tablet", "desk"], act: async (page, size) => {
    if (size === "phone") await page.locator(".plan-top summary").first().click();
    await page.getByTestId("show-diff").first().click();
    await page.getByTestId("diff-file").first().waitFor();
    await page.locator(".diff-line[data-kind=added] > .line-number").first().click();
    await page.getByTestId("line-comment-text").first().fill("Is 8px right for the small one too?");
  } });
  await picture("away", { ...at("done"), sizes: ["phone", "desk"], act: async (page) => { await page.waitForTimeout(1_200); await page.context().setOffline(true); await page.locator("[data-testid=link-banner]").first().waitFor(); } });
  await picture("help", { sizes: ["desk"], act: (page) => page.getByTestId("keys").click() });
  await picture("done", at("done"));
  await picture("question", at("question"));
  await picture("danger", { ...at("danger"), sizes: all });
  await picture("notes", { ...at("notes"), sizes: all });
  await picture("line", { ...at("line"), sizes: ["small", "phone"] });
  await picture("hidden", { ...at("hidden") });
  await picture("chinese", { ...at("chinese"), locale: "zh-CN" });
  await picture("chinese-home", { locale: "zh-CN" });
  await picture("wrong", at("wrong"));
  await picture("devices", { act: (page) => page.getByTestId("devices").first().click(), sizes: ["phone", "desk"] });
  await picture("missing", { hash: "", act: async (page) => { await page.evaluate(() => { location.hash = "#/sessions/0199d2a4-6f00-7a00-8000-00000000ffff"; }); await page.waitForTimeout(800); }, sizes: ["phone", "desk"] });
  await picture("pair", { paired: false, sizes: all });
  await picture("code", { paired: false, sizes: ["phone", "desk"], act: async (page) => { await page.getByTestId("pair-start").click(); await page.getByTestId("device-code").waitFor(); } });
  await picture("stream", { ...at("fine"), sizes: ["phone", "desk"], act: async (page) => {
    await page.getByTestId("composer").last().fill("Tell me a lot");
    await page.getByTestId("send").last().click();
    await page.getByText("Paragraph 6 ").last().waitFor();
  } });
  await picture("offline", { ...at("done"), sizes: ["phone", "desk"], act: async (page) => { await page.context().setOffline(true); await page.evaluate(() => dispatchEvent(new Event("offline"))); await page.getByTestId("composer").last().fill("And the table page too"); await page.getByTestId("send").last().click(); } });
  console.log([...new Set(problems)].join("\n") || "no problems");
} finally {
  await browser.close();
  await hub.stop();
}
