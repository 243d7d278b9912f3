/**
 * A device of the user's, as the hub's other end: connection, sessions that are followed, outbox, drafts. A screen
 * subscribes and draws; it decides nothing.
 */
import { Connection, type ConnectionState, type OpenSocket } from "./connection.ts";
import { Drafts } from "./drafts.ts";
import { Hub, HubError } from "./hub.ts";
import { Kept } from "./kept.ts";
import { Outbox } from "./outbox.ts";
import { SessionState } from "./session_state.ts";
import { openStorage, type Storage } from "./storage.ts";
import { openTabs, type Tabs } from "./tabs.ts";
import {
  PROTOCOL_VERSION,
  type Capabilities,
  type ClientFrame,
  type ClientType,
  type DeviceView,
  type InvitationView,
  type HubFrame,
  type HandoffId,
  type HubInfo,
  type Intent,
  type Reply,
  type SessionId,
  type SessionSummary,
  type UserId,
} from "./types.ts";

export interface ClientOptions {
  clientType: ClientType;
  capabilities: () => Capabilities;
  /** The hub's origin, empty for the page's own. */
  base?: string;
  storage?: Storage;
  /** The other tabs of this browser. */
  tabs?: Tabs;
  /** For ends without a browser's cookies: how requests and the socket carry their credentials. */
  fetch?: typeof fetch;
  openSocket?: OpenSocket;
}

export type Welcome = Extract<HubFrame, { type: "welcome" }>;

/** A session that another device offers to this one. */
export type HandoffOffer = Extract<HubFrame, { type: "handoff_offer" }>;

/** An offer is shown at least and at most this long, however far the clocks of hub and device are apart. */
const OFFER_LEAST_MS = 10_000;
const OFFER_MOST_MS = 120_000;
/** Entries that are kept of a session that nobody looks at. */
const KEPT_UNSEEN = 100;

/** Waits this long before what the hub refused for a passing reason goes out again. */
const AGAIN_MS = 3_000;

/** Entries that are asked for at a time on the way to one far back. */
const LONG_PAGE = 200;

const REFRESH_AGAIN_MS = 1_500;

/** What changes is written down for a time without the hub once it has been still for so long. */
const KEEP_MS = 800;

/** Whose things are stored here, and whether this browser was paired before. */
const OWNER = "owner";
const LEFT = "left";

export class BatonClient {
  readonly hub: Hub;
  readonly outbox: Outbox;
  readonly drafts: Drafts;
  connection: ConnectionState = "closed";
  welcome: Welcome | null = null;
  info: HubInfo | null = null;
  sessions: readonly SessionSummary[] | null = null;
  /** Approvals and questions that wait for the user in all sessions, also in those that aren't listed here. */
  waitingTotal: number | null = null;
  /** Where the list of sessions goes on; `null` at its end. */
  sessionsBefore: string | null = null;
  devices: readonly DeviceView[] | null = null;
  /** The links that this device made, and who asks to be let in by them. */
  invitations: readonly InvitationView[] | null = null;
  /** Open offers of sessions to this device, by the handoff's id. */
  readonly offers = new Map<HandoffId, HandoffOffer>();
  /** The latest error that belongs to no operation. */
  trouble: HubError | null = null;
  /** Grows with every visible change. */
  revision = 0;
  /** Whether this device has been paired and keeps what it last knew, so that it can be shown without the hub. */
  remembers = false;
  /** This browser was paired once and isn't any longer, by a revocation or a sign-out in another tab. */
  revoked = false;
  #options: ClientOptions;
  #storage: Storage;
  #link: Connection;
  #states = new Map<SessionId, SessionState>();
  #followed = new Map<SessionId, number>();
  #resubscribing = new Set<SessionId>();
  #listeners = new Set<() => void>();
  /** Sessions that the hub was asked for on this link and has said nothing of yet; those that its hello didn't name are asked for once it has welcomed us. */
  #resumed = new Set<SessionId>();
  #announced = false;
  #offerTimers = new Map<HandoffId, ReturnType<typeof setTimeout>>();
  #againTimer: ReturnType<typeof setTimeout> | undefined;
  #refreshTimers = new Map<() => Promise<void>, ReturnType<typeof setTimeout>>();
  #listing: Promise<void> | null = null;
  #listAgain = false;
  #kept: Kept;
  /** The user whose things are here; another one's never stand beside them. */
  #user: UserId | null = null;
  /** Grows when all of it goes, so that an answer that was asked for before isn't taken in after it. */
  #life = 0;
  /** The list is what was stored, not what this page has loaded. */
  #recalled = false;
  /** A new link: of the older sessions that were loaded, one may have gone meanwhile. */
  #doubtful = false;
  /** When the hub was last heard, as time in milliseconds. */
  #heard = 0;
  #keepTimers = new Map<SessionId | "list", ReturnType<typeof setTimeout>>();

