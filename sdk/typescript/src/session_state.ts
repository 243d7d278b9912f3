/**
 * What an end keeps of one session: entities by kind and id, and the cursor. The hub folds; this only replaces older
 * entities by newer ones and watches that no change is missed or taken twice.
 */
import type { KeptView } from "./kept.ts";
import { Overlay, type Delta } from "./overlay.ts";
import {
  ENTITY_KINDS,
  SESSION_EVENT_TYPES,
  type Change,
  type EntityView,
  type ErrorBody,
  type History,
  type SessionEntity,
  type SessionId,
  type SessionView,
} from "./types.ts";

export type EntityKind = EntityView["kind"];
export type EntityOf<K extends EntityKind> = Extract<EntityView, { kind: K }>;

/** An event or entity that this version doesn't know: shown as a neutral line, its place in the order kept. */
export interface Unfamiliar {
  readonly seq: number;
  readonly name: string;
}

export class SessionState {
  readonly id: SessionId;
  /** The last sequence number taken in; 0 before the first view. */
  cursor = 0;
  /** Grows with every visible change, so that a screen knows when to draw again. */
  revision = 0;
  /** Grows when an entity comes, changes or goes; not with an answer's growing text. */
  changes = 0;
  /** Where the timeline goes on backwards; `null` at its beginning. */
  historyBefore: number | null = null;
  loaded = false;
  /** When the hub last said what is here, while it comes from this device's own store; `null` once the hub has said it itself. */
  keptAt: string | null = null;
  /** The version of the hub that has said what is here. */
  hub: string | null = null;
  /** Why the hub can't show this session; `null` while it can. */
  trouble: ErrorBody | null = null;
  readonly overlay = new Overlay();
  /** Transient words of running calls. */
  readonly progress = new Map<string, string>();
  readonly unfamiliar: Unfamiliar[] = [];
  #entities = new Map<string, Map<string, EntityView>>();
  /** Entries that were loaded in full although the view has them shortened; a later view must not shorten them again. */
  #whole = new Set<EntityView>();
  #resetting = false;

  constructor(id: SessionId) {
    this.id = id;
  }

