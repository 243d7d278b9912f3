/**
 * One WebSocket to the hub, for ever: it connects, notices when the other side is gone without a word, and connects
 * again. It knows frames and time, not what they mean.
 */
import type { Hub } from "./hub.ts";
import { HubError } from "./hub.ts";
import type { ClientFrame, HubFrame } from "./types.ts";

export type ConnectionState =
  | "connecting"
  /** Frames flow. */
  | "live"
  /** The link is lost or doubtful; it is being mended. */
  | "reconnecting"
  /** The device itself says that it has no network. */
  | "offline"
  /** The hub doesn't know this device, or no longer. */
  | "signed_out"
  | "closed";

/** Opens a socket; ends without a browser's cookies name their credentials here. */
export type OpenSocket = (url: string) => WebSocket;

export interface ConnectionHandlers {
  hello(): ClientFrame;
  heartbeat(): ClientFrame;
  frame(frame: HubFrame): void;
  state(state: ConnectionState): void;
}

/** A heartbeat goes out this often while the page is shown. */
const HEARTBEAT_MS = 4_000;
/** After this long without a word from a hub that answers heartbeats, the link counts as dead: with the beat, within 15 s of the cut. */
const SILENCE_MS = 9_000;
/** After waking up, an answer is due within this time. */
const WAKE_MS = 2_500;
const BACKOFF_FIRST_MS = 400;
const BACKOFF_MOST_MS = 10_000;
/** `WebSocket.OPEN`, also where there is no global of that name. */
const OPEN = 1;

export class Connection {
  #hub: Hub;
  #url: string;
  #handlers: ConnectionHandlers;
  #openSocket: OpenSocket;
  #socket: WebSocket | null = null;
  #state: ConnectionState = "closed";
  #failures = 0;
  #lastFrame = 0;
  #answersHeartbeats = false;
  #probing = false;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  #beatTimer: ReturnType<typeof setInterval> | undefined;
  #wakeTimer: ReturnType<typeof setTimeout> | undefined;
  #stopListening: () => void = () => undefined;

  constructor(hub: Hub, url: string, handlers: ConnectionHandlers, openSocket: OpenSocket = (to) => new WebSocket(to)) {
    this.#hub = hub;
    this.#openSocket = openSocket;
    this.#url = url;
    this.#handlers = handlers;
  }

  get live(): boolean {
    return this.#state === "live";
  }

