/** Where in the console the reader is, kept in the address after the `#`, which never reaches a server. */
import { useSyncExternalStore } from "react";

/** A message that the reader was led to. */
export interface Target {
  seq: number;
  messageId: string;
}

export type Route = { at: "home" } | { at: "session"; sessionId: string; target: Target | null };

const SESSION = /^#\/sessions\/([0-9a-f-]{36})(?:\/(\d{1,15})-([0-9a-f-]{36}))?$/;

export function parseRoute(hash: string): Route {
  const [, sessionId, seq, messageId] = SESSION.exec(hash) ?? [];
  if (!sessionId) return { at: "home" };
  return { at: "session", sessionId, target: seq && messageId ? { seq: Number(seq), messageId } : null };
}

export const toHome = "#/";
export const toSession = (sessionId: string): string => `#/sessions/${sessionId}`;
export const toMessage = (sessionId: string, seq: number, messageId: string): string => `#/sessions/${sessionId}/${seq}-${messageId}`;

export function useRoute(): Route {
  const hash = useSyncExternalStore(
    (changed) => {
      addEventListener("hashchange", changed);
      return () => removeEventListener("hashchange", changed);
    },
    () => location.hash,
  );
  return parseRoute(hash);
}

/** What a link or a QR code brought here: an invitation for this browser, or the code of another device that asks to be let in. */
export interface Arrival {
  invitation: string | null;
  pairing: string | null;
}

/**
 * Taken out of the address at once: an invitation must not stay in the history, a bookmark or a picture of the screen, and a code is
 * looked at once.
 */
export function takeArrival(): Arrival {
  const [, kind, value] = /^#(invite|pair)=([^&]+)/.exec(location.hash) ?? [];
  if (kind === undefined || value === undefined) return { invitation: null, pairing: null };
  history.replaceState(null, "", location.pathname);
  let plain = value;
  try {
    plain = decodeURIComponent(value);
  } catch {
    // Not encoded, or damaged; the hub will say so.
  }
  return kind === "invite" ? { invitation: plain, pairing: null } : { invitation: null, pairing: plain };
}

/** The link in the QR code that a new device shows: a trusted device that opens it sees what asks, and decides. */
export const pairingLink = (code: string): string => `${location.origin}/#pair=${encodeURIComponent(code)}`;
