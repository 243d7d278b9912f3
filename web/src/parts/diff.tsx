/** What a task has changed in the workspace: all files in one scroll, and the way to take it back. */
import { makeVisible, type FileDiff, type HubError, type TaskEntity, type WorkspaceDiff } from "@baton/sdk";
import { useEffect, useMemo, useRef, useState } from "react";
import { commentsOf, isSame, keepComments, messageOf, useComments, withoutLine, type LineComment } from "../comments.ts";
import { useClient, useWords } from "../context.tsx";
import { diffLines } from "../diff_lines.ts";
import { bytesOf } from "../files.ts";
import type { Key } from "../i18n/index.ts";
import { DiffText } from "./diff_text.tsx";
import { Icon } from "./icons.tsx";
import { asHubError, Trouble } from "./trouble.tsx";

export interface DiffProps {
  sessionId: string;
  task: TaskEntity;
  /** Grows when something may have changed; the hub is then asked again. */
  changes: number;
  onClose: () => void;
}

/** Beside the conversation. */
export function DiffBeside(props: DiffProps) {
  const { t } = useWords();
  return (
    <aside className="beside wide" aria-label={t("diff")}>
      <DiffHead {...props} />
      <DiffBody {...props} />
    </aside>
  );
}

/** Over the page, where there is no room beside it. */
export function DiffSheet(props: DiffProps) {
  const { t } = useWords();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog ref={dialog} className="sheet wide" aria-label={t("diff")} onClose={props.onClose} onClick={(event) => event.target === dialog.current && dialog.current.close()}>
      <div className="sheet-inside">
        <DiffHead {...props} onClose={() => dialog.current?.close()} />
        <DiffBody {...props} onClose={() => dialog.current?.close()} />
      </div>
    </dialog>
  );
}

function DiffHead({ onClose }: DiffProps) {
  const { t } = useWords();
  return (
    <header className="bar diff-head">
      <h2 className="bar-title">{t("diff")}</h2>
      <button type="button" className="icon-button" aria-label={t("close")} data-testid="diff-close" onClick={onClose}>
        <Icon name="cross" />
      </button>
    </header>
  );
}

function DiffBody({ sessionId, task, changes, onClose }: DiffProps) {
  const client = useClient();
  const { t } = useWords();
  const [diff, setDiff] = useState<WorkspaceDiff | null>(null);
  const [error, setError] = useState<HubError | null>(null);
  const [tries, setTries] = useState(0);
  useEffect(() => {
    let ended = false;
    setError(null);
    client.hub.diff(sessionId, task.id).then(
      (found) => !ended && setDiff(found),
      (caught: unknown) => !ended && setError(asHubError(caught)),
    );
    return () => {
      ended = true;
    };
  }, [client, sessionId, task.id, changes, tries]);

  if (error) {
    return (
      <div className="diff" data-testid="diff" data-state="error">
        <Trouble error={error} />
        <button type="button" onClick={() => setTries(tries + 1)}>{t("try_again")}</button>
      </div>
    );
  }
  if (!diff) return <div className="loading" role="status"><span className="unseen">{t("diff_loading")}</span><span className="bone row" aria-hidden="true" /><span className="bone row" aria-hidden="true" /></div>;
  const unrecorded = diff.not_recorded ?? [];
  return (
    <div className="diff" data-testid="diff" data-state="shown">
      {diff.files.length === 0 && <p className="quiet">{t((diff.undone ?? []).length > 0 ? "diff_undone" : "diff_none")}</p>}
      {diff.files.map((file) => <File key={file.path} sessionId={sessionId} file={file} />)}
      {(diff.files_left_out ?? 0) > 0 && <p className="quiet small">{t("diff_files_left_out", { count: diff.files_left_out ?? 0 })}</p>}
      {unrecorded.length > 0 && (
        <section>
          <h3 className="group-title">{t("diff_not_recorded")}</h3>
          <ul className="not-recorded">
            {unrecorded.map((each) => <li key={each.path}><code>{makeVisible(each.path)}</code> <span className="quiet small">{makeVisible(each.reason)}</span></li>)}
          </ul>
        </section>
      )}
      <Comments sessionId={sessionId} files={diff.files} onSent={onClose} />
      {diff.files.length > 0 && <Undo diff={diff} task={task} onDone={onClose} />}
    </div>
  );
}

function File({ sessionId, file }: { sessionId: string; file: FileDiff }) {
  const { t } = useWords();
  const notes = [
    file.binary ? t("diff_binary") : "",
    file.too_large ? t("diff_too_large") : "",
    file.changed_since ? t("diff_changed_since") : "",
    file.modes ? `${file.modes[0].toString(8)} → ${file.modes[1].toString(8)}` : "",
    file.note ? makeVisible(file.note) : "",
  ].filter(Boolean);
  return (
    <details className="panel file-diff" open data-testid="diff-file" data-path={file.path} data-status={file.status}>
      <summary>
        <code className="file-path">{file.old_path ? `${makeVisible(file.old_path)} → ` : ""}{makeVisible(file.path)}</code>
        {file.status !== "modified" && <span className="quiet small">{t(`diff_${file.status}` as Key)}</span>}
        {!file.binary && <span className="added">+{file.added ?? 0}</span>}
        {!file.binary && <span className="removed">−{file.removed ?? 0}</span>}
        <Icon name="chevron" className="turns" />
      </summary>
      {notes.length > 0 && <p className="diff-note quiet small" data-warn={file.changed_since ?? false}>{notes.join(" · ")}</p>}
      {file.diff && <DiffText sessionId={sessionId} path={file.path} diff={file.diff} />}
      {(file.lines_left_out ?? 0) > 0 && <p className="diff-note quiet small">{t("diff_lines_left_out", { count: file.lines_left_out ?? 0 })}</p>}
    </details>
  );
}

