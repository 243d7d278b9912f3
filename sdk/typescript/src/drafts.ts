/** Text that is being written, one draft per session, kept until the hub has acknowledged what became of it. */
import type { Storage } from "./storage.ts";
import { ALONE, type Tabs } from "./tabs.ts";

const PREFIX = "draft/";

export class Drafts {
  #storage: Storage;
  #texts = new Map<string, string>();
  #listeners = new Set<() => void>();
  #tabs: Tabs;

  constructor(storage: Storage, tabs: Tabs = ALONE) {
    this.#storage = storage;
    this.#tabs = tabs;
  }

  async load(): Promise<void> {
    for (const [key, text] of await this.#storage.entries(PREFIX)) {
      if (typeof text === "string") this.#texts.set(key.slice(PREFIX.length), text);
    }
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  get(place: string): string {
    return this.#texts.get(place) ?? "";
  }

  set(place: string, text: string): void {
    if (text === this.get(place)) return;
    if (text === "") {
      this.#texts.delete(place);
      void this.#storage.remove(PREFIX + place).catch(() => undefined);
    } else {
      this.#texts.set(place, text);
      void this.#storage.put(PREFIX + place, text).catch(() => undefined);
    }
    this.#tabs.tell({ about: "draft", place, text });
    for (const listener of this.#listeners) listener();
  }

  /** Another tab of this device has written it. */
  adopt(place: string, text: string): void {
    if (text === "") this.#texts.delete(place);
    else this.#texts.set(place, text);
    for (const listener of this.#listeners) listener();
  }

  /** Forgets everything here; what is stored is the caller's. */
  clear(): void {
    this.#texts.clear();
    for (const listener of this.#listeners) listener();
  }
}
