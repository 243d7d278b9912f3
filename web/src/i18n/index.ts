/** The console's words in the reader's language. */
import { en, type Words } from "./en.ts";
import { zh } from "./zh.ts";

export type Language = "en" | "zh";
export type Key = keyof Words;
export type Translate = (key: Key, parts?: Record<string, string | number>) => string;

const DICTIONARIES: Record<Language, Words> = { en, zh };
const STORED = "baton/language";

/** A newer hub may name a state that has no words here yet: its own name, without ours before it, then has to do. */
const unknown = (key: string): string => key.slice(key.indexOf("_") + 1).replaceAll("_", " ");

export function translator(language: Language): Translate {
  const words: Partial<Words> = DICTIONARIES[language];
  return (key, parts = {}) => (words[key] ?? unknown(key)).replace(/\{(\w+)\}/g, (whole, name: string) => String(parts[name] ?? whole));
}

/** What the reader chose, else what the browser prefers. */
export function firstLanguage(): Language {
  try {
    const stored = localStorage.getItem(STORED);
    if (stored === "en" || stored === "zh") return stored;
  } catch {
    // Without storage the browser's preference has to do.
  }
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export function rememberLanguage(language: Language): void {
  try {
    localStorage.setItem(STORED, language);
  } catch {
    // It then lasts as long as the page.
  }
}

export const tagOf = (language: Language): string => (language === "zh" ? "zh-CN" : "en");
