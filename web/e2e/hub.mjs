// A real hub for tests and pictures of the console: the built program, a scripted model, and a real Chromium. The page's own files come
// from `web/dist` with the hub's own policy around them, so that they are the ones that were built last; all else is the hub's.
import { execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("../../", import.meta.url));
export const DIST = join(root, "web/dist");
/** The programs: named by the environment, else those that were built last. */
export const PROGRAM = process.env.BATON_BIN ?? join(root, "target/debug/baton");
export const MODEL = process.env.SCRIPTED_MODEL_BIN ?? join(root, "target/debug/scripted-model");
export const CHROMIUM = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => path && existsSync(path));
export const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".webmanifest": "application/manifest+json" };

/** What is missing for these tests, or `false`. A program that was named must be there. */
export function missing() {
  if (!process.env.BATON_BIN && !existsSync(PROGRAM)) return `not tested: ${PROGRAM} isn't built (cargo build -p baton)`;
  if (!process.env.SCRIPTED_MODEL_BIN && !existsSync(MODEL)) return `not tested: ${MODEL} isn't built (cargo build -p baton-sim)`;
  if (!CHROMIUM) return "not tested: there is no Chromium";
  if (!existsSync(join(DIST, "index.html"))) return "not tested: the console isn't built (npm run build)";
  return false;
}

export class Hub {
  #model;
  #process;
  #directory;
  #port;
  #arguments;
  origin;
  modelUrl;
  trustLink;
  fingerprint;
  /** The owner's link; each start prints another. */
  link;
  workspace;