  all<K extends EntityKind>(kind: K): EntityOf<K>[] {
    return [...(this.#entities.get(kind)?.values() ?? [])] as EntityOf<K>[];
  }

  get<K extends EntityKind>(kind: K, id: string | null | undefined): EntityOf<K> | undefined {
    return id == null ? undefined : (this.#entities.get(kind)?.get(id) as EntityOf<K> | undefined);
  }

  get session(): SessionEntity | undefined {
    return this.get("session", this.id);
  }

  /** The hub says that what follows replaces everything. */
  reset(): void {
    this.#resetting = true;
  }

  applyView(view: SessionView): void {
    // A view that is older than the cursor is a hub that was restored from a backup: its word counts.
    // What was kept here may end before the view begins: then it would have a gap.
    if (this.#resetting || view.seq < this.cursor || !this.loaded || this.keptAt !== null) {
      this.#entities.clear();
      this.#whole.clear();
      this.unfamiliar.length = 0;
      this.historyBefore = view.history_before ?? null;
    }
    this.#resetting = false;
    this.overlay.clear();
    this.progress.clear();
    for (const entity of view.entities) this.#upsert(entity, view.seq);
    this.cursor = view.seq;
    this.changes += 1;
    this.loaded = true;
    this.keptAt = null;
    this.trouble = null;
    this.revision += 1;
  }

  /** `"gap"` means that a change is missing: nothing was taken in, and the hub must be asked for what came after the cursor. */
  applyChange(change: Change): "applied" | "repeated" | "gap" {
    if (this.#resetting || change.seq <= this.cursor) return "repeated";
    if (change.seq !== this.cursor + 1) return "gap";
    this.cursor = change.seq;
    this.keptAt = null;
    if (!SESSION_EVENT_TYPES.includes(change.event.type)) this.unfamiliar.push({ seq: change.seq, name: change.event.type });
    for (const entity of change.upserts) this.#upsert(entity, change.seq);
    this.changes += 1;
    this.revision += 1;
    return "applied";
  }

  applyDelta(delta: Delta): "applied" | "ignored" | "gap" {
    if (this.get("message", delta.message_id)) return "ignored";
    const result = this.overlay.apply(delta);
    if (result === "applied") this.revision += 1;
    return result;
  }

  applyProgress(callId: string, text: string): void {
    this.progress.set(callId, text);
    this.revision += 1;
  }

  /** Older entries; what is known in a newer version stays. */
  applyHistory(history: History): void {
    for (const entity of history.entries) this.#upsert(entity, 0);
    this.historyBefore = history.before ?? null;
    this.changes += 1;
    this.revision += 1;
  }

  /** The whole of an entry that the view has shortened: the same version of it, from the history. */
  applyWhole(history: History): void {
    for (const entity of history.entries) {
      if (this.#upsert(entity, 0)) this.#whole.add(entity);
    }
    this.changes += 1;
    this.revision += 1;
  }

  /** Entries of the timeline that are kept. */
  get size(): number {
    return TIMELINE.reduce((sum, kind) => sum + (this.#entities.get(kind)?.size ?? 0), 0);
  }

  /**
   * Forgets the oldest entries beyond `keep`, so that a long session doesn't fill the memory; the history gives them back.
   * What is still open stays.
   */
  trim(keep: number): void {
    if (this.size <= keep) return;
    const entries = TIMELINE.flatMap((kind) => this.all(kind)).sort((a, b) => b.created_seq - a.created_seq);
    let newest = 0;
    for (const entity of entries.slice(keep)) {
      if (isOpen(entity)) continue;
      newest = Math.max(newest, entity.version);
      this.#whole.delete(entity);
      this.#entities.get(entity.kind)?.delete(entity.id);
    }
    if (newest === 0) return;
    // The history counts by the event that last touched an entry: going on behind the newest that went gives all of them.
    this.historyBefore = Math.max(newest + 1, this.historyBefore ?? 0);
    const oldest = entries[keep - 1]?.created_seq ?? 0;
    for (const turn of this.all("turn")) if (turn.ended_at && turn.version < oldest) this.#entities.get("turn")?.delete(turn.id);
    while (this.unfamiliar[0] && this.unfamiliar[0].seq < oldest) this.unfamiliar.shift();
    this.changes += 1;
    this.revision += 1;
  }

  /** What this device keeps for a time without the hub: how things stand, and the latest `most` entries. */
  kept(most: number, at: string): KeptView {
    const entries = TIMELINE.flatMap((kind) => this.all(kind)).sort((a, b) => b.created_seq - a.created_seq);
    const left = entries.slice(most).filter((entity) => !isOpen(entity));
    const gone = new Set<EntityView>(left);
    const newest = left.reduce((last, entity) => Math.max(last, entity.version), 0);
    return {
      at,
      seq: this.cursor,
      entities: [...this.#entities.values()].flatMap((kind) => [...kind.values()]).filter((entity) => !gone.has(entity)),
      historyBefore: newest === 0 ? this.historyBefore : Math.max(newest + 1, this.historyBefore ?? 0),
      hub: this.hub,
    };
  }

  /** Shows what was kept, until the hub says how it is. */
  applyKept(kept: KeptView): void {
    if (this.loaded) return;
    for (const entity of kept.entities) this.#upsert(entity, kept.seq);
    this.cursor = kept.seq;
    this.historyBefore = kept.historyBefore;
    this.loaded = true;
    this.keptAt = kept.at;
    this.hub = kept.hub ?? null;
    this.changes += 1;
    this.revision += 1;
  }

  /** Takes an entity in unless what is known is newer; says whether it did. */
  #upsert(entity: EntityView, seq: number): boolean {
    if (!ENTITY_KINDS.includes(entity.kind)) {
      this.unfamiliar.push({ seq, name: (entity as { kind: string }).kind });
      return false;
    }
    let kind = this.#entities.get(entity.kind);
    if (!kind) this.#entities.set(entity.kind, (kind = new Map()));
    const known = kind.get(entity.id);
    if (known && known.version > entity.version) return false;
    if (known && this.#whole.delete(known) && known.version === entity.version) {
      this.#whole.add(known);
      return false;
    }
    kind.set(entity.id, entity);
    if (entity.kind === "message") this.overlay.drop(entity.id);
    if (entity.kind === "call" && entity.ended_at) this.progress.delete(entity.id);
    // Partial text of an answer that will not be finished would otherwise stay on the screen for ever.
    if (entity.kind === "turn" && entity.ended_at && this.all("turn").every((turn) => turn.ended_at)) this.overlay.clear();
    return true;
  }
}

const TIMELINE = ["message", "call", "approval", "question"] as const;

function isOpen(entity: EntityOf<(typeof TIMELINE)[number]>): boolean {
  if (entity.kind === "message") return false;
  if (entity.kind === "call") return !["succeeded", "failed", "cancelled"].includes(entity.state);
  return entity.state === "open";
}
