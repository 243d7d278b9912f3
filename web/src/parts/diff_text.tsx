/** A file's diff: numbered lines, and what the user says about them. */
import { makeVisible } from "@baton/sdk";
import { Fragment, memo, useCallback, useMemo, useState, type KeyboardEvent } from "react";
import { commentsOf, isSame, keepComments, placeIn, useComments, type LineComment } from "../comments.ts";
import { useClient, useWords } from "../context.tsx";
import { diffLines, type DiffLine } from "../diff_lines.ts";
import { Icon } from "./icons.tsx";

/** Lines that are drawn before the rest is asked for. */
const FIRST = 500;
/** Lines that the browser lays out together, once they come near the view. */
const BLOCK = 50;

export function DiffText({ sessionId, path, diff }: { sessionId: string; path: string; diff: string }) {
  const client = useClient();
  const { t } = useWords();
  const comments = useComments(client, sessionId);
  const lines = useMemo(() => diffLines(makeVisible(diff)), [diff]);
  const own = comments.filter((one) => one.path === path);
  const firstLine = lines.find((line) => line.kind !== "head");
  // A comment beyond the fold is seen too.
  const [whole, setWhole] = useState(() => lines.slice(FIRST).some((line) => own.some((one) => isSame(one, placeIn(path, line)))));
  const shown = whole ? lines : lines.slice(0, FIRST);
  const blocks = Array.from({ length: Math.ceil(shown.length / BLOCK) }, (_, index) => shown.slice(index * BLOCK, (index + 1) * BLOCK));

  const open = useCallback((line: DiffLine) => {
    const at = placeIn(path, line);
    const known = commentsOf(client, sessionId);
    if (!known.some((one) => isSame(one, at))) keepComments(client, sessionId, [...known, { ...at, text: "" }]);
  }, [client, sessionId, path]);

  // One stop for the tab key in a file; the arrows go from line to line.
  function keyDown(event: KeyboardEvent<HTMLElement>) {
    if (!["ArrowDown", "ArrowUp", "Home", "End"].includes(event.key) || (event.target as HTMLElement).closest("textarea")) return;
    const numbers = [...event.currentTarget.querySelectorAll<HTMLElement>(".line-number")];
    const here = numbers.indexOf(document.activeElement as HTMLElement);
    const next = event.key === "Home" ? 0 : event.key === "End" ? numbers.length - 1 : here + (event.key === "ArrowDown" ? 1 : -1);
    const found = numbers[Math.max(0, next)];
    if (!found) return;
    event.preventDefault();
    found.focus();
  }

  return (
    <div className="diff-text" role="group" aria-label={makeVisible(path)} onKeyDown={keyDown}>
      {blocks.map((block, index) => (
        <div key={index} className="diff-block" style={{ containIntrinsicBlockSize: `auto ${block.length * 24}px` }}>
          {block.map((line, row) => <Line key={row} sessionId={sessionId} line={line} first={line === firstLine} comment={own.length === 0 ? undefined : own.find((one) => isSame(one, placeIn(path, line)))} onOpen={open} />)}
        </div>
      ))}
      {shown.length < lines.length && (
        <button type="button" className="fold" data-testid="diff-whole" onClick={() => setWhole(true)}>{t("approval_read_all", { more: lines.length - shown.length })}</button>
      )}
    </div>
  );
}

interface LineProps {
  line: DiffLine;
  /** The one at which the tab key stops. */
  first: boolean;
  comment: LineComment | undefined;
  sessionId: string;
  onOpen: (line: DiffLine) => void;
}

const Line = memo(function Line({ line, first, comment, sessionId, onOpen }: LineProps) {
  const { t } = useWords();
  const number = line.new ?? line.old;
  if (number === null) return <div className="diff-line" data-kind="head">{line.text}</div>;
  return (
    <Fragment>
      {/* The number is the button; who points may hit any part of the line. */}
      <div className="diff-line" data-kind={line.kind} data-commented={comment !== undefined} onClick={(event) => event.target === event.currentTarget && getSelection()?.isCollapsed && onOpen(line)}>
        <button type="button" className="line-number" tabIndex={first ? 0 : -1} aria-label={t(line.new === null ? "comment_on_old" : "comment_on", { line: number })} data-testid="diff-number" onClick={() => onOpen(line)}>{number}</button>
        {line.text}
      </div>
      {comment && <CommentBox sessionId={sessionId} comment={comment} />}
    </Fragment>
  );
});

function CommentBox({ sessionId, comment }: { sessionId: string; comment: LineComment }) {
  const client = useClient();
  const { t } = useWords();
  const change = (text: string | null) => {
    const others = commentsOf(client, sessionId).filter((one) => !isSame(one, comment));
    keepComments(client, sessionId, text === null ? others : [...others, { ...comment, text }]);
  };
  return (
    <div className="line-comment" data-testid="line-comment">
      <textarea
        rows={2}
        value={comment.text}
        autoFocus={comment.text === ""}
        aria-label={t(comment.side === "new" ? "comment_on" : "comment_on_old", { line: comment.line })}
        placeholder={t("comment_placeholder")}
        data-testid="line-comment-text"
        onChange={(event) => change(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape" || event.nativeEvent.isComposing) return;
          event.preventDefault();
          event.stopPropagation();
          // What is empty isn't kept.
          if (comment.text.trim() === "") change(null);
          event.currentTarget.closest(".diff-text")?.querySelector<HTMLElement>("[tabindex='0']")?.focus();
        }}
      />
      <button type="button" className="icon-button" aria-label={t("comment_remove")} data-testid="line-comment-remove" onClick={() => change(null)}><Icon name="cross" /></button>
    </div>
  );
}
