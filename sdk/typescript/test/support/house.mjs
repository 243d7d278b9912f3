// A real hub and what ends need of it, for the tests of the client.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { WebSocket } from "ws";
import { BatonClient, MemoryStorage } from "../../dist/src/index.js";

const named = process.env.BATON_BIN;
const program = named ?? fileURLToPath(new URL("../../../../target/debug/baton", import.meta.url));
/** A program that was named must be there; without a name, an unbuilt one only means that this is not tested. */
export const skip = named || existsSync(program) ? false : `not tested: ${program} isn't built (cargo build -p baton)`;
const PATIENCE_MS = 60_000;

export class House {
  origin;
  port;
  #directory;
  #hub;
  #arguments;
  #model;
  /** Works once; whoever pairs others first uses it. */
  ownerLink;
  #owner;
  #clients = [];

  /** With a model by a script, where one is named. */
  static async open({ script } = {}) {
    const house = new House();
    house.#directory = mkdtempSync(join(tmpdir(), "baton-sdk-"));
    const workspace = join(house.#directory, "workspace");
    mkdirSync(workspace);
    writeFileSync(join(workspace, "README.md"), "# Orchard\n\nApples.\n");
    house.port = await freePort();
    const modelUrl = script ? await house.#startModel(script) : undefined;
    house.origin = `http://127.0.0.1:${house.port}`;
    house.#arguments = ["--json", "up", "--data", join(house.#directory, "data"), "--listen", `127.0.0.1:${house.port}`, "--workspace", workspace];
    if (modelUrl) house.#arguments.push("--model-url", modelUrl, "--model", "scripted");
    house.ownerLink = (await house.start()).owner_link;
    return house;
  }

  /** Starts the hub, also once more over the same data after it was killed. */
  async start() {
    const { BATON_MODEL_URL, BATON_MODEL, BATON_MODEL_KEY, ...environment } = process.env;
    this.#hub = spawn(program, this.#arguments, { env: { ...environment, BATON_LOCAL_MODELS: "none" }, stdio: ["ignore", "pipe", "ignore"] });
    const line = await firstLine(this.#hub, "the hub");
    return JSON.parse(line);
  }

  /** Ends the hub as a power cut does. Its device goes on. */
  async kill() {
    const ended = new Promise((resolve) => this.#hub.once("exit", resolve));
    this.#hub.kill("SIGKILL");
    await ended;
  }

  /** Resolves when the device beside the hub is connected, with its workspace. */
  async hands() {
    this.#owner ??= await this.claim(this.ownerLink, "owner", "web");
    for (const until = Date.now() + PATIENCE_MS; Date.now() < until; await new Promise((resolve) => setTimeout(resolve, 50))) {
      const { devices } = await this.call(this.#owner, "GET", "/v1/devices");
      if (devices.some((device) => device.online && device.workspaces.length > 0)) return;
    }
    throw new Error("waited in vain for the hub's own device");
  }

  async #startModel(script) {
    this.#model = spawn(join(dirname(program), "scripted-model"), ["--script", script], { stdio: ["ignore", "pipe", "ignore"] });
    return (await firstLine(this.#model, "the scripted model")).trim();
  }

  /** Where the hub keeps its data. */
  get data() {
    return join(this.#directory, "data");
  }

  /** A file of the workspace. */
  file(name) {
    return readFileSync(join(this.#directory, "workspace", name), "utf8");
  }

  async close() {
    for (const client of this.#clients) client.close();
    this.#model?.kill();
    if (this.#hub.exitCode === null) {
      const ended = new Promise((resolve) => this.#hub.once("exit", resolve));
      this.#hub.kill("SIGINT");
      await ended;
    }
    try {
      // The device beside the hub ends with it; one that doesn't is ended here.
      process.kill(JSON.parse(readFileSync(join(this.#directory, "data/device/device.json"), "utf8")).pid, "SIGKILL");
    } catch {
      // It is gone, as it should be.
    }
    rmSync(this.#directory, { recursive: true, force: true });
  }

  async claim(link, name, clientType) {
    const secret = decodeURIComponent(new URL(link).hash.replace("#invite=", ""));
    const response = await fetch(`${this.origin}/v1/invitations/claim`, {
      method: "POST",
      headers: { "content-type": "application/json", origin: this.origin },
      body: JSON.stringify({ secret, name, client_type: clientType, cookie: true }),
    });
    if (!response.ok) throw new Error(await response.text());
    return response.headers.get("set-cookie").split(";")[0];
  }

  /** Pairs a device, and answers with its cookie. */
  async pair(name, clientType = "web", trust = "trusted") {
    this.#owner ??= await this.claim(this.ownerLink, "owner", "web");
    return this.invite(this.#owner, trust, name, clientType);
  }

  /** Pairs a device by a link that another one makes and confirms. */
  async invite(maker, trust, name, clientType) {
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

  async call(cookie, method, path, body) {
    const response = await fetch(this.origin + path, {
      method,
      headers: { cookie, origin: this.origin, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return response.json();
  }

  /** A client as a page has it; its socket goes through `port`, such as that of a proxy. Its sockets are in `sockets`, to be cut. */
  async client(cookie, { port = this.port, clientType = "web", storage = new MemoryStorage(), tabs } = {}) {
    const sockets = new Set();
    const through = (url) => url.replace(`:${this.port}`, `:${port}`);
    // Kinds of events that reach the client under names that it doesn't know, as those of a newer hub do.
    const older = (text) => {
      const frame = client?.unknown?.size ? JSON.parse(text) : {};
      if (!client?.unknown?.has(frame.event?.type)) return text;
      client.renamed += 1;
      return JSON.stringify({ ...frame, event: { ...frame.event, type: `${frame.event.type}_of_the_future` } });
    };
    let client;
    client = await BatonClient.start({
      clientType,
      capabilities: () => ({ inputs: ["text"], features: [] }),
      base: this.origin,
      storage,
      ...(tabs ? { tabs } : {}),
      fetch: (input, init = {}) => fetch(input, { ...init, headers: { ...init.headers, cookie, origin: this.origin } }),
      openSocket: (url) => {
        const socket = new WebSocket(through(url), { headers: { cookie, host: `127.0.0.1:${this.port}` }, origin: this.origin });
        const emit = socket.emit.bind(socket);
        socket.emit = (name, data, ...rest) => emit(name, name === "message" ? Buffer.from(older(String(data))) : data, ...rest);
        // The close that follows an error is what counts.
        socket.on("error", () => undefined);
        sockets.add(socket);
        socket.on("close", () => sockets.delete(socket));
        return socket;
      },
    });
    client.renamed = 0;
    client.sockets = sockets;
    // Cut without a word, as a lost network does.
    client.cut = () => sockets.forEach((socket) => socket.terminate());
    this.#clients.push(client);
    return client;
  }
}

/** The first line that a program says, which is that it is ready. */
function firstLine(child, what) {
  const lines = createInterface({ input: child.stdout });
  return new Promise((resolve, reject) => {
    lines.once("line", resolve);
    lines.once("close", () => reject(new Error(`${what} ended before it was ready`)));
    child.once("error", reject);
  });
}

/** Resolves once it holds; everything that could make it hold makes the client tell its listeners. */
export function until(client, holds, what) {
  return new Promise((resolve, reject) => {
    const look = () => {
      if (!holds()) return;
      clearTimeout(timer);
      stop();
      resolve();
    };
    const stop = client.subscribe(look);
    const timer = setTimeout(() => {
      stop();
      reject(new Error(`waited in vain for ${what}; the link is ${client.connection}, trouble: ${client.trouble?.message ?? "none"}`));
    }, PATIENCE_MS);
    look();
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
