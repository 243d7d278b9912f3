/** A line that says what was just done, with the way to undo it; one at a time, gone after a while. */
import { useSyncExternalStore } from "react";
import type { Key } from "./i18n/index.ts";

export interface Toast {
  words: string;
  action?: { words: string; run: () => void };
}

/** Long enough to read it and to reach the button by keyboard. */
const SHOWN_MS = 10_000;

let current: Toast | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<() => void>();

export function showToast(toast: Toast | null): void {
  current = toast;
  clearTimeout(timer);
  if (toast) timer = setTimeout(() => showToast(null), SHOWN_MS);
  for (const listener of listeners) listener();
}

const AFTER = "baton-said-after-reload";

/** What the page that comes next says first. */
export function sayAfterReload(words: Key): void {
  try {
    sessionStorage.setItem(AFTER, words);
  } catch {
    // Then it is loaded without a word.
  }
}

export function takeAfterReload(): Key | null {
  try {
    const words = sessionStorage.getItem(AFTER);
    sessionStorage.removeItem(AFTER);
    return words as Key | null;
  } catch {
    return null;
  }
}

export const useToast = (): Toast | null =>
  useSyncExternalStore(
    (changed) => {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
    () => current,
  );
