/** Text that must be read as it is: commands, results. Wrapped, monospace, deceptive characters made visible. */
import { makeVisible } from "@baton/sdk";
import { useMemo, useState } from "react";
import { useWords } from "../context.tsx";
import { canCopy } from "../device.ts";
import { Icon } from "./icons.tsx";

/** Beyond this many lines, counting a long line as several, a text is folded. */
const FOLD_LINES = 14;
const LINE_WIDTH = 60;

export interface Measured {
  shown: string;
  head: string;
  lines: number;
  folds: boolean;
}

export function measure(text: string, limit = FOLD_LINES): Measured {
  const shown = makeVisible(text.replace(/\n$/, ""));
  const lines = shown.split("\n");
  const head: string[] = [];
  let total = 0;
  let full = false;
  for (const line of lines) {
    const rows = Math.max(1, Math.ceil(line.length / LINE_WIDTH));
    if (!full && total + rows > limit) {
      full = true;
      // The first rows of a line that alone fills the fold.
      const left = limit - total;
      if (left > 0) head.push(line.slice(0, left * LINE_WIDTH));
    } else if (!full) {
      head.push(line);
    }
    total += rows;
  }
  return { shown, head: head.join("\n"), lines: total, folds: full };
}

/** `open` and `onOpen` let a card know whether the whole has been shown. */
export function Verbatim({ text, open, onOpen, label }: { text: string; open?: boolean; onOpen?: () => void; label?: string }) {
  const { t } = useWords();
  const measured = useMemo(() => measure(text), [text]);
  const [own, setOwn] = useState(false);
  const whole = !measured.folds || (open ?? own);
  return (
    <div className="code" data-folded={!whole}>
      {whole && <CopyButton text={text} />}
      <pre aria-label={label}>{looksLikeDiff(measured.shown) ? <DiffLines text={whole ? measured.shown : measured.head} /> : whole ? measured.shown : measured.head}</pre>
      {!whole && (
        <button type="button" className="fold" onClick={() => { setOwn(true); onOpen?.(); }}>
          {t("approval_read_all", { more: measured.lines - FOLD_LINES })}
        </button>
      )}
    </div>
  );
}

/** Hunks and nothing else say that a text is a diff: a `-` or `+` alone may begin any line. */
const looksLikeDiff = (text: string): boolean => /^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@/m.test(text) || /^--- .*\n\+\+\+ /m.test(text);

function DiffLines({ text }: { text: string }) {
  return text.split("\n").map((line, index) => {
    const kind = /^(?:---|\+\+\+|@@)/.test(line) ? "head" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "same";
    return <span key={index} className="diff-line" data-kind={kind}>{line}{"\n"}</span>;
  });
}

export function CopyButton({ text }: { text: string }) {
  const { t } = useWords();
  const [copied, setCopied] = useState(false);
  if (!canCopy()) return null;
  return (
    <button
      type="button"
      className="copy"
      aria-label={t(copied ? "copied" : "copy")}
      title={t(copied ? "copied" : "copy")}
      onClick={() => {
        void navigator.clipboard.writeText(text).then(() => {
          setCopied(true);
          setTimeout(() => setCopied(false), 1_500);
        });
      }}
    >
      <Icon name={copied ? "check" : "copy"} />
    </button>
  );
}
