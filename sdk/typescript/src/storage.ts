/** Where an end keeps what must survive a reload: IndexedDB where there is one, else localStorage, else memory. */

export interface Storage {
  /** Whether what is written survives a reload. */
  readonly durable: boolean;
  entries(prefix: string): Promise<[string, unknown][]>;
  put(key: string, value: unknown): Promise<void>;
  remove(key: string): Promise<void>;
  clear(): Promise<void>;
}

export class MemoryStorage implements Storage {
  readonly durable = false;
  #values = new Map<string, unknown>();

  async entries(prefix: string): Promise<[string, unknown][]> {
    return [...this.#values].filter(([key]) => key.startsWith(prefix)).map(([key, value]) => [key, structuredClone(value)]);
  }
  async put(key: string, value: unknown): Promise<void> {
    this.#values.set(key, structuredClone(value));
  }
  async remove(key: string): Promise<void> {
    this.#values.delete(key);
  }
  async clear(): Promise<void> {
    this.#values.clear();
  }
}

/** Opens the best storage that works here; it never fails, for an end must run in private windows too. */
export async function openStorage(name = "baton"): Promise<Storage> {
  return new GuardedStorage(await openBest(name));
}

/** Some browsers neither open a database in private windows nor say so. */
const OPEN_MS = 2_000;

/** What can no longer be stored lives as long as the page, and `durable` says so. */
export class GuardedStorage implements Storage {
  #inner: Storage;
  #memory = new MemoryStorage();
  #failed = false;

  constructor(inner: Storage) {
    this.#inner = inner;
  }
  get durable(): boolean {
    return this.#inner.durable && !this.#failed;
  }
  async entries(prefix: string): Promise<[string, unknown][]> {
    const stored = (await this.#try(() => this.#inner.entries(prefix))) ?? [];
    const kept = await this.#memory.entries(prefix);
    return [...new Map([...stored, ...kept])];
  }
  async put(key: string, value: unknown): Promise<void> {
    if ((await this.#try(async () => (await this.#inner.put(key, value), true))) === undefined) await this.#memory.put(key, value);
    else await this.#memory.remove(key);
  }
  async remove(key: string): Promise<void> {
    await this.#memory.remove(key);
    await this.#try(() => this.#inner.remove(key));
  }
  async clear(): Promise<void> {
    await this.#memory.clear();
    await this.#try(() => this.#inner.clear());
  }
  async #try<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch {
      this.#failed = true;
      return undefined;
    }
  }
}

async function openBest(name: string): Promise<Storage> {
  try {
    if (typeof indexedDB !== "undefined") {
      const database = await Promise.race([openDatabase(name), new Promise<null>((resolve) => setTimeout(() => resolve(null), OPEN_MS))]);
      if (database) return new IndexedStorage(database);
    }
  } catch {
    // Some browsers offer IndexedDB and refuse it in private windows.
  }
  try {
    const probe = `${name}/probe`;
    localStorage.setItem(probe, "1");
    localStorage.removeItem(probe);
    return new LocalStorage(`${name}/`);
  } catch {
    return new MemoryStorage();
  }
}

const STORE = "values";

function openDatabase(name: string): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
    opening.onblocked = () => reject(new Error("the database is blocked by another tab"));
  });
}

class IndexedStorage implements Storage {
  readonly durable = true;
  #database: IDBDatabase;

  constructor(database: IDBDatabase) {
    this.#database = database;
    // Another tab with a newer version may upgrade; holding on would block it.
    database.onversionchange = () => database.close();
  }

  entries(prefix: string): Promise<[string, unknown][]> {
    const range = IDBKeyRange.bound(prefix, `${prefix}\uffff`);
    return this.#run("readonly", (store) => {
      const found: [string, unknown][] = [];
      const cursor = store.openCursor(range);
      cursor.onsuccess = () => {
        if (!cursor.result) return;
        found.push([String(cursor.result.key), cursor.result.value]);
        cursor.result.continue();
      };
      return () => found;
    });
  }
  put(key: string, value: unknown): Promise<void> {
    return this.#run("readwrite", (store) => {
      store.put(value, key);
      return () => undefined;
    });
  }
  remove(key: string): Promise<void> {
    return this.#run("readwrite", (store) => {
      store.delete(key);
      return () => undefined;
    });
  }
  clear(): Promise<void> {
    return this.#run("readwrite", (store) => {
      store.clear();
      return () => undefined;
    });
  }

  /** One transaction; it has ended, durably, when the promise resolves. */
  #run<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const transaction = this.#database.transaction(STORE, mode);
      const result = work(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(result());
      transaction.onabort = () => reject(transaction.error);
      transaction.onerror = () => reject(transaction.error);
    });
  }
}

class LocalStorage implements Storage {
  readonly durable = true;
  #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  async entries(prefix: string): Promise<[string, unknown][]> {
    const found: [string, unknown][] = [];
    for (let index = 0; index < localStorage.length; index += 1) {
      const key = localStorage.key(index);
      if (!key?.startsWith(this.#root + prefix)) continue;
      try {
        found.push([key.slice(this.#root.length), JSON.parse(localStorage.getItem(key) ?? "null")]);
      } catch {
        // What another program wrote under our name is not ours to judge.
      }
    }
    return found.sort(([a], [b]) => (a < b ? -1 : 1));
  }
  async put(key: string, value: unknown): Promise<void> {
    localStorage.setItem(this.#root + key, JSON.stringify(value));
  }
  async remove(key: string): Promise<void> {
    localStorage.removeItem(this.#root + key);
  }
  async clear(): Promise<void> {
    for (const [key] of await this.entries("")) localStorage.removeItem(this.#root + key);
  }
}