  static async start(options: ClientOptions): Promise<BatonClient> {
    const storage = options.storage ?? (await openStorage());
    const client = new BatonClient(options, storage, options.tabs ?? openTabs());
    await Promise.all([client.outbox.load(), client.drafts.load(), client.#remember()]);
    return client;
  }

  private constructor(options: ClientOptions, storage: Storage, tabs: Tabs) {
    this.#options = options;
    this.#storage = storage;
    this.hub = new Hub(options.base, options.fetch);
    this.#kept = new Kept(storage);
    this.outbox = new Outbox(storage, tabs);
    this.drafts = new Drafts(storage, tabs);
    tabs.listen((message) => {
      if (message.about === "entry") this.outbox.adopt(message.entry);
      else if (message.about === "gone") this.outbox.forget(message.operationId, message.reply);
      else this.drafts.adopt(message.place, message.text);
    });
    this.#link = new Connection(this.hub, socketUrl(options.base), {
      hello: () => this.#hello(),
      heartbeat: () => this.#heartbeat(),
      frame: (frame) => this.#receive(frame),
      state: (state) => this.#linkBecame(state),
    }, options.openSocket);
    this.outbox.subscribe(() => {
      this.#flush();
      this.#changed();
    });
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  getRevision = (): number => this.revision;

  /** Whether what is typed here survives a reload. */
  get durable(): boolean {
    return this.#storage.durable;
  }

  /** While there is no link: when the hub was last heard, so that nothing older is taken for how things are. */
  get asOf(): string | null {
    return this.connection === "live" || this.#heard === 0 ? null : new Date(this.#heard).toISOString();
  }

  /** Whether this device is paired with the hub. Throws when the hub can't be reached. */
  async paired(): Promise<boolean> {
    try {
      this.info = await this.hub.info();
      this.#heard = Date.now();
      this.#kept.open();
      if (this.revoked) await this.#storage.remove(LEFT);
      this.revoked = false;
      await this.refreshDevices();
      return true;
    } catch (error) {
      if (error instanceof HubError && error.code === "unauthenticated") {
        // Revoked while it was away: whatever it kept, a list or only a draft, is no longer its own.
        await this.#leave(this.revoked || this.remembers || this.#user !== null);
        return false;
      }
      throw error;
    }
  }

  connect(): void {
    this.#link.open();
    void this.refreshSessions();
  }
  close(): void {
    this.#link.close();
    clearTimeout(this.#againTimer);
    this.#againTimer = undefined;
    for (const timer of this.#refreshTimers.values()) clearTimeout(timer);
    this.#refreshTimers.clear();
    this.#keepNow();
  }
  wake(): void {
    this.#link.wake();
  }

  /** A session's state, empty until its view has arrived. */
  state(sessionId: SessionId): SessionState {
    let state = this.#states.get(sessionId);
    if (!state) this.#states.set(sessionId, (state = new SessionState(sessionId)));
    return state;
  }

  /** Asks for a session again that couldn't be shown. */
  tryAgain(sessionId: SessionId): void {
    this.#subscribeTo(sessionId);
    this.#changed();
  }

  /** Follows a session live until the returned function is called. */
  follow(sessionId: SessionId): () => void {
    const followers = this.#followed.get(sessionId) ?? 0;
    this.#followed.set(sessionId, followers + 1);
    if (followers === 0) {
      this.#subscribeTo(sessionId);
      void this.#recall(sessionId);
    }
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      const left = (this.#followed.get(sessionId) ?? 1) - 1;
      if (left > 0) {
        this.#followed.set(sessionId, left);
        return;
      }
      this.#followed.delete(sessionId);
      this.#states.get(sessionId)?.trim(KEPT_UNSEEN);
      this.#link.send({ type: "unsubscribe", session_id: sessionId });
    };
  }

  /** Asks for something. It is written down first, goes out once there is a link, and counts once. */
  async ask(intent: Intent, sessionId?: SessionId, confirmed = false): Promise<{ operationId: string; settled: Promise<Reply | null> }> {
    const epoch = sessionId === undefined ? undefined : this.epochOf(sessionId);
    return this.outbox.add(intent, {
      ...(sessionId === undefined ? {} : { sessionId }),
      ...(epoch === undefined ? {} : { epoch }),
      ...(confirmed ? { confirmed } : {}),
    });
  }

  epochOf(sessionId: SessionId): number | undefined {
    return this.#states.get(sessionId)?.session?.epoch ?? this.sessions?.find((one) => one.session_id === sessionId)?.epoch;
  }

  /** The user taps to send what was held. */
  async retry(operationId: string): Promise<void> {
    const entry = this.outbox.list().find((one) => one.operation.operation_id === operationId);
    if (entry) await this.outbox.retry(operationId, entry.operation.session_id ? this.epochOf(entry.operation.session_id) : undefined);
  }

  async loadHistory(sessionId: SessionId, limit?: number): Promise<void> {
    const state = this.state(sessionId);
    if (state.historyBefore === null) return;
    state.applyHistory(await this.hub.history(sessionId, state.historyBefore, limit));
    this.#changed();
  }

  /** Goes back in the history until a message is there; says whether it is. */
  async loadUntil(sessionId: SessionId, messageId: string, seq: number): Promise<boolean> {
    const state = this.state(sessionId);
    while (!state.get("message", messageId)) {
      if (state.historyBefore === null || state.historyBefore <= seq) return false;
      const before = state.historyBefore;
      await this.loadHistory(sessionId, LONG_PAGE);
      if (state.historyBefore === before) return false;
    }
    return true;
  }

  /** Loads the whole of an entry that the view has shortened. */
  async loadWhole(sessionId: SessionId, version: number): Promise<void> {
    this.state(sessionId).applyWhole(await this.hub.history(sessionId, version + 1, 1));
    this.#changed();
  }

  /** Forgets older entries than the latest `keep`; the history gives them back. */
  trim(sessionId: SessionId, keep: number): void {
    this.state(sessionId).trim(keep);
    this.#changed();
  }

  /** The newest sessions anew, beside older ones that were loaded. However often it is asked for, one request is out at a time. */
  refreshSessions(): Promise<void> {
    if (this.#listing) {
      this.#listAgain = true;
      return this.#listing;
    }
    this.#listing = this.#list().finally(() => {
      this.#listing = null;
    });
    return this.#listing;
  }

  async #list(): Promise<void> {
    do {
      this.#listAgain = false;
      await this.#quietly(async () => {
        const life = this.#life;
        const page = await this.hub.sessions();
        let listed: readonly SessionSummary[] = page.sessions;
        let next = page.next ?? null;
        // What was stored gives way to the hub's word. What was loaded further back is read once more after each new link.
        const oldest = this.#recalled || !this.#doubtful ? undefined : this.sessions?.at(-1)?.updated_at;
        while (next !== null && oldest !== undefined && (listed.at(-1)?.updated_at ?? "") > oldest) {
          const more = await this.hub.sessions(next);
          listed = merged(listed, more.sessions);
          next = more.next ?? null;
        }
        if (life !== this.#life) return;
        this.waitingTotal = page.waiting_total ?? null;
        // The hub's word counts on all that is as new as its end: what isn't in it is gone from the list. Older ones stay.
        const end = next === null || this.#recalled ? undefined : listed.at(-1)?.updated_at;
        const older = end === undefined ? [] : (this.sessions ?? []).filter((one) => one.updated_at <= end && !listed.some((each) => each.session_id === one.session_id) && !this.#states.get(one.session_id)?.session?.archived);
        this.sessions = merged(listed, older);
        if (older.length === 0) this.sessionsBefore = next;
        this.#recalled = this.#doubtful = false;
      }, this.#refreshSessions);
    } while (this.#listAgain);
  }

  async loadMoreSessions(): Promise<void> {
    if (this.sessionsBefore === null) return;
    const life = this.#life;
    const page = await this.hub.sessions(this.sessionsBefore);
    if (life !== this.#life) return;
    this.sessions = merged(this.sessions ?? [], page.sessions);
    this.sessionsBefore = page.next ?? null;
    this.#changed();
  }

  /** Takes an offered session over, or leaves it where it is. */
  async answerOffer(offer: { handoff_id: HandoffId; session_id: SessionId }, accept: boolean): Promise<Reply | null> {
    if (this.epochOf(offer.session_id) === undefined) await this.refreshSessions();
    const intent = accept ? "accept_handoff" : "decline_handoff";
    const { settled } = await this.ask({ intent, payload: { handoff_id: offer.handoff_id } }, offer.session_id);
    const reply = await settled;
    if (reply && !reply.error) this.#forgetOffer(offer.handoff_id);
    return reply;
  }

  /** This device leaves the hub: its token is given up, and what it keeps is gone. */
  async signOut(): Promise<void> {
    await this.hub.signOut();
    this.#link.close();
    await this.purge();
    this.connection = "signed_out";
    this.#changed();
  }

  async refreshDevices(): Promise<void> {
    await this.#quietly(async () => {
      this.devices = await this.hub.devices();
    }, this.#refreshDevices);
  }
  /** The links that this device made; only a trusted one makes any. */
  async refreshInvitations(): Promise<void> {
    await this.#quietly(async () => {
      this.invitations = await this.hub.invitations();
    }, this.#refreshInvitations);
  }
  #refreshInvitations = (): Promise<void> => this.refreshInvitations();
  #refreshSessions = (): Promise<void> => this.refreshSessions();
  #refreshDevices = (): Promise<void> => this.refreshDevices();

  dismissTrouble(): void {
    this.trouble = null;
    this.#changed();
  }

  /** Everything that this device keeps of the user's, gone: after a revocation, or on the user's word. */
  async purge(): Promise<void> {
    this.#forgetAll();
    await this.#storage.clear();
    this.#changed();
  }

  /**
   * Forgets what is stored only so that it is there at once or without the hub: lists and views. Drafts, what waits to be sent, and the
   * pairing stay. Nothing is stored again until the hub has been asked anew, which is the caller's to do.
   */
  async forgetKept(): Promise<void> {
    this.#kept.close();
    for (const timer of this.#keepTimers.values()) clearTimeout(timer);
    this.#keepTimers.clear();
    this.remembers = false;
    await this.#kept.clear();
  }

  /** The hub doesn't know this browser, or no longer. */
  async #leave(was: boolean): Promise<void> {
    this.revoked = was;
    await this.purge();
    if (was) await this.#storage.put(LEFT, true);
  }

  /** This browser is another user's now: nothing of the one before stays, and what the new one has stored in another tab is theirs. */
  async #becomeOf(user: UserId): Promise<void> {
    this.#forgetAll();
    this.#user = user;
    const owner = (await this.#storage.entries(OWNER)).find(([key]) => key === OWNER)?.[1];
    if (owner === user) {
      await this.#kept.clear();
    } else {
      await this.#storage.clear();
      await this.#storage.put(OWNER, user);
    }
    this.#kept.open();
    await Promise.all([this.outbox.load(), this.drafts.load()]);
    this.#changed();
  }

  #forgetAll(): void {
    this.#life += 1;
    this.#user = null;
    this.#recalled = false;
    this.#resumed.clear();
    this.#kept.close();
    for (const timer of this.#keepTimers.values()) clearTimeout(timer);
    this.#keepTimers.clear();
    this.remembers = false;
    this.#heard = 0;
    this.#states.clear();
    for (const timer of this.#offerTimers.values()) clearTimeout(timer);
    this.#offerTimers.clear();
    this.offers.clear();
    this.welcome = null;
    this.outbox.clear();
    this.drafts.clear();
    this.sessions = null;
    this.sessionsBefore = null;
    this.waitingTotal = null;
    this.devices = null;
    this.invitations = null;
  }

  #hello(): ClientFrame {
    const cursors: Record<string, number> = {};
    for (const id of this.#followed.keys()) {
      const state = this.#states.get(id);
      if (state && this.#goesOn(state)) cursors[id] = state.cursor;
    }
    this.#resumed = new Set(Object.keys(cursors));
    return {
      type: "hello",
      protocol: PROTOCOL_VERSION,
      // A device stays what it was paired as, whatever its screen or pointer is now.
      client_type: this.devices?.find((device) => device.own)?.client_type ?? this.#options.clientType,
      capabilities: this.#options.capabilities(),
      cursors,
    };
  }

  #heartbeat(): ClientFrame {
    const epochs: Record<string, number> = {};
    for (const id of this.#followed.keys()) {
      const epoch = this.#states.get(id)?.session?.epoch;
      if (epoch !== undefined) epochs[id] = epoch;
    }
    return { type: "heartbeat", epochs };
  }

  #subscribeTo(sessionId: SessionId): void {
    const state = this.state(sessionId);
    const goesOn = this.#goesOn(state);
    state.trouble = null;
    // An answer under way comes whole with the subscription.
    state.overlay.clear();
    // What stands there goes with the view that comes for it, which counts even where nothing has changed.
    if (state.loaded && !goesOn) state.reset();
    if (this.#link.send({ type: "subscribe", session_id: sessionId, ...(goesOn ? { after: state.cursor } : {}) })) this.#resumed.add(sessionId);
  }

  /** Whether what came after its cursor is enough: not where another version of the hub has folded it, nor where it was refused. */
  #goesOn(state: SessionState): boolean {
    return state.loaded && !state.trouble && state.hub !== null && state.hub === this.info?.version;
  }

