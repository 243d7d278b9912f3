/** A file of the workspace, read through the hub from whichever device holds it. */
import { HubError, makeVisible } from "@baton/sdk";
import { createContext, useContext, useEffect, useRef, useState } from "react";
import { useClient, useWords } from "../context.tsx";
import { sizeWords } from "../files.ts";
import { tagOf } from "../i18n/index.ts";
import { Icon } from "./icons.tsx";
import { asHubError, Trouble } from "./trouble.tsx";
import { Verbatim } from "./verbatim.tsx";

/** Opens a file of the session that is shown; `null` where there is none. */
export const OpenFileContext = createContext<((path: string) => void) | null>(null);

export function FileLink({ path, text, named = false }: { path: string; text: string; named?: boolean }) {
  const open = useContext(OpenFileContext);
  if (!open) return <span>{text}</span>;
  return (
    <span>
      <button type="button" className="file-link" data-testid="file-link" data-path={path} onClick={() => open(path)}>{text}</button>
      {named && <span className="quiet"> ({makeVisible(path)})</span>}
    </span>
  );
}

type Shown = { kind: "text"; text: string; bytes: number } | { kind: "image"; bytes: number } | { kind: "other"; bytes: number };

/** More than this of a text isn't drawn; it can be saved. */
const MOST_CHARACTERS = 400_000;

export function FileSheet({ sessionId, path, onClose }: { sessionId: string; path: string; onClose: () => void }) {
  const client = useClient();
  const { t, language } = useWords();
  const dialog = useRef<HTMLDialogElement>(null);
  const [shown, setShown] = useState<Shown | null>(null);
  const [error, setError] = useState<HubError | null>(null);
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  useEffect(() => {
    let ended = false;
    setError(null);
    client.hub.file(sessionId, path).then(async ({ type, bytes }) => {
      const found: Shown = type.startsWith("text/") ? { kind: "text", text: await bytes.text(), bytes: bytes.size } : { kind: type.startsWith("image/") ? "image" : "other", bytes: bytes.size };
      if (!ended) setShown(found);
    }).catch((caught: unknown) => !ended && setError(asHubError(caught)));
    return () => {
      ended = true;
    };
  }, [client, sessionId, path, tries]);
  const name = path.split("/").at(-1) ?? path;
  const url = client.hub.fileUrl(sessionId, path);
  return (
    <dialog ref={dialog} className="sheet wide" aria-label={makeVisible(path)} data-testid="file-sheet" onClose={onClose} onClick={(event) => event.target === dialog.current && dialog.current.close()}>
      <div className="sheet-inside">
        <header className="bar diff-head">
          <h2 className="bar-title">{makeVisible(path)}</h2>
          <button type="button" className="icon-button" aria-label={t("close")} data-testid="file-close" onClick={() => dialog.current?.close()}>
            <Icon name="cross" />
          </button>
        </header>
        {error ? (
          <>
            <Trouble error={error} />
            <button type="button" onClick={() => setTries(tries + 1)}>{t("try_again")}</button>
          </>
        ) : !shown ? (
          <div className="loading" role="status"><span className="unseen">{t("diff_loading")}</span><span className="bone row" aria-hidden="true" /></div>
        ) : (
          <>
            {shown.kind === "text" && shown.bytes === 0 && <p className="quiet">{t("file_empty")}</p>}
            {shown.kind === "text" && shown.bytes > 0 && <Verbatim open text={shown.text.slice(0, MOST_CHARACTERS)} label={makeVisible(path)} />}
            {shown.kind === "text" && shown.text.length > MOST_CHARACTERS && <p className="quiet small">{t("file_cut")}</p>}
            {shown.kind === "image" && <img className="file-picture" src={url} alt={makeVisible(name)} />}
            {shown.kind === "other" && <p className="quiet">{t("diff_binary")}</p>}
            <a className="button" href={url} download={name} data-testid="file-save">{t("file_save", { size: sizeWords(shown.bytes, tagOf(language)) })}</a>
          </>
        )}
      </div>
    </dialog>
  );
}
