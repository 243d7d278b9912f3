/**
 * The tabs of one browser share what is stored; here they tell each other what they change in it, so that what is discarded in one tab
 * isn't sent by another, and a draft is the same in all of them.
 */
import type { OutboxEntry } from "./outbox.ts";
import type { Reply } from "./types.ts";

export type TabMessage =
  | { about: "entry"; entry: OutboxEntry }
  /** `reply` is what the hub said; `null`: the user took it back. */
  | { about: "gone"; operationId: string; reply: Reply | null }
  | { about: "draft"; place: string; text: string };

export interface Tabs {
  tell(message: TabMessage): void;
  listen(listener: (message: TabMessage) => void): void;
  close(): void;
}

export const ALONE: Tabs = { tell: () => undefined, listen: () => undefined, close: () => undefined };

/** Works on plain http too. Only pages have other tabs; what runs elsewhere is alone. */
export function openTabs(name = "baton"): Tabs {
  if (typeof window === "undefined" || typeof BroadcastChannel === "undefined") return ALONE;
  try {
    return new ChannelTabs(new BroadcastChannel(name));
  } catch {
    // Denied with the storage that it is counted to.
    return ALONE;
  }
}

export class ChannelTabs implements Tabs {
  #channel: BroadcastChannel;

  constructor(channel: BroadcastChannel) {
    this.#channel = channel;
  }
  tell(message: TabMessage): void {
    try {
      this.#channel.postMessage(message);
    } catch {
      // Closed meanwhile: nobody is there to be told.
    }
  }
  listen(listener: (message: TabMessage) => void): void {
    this.#channel.onmessage = (event: MessageEvent<TabMessage>) => listener(event.data);
  }
  close(): void {
    this.#channel.close();
  }
}
