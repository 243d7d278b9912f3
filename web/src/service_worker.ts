/**
 * Lets the console open without a connection: keeps the page's own files, those of one version together, and nothing else. What the hub
 * answers under `/v1` never comes through here, so nothing that a token opened is kept.
 */

/** The files of this version, put in when they are built. */
declare const __SHELL__: { version: string; files: string[] };

interface Lasting extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface Fetching extends Lasting {
  request: Request;
  respondWith(answer: Promise<Response>): void;
}
interface Worker {
  addEventListener(type: "install" | "activate", listener: (event: Lasting) => void): void;
  addEventListener(type: "fetch", listener: (event: Fetching) => void): void;
  skipWaiting(): Promise<void>;
  clients: { claim(): Promise<void> };
}

const worker = self as unknown as Worker;
const { version, files } = __SHELL__;
const PREFIX = "baton-shell-";
const CACHE = PREFIX + version;
const FILES = new Set(files);
/** For the hub's answer, in milliseconds, before the kept page is shown. A link that is dead may take minutes to say so. */
const PATIENCE = 4_000;

const kept = (path: string) => caches.match(path, { cacheName: CACHE });

worker.addEventListener("install", (event) => {
  const wanted = files.map((file) => new Request(file, { cache: "reload" }));
  // All of them or none: a page whose script is missing would be worse than no page.
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(wanted)).then(() => worker.skipWaiting()));
});

worker.addEventListener("activate", (event) => {
  const others = caches.keys().then((names) => names.filter((name) => name.startsWith(PREFIX) && name !== CACHE));
  event.waitUntil(others.then((names) => Promise.all(names.map((name) => caches.delete(name)))).then(() => worker.clients.claim()));
});

worker.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== location.origin) return;
  if (request.mode === "navigate") {
    if (url.pathname === "/") event.respondWith(page(request));
  } else if (url.pathname !== "/" && url.search === "" && FILES.has(url.pathname)) {
    event.respondWith(kept(url.pathname).then((file) => file ?? fetch(request)));
  }
});

/** The hub's own page first, so that an upgraded hub's is taken at once; the kept one where the hub is away. */
async function page(request: Request): Promise<Response> {
  const fromHub = fetch(request).then(
    async (answer) => (answer.status < 500 ? answer : ((await kept("/")) ?? answer)),
    async () => (await kept("/")) ?? Response.error(),
  );
  const late = new Promise((then) => setTimeout(then, PATIENCE)).then(() => kept("/"));
  return (await Promise.race([fromHub, late])) ?? fromHub;
}
