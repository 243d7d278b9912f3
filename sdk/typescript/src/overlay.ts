/**
 * Answers under way: transient text that arrives ahead of the message it will become. Nothing here is durable; the
 * message's entity replaces it.
 */
import type { DeltaPart, MessageId } from "./types.ts";

export interface Delta {
  message_id: MessageId;
  attempt: number;
  /** Bytes of UTF-8 from the start of this part in this attempt. */
  offset: number;
  part: DeltaPart;
  text: string;
}

export interface Partial {
  readonly attempt: number;
  readonly text: string;
  readonly thinking: string;
}

interface Growing {
  attempt: number;
  text: string;
  thinking: string;
  bytes: Record<DeltaPart, number>;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Overlay {
  #partials = new Map<MessageId, Growing>();

  get(messageId: MessageId): Partial | undefined {
    return this.#partials.get(messageId);
  }

  entries(): IterableIterator<[MessageId, Partial]> {
    return this.#partials.entries();
  }

  /**
   * Takes a delta in. `"gap"` means that text before it is missing, so the whole must be asked for again; `"ignored"`
   * that it belongs to an attempt that is over or repeats what is known.
   */
  apply(delta: Delta): "applied" | "ignored" | "gap" {
    let growing = this.#partials.get(delta.message_id);
    if (growing && delta.attempt < growing.attempt) return "ignored";
    if (!growing || delta.attempt > growing.attempt) {
      growing = { attempt: delta.attempt, text: "", thinking: "", bytes: { text: 0, thinking: 0 } };
    }
    const known = growing.bytes[delta.part];
    if (delta.offset > known) return "gap";
    const bytes = encoder.encode(delta.text);
    const repeated = known - delta.offset;
    if (repeated > 0 && repeated >= bytes.length) return "ignored";
    growing[delta.part] += repeated === 0 ? delta.text : decoder.decode(bytes.subarray(repeated));
    growing.bytes[delta.part] = delta.offset + bytes.length;
    this.#partials.set(delta.message_id, growing);
    return "applied";
  }

  /** The message itself has arrived. */
  drop(messageId: MessageId): void {
    this.#partials.delete(messageId);
  }

  clear(): void {
    this.#partials.clear();
  }
}
