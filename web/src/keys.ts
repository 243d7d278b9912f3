/**
 * The keys. A single letter acts only where nobody is writing, and can be switched off: speech input and a hand that slips press letters too.
 */
import type { BatonClient } from "@baton/sdk";
import { useEffect } from "react";
import { toHome, toSession, type Route } from "./route.ts";
import { standingOf } from "./sessions.ts";

const STORED = "baton/letters";

export function lettersAct(): boolean {
  try {
    return localStorage.getItem(STORED) !== "off";
  } catch {
    return true;
  }
}

export function letLettersAct(act: boolean): void {
  try {
    localStorage.setItem(STORED, act ? "on" : "off");
  } catch {
    // It then lasts as long as nothing is asked anew.
  }
}

/** What the help lists: keys, and the name of the words that say what they do. */
export const KEYS = [
  ["y", "key_yes"],
  ["n", "key_no"],
  ["a", "key_always"],
  ["w", "key_next_waiting"],
  ["1 – 9", "key_option"],
  ["j / k", "key_move"],
  ["c", "key_compose"],
  ["/", "key_command"],
  ["f", "key_filter"],
  ["e", "key_end"],
  ["o", "key_open_call"],
  ["v", "key_diff"],
  ["h", "key_home"],
  ["d", "key_devices"],
  ["Esc", "key_escape"],
  ["Ctrl .", "key_stop"],
  ["?", "key_help"],
] as const;

export interface Actions {
  client: BatonClient;
  route: Route;
  showDevices: () => void;
  showHelp: () => void;
}

export function useKeys(actions: Actions): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
      if ((event.ctrlKey || event.metaKey) && event.key === ".") {
        if (click("[data-testid=stop]")) event.preventDefault();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const target = event.target instanceof HTMLElement ? event.target : null;
      if (event.key === "Escape") {
        if (leave(target)) event.preventDefault();
        return;
      }
      if (target?.closest("input, textarea, select, [contenteditable]")) return;
      if (event.key === "?") {
        actions.showHelp();
        event.preventDefault();
        return;
      }
      if (lettersAct() && act(event.key, actions)) event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}

/** Leaves what is being written, or sets a card aside: nothing is denied by it. */
function leave(target: HTMLElement | null): boolean {
  if (target?.closest(".beside.wide")) return click("[data-testid=diff-close]") && focus("[data-testid=timeline]");
  const card = target?.closest("[data-open-card=true]");
  if (card) return focus("[data-testid=composer]");
  if (target?.closest("textarea, input")) {
    target.blur();
    return focus("[data-testid=timeline]");
  }
  return false;
}

function act(key: string, { client, route, showDevices }: Actions): boolean {
  // A digit chooses among the options of the question that has the focus.
  if (/^[1-9]$/.test(key)) {
    const options = document.activeElement?.closest("[data-testid=question][data-open-card=true]")?.querySelectorAll<HTMLButtonElement>("[data-testid=question-option]");
    const option = options?.[Number(key) - 1];
    if (!option || option.disabled) return false;
    option.click();
    return true;
  }
  switch (key) {
    case "y":
      return answer(["confirm-yes", "approve"]);
    case "n":
      return answer(["confirm-no", "reject"]);
    // The first opens the choice, the second takes its widest: nothing is remembered by one slip.
    case "a":
      return answer(["remember-always", "remember"]);
    case "c":
      return focus("[data-testid=composer]");
    case "/": {
      const field = document.querySelector<HTMLTextAreaElement>("[data-testid=composer]");
      if (!field) return false;
      field.focus();
      const place = field.id.replace("composer-", "");
      if (client.drafts.get(place) === "") client.drafts.set(place, "/");
      return true;
    }
    case "f":
      return focus("#filter");
    case "e":
      return click("[data-testid=jump]");
    case "o": {
      const calls = document.querySelectorAll<HTMLDetailsElement>("details.call");
      const call = document.activeElement?.closest<HTMLDetailsElement>("details.call") ?? calls[calls.length - 1];
      if (!call) return false;
      call.open = !call.open;
      call.querySelector("summary")?.focus();
      return true;
    }
    case "v":
      return click("[data-testid=show-diff]") && (requestAnimationFrame(() => focus("[data-testid=diff-close]")), true);
    case "h":
      location.hash = toHome;
      return true;
    case "d":
      showDevices();
      return true;
    case "j":
    case "k":
      return move(key === "j" ? 1 : -1);
    case "w": {
      const card = document.querySelector<HTMLElement>("[data-open-card=true]");
      if (card && !card.contains(document.activeElement)) {
        card.scrollIntoView({ block: "nearest" });
        card.focus({ preventScroll: true });
        return true;
      }
      const waiting = (client.sessions ?? []).filter((session) => standingOf(session) === "needs_you").map((session) => session.session_id);
      const here = route.at === "session" ? waiting.indexOf(route.sessionId) : -1;
      const next = waiting[(here + 1) % Math.max(1, waiting.length)];
      if (next === undefined) return false;
      location.hash = toSession(next);
      return true;
    }
    default:
      return false;
  }
}

/** The card that has the focus, else the only one that can be seen: with two in sight a letter alone doesn't say which is meant. */
function answer(ids: string[]): boolean {
  const focused = document.activeElement?.closest<HTMLElement>("[data-testid=approval][data-open-card=true]");
  const seen = [...document.querySelectorAll<HTMLElement>("[data-testid=approval][data-open-card=true]")].filter((card) => {
    const actions = card.querySelector(".card-actions")?.getBoundingClientRect();
    return actions !== undefined && actions.top >= 0 && actions.bottom <= innerHeight;
  });
  const card = focused ?? (seen.length === 1 ? seen[0] : undefined);
  if (!card) return false;
  for (const id of ids) {
    const button = card.querySelector<HTMLButtonElement>(`[data-testid=${id}]`);
    if (!button) continue;
    if (!button.disabled) button.click();
    // What hasn't been read can't be allowed: the key leads to reading it.
    else card.querySelector<HTMLElement>(".fold")?.focus();
    return true;
  }
  return false;
}

function move(by: 1 | -1): boolean {
  const items = [...document.querySelectorAll<HTMLAnchorElement>("[data-testid=session-item]")];
  const here = items.findIndex((item) => item === document.activeElement);
  const from = here >= 0 ? here : items.findIndex((item) => item.getAttribute("aria-current") === "page");
  const next = items[from < 0 ? (by > 0 ? 0 : items.length - 1) : Math.min(items.length - 1, Math.max(0, from + by))];
  if (!next) return false;
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

function focus(selector: string): boolean {
  const found = document.querySelector<HTMLElement>(selector);
  found?.focus();
  return found !== null;
}

function click(selector: string): boolean {
  const found = document.querySelector<HTMLButtonElement>(selector);
  if (!found || found.disabled) return false;
  found.click();
  return true;
}
