/** The lines of a unified diff, each with its place in the file before and after. */
export interface DiffLine {
  kind: "head" | "added" | "removed" | "same";
  text: string;
  old: number | null;
  new: number | null;
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

/** The names above the hunks are left out: they stand in the file's own heading. */
export function diffLines(diff: string): DiffLine[] {
  const lines = diff.replace(/\n$/, "").split("\n");
  const from = lines[0]?.startsWith("--- ") && lines[1]?.startsWith("+++ ") ? 2 : 0;
  let before = 0;
  let after = 0;
  return lines.slice(from).map((text): DiffLine => {
    const hunk = HUNK.exec(text);
    if (hunk) {
      before = Number(hunk[1]);
      after = Number(hunk[2]);
      return { kind: "head", text, old: null, new: null };
    }
    if (text.startsWith("+")) return { kind: "added", text, old: null, new: after++ };
    if (text.startsWith("-")) return { kind: "removed", text, old: before++, new: null };
    // Such as the word that a file has no line break at its end.
    if (text.startsWith("\\")) return { kind: "head", text, old: null, new: null };
    return { kind: "same", text, old: before++, new: after++ };
  });
}