  /** Something is missing: what came after the cursor is asked for once, and what arrives before it is left alone. */
  #resubscribe(sessionId: SessionId): void {
    if (this.#resubscribing.has(sessionId)) return;
    this.#resubscribing.add(sessionId);
    this.#subscribeTo(sessionId);
  }

  #receive(frame: HubFrame): void {
    this.#heard = Date.now();
    switch (frame.type) {
      case "welcome":
        if (this.#user !== null && this.#user !== frame.user_id) void this.#becomeOf(frame.user_id).catch(() => undefined);
        else if (this.#user === null) void this.#storage.put(OWNER, (this.#user = frame.user_id)).catch(() => undefined);
        this.#doubtful = true;
        this.welcome = frame;
        this.info = frame.hub;
        // What came after their cursors follows at once, or the view once more where another version of the hub has made it.
        for (const id of [...this.#resumed]) {
          if (this.#goesOn(this.state(id))) this.state(id).keptAt = null;
          else this.#resumed.delete(id);
        }
        this.#resubscribing.clear();
        for (const id of this.#followed.keys()) if (!this.#resumed.has(id)) this.#subscribeTo(id);
        this.#flush();
        void this.refreshSessions();
        void this.refreshDevices();
        if (frame.trust === "trusted") void this.refreshInvitations();
        break;
      case "view":
        this.#resubscribing.delete(frame.session_id);
        this.#resumed.delete(frame.session_id);
        this.state(frame.session_id).applyView(frame);
        this.state(frame.session_id).hub = this.info?.version ?? null;
        this.#keepSoon(frame.session_id);
        break;
      case "reset":
        this.state(frame.session_id).reset();
        break;
      case "change": {
        const result = this.state(frame.session_id).applyChange(frame);
        if (result === "gap") this.#resubscribe(frame.session_id);
        if (result === "applied") this.#resubscribing.delete(frame.session_id);
        if (result === "applied") this.#resumed.delete(frame.session_id);
        if (result === "applied") this.#settleOffers(frame.session_id);
        if (result === "applied") this.#keepSoon(frame.session_id);
        break;
      }
      case "delta": {
        const result = this.state(frame.session_id).applyDelta(frame);
        if (result === "gap") this.#resubscribe(frame.session_id);
        if (result === "applied") this.#resubscribing.delete(frame.session_id);
        break;
      }
      case "progress":
        this.state(frame.session_id).applyProgress(frame.call_id, frame.text);
        break;
      case "ack":
        void this.outbox.settle(frame);
        break;
      case "handoff_offer":
        this.#takeOffer(frame);
        break;
      case "changed":
        if (frame.what === "devices") void this.refreshDevices();
        else if (frame.what === "invitations") void this.refreshInvitations();
        else void this.refreshSessions();
        break;
      case "error": {
        const state = frame.session_id == null ? undefined : this.#states.get(frame.session_id);
        // A session that never came, or that the hub no longer goes on with, can't be shown: that is said where it would stand.
        if (state && (!state.loaded || state.keptAt !== null || this.#resumed.has(state.id))) {
          state.trouble = frame.error;
          this.#resumed.delete(state.id);
          clearTimeout(this.#keepTimers.get(state.id));
          this.#keepTimers.delete(state.id);
          void this.#kept.forget(state.id).catch(() => undefined);
        }
        else this.trouble = HubError.of(frame.error);
        break;
      }
      default:
        // Frames for devices that act, and those of a newer hub.
        break;
    }
    this.#changed();
  }

  #takeOffer(offer: HandoffOffer): void {
    this.offers.set(offer.handoff_id, offer);
    const left = Date.parse(offer.deadline) - Date.now();
    clearTimeout(this.#offerTimers.get(offer.handoff_id));
    const timer = setTimeout(() => this.#forgetOffer(offer.handoff_id), Math.min(OFFER_MOST_MS, Math.max(OFFER_LEAST_MS, left || 0)));
    this.#offerTimers.set(offer.handoff_id, timer);
    void this.refreshSessions();
  }

  #forgetOffer(handoffId: HandoffId): void {
    clearTimeout(this.#offerTimers.get(handoffId));
    this.#offerTimers.delete(handoffId);
    if (this.offers.delete(handoffId)) this.#changed();
  }

  /** What a followed session says of an offer counts: another tab of this device may have answered it. */
  #settleOffers(sessionId: SessionId): void {
    for (const offer of this.offers.values()) {
      const known = offer.session_id === sessionId ? this.#states.get(sessionId)?.get("handoff", offer.handoff_id) : undefined;
      if (known && known.state !== "offered") this.#forgetOffer(offer.handoff_id);
    }
  }

  /** Sends what is due. After a passing refusal everything waits a little, so that what was said first is heard first. */
  #flush(): void {
    if (!this.#link.live || this.#againTimer !== undefined) return;
    if (this.outbox.list().some((entry) => entry.state === "waiting" && entry.error !== null)) {
      this.#againTimer = setTimeout(() => {
        this.#againTimer = undefined;
        this.#sendDue();
      }, AGAIN_MS);
      return;
    }
    this.#sendDue();
  }

  #sendDue(): void {
    if (!this.#link.live) return;
    for (const operation of this.outbox.due()) this.#link.send({ type: "op", ...operation });
  }

  #linkBecame(state: ConnectionState): void {
    this.connection = state;
    if (state !== "live") this.outbox.connectionLost();
    if (state !== "live" && state !== "signed_out") this.#keepNow();
    if (state === "signed_out") void this.#leave(true).catch(() => undefined);
    this.#changed();
  }

  /** A request that fails in passing, such as in the moment in which the network changes, is made again while there is a link. */
  #again(work: () => Promise<void>): void {
    if (!this.#link.live || this.#refreshTimers.has(work)) return;
    const timer = setTimeout(() => {
      this.#refreshTimers.delete(work);
      if (this.#link.live) void work();
    }, REFRESH_AGAIN_MS);
    this.#refreshTimers.set(work, timer);
  }

  /** What this device last knew, until the hub says how it is. */
  async #remember(): Promise<void> {
    const marks = [...(await this.#storage.entries(OWNER).catch(() => [])), ...(await this.#storage.entries(LEFT).catch(() => []))];
    const owner = marks.find(([key]) => key === OWNER)?.[1];
    this.#user = typeof owner === "string" ? owner : null;
    this.revoked = marks.some(([key, value]) => key === LEFT && value === true);
    const list = await this.#kept.load().catch(() => null);
    if (!list) return;
    this.#recalled = true;
    this.sessions = list.sessions;
    this.sessionsBefore = list.before;
    this.devices = list.devices;
    this.info = list.info;
    this.#heard = Date.parse(list.at) || 0;
    this.remembers = true;
  }

  async #recall(sessionId: SessionId): Promise<void> {
    if (this.state(sessionId).loaded) return;
    const kept = await this.#kept.view(sessionId).catch(() => null);
    const state = this.state(sessionId);
    if (!kept || state.loaded || state.trouble) return;
    state.applyKept(kept);
    this.#changed();
  }

  #keepSoon(what: SessionId | "list"): void {
    if (this.#keepTimers.has(what)) return;
    this.#keepTimers.set(what, setTimeout(() => this.#keep(what), KEEP_MS));
  }
  #keepNow(): void {
    for (const what of [...this.#keepTimers.keys()]) this.#keep(what);
  }
  #keep(what: SessionId | "list"): void {
    clearTimeout(this.#keepTimers.get(what));
    this.#keepTimers.delete(what);
    const at = new Date(this.#heard || Date.now()).toISOString();
    if (what === "list") {
      if (!this.sessions) return;
      this.remembers = true;
      void this.#kept.keepList({ at, sessions: this.sessions, before: this.sessionsBefore, devices: this.devices, info: this.info }).catch(() => undefined);
      return;
    }
    const state = this.#states.get(what);
    if (state?.loaded && state.keptAt === null && !state.trouble) void this.#kept.keepView(what, (most) => state.kept(most, at)).catch(() => undefined);
  }

  async #quietly(work: () => Promise<void>, again: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.#heard = Date.now();
      this.#keepSoon("list");
      this.#changed();
    } catch (error) {
      if (error instanceof HubError && (error.code === "unreachable" || error.status >= 500)) this.#again(again);
      // Without a link the banner says so already.
      if (error instanceof HubError && error.code !== "unreachable" && error.code !== "unauthenticated") {
        this.trouble = error;
        this.#changed();
      }
    }
  }

  /** A burst of frames draws once. */
  #changed(): void {
    this.revision += 1;
    if (this.#announced) return;
    this.#announced = true;
    queueMicrotask(() => {
      this.#announced = false;
      for (const listener of this.#listeners) listener();
    });
  }
}

/** Newest first; of two of one id the first counts. */
function merged(first: readonly SessionSummary[], second: readonly SessionSummary[]): SessionSummary[] {
  const known = new Set(first.map((one) => one.session_id));
  return [...first, ...second.filter((one) => !known.has(one.session_id))].sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
}

function socketUrl(base: string | undefined): string {
  const url = new URL("/v1/ws", base || (typeof location === "undefined" ? "http://localhost" : location.href));
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.hash = "";
  return url.href;
}
