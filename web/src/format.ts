/** Times and names, short, in the reader's language. */
import type { DeviceView, Sender } from "@baton/sdk";
import { tagOf, type Key, type Language, type Translate } from "./i18n/index.ts";

const STEPS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

export function ago(at: string, language: Language, now: number = Date.now()): string {
  const seconds = (Date.parse(at) - now) / 1_000;
  if (Number.isNaN(seconds)) return "";
  const format = new Intl.RelativeTimeFormat(tagOf(language), { numeric: "auto", style: "short" });
  for (const [unit, length] of STEPS) if (Math.abs(seconds) >= length) return format.format(Math.trunc(seconds / length), unit);
  return format.format(0, "second");
}

export function clock(at: string, language: Language): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleTimeString(tagOf(language), { hour: "2-digit", minute: "2-digit" });
}

/** The time, with its day unless that is today. */
export function asOf(at: string, language: Language, now: number = Date.now()): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "";
  if (date.toDateString() === new Date(now).toDateString()) return clock(at, language);
  return date.toLocaleString(tagOf(language), { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
}

/** With seconds, for what ends within a minute. */
export function exactClock(at: string, language: Language): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleTimeString(tagOf(language), { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

type Named = Pick<DeviceView, "name" | "client_type"> | Sender;

/** As the user has named it, else by what it is. */
export function deviceName(device: Named | undefined | null, t: Translate): string {
  if (!device) return t("another_device");
  return device.name || t(`type_${device.client_type}` as Key);
}

export const shortCommit = (commit: string): string => commit.slice(0, 7);
