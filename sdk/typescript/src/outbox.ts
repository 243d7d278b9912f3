/**
 * What the user asked for and the hub has not answered yet. Each operation keeps its id over reloads and reconnections,
 * and the hub answers a repeated id with the first outcome, so sending again is always safe and never doubles anything.
 *
 * This room writes to its storage and decides; it knows no socket. Whoever has one calls `due` and `settle`.
 */
import { uuidv7 } from "./id.ts";
import type { Storage } from "./storage.ts";
import { ALONE, type Tabs } from "./tabs.ts";
import { needsEpoch, PROTOCOL_VERSION, type ErrorBody, type ErrorCode, type Intent, type Operation, type Reply, type SessionId } from "./types.ts";

export type EntryState =
  /** Goes out as soon as there is a connection. */
  | "waiting"
  /** Went out on this connection; its reply is due. */
  | "sent"
  /** The session moved on meanwhile: it goes out when the user taps, never by itself. */
  | "held"
  /** The hub asks for a second yes before it acts. */
  | "unconfirmed"
  /** Refused for good; the text is kept for the user. */
  | "refused";

export interface OutboxEntry {
  readonly operation: Operation;
  readonly state: EntryState;
  readonly error: ErrorBody | null;
  readonly queuedAt: string;
}

const PREFIX = "outbox/";

/** What another tab wrote down is left to it for this long. */
const ELSEWHERE_MS = 6_000;

/** Refused because the session has moved: the user's text is still good, but only the user can say so. */
const HELD: readonly ErrorCode[] = ["stale_epoch", "transferring"];
/** Passing troubles of the hub: the same id goes out again by itself. */
const PASSING: readonly ErrorCode[] = ["rate_limited", "shutting_down", "storage_failed", "unauthenticated"];

