/**
 * The little of markdown that answers are written in, as data. Nothing here is HTML: what isn't understood stays text,
 * and no link or picture is ever fetched.
 */
import { makeVisible } from "@baton/sdk";

export type Inline =
  | { kind: "text"; text: string }
  | { kind: "code"; text: string }
  | { kind: "bold" | "italic"; inner: Inline[] }
  /** `text` is what was written, `host` where it leads, when the text doesn't say so itself. */
  | { kind: "link"; text: string; href: string; host: string | null }
  /** `named`: its text is another than its path, which is then shown too. */
  | { kind: "file"; text: string; path: string; named: boolean };

export type Block =
  | { kind: "paragraph" | "quote"; inner: Inline[] }
  | { kind: "heading"; level: number; inner: Inline[] }
  | { kind: "code"; text: string; language: string }
  | { kind: "list"; ordered: boolean; start: number; items: { depth: number; inner: Inline[] }[] }
  | { kind: "rule" };

const FENCE = /^\s{0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^\s{0,3}([-*_])(?:\s*\1){2,}\s*$/;

export function parseMarkdown(source: string): Block[] {
  const blocks: Block[] = [];
  const lines = source.split("\n");
  let paragraph: string[] = [];
  const close = () => {
    if (paragraph.length > 0) blocks.push({ kind: "paragraph", inner: parseInline(paragraph.join("\n")) });
    paragraph = [];
  };
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    const fence = FENCE.exec(line);
    if (fence?.[1]) {
      close();
      const mark = fence[1];
      const code: string[] = [];
      // An unclosed fence is an answer that is still being written: the rest is code so far.
      for (at += 1; at < lines.length && !closesFence(lines[at] ?? "", mark); at += 1) code.push(lines[at] ?? "");
      blocks.push({ kind: "code", text: makeVisible(code.join("\n")), language: fence[2] ?? "" });
      continue;
    }
    if (line.trim() === "") {
      close();
      continue;
    }
    const heading = HEADING.exec(line);
    if (heading) {
      close();
      blocks.push({ kind: "heading", level: heading[1]?.length ?? 1, inner: parseInline(heading[2] ?? "") });
      continue;
    }
    if (RULE.test(line)) {
      close();
      blocks.push({ kind: "rule" });
      continue;
    }
    const item = ITEM.exec(line);
    if (item) {
      close();
      const ordered = /\d/.test(item[2] ?? "");
      const entry = { depth: depthOf(item[1] ?? ""), inner: parseInline(item[3] ?? "") };
      const last = blocks.at(-1);
      const goesOn = last?.kind === "list" && (entry.depth > 0 || last.ordered === ordered);
      if (goesOn) last.items.push(entry);
      else blocks.push({ kind: "list", ordered, start: ordered ? Number.parseInt(item[2] ?? "1", 10) : 1, items: [entry] });
      continue;
    }
    if (line.startsWith(">")) {
      close();
      const inner = parseInline(line.replace(/^>\s?/, ""));
      const last = blocks.at(-1);
      if (last?.kind === "quote" && (lines[at - 1] ?? "").startsWith(">")) last.inner.push({ kind: "text", text: "\n" }, ...inner);
      else blocks.push({ kind: "quote", inner });
      continue;
    }
    paragraph.push(line);
  }
  close();
  return blocks;
}

function closesFence(line: string, mark: string): boolean {
  const trimmed = line.trim();
  return trimmed.startsWith(mark) && trimmed.replaceAll(mark[0] ?? "`", "") === "";
}

const depthOf = (indent: string): number => Math.min(3, Math.floor(indent.replaceAll("\t", "  ").length / 2));

const INLINE =
  /(`+)([\s\S]*?[^`])\1(?!`)|\*\*(?=\S)([\s\S]*?\S)\*\*|(?<![\w*])\*(?=[^\s*])([^*\n]*?[^\s*])\*(?!\*)|!?\[([^[\]\n]{0,400})\]\(([^()\s]+(?:\([^()\s]*\)[^()\s]*)?)(?:\s+"[^"\n]*")?\)|(https?:\/\/[^\s<>"'`，。；：！？、）】]+)/g;

/** Deeper than this it stays text: no answer needs more, and a hostile one gets no deep recursion. */
const DEEPEST = 4;

export function parseInline(source: string, depth = 0): Inline[] {
  if (depth >= DEEPEST) return [{ kind: "text", text: proseVisible(source) }];
  const found: Inline[] = [];
  let from = 0;
  const text = (until: number) => {
    if (until > from) found.push({ kind: "text", text: proseVisible(source.slice(from, until)) });
  };
  for (const match of source.matchAll(INLINE)) {
    const [whole, , code, bold, italic, label, target, bare] = match;
    let piece: Inline | null = null;
    let length = whole.length;
    if (code !== undefined) piece = { kind: "code", text: makeVisible(code) };
    else if (bold !== undefined) piece = { kind: "bold", inner: parseInline(bold, depth + 1) };
    else if (italic !== undefined) piece = { kind: "italic", inner: parseInline(italic, depth + 1) };
    else if (target !== undefined) piece = link(label ?? "", target);
    else if (bare !== undefined) {
      const address = bare.replace(/[.,;:!?)\]}*_]+$/, "");
      length = address.length;
      piece = link(address, address);
    }
    if (!piece) continue;
    text(match.index);
    found.push(piece);
    from = match.index + length;
  }
  text(source.length);
  return found;
}

/** A path of the workspace, with the line it may name left out: the hub opens it, if it is one. */
const FILE = /^(?!\/\/)([^\s?#:]+)(?::\d+(?:[-:]\d+)?|#L?\d+(?:-L?\d+)?)?$/;

/** Only the web's own addresses and files of the workspace lead anywhere; others stay the text they are. */
function link(label: string, target: string): Inline | null {
  const file = FILE.exec(target)?.[1];
  if (file) {
    let path = file;
    try {
      path = decodeURIComponent(file);
    } catch {
      // A name with a percent sign in it.
    }
    return { kind: "file", text: makeVisible(label) || makeVisible(path), path, named: label !== path && label !== target };
  }
  let url: URL;
  try {
    url = new URL(target);
  } catch {
    return null;
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") return null;
  const text = makeVisible(label) || url.host;
  return { kind: "link", text, href: url.href, host: label === target ? null : url.host };
}

/** As `makeVisible`, but joiners stay: emoji and several scripts are written with them. */
function proseVisible(text: string): string {
  return text.split(/([\u200c\u200d])/).map((part, index) => (index % 2 === 1 ? part : makeVisible(part))).join("");
}
