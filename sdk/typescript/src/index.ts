/** The TypeScript end of Baton's wire. No framework, no screen, no business rule. */
export * from "./types.ts";
export { BatonClient, type ClientOptions, type HandoffOffer, type Welcome } from "./client.ts";
export type { ConnectionState, OpenSocket } from "./connection.ts";
export { Drafts } from "./drafts.ts";
export { Hub, HubError, type Introduction } from "./hub.ts";
export { isShortened } from "./shortened.ts";
export { uuidv7 } from "./id.ts";
export { Outbox, isFinal, type EntryState, type OutboxEntry } from "./outbox.ts";
export { Kept, type KeptList, type KeptView } from "./kept.ts";
export { Overlay, type Delta, type Partial as PartialAnswer } from "./overlay.ts";
export { SessionState, type EntityKind, type EntityOf, type Unfamiliar } from "./session_state.ts";
export { GuardedStorage, MemoryStorage, openStorage, type Storage } from "./storage.ts";
export { ALONE, ChannelTabs, openTabs, type TabMessage, type Tabs } from "./tabs.ts";
export type { UploadOptions } from "./upload.ts";
export { makeVisible } from "./visible.ts";
