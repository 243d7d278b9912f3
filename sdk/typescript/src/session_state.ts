/**
 * What an end keeps of one session: entities by kind and id, and the cursor. The hub folds; this only replaces older
 * entities by newer ones and watches that no change is missed or taken twice.
 */
import { Overlay, type Delta } from "./overlay.ts";
import {
  ENTITY_KINDS,
  SESSION_EVENT_TYPES,
  type Change,
  type EntityView,
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
  /** Where the timeline goes on backwards; `null` at its beginning. */
  historyBefore: number | null = null;
  loaded = false;
  readonly overlay = new Overlay();
  /** Transient words of running calls. */
  readonly progress = new Map<string, string>();
  readonly unfamiliar: Unfamiliar[] = [];
  #entities = new Map<string, Map<string, EntityView>>();
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
    if (this.#resetting || view.seq < this.cursor || !this.loaded) {
      this.#entities.clear();
      this.unfamiliar.length = 0;
      this.historyBefore = view.history_before ?? null;
    }
    this.#resetting = false;
    this.overlay.clear();
    this.progress.clear();
    for (const entity of view.entities) this.#upsert(entity, view.seq);
    this.cursor = view.seq;
    this.loaded = true;
    this.revision += 1;
  }

  /** `"gap"` means that a change is missing: nothing was taken in, and the hub must be asked for what came after the cursor. */
  applyChange(change: Change): "applied" | "repeated" | "gap" {
    if (this.#resetting || change.seq <= this.cursor) return "repeated";
    if (change.seq !== this.cursor + 1) return "gap";
    this.cursor = change.seq;
    if (!SESSION_EVENT_TYPES.includes(change.event.type)) this.unfamiliar.push({ seq: change.seq, name: change.event.type });
    for (const entity of change.upserts) this.#upsert(entity, change.seq);
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
    this.revision += 1;
  }

  #upsert(entity: EntityView, seq: number): void {
    if (!ENTITY_KINDS.includes(entity.kind)) {
      this.unfamiliar.push({ seq, name: (entity as { kind: string }).kind });
      return;
    }
    let kind = this.#entities.get(entity.kind);
    if (!kind) this.#entities.set(entity.kind, (kind = new Map()));
    const known = kind.get(entity.id);
    if (known && known.version > entity.version) return;
    kind.set(entity.id, entity);
    if (entity.kind === "message") this.overlay.drop(entity.id);
    if (entity.kind === "call" && entity.ended_at) this.progress.delete(entity.id);
    // Partial text of an answer that will not be finished would otherwise stay on the screen for ever.
    if (entity.kind === "turn" && entity.ended_at && this.all("turn").every((turn) => turn.ended_at)) this.overlay.clear();
  }
}
