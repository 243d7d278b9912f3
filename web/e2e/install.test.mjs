// The console as an installed app, over the hub's own HTTPS in a real Chromium: installable, there without the hub, and never older than it.
// The page is the one in the hub's program here, since a worker keeps what the hub serves.
import assert from "node:assert/strict";
import { createHash, X509Certificate } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { networkInterfaces, tmpdir } from "node:os";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { CHROMIUM, DIST, Hub, missing, TYPES } from "./hub.mjs";

const skip = missing();
let hub;
let context;
let profile;

before(async () => {
  if (skip) return;
  hub = await Hub.start({ script: null, more: ["--tls"] });
  // The one authority that this browser trusts besides its own, by its key; the names are looked at as always.
  const authority = new X509Certificate(readFileSync(hub.file("tls/baton-hub.crt")));
  const key = createHash("sha256").update(authority.publicKey.export({ type: "spki", format: "der" })).digest("base64");
  profile = mkdtempSync(join(tmpdir(), "baton-profile-"));
  context = await chromium.launchPersistentContext(profile, {
    executablePath: CHROMIUM,
    locale: "en-US",
    args: [`--ignore-certificate-errors-spki-list=${key}`, "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
});
after(async () => {
  await context?.close();
  await hub?.stop();
  if (profile) rmSync(profile, { recursive: true, force: true });
});

test("over the hub's own HTTPS the console is installable, and opens without the hub", { skip }, async () => {
  const page = await context.newPage();
  const refused = [];
  page.on("console", (message) => /Content Security Policy|Refused to/.test(message.text()) && refused.push(message.text()));
  await page.goto(hub.link);
  await page.getByTestId("pair-name").or(page.getByTestId("connection")).first().waitFor();
  assert.equal(await page.evaluate(() => isSecureContext), true);
  assert.equal(await page.evaluate(() => location.hash), "", "neither the invitation nor the fingerprint stays in the address");

  const worker = await page.evaluate(async () => {
    const ready = await navigator.serviceWorker.ready;
    return { scope: ready.scope, script: ready.active.scriptURL };
  });
  assert.deepEqual(worker, { scope: `${hub.origin}/`, script: `${hub.origin}/service_worker.js` });
  await page.getByTestId("pair-start").click();
  await page.getByTestId("devices").click();
  // Which of the two it is is the browser's to say: it offers the installation, or has it in its menu.
  assert.match(await page.getByTestId("install").getAttribute("data-way"), /^(offer|menu)$/);
  if (process.env.PICTURES) await page.screenshot({ path: join(process.env.PICTURES, "install.png") });

  const devtools = await context.newCDPSession(page);
  const { errors, url } = await devtools.send("Page.getAppManifest");
  assert.equal(url, `${hub.origin}/manifest.webmanifest`);
  assert.deepEqual(errors, []);
  // A window of a browser that is driven counts as one in which nothing is installed; nothing else may stand in the way.
  const { installabilityErrors } = await devtools.send("Page.getInstallabilityErrors");
  assert.deepEqual(installabilityErrors.filter(({ errorId }) => errorId !== "in-incognito"), []);

  // What is kept is the page's own files, and nothing that a token opens.
  const files = await page.evaluate(async () => {
    const names = await caches.keys();
    const kept = await Promise.all(names.map(async (name) => (await (await caches.open(name)).keys()).map((request) => new URL(request.url).pathname)));
    return { names, kept: kept.flat() };
  });
  assert.equal(files.names.length, 1);
  assert.ok(files.kept.includes("/") && files.kept.some((path) => path.startsWith("/assets/index-")), String(files.kept));
  assert.ok(files.kept.every((path) => path === "/" || path === "/manifest.webmanifest" || /^\/(assets|icons)\/[\w.-]+$/.test(path)), String(files.kept));

  await hub.halt();
  await page.goto(`${hub.origin}/`);
  await page.locator("#root > *").first().waitFor();
  assert.match(await page.title(), /Baton/);
  assert.equal(await page.evaluate(() => fetch("/v1/hub").then(() => "answered", () => "nobody")), "nobody", "nothing of the hub's is answered in its place");

  await hub.restart();
  await page.goto(`${hub.origin}/`);
  await page.locator("#root > *").first().waitFor();
  assert.deepEqual(refused, []);
});

test("a newer page is taken at once, replaces what was kept, and is there without the hub", { skip }, async () => {
  let release = 1;
  let away = false;
  const built = (name) => readFileSync(join(DIST, name));
  // The built console in two releases; the second is another page, and so another worker.
  const server = createServer((request, answer) => {
    if (away) return request.socket.destroy();
    const { pathname } = new URL(request.url, "http://localhost");
    const name = pathname === "/" ? "index.html" : pathname.slice(1);
    if (pathname.startsWith("/v1/") || !existsSync(join(DIST, name))) return answer.writeHead(404).end();
    let body = built(name);
    if (release === 2 && name === "index.html") body = Buffer.from(String(body).replace("<title>Baton</title>", '<title>Baton</title><meta name="release" content="2">'));
    if (release === 2 && name === "service_worker.js") body = Buffer.from(String(body).replace(/"?version"?:\s*[`"']\w+[`"']/, 'version:"second"'));
    answer.writeHead(200, { "content-type": TYPES[extname(name)] ?? "application/octet-stream", "cache-control": name.startsWith("assets/") ? "max-age=31536000, immutable" : "no-cache" }).end(body);
  });
  await new Promise((then) => server.listen(0, "127.0.0.1", then));
  const origin = `http://127.0.0.1:${server.address().port}`;
  const page = await context.newPage();
  const shown = () => page.locator('meta[name="release"]').count();
  const kept = () => page.evaluate(() => caches.keys());
  try {
    await page.goto(origin);
    await page.evaluate(() => navigator.serviceWorker.ready);
    const [first] = await kept();
    assert.ok(first.startsWith("baton-shell-") && (await shown()) === 0);
    release = 2;
    await page.goto(origin);
    assert.equal(await shown(), 1, "the newer page is shown, not the kept one");
    for (const end = Date.now() + 60_000; String(await kept()) !== "baton-shell-second"; ) assert.ok(Date.now() < end, `still kept: ${await kept()}`);
    await page.waitForFunction(() => navigator.serviceWorker.controller?.state === "activated");
    away = true;
    server.closeAllConnections();
    await page.goto(origin);
    assert.equal(await shown(), 1, "without the hub the newer one is there too");
  } finally {
    await page.close();
    server.close();
  }
});

test("without a secure connection the console works without a worker, and says what is missing to install it", { skip }, async (t) => {
  const own = Object.values(networkInterfaces()).flat().find((each) => each.family === "IPv4" && !each.internal)?.address;
  if (!own) return t.skip("this machine has no address besides its own");
  const plain = await Hub.start({ script: null, listen: "0.0.0.0", more: ["--allow-plain-http"] });
  const page = await context.newPage();
  const troubles = [];
  page.on("pageerror", (error) => troubles.push(String(error)));
  try {
    await page.goto(plain.link);
    assert.equal(await page.evaluate(() => isSecureContext || "serviceWorker" in navigator), false, plain.link);
    await page.getByTestId("pair-start").click();
    await page.getByTestId("devices").click();
    assert.equal(await page.getByTestId("install").getAttribute("data-way"), "plain");
    assert.match(await page.getByTestId("install").innerText(), /baton up --tls/);
    assert.deepEqual(troubles, []);
  } finally {
    await page.close();
    await plain.stop();
  }
});

test("without encryption the same port helps to trust the hub, and asks for no script", { skip }, async () => {
  const page = await context.newPage();
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await page.goto(hub.trustLink);
  const fingerprint = await page.locator(".fingerprint").innerText();
  assert.equal(fingerprint.replaceAll(/\s/g, "").toLowerCase(), hub.fingerprint);
  assert.equal(await page.locator("script").count(), 0);
  assert.equal(await page.locator("details[open] summary").innerText(), "Linux", "this system's steps are open");
  assert.deepEqual(asked.filter((path) => !["/trust", "/trust/style.css", "/favicon.ico"].includes(path)), []);
  for (const width of [320, 390, 1440]) {
    await page.setViewportSize({ width, height: 800 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `nothing is cut at ${width}`);
  }
  const link = page.getByRole("link", { name: "https://" });
  assert.equal(await link.getAttribute("href"), `${hub.origin}/`);
});
