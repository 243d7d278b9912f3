/** What can be done with a session as a whole: another name, the top of the list, out of the list. */
import { makeVisible, type SessionEntity } from "@baton/sdk";
import { useEffect, useRef, useState, type FormEvent } from "react";
import { useClient, useWords } from "../context.tsx";
import { toHome } from "../route.ts";
import { showToast } from "../toast.ts";
import { Icon } from "./icons.tsx";

const MOST_TITLE = 200;

export function SessionMenu({ session }: { session: SessionEntity }) {
  const client = useClient();
  const { t } = useWords();
  const [open, setOpen] = useState(false);
  const [renames, setRenames] = useState(false);
  const [resets, setResets] = useState(false);
  const [title, setTitle] = useState("");
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);

  useEffect(() => {
    if (!open) return;
    box.current?.querySelector<HTMLElement>("[role=menuitem], input, .card-actions button")?.focus();
    const outside = (event: PointerEvent) => !box.current?.contains(event.target as Node) && close();
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, [open, renames, resets]);

  function close() {
    setOpen(false);
    setRenames(false);
    setResets(false);
  }
  function shut() {
    close();
    button.current?.focus();
  }
  const pin = () => {
    void client.ask({ intent: "pin", payload: { pinned: !session.pinned } }, session.id);
    shut();
  };
  const archive = () => {
    const archived = !session.archived;
    void client.ask({ intent: "archive", payload: { archived } }, session.id);
    close();
    showToast({
      words: t(archived ? "archived" : "unarchived", { title: makeVisible(session.title) || t("untitled") }),
      action: { words: t("undo_short"), run: () => void client.ask({ intent: "archive", payload: { archived: !archived } }, session.id) },
    });
    if (archived) location.hash = toHome;
  };
  // Only whoever holds the session may, and not while the agent works.
  const own = client.welcome?.device_id;
  const mayReset = own !== undefined && session.holder === own && session.activity === "idle";
  const reset = () => {
    shut();
    // Without a link it waits, and the hub may refuse it: it is done when the hub says so.
    void client.ask({ intent: "reset_context", payload: {} }, session.id, true).then(({ settled }) => settled).then((reply) => {
      if (!reply || reply.error) return;
      showToast({ words: t("reset_context_done"), action: { words: t("undo_short"), run: () => void client.ask({ intent: "undo_reset", payload: {} }, session.id) } });
    });
  };
  const rename = (event: FormEvent) => {
    event.preventDefault();
    const wanted = title.trim();
    const before = session.title;
    if (wanted === "" || wanted === before) return shut();
    void client.ask({ intent: "rename", payload: { title: wanted } }, session.id);
    showToast({
      words: t("renamed"),
      ...(before ? { action: { words: t("undo_short"), run: () => void client.ask({ intent: "rename", payload: { title: before } }, session.id) } } : {}),
    });
    shut();
  };

  return (
    <div
      className="menu-holder"
      ref={box}
      onKeyDown={(event) => {
        if (!open) return;
        if (event.key === "Escape") {
          event.preventDefault();
          event.stopPropagation();
          shut();
        }
        const items = [...event.currentTarget.querySelectorAll<HTMLElement>("[role=menuitem]")];
        const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
        if (step === 0 || items.length === 0) return;
        event.preventDefault();
        items[(items.indexOf(document.activeElement as HTMLElement) + step + items.length) % items.length]?.focus();
      }}
    >
      <button ref={button} type="button" className="icon-button" data-testid="session-menu" aria-label={t("session_menu")} title={t("session_menu")} aria-haspopup="menu" aria-expanded={open} onClick={() => (open ? close() : setOpen(true))}>
        <Icon name="dots" />
      </button>
      {open && !renames && !resets && (
        <div className="menu" role="menu" aria-label={t("session_menu")}>
          <button type="button" role="menuitem" data-testid="rename" onClick={() => { setTitle(session.title); setRenames(true); }}><Icon name="pen" /> {t("rename")}</button>
          <button type="button" role="menuitem" data-testid="pin" onClick={pin}><Icon name="pin" /> {t(session.pinned ? "unpin" : "pin")}</button>
          {mayReset && <button type="button" role="menuitem" data-testid="reset-context" onClick={() => setResets(true)}><Icon name="afresh" /> {t("reset_context")}</button>}
          <button type="button" role="menuitem" data-testid="archive" onClick={archive}><Icon name="archive" /> {t(session.archived ? "unarchive" : "archive")}</button>
        </div>
      )}
      {open && resets && (
        <div className="menu rename-form" role="alertdialog" aria-label={t("reset_context")} aria-describedby="reset-sure">
          <p id="reset-sure">{t("reset_context_sure")}</p>
          <div className="card-actions">
            <button type="button" className="danger" data-testid="reset-yes" onClick={reset}>{t("reset_context_yes")}</button>
            <button type="button" onClick={shut}>{t("cancel")}</button>
          </div>
        </div>
      )}
      {open && renames && (
        <form className="menu rename-form" onSubmit={rename}>
          <label>
            <span>{t("rename_title")}</span>
            <input value={title} data-testid="rename-title" maxLength={MOST_TITLE} enterKeyHint="done" autoComplete="off" onChange={(event) => setTitle(event.target.value)} onFocus={(event) => event.target.select()} />
          </label>
          <div className="card-actions">
            <button type="submit" className="primary" data-testid="rename-yes" disabled={title.trim() === ""}>{t("device_rename")}</button>
            <button type="button" onClick={shut}>{t("cancel")}</button>
          </div>
        </form>
      )}
    </div>
  );
}
