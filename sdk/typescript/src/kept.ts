/**
 * What was last known of the hub, for the moments without it: the list with each session's summary, and the last view of the sessions
 * that were opened here. It is shown as what it is, never as live, and is gone with the device's trust.
 */
import type { Storage } from "./storage.ts";
import type { DeviceView, EntityView, HubInfo, SessionId, SessionSummary } from "./types.ts";

export interface KeptList {
  /** When the hub last said so. */
  at: string;
  sessions: readonly SessionSummary[];
  before: string | null;
  devices: readonly DeviceView[] | null;
  info: HubInfo | null;
}

export interface KeptView {
  at: string;
  seq: number;
  entities: EntityView[];
  historyBefore: number | null;
  /** The version of the hub that folded it; another one may show the same events otherwise. */
  hub: string | null;
}

/** What another version of this program has stored may have another shape: then it is as if nothing were there. */
const FORM = 1;
const ROOT = "kept/";
const LIST = "kept/list";
const VIEW = "kept/view/";
const AT = "kept/at/";
/** Views that are kept; the one that was kept longest ago goes first. */
const MOST_VIEWS = 30;
/** A view that is larger than this, in characters of its JSON, is kept with fewer entries. */
const MOST_CHARACTERS = 400_000;

export class Kept {
  #storage: Storage;
  #times = new Map<SessionId, string>();
  #closed = false;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  async load(): Promise<KeptList | null> {
    for (const [key, at] of await this.#storage.entries(AT)) if (typeof at === "string") this.#times.set(key.slice(AT.length), at);
    return this.#read<KeptList>(LIST);
  }

  view(sessionId: SessionId): Promise<KeptView | null> {
    return this.#times.has(sessionId) ? this.#read<KeptView>(VIEW + sessionId) : Promise.resolve(null);
  }

  async keepList(list: KeptList): Promise<void> {
    await this.#write(LIST, list);
  }

  /** `take` gives the view with so many entries at most. */
  async keepView(sessionId: SessionId, take: (entries: number) => KeptView): Promise<void> {
    let view: KeptView | null = null;
    for (let entries = 160; entries >= 10; entries /= 2) {
      view = take(entries);
      if (JSON.stringify(view).length <= MOST_CHARACTERS) break;
      view = null;
    }
    // What is too large with ten entries isn't kept at all: a view without its end would be another conversation.
    if (!view) return this.forget(sessionId);
    await this.#write(VIEW + sessionId, view);
    this.#times.set(sessionId, view.at);
    await this.#put(AT + sessionId, view.at);
    const oldest = [...this.#times].sort(([, a], [, b]) => (a < b ? -1 : 1)).slice(0, Math.max(0, this.#times.size - MOST_VIEWS));
    for (const [id] of oldest) await this.forget(id);
  }

  async forget(sessionId: SessionId): Promise<void> {
    if (!this.#times.delete(sessionId)) return;
    await this.#storage.remove(AT + sessionId);
    await this.#storage.remove(VIEW + sessionId);
  }

  /** All of it, gone from the store too. */
  async clear(): Promise<void> {
    this.#times.clear();
    for (const [key] of await this.#storage.entries(ROOT)) await this.#storage.remove(key);
  }

  /** Nothing is written from now on; what is stored is the caller's to clear. */
  close(): void {
    this.#closed = true;
    this.#times.clear();
  }
  open(): void {
    this.#closed = false;
  }

  async #read<T>(key: string): Promise<T | null> {
    const found = (await this.#storage.entries(key)).find(([name]) => name === key)?.[1] as { form?: unknown; value?: T } | undefined;
    return found?.form === FORM && found.value !== undefined ? found.value : null;
  }
  #write(key: string, value: unknown): Promise<void> {
    return this.#put(key, { form: FORM, value });
  }
  async #put(key: string, value: unknown): Promise<void> {
    // On a device that keeps nothing there is nothing to be had after a reload.
    if (this.#closed || !this.#storage.durable) return;
    await this.#storage.put(key, value).catch(() => undefined);
  }
}
