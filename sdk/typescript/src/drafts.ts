/** Text that is being written, one draft per session, kept until the hub has acknowledged what became of it. */
import type { Storage } from "./storage.ts";

const PREFIX = "draft/";

export class Drafts {
  #storage: Storage;
  #texts = new Map<string, string>();
  #listeners = new Set<() => void>();

  constructor(storage: Storage) {
    this.#storage = storage;
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
    for (const listener of this.#listeners) listener();
  }

  /** Forgets everything here; what is stored is the caller's. */
  clear(): void {
    this.#texts.clear();
    for (const listener of this.#listeners) listener();
  }
}