/** What was said about lines, as one message. */
function Comments({ sessionId, files, onSent }: { sessionId: string; files: readonly FileDiff[]; onSent: () => void }) {
  const client = useClient();
  const { t } = useWords();
  const [busy, setBusy] = useState(false);
  const said = useComments(client, sessionId).filter((one) => one.text.trim() !== "");
  const lines = useMemo(() => files.map((file) => {
    let found: ReturnType<typeof diffLines> | undefined;
    // A long diff is looked through only where something was said about it.
    return { path: file.path, lines: () => (found ??= diffLines(makeVisible(file.diff ?? ""))) };
  }), [files]);
  if (said.length === 0) return null;
  const lost = withoutLine(said, lines);
  const remove = (gone: LineComment) => keepComments(client, sessionId, commentsOf(client, sessionId).filter((one) => !isSame(one, gone)));
  const text = messageOf(said, t);
  const most = client.welcome?.limits.max_text_bytes ?? Infinity;
  const tooLong = bytesOf(text) > most;
  async function send() {
    setBusy(true);
    try {
      await client.ask({ intent: "say", payload: { text, delivery: "steer" } }, sessionId);
      keepComments(client, sessionId, []);
      onSent();
    } finally {
      setBusy(false);
    }
  }
  return (
    <div className="comments-bar" data-testid="comments">
      {lost.length > 0 && (
        <section className="comments-lost">
          <p className="quiet small">{t("comments_lost")}</p>
          <ul>
            {lost.map((one) => (
              <li key={`${one.path} ${one.side} ${one.line} ${one.quote}`} data-testid="comment-lost">
                <div>
                  <p className="quiet small">{t(one.side === "new" ? "comment_at" : "comment_at_old", { path: makeVisible(one.path), line: one.line })}</p>
                  <code>{one.quote}</code>
                  <p>{makeVisible(one.text)}</p>
                </div>
                <button type="button" className="icon-button" aria-label={t("comment_remove")} data-testid="comment-lost-remove" onClick={() => remove(one)}><Icon name="cross" /></button>
              </li>
            ))}
          </ul>
        </section>
      )}
      <p>{tooLong ? t("comments_too_long") : t("comments_count", { count: said.length })}</p>
      <button type="button" className="primary" data-testid="comments-send" disabled={busy || tooLong} onClick={() => void send()}>{t("comments_send")}</button>
    </div>
  );
}

/** Said like any command, so that it goes the way of every effect: all of a task, or of one of its steps, or nothing. */
function Undo({ diff, task, onDone }: { diff: WorkspaceDiff; task: TaskEntity; onDone: () => void }) {
  const client = useClient();
  const { t } = useWords();
  const [asks, setAsks] = useState<{ step: string | null } | null>(null);
  const touched = new Set(diff.files.flatMap((file) => file.steps ?? []));
  const steps = (task.steps ?? []).filter((step) => touched.has(step.step_id));
  const nameOf = (id: string) => makeVisible(steps.find((step) => step.step_id === id)?.title ?? id);
  if (asks) {
    const quoted = asks.step === null ? "" : ` ${/^[\w.-]+$/.test(asks.step) ? asks.step : `'${asks.step}'`}`;
    return (
      <div className="card asks" data-testid="undo-sure">
        <p>{asks.step === null ? t("undo_sure") : t("undo_step_sure", { step: nameOf(asks.step) })}</p>
        <p className="quiet small">{t("undo_keeps")}</p>
        <div className="card-actions">
          <button
            type="button"
            className="danger"
            data-testid="undo-yes"
            onClick={() => {
              void client.ask({ intent: "say", payload: { text: `/undo ${task.id}${quoted}` } }, diff.session_id);
              onDone();
            }}
          >
            {t("undo_yes")}
          </button>
          <button type="button" onClick={() => setAsks(null)}>{t("cancel")}</button>
        </div>
      </div>
    );
  }
  return (
    <div className="undo">
      {/* A name with a quotation mark in it can't be said in a command. */}
      {steps.length > 1 && steps.filter((step) => !step.step_id.includes("'")).map((step) => (
        <button key={step.step_id} type="button" className="quiet-button" onClick={() => setAsks({ step: step.step_id })}>{t("undo_step", { step: makeVisible(step.title) })}</button>
      ))}
      <button type="button" className="leave" data-testid="undo" onClick={() => setAsks({ step: null })}>{t("undo")}</button>
    </div>
  );
}
