/** Where in the console the reader is, kept in the address after the `#`, which never reaches a server. */
import { useSyncExternalStore } from "react";

export type Route = { at: "home" } | { at: "session"; sessionId: string };

const SESSION = /^#\/sessions\/([0-9a-f-]{36})$/;

export function parseRoute(hash: string): Route {
  const sessionId = SESSION.exec(hash)?.[1];
  return sessionId ? { at: "session", sessionId } : { at: "home" };
}

export const toHome = "#/";
export const toSession = (sessionId: string): string => `#/sessions/${sessionId}`;

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

/**
 * The invitation that the address carries, taken out of it at once: it must not stay in the history, a bookmark or a
 * picture of the screen.
 */
export function takeInvitation(): string | null {
  const found = /^#invite=(.+)$/.exec(location.hash)?.[1];
  if (found === undefined) return null;
  history.replaceState(null, "", location.pathname);
  try {
    return decodeURIComponent(found);
  } catch {
    return found;
  }
}
