/** What every part of the screen needs: the client, the words, and the moment to draw again. */
import type { BatonClient, DeviceView } from "@baton/sdk";
import { createContext, useContext, useEffect, useState, useSyncExternalStore } from "react";
import type { Language, Translate } from "./i18n/index.ts";

export interface Words {
  t: Translate;
  language: Language;
  switchLanguage: () => void;
}

export const WordsContext = createContext<Words | null>(null);
export const ClientContext = createContext<BatonClient | null>(null);

/** The session whose cards are being drawn. */
export const SessionContext = createContext("");

export function useWords(): Words {
  const words = useContext(WordsContext);
  if (!words) throw new Error("no words around this part");
  return words;
}

/** The client; the part that asks is drawn again whenever anything of it changes. */
export function useClient(): BatonClient {
  const client = useContext(ClientContext);
  if (!client) throw new Error("no client around this part");
  useSyncExternalStore(client.subscribe, client.getRevision);
  return client;
}

/** Whether a media query holds, followed live. What exists once on the page is drawn once, not hidden once. */
export function useMedia(query: string): boolean {
  const media = matchMedia(query);
  return useSyncExternalStore(
    (changed) => {
      media.addEventListener("change", changed);
      return () => media.removeEventListener("change", changed);
    },
    () => media.matches,
  );
}

/** List and session fit side by side. */
export const useTwoRooms = (): boolean => useMedia("(min-width: 1024px)");
/** The plan fits beside the conversation: where the list leaves room for it, or where there is no list. */
export const usePlanRoom = (): boolean => useMedia("(min-width: 1180px), (min-width: 820px) and (max-width: 1023px)");
/** What has changed fits beside the conversation, at a width at which lines of code can be read. */
export const useDiffRoom = (): boolean => useMedia("(min-width: 1180px)");
/** Sessions stand as a board of columns. */
export const useBoard = (): boolean => useMedia("(min-width: 700px) and (max-width: 1023px)");

/** The time, moving on once a minute and when the page is shown again, so that nothing says "now" for hours. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const tick = () => setNow(Date.now());
    const timer = setInterval(tick, 30_000);
    document.addEventListener("visibilitychange", tick);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", tick);
    };
  }, []);
  return now;
}

export function findDevice(client: BatonClient, deviceId: string | null | undefined): DeviceView | undefined {
  return deviceId ? client.devices?.find((device) => device.device_id === deviceId) : undefined;
}