  /** `script`: the model's rules, or `null` for a hub without a model. `files`: what lies in the workspace, beside a copy of `template`. `workspace`: where that is, if not in a directory of the hub's own. */
  static async start({ script = [], files = {}, template = null, workspace = null, git = false, listen = "127.0.0.1", more = [] } = {}) {
    const hub = new Hub();
    hub.#directory = mkdtempSync(join(tmpdir(), "baton-console-"));
    hub.workspace = workspace ?? join(hub.#directory, "orchard");
    mkdirSync(hub.workspace);
    if (template) cpSync(template, hub.workspace, { recursive: true });
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(hub.workspace, path, ".."), { recursive: true });
      writeFileSync(join(hub.workspace, path), text);
    }
    if (git) {
      const run = (...words) => execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", ...words], { cwd: hub.workspace, stdio: "ignore" });
      run("init", "-b", "main");
      run("add", ".");
      run("commit", "-m", "The orchard");
    }
    if (script) {
      const rules = join(hub.#directory, "script.json");
      writeFileSync(rules, JSON.stringify(script));
      hub.#model = spawn(MODEL, ["--script", rules], { stdio: ["ignore", "pipe", "ignore"] });
      hub.modelUrl = await firstLine(hub.#model);
    }
    hub.#port = await freePort();
    hub.origin = `http://127.0.0.1:${hub.#port}`;
    hub.#arguments = ["--json", "up", "--data", join(hub.#directory, "data"), "--listen", `${listen}:${hub.#port}`, "--workspace", hub.workspace, ...more];
    await hub.restart();
    return hub;
  }

  /** Starts it, again if it ran: by a signal that lets it say goodbye, or `SIGKILL`. */
  async restart(signal = "SIGINT") {
    await this.halt(signal);
    const { BATON_MODEL_URL, BATON_MODEL, BATON_MODEL_KEY, ...rest } = process.env;
    const environment = { ...rest, BATON_LOCAL_MODELS: "none" };
    if (this.modelUrl) Object.assign(environment, { BATON_MODEL_URL: this.modelUrl, BATON_MODEL: "scripted", BATON_MODEL_KEY: "none" });
    this.#process = spawn(PROGRAM, this.#arguments, { env: environment, stdio: ["ignore", "pipe", "ignore"] });
    const ready = JSON.parse(await firstLine(this.#process));
    if (ready.event !== "ready") throw new Error(`the hub said ${JSON.stringify(ready)} instead of being ready`);
    this.link = ready.owner_link ?? this.link;
    // A hub with HTTPS of its own says where it is, and how it is trusted.
    Object.assign(this, { origin: ready.url ?? this.origin, trustLink: ready.trust_link, fingerprint: ready.fingerprint });
  }

  /** A file in the hub's data directory. */
  file(path) {
    return join(this.#directory, "data", path);
  }

  async halt(signal = "SIGINT") {
    const running = this.#process;
    if (!running || running.exitCode !== null || running.signalCode !== null) return;
    const ended = new Promise((resolve) => running.once("exit", resolve));
    running.kill(signal);
    await ended;
  }

  async stop() {
    await this.halt();
    this.#model?.kill();
    try {
      // The device beside the hub ends with it; one that doesn't is ended here.
      process.kill(JSON.parse(readFileSync(join(this.#directory, "data/device/device.json"), "utf8")).pid, "SIGKILL");
    } catch {
      // It is gone, as it should be.
    }
    rmSync(this.#directory, { recursive: true, force: true });
  }

  /** Replaces the model's rules. */
  async teach(script) {
    const answer = await fetch(new URL("/script/rules", this.modelUrl), { method: "POST", body: JSON.stringify(script) });
    if (!answer.ok) throw new Error(await answer.text());
  }

  /** A request as a device makes it; `cookie` says which. */
  async call(cookie, method, path, body) {
    const response = await fetch(this.origin + path, {
      method,
      headers: { cookie, origin: this.origin, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return response.json();
  }

  /** Pairs a device without a page, and answers with its cookie. */
  async pair(link, name, clientType = "web") {
    const secret = decodeURIComponent(new URL(link).hash.replace("#invite=", ""));
    const response = await fetch(`${this.origin}/v1/invitations/claim`, {
      method: "POST",
      headers: { "content-type": "application/json", origin: this.origin },
      body: JSON.stringify({ secret, name, client_type: clientType, cookie: true }),
    });
    if (!response.ok) throw new Error(await response.text());
    return response.headers.get("set-cookie").split(";")[0];
  }

  /** Pairs a device without a page by a link that another one makes and confirms. */
  async invite(maker, trust, name, clientType = "web") {
    const link = await this.call(maker, "POST", "/v1/invitations", { trust });
    const post = (path, body) => fetch(this.origin + path, {
      method: "POST",
      headers: { "content-type": "application/json", origin: this.origin },
      body: JSON.stringify({ ...body, cookie: true }),
    });
    const asking = await (await post("/v1/invitations/claim", { secret: link.secret, name, client_type: clientType })).json();
    await this.call(maker, "POST", `/v1/invitations/${link.invitation_id}/approve`, { number: asking.number });
    const response = await post(`/v1/pairings/${asking.pairing_id}/claim`, { secret: asking.secret });
    if (!response.ok) throw new Error(await response.text());
    return response.headers.get("set-cookie").split(";")[0];
  }
}

export function launch() {
  return chromium.launch({
    executablePath: CHROMIUM,
    // A page whose files were put in from the disk counts as foreign to this machine, and may then not open a socket to it.
    args: ["--disable-features=LocalNetworkAccessChecks", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** A browser's context whose pages get the console from `web/dist`; with a cookie it is that device. */
export async function context(browser, hub, { cookie, size = [1440, 900], touch = false, ...more } = {}) {
  // A worker would answer with the files in the hub's program; here they come from the disk.
  const made = await browser.newContext({ serviceWorkers: "block", viewport: { width: size[0], height: size[1] }, hasTouch: touch, isMobile: touch, locale: "en-US", ...more });
  if (cookie) {
    const [name, value] = cookie.split("=");
    await made.addCookies([{ name, value, url: hub.origin, httpOnly: true, sameSite: "Strict" }]);
  }
  await serveBuilt(made, hub);
  return made;
}

async function serveBuilt(target, hub) {
  let policy;
  await target.route(
    (url) => url.origin === hub.origin && (url.pathname === "/" || url.pathname.startsWith("/assets/")),
    async (route) => {
      const name = new URL(route.request().url()).pathname;
      const file = join(DIST, name === "/" ? "index.html" : name);
      if (!existsSync(file)) return route.continue();
      try {
        policy ??= (await fetch(hub.origin)).headers.get("content-security-policy");
      } catch {
        return route.abort("connectionrefused");
      }
      return route.fulfill({ body: readFileSync(file), headers: { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "content-security-policy": policy } });
    },
  );
}

/** Opens the console and waits until it is live; what goes wrong on the page is kept in `page.troubles`. */
export async function open(made, hub, hash = "") {
  const page = await made.newPage();
  page.troubles = [];
  page.on("pageerror", (error) => page.troubles.push(String(error)));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !/Failed to load resource|WebSocket connection|Service Worker registration blocked/.test(message.text())) page.troubles.push(message.text());
  });
  await page.goto(`${hub.origin}/${hash}`);
  await page.getByTestId("connection").and(page.locator("[data-state=live]")).first().waitFor({ state: "attached" });
  return page;
}

/** One operation of a device; throws when it is refused. */
let counter = 0;
export async function operate(hub, cookie, operation) {
  const reply = await hub.call(cookie, "POST", "/v1/ops", { v: 1, operation_id: uuid(), ...operation });
  if (reply.error || reply.code) throw new Error(JSON.stringify(reply));
  return reply;
}

function uuid() {
  counter += 1;
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${(counter % 4096).toString(16).padStart(3, "0")}-8000-${process.pid.toString(16).padStart(12, "0")}`;
}

/** Waits until a session looks as wanted, by asking the hub. */
export async function until(hub, cookie, sessionId, holds, what, patience = 30_000) {
  const end = Date.now() + patience;
  for (;;) {
    const view = await hub.call(cookie, "GET", `/v1/sessions/${sessionId}`);
    const head = view.entities?.find((entity) => entity.kind === "session");
    if (head && holds(head, view)) return view;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}: ${JSON.stringify(head)}`);
    await new Promise((next) => setTimeout(next, 25));
  }
}

function firstLine(child) {
  return new Promise((resolve, reject) => {
    const lines = createInterface({ input: child.stdout });
    lines.once("line", resolve);
    lines.once("close", () => reject(new Error("a program ended before it was ready")));
    child.once("error", reject);
  });
}

export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
