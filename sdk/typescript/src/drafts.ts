/** Text that is being written, one draft per session, kept until the hub has acknowledged what became of it. */
import type { Storage } from "./storage.ts";

const PREFIX = "draft/";

export class Drafts {
  #storage: Storage;
  #texts = new Map<string, string>();

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  async load(): Promise<void> {
    for (const [key, text] of await this.#storage.entries(PREFIX)) {
      if (typeof text === "string") this.#texts.set(key.slice(PREFIX.length), text);
    }
  }

  get(place: string): string {
    return this.#texts.get(place) ?? "";
  }

  set(place: string, text: string): void {
    if (text === "") {
      this.#texts.delete(place);
      void this.#storage.remove(PREFIX + place).catch(() => undefined);
    } else {
      this.#texts.set(place, text);
      void this.#storage.put(PREFIX + place, text).catch(() => undefined);
    }
  }

  /** Forgets everything here; what is stored is the caller's. */
  clear(): void {
    this.#texts.clear();
  }
}
