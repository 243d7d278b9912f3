/** Sentences that the hub or a device says with a code, in the reader's language; what has no words here is shown in the sender's. */
import { makeVisible, type Said } from "@baton/sdk";
import { en } from "./en.ts";
import type { Key, Translate } from "./index.ts";

export function sayOne(said: Said, t: Translate): string {
  const key = `said_${said.code.replaceAll(/[^a-z_]/g, "_")}`;
  if (!(key in en)) return makeVisible(said.text);
  return t(key as Key, Object.fromEntries(Object.entries(said.params ?? {}).map(([name, value]) => [name, makeVisible(value)])));
}

/** `text` stands for the same where no codes came with it. */
export const sayAll = (said: readonly Said[] | undefined, text: string, t: Translate): string =>
  // A Chinese full stop brings its own space.
  said && said.length > 0 ? said.map((one) => sayOne(one, t)).join(" ").replaceAll("。 ", "。") : makeVisible(text);