export class Outbox {
  #storage: Storage;
  #entries = new Map<string, OutboxEntry>();
  #listeners = new Set<() => void>();
  #waiters = new Map<string, (reply: Reply | null) => void>();
  #snapshot: readonly OutboxEntry[] = [];
  #tabs: Tabs;
  /** Entries that another tab brings out, and until when that is left to it. */
  #elsewhere = new Map<string, number>();
  #elsewhereTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(storage: Storage, tabs: Tabs = ALONE) {
    this.#storage = storage;
    this.#tabs = tabs;
  }

  /** Takes up what an earlier page left behind. */
  async load(): Promise<void> {
    for (const [, value] of await this.#storage.entries(PREFIX)) {
      const entry = value as OutboxEntry;
      const id = entry?.operation?.operation_id;
      if (!id || this.#entries.has(id)) continue;
      this.#entries.set(id, entry.state === "sent" ? { ...entry, state: "waiting" } : entry);
    }
    this.#tell();
  }

  /** In the order in which they were made. */
  list(): readonly OutboxEntry[] {
    return this.#snapshot;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Writes an operation down; it is safe once this resolves. `settled` tells what became of it, however long that takes,
   * and is `null` when the user took it back.
   */
  async add(
    intent: Intent,
    about: { sessionId?: SessionId; epoch?: number; baseVersion?: number; confirmed?: boolean } = {},
  ): Promise<{ operationId: string; settled: Promise<Reply | null> }> {
    const operationId = uuidv7();
    const operation = {
      v: PROTOCOL_VERSION,
      operation_id: operationId,
      ...(about.sessionId === undefined ? {} : { session_id: about.sessionId }),
      ...intent,
      // The user has said yes to a question that came before it was asked of the hub.
      confirmed: about.confirmed ?? false,
      sent_at: new Date().toISOString(),
      ...(needsEpoch(intent.intent) && about.epoch !== undefined ? { epoch: about.epoch } : {}),
      ...(about.baseVersion === undefined ? {} : { base_version: about.baseVersion }),
    } as Operation;
    const settled = new Promise<Reply | null>((resolve) => this.#waiters.set(operationId, resolve));
    const entry: OutboxEntry = { operation, state: "waiting", error: null, queuedAt: new Date().toISOString() };
    // On the disk before it is on the wire: a page that dies in between still knows what it asked for.
    await this.#write(entry);
    this.#entries.set(operationId, entry);
    this.#tabs.tell({ about: "entry", entry });
    this.#tell();
    return { operationId, settled };
  }

  /** What has to go out now; each is handed out once per connection. */
  due(): Operation[] {
    const due: Operation[] = [];
    for (const entry of this.list()) {
      if (entry.state !== "waiting" || (this.#elsewhere.get(entry.operation.operation_id) ?? 0) > Date.now()) continue;
      due.push(entry.operation);
      this.#entries.set(entry.operation.operation_id, { ...entry, state: "sent" });
    }
    if (due.length > 0) this.#tell();
    return due;
  }

  /** The connection is gone, and with it the replies that were due: all of it goes out again on the next one. */
  connectionLost(): void {
    for (const [id, entry] of this.#entries) if (entry.state === "sent") this.#entries.set(id, { ...entry, state: "waiting" });
    this.#tell();
  }

  /** Takes the hub's reply in. */
  async settle(reply: Reply): Promise<void> {
    const entry = this.#entries.get(reply.operation_id);
    if (!entry) return;
    const error = reply.error ?? null;
    // A remembered outcome may be a refusal: a duplicate with an error is that refusal again.
    if (!error) {
      await this.#remove(reply.operation_id, reply);
    } else if (error.code === "needs_confirmation") {
      await this.#set({ ...entry, state: "unconfirmed", error });
      return;
    } else if (PASSING.includes(error.code)) {
      await this.#set({ ...entry, state: "waiting", error });
      return;
    } else {
      await this.#set({ ...entry, state: HELD.includes(error.code) ? "held" : "refused", error });
    }
    this.#waiters.get(reply.operation_id)?.(reply);
    this.#waiters.delete(reply.operation_id);
  }

  /** The user said yes a second time: the same operation, the same id. */
  async confirm(operationId: string): Promise<void> {
    const entry = this.#entries.get(operationId);
    if (entry?.state !== "unconfirmed") return;
    await this.#set({ ...entry, operation: { ...entry.operation, confirmed: true }, state: "waiting", error: null });
  }

  /**
   * The user taps to send what was held or refused. A refusal is remembered under the old id, so this is a new operation
   * against the session as it is now; one that may be tried again keeps its id.
   */
  async retry(operationId: string, epoch: number | undefined): Promise<void> {
    const entry = this.#entries.get(operationId);
    if (!entry || (entry.state !== "held" && entry.state !== "refused")) return;
    const keeps = entry.error !== null && !isFinal(entry.error.code);
    const operation = {
      ...entry.operation,
      operation_id: keeps ? operationId : uuidv7(),
      confirmed: false,
      ...(epoch !== undefined && needsEpoch(entry.operation.intent) ? { epoch } : {}),
    };
    // The new one is written before the old one goes: a crash between the two must not lose the text.
    await this.#set({ operation, state: "waiting", error: null, queuedAt: entry.queuedAt });
    if (!keeps) await this.#remove(operationId, null);
  }

  /** The user takes it back. What has already gone out may still take effect; only what has not is sure to be cancelled. */
  async discard(operationId: string): Promise<void> {
    await this.#remove(operationId, null);
    this.#waiters.get(operationId)?.(null);
    this.#waiters.delete(operationId);
  }

  /** Another tab has written an entry. It brings it out itself; only when it doesn't, because it is gone, this one does. */
  adopt(entry: OutboxEntry): void {
    const id = entry.operation.operation_id;
    this.#elsewhere.set(id, Date.now() + ELSEWHERE_MS);
    this.#entries.set(id, entry.state === "sent" ? { ...entry, state: "waiting" } : entry);
    this.#tell();
    // Looked at again once the other tab had its time.
    clearTimeout(this.#elsewhereTimer);
    this.#elsewhereTimer = setTimeout(() => this.#tell(), ELSEWHERE_MS + 10);
  }

  /** Another tab has settled an entry, or the user discarded it there. */
  forget(operationId: string, reply: Reply | null): void {
    this.#elsewhere.delete(operationId);
    if (this.#entries.delete(operationId)) this.#tell();
    this.#waiters.get(operationId)?.(reply);
    this.#waiters.delete(operationId);
  }

  /** Forgets everything here; what is stored is the caller's. */
  clear(): void {
    clearTimeout(this.#elsewhereTimer);
    this.#entries.clear();
    this.#waiters.clear();
    this.#tell();
  }

  async #set(entry: OutboxEntry): Promise<void> {
    const id = entry.operation.operation_id;
    this.#entries.set(id, entry);
    this.#tell();
    await this.#write(entry);
  }

  /** A full or broken disk must not keep the user from speaking: the entry then lives as long as the page. */
  async #write(entry: OutboxEntry): Promise<void> {
    await this.#storage.put(PREFIX + entry.operation.operation_id, entry).catch(() => undefined);
    // Taken back or settled while it was being written.
    if (this.#entries.get(entry.operation.operation_id) === entry) this.#tabs.tell({ about: "entry", entry });
  }

  async #remove(id: string, reply: Reply | null): Promise<void> {
    if (!this.#entries.delete(id)) return;
    this.#elsewhere.delete(id);
    this.#tell();
    this.#tabs.tell({ about: "gone", operationId: id, reply });
    await this.#storage.remove(PREFIX + id).catch(() => undefined);
  }

  #tell(): void {
    this.#snapshot = [...this.#entries.values()].sort((a, b) =>
      a.operation.operation_id < b.operation.operation_id ? -1 : 1,
    );
    for (const listener of this.#listeners) listener();
  }
}

/** Whether the outcome is settled for an operation id; what isn't may be sent again with the same one. */
export function isFinal(code: ErrorCode): boolean {
  return !AGAIN.includes(code);
}

const AGAIN: readonly ErrorCode[] = [
  "transferring",
  "needs_confirmation",
  "rate_limited",
  "workspace_busy",
  "device_offline",
  "model_unavailable",
  "unauthenticated",
  "cursor_too_old",
  "shutting_down",
  "storage_failed",
  "internal",
];