  open(): void {
    if (this.#state !== "closed") return;
    this.#stopListening = listen(() => this.wake(), () => this.#wentOffline());
    this.#connect("connecting");
  }

  close(): void {
    this.#stopListening();
    this.#drop();
    this.#become("closed");
  }

  send(frame: ClientFrame): boolean {
    if (this.#state !== "live" || this.#socket?.readyState !== OPEN) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  /** The page is shown again, the network is back, or the user asks: find out at once, don't wait for a timer. */
  wake(): void {
    if (this.#ended()) return;
    if (this.#state !== "live") {
      this.#failures = 0;
      this.#connect("reconnecting");
      return;
    }
    const asked = Date.now();
    if (asked - this.#lastFrame < 1_000) return;
    this.#beat();
    clearTimeout(this.#wakeTimer);
    this.#wakeTimer = setTimeout(() => {
      if (this.#answersHeartbeats && this.#lastFrame < asked) this.#lost();
    }, WAKE_MS);
  }

  #ended(): boolean {
    return this.#state === "closed" || this.#state === "signed_out";
  }

  #connect(state: ConnectionState): void {
    this.#drop();
    this.#become(state);
    const socket = this.#openSocket(this.#url);
    this.#socket = socket;
    this.#lastFrame = Date.now();
    this.#answersHeartbeats = false;
    // A handshake into a void ends by this timer, long before the browser gives up.
    this.#beatTimer = setInterval(() => this.#tick(), HEARTBEAT_MS);
    socket.onopen = () => socket.send(JSON.stringify(this.#handlers.hello()));
    socket.onmessage = (message) => {
      if (socket === this.#socket && typeof message.data === "string") this.#receive(message.data);
    };
    socket.onclose = () => {
      if (socket === this.#socket) this.#lost();
    };
  }

  #receive(text: string): void {
    this.#lastFrame = Date.now();
    let frame: HubFrame;
    try {
      frame = JSON.parse(text) as HubFrame;
    } catch {
      return;
    }
    if (frame.type === "heartbeat") {
      this.#answersHeartbeats = true;
      return;
    }
    if (frame.type === "welcome") {
      this.#failures = 0;
      this.#become("live");
      this.#handlers.frame(frame);
      // The first heartbeat tells whether this hub answers them.
      this.#beat();
      return;
    }
    this.#handlers.frame(frame);
    if (frame.type === "bye") this.#lost(frame.retry_after_s * 1_000);
  }

  #tick(): void {
    const silent = Date.now() - this.#lastFrame;
    if (this.#state !== "live" || this.#answersHeartbeats) {
      if (silent > SILENCE_MS) {
        this.#lost();
        return;
      }
    } else if (silent > HEARTBEAT_MS && !this.#probing) {
      // A hub that doesn't answer heartbeats: ask by another way whether the path is there at all.
      this.#probing = true;
      const socket = this.#socket;
      void this.#hub.reachable(HEARTBEAT_MS).then((reachable) => {
        this.#probing = false;
        if (!reachable && socket === this.#socket) this.#lost();
      });
    }
    this.#beat();
  }

  #beat(): void {
    this.send(this.#handlers.heartbeat());
  }

  #wentOffline(): void {
    if (this.#ended()) return;
    this.#drop();
    this.#become("offline");
    // `online` may never come, such as on a LAN without a way out: keep trying.
    this.#later(BACKOFF_MOST_MS);
  }

  #lost(afterMs?: number): void {
    this.#drop();
    this.#failures += 1;
    this.#become(typeof navigator !== "undefined" && navigator.onLine === false ? "offline" : "reconnecting");
    const most = Math.min(BACKOFF_MOST_MS, BACKOFF_FIRST_MS * 2 ** (this.#failures - 1));
    this.#later(afterMs ?? most / 2 + Math.random() * (most / 2));
  }

  #later(ms: number): void {
    clearTimeout(this.#retryTimer);
    this.#retryTimer = setTimeout(() => void this.#retry(), ms);
  }

  /** A browser doesn't say why a handshake failed; the HTTP side does. */
  async #retry(): Promise<void> {
    try {
      await this.#hub.info();
    } catch (error) {
      if (error instanceof HubError && error.code === "unauthenticated") {
        this.#drop();
        this.#become("signed_out");
      } else if (!this.#ended() && !this.#socket) {
        this.#lost();
      }
      return;
    }
    if (this.#ended()) return;
    // A wake-up may have connected meanwhile.
    if (!this.#socket) this.#connect("reconnecting");
  }

  #drop(): void {
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#wakeTimer);
    clearInterval(this.#beatTimer);
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = socket.onerror = null;
    socket.close();
  }

  #become(state: ConnectionState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#handlers.state(state);
  }
}

/** Calls back when the page is shown again or the network changes; answers with the way to stop. */
function listen(wake: () => void, offline: () => void): () => void {
  if (typeof window === "undefined") return () => undefined;
  const shown = () => {
    if (document.visibilityState === "visible") wake();
  };
  document.addEventListener("visibilitychange", shown);
  window.addEventListener("pageshow", shown);
  window.addEventListener("focus", shown);
  window.addEventListener("online", wake);
  window.addEventListener("offline", offline);
  return () => {
    document.removeEventListener("visibilitychange", shown);
    window.removeEventListener("pageshow", shown);
    window.removeEventListener("focus", shown);
    window.removeEventListener("online", wake);
    window.removeEventListener("offline", offline);
  };
}
