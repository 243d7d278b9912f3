/** What the browser offers to make an app of the console: the worker that lets it open offline, and its own offer to install it. */

/** How the worker's caches begin. */
const CACHES = "baton-shell-";

/** The browser's offer, where it makes one. */
export interface Offer extends Event {
  prompt(): Promise<unknown>;
}

export interface Standing {
  /** `none`: this browser has no workers for this page. */
  worker: "none" | "starting" | "active" | "failed";
  offer: Offer | null;
  installed: boolean;
}

let standing: Standing = { worker: "none", offer: null, installed: isApp() };
const listeners = new Set<() => void>();

export const installStanding = (): Standing => standing;

export function onInstallStanding(changed: () => void): () => void {
  listeners.add(changed);
  return () => listeners.delete(changed);
}

function become(change: Partial<Standing>): void {
  standing = { ...standing, ...change };
  for (const listener of listeners) listener();
}

/** Whether this page runs as an installed app. */
function isApp(): boolean {
  return matchMedia("(display-mode: standalone)").matches || ("standalone" in navigator && navigator.standalone === true);
}

/** The page's own files that are kept for times without the hub, gone; the next load begins anew. */
export async function clearWorker(): Promise<void> {
  // Neither is there without encryption.
  if ("serviceWorker" in navigator) for (const registration of await navigator.serviceWorker.getRegistrations()) await registration.unregister();
  if ("caches" in window) for (const name of await caches.keys()) if (name.startsWith(CACHES)) await caches.delete(name);
}

export function startWorker(): void {
  addEventListener("beforeinstallprompt", (event) => {
    // Kept for the button of ours; the browser's own bar would come at a moment of its choosing.
    event.preventDefault();
    become({ offer: event as Offer });
  });
  addEventListener("appinstalled", () => become({ offer: null, installed: true }));
  // Without encryption there is none, and everything but opening offline works all the same.
  if (!import.meta.env.PROD || !("serviceWorker" in navigator)) return;
  become({ worker: "starting" });
  navigator.serviceWorker.register("/service_worker.js").then(
    (registration) => {
      // Browsers look for a newer one too, but only after a while; without the hub there is none.
      // A browser that is told to let no worker in may answer with nothing.
      if ((registration as ServiceWorkerRegistration | undefined)?.active) registration.update().catch(() => undefined);
      return navigator.serviceWorker.ready.then(() => become({ worker: "active" }));
    },
    // Such as with a certificate that this device doesn't trust.
    () => become({ worker: "failed" }),
  );
}
