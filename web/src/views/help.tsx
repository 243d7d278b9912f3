/** The keys, and the switch for those that are a single letter. */
import { useEffect, useRef, useState } from "react";
import { useWords } from "../context.tsx";
import { KEYS, letLettersAct, lettersAct } from "../keys.ts";
import { Icon } from "../parts/icons.tsx";

export function Help({ onClose }: { onClose: () => void }) {
  const { t } = useWords();
  const dialog = useRef<HTMLDialogElement>(null);
  const [letters, setLetters] = useState(lettersAct);
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog ref={dialog} className="sheet" data-testid="help" aria-labelledby="help-title" onClose={onClose} onClick={(event) => event.target === dialog.current && dialog.current.close()}>
      <div className="sheet-inside">
        <header className="bar">
          <h1 id="help-title" className="bar-title">{t("keys")}</h1>
          <button type="button" className="icon-button" aria-label={t("close")} onClick={() => dialog.current?.close()}>
            <Icon name="cross" />
          </button>
        </header>
        <dl className="keys">
          {KEYS.map(([key, words]) => (
            <div key={key}>
              <dt>{key.split(" ").map((part, index) => ((part === "/" && key !== "/") || part === "–" ? ` ${part} ` : <kbd key={index}>{part}</kbd>))}</dt>
              <dd>{t(words)}</dd>
            </div>
          ))}
        </dl>
        <label className="switch">
          <input
            type="checkbox"
            checked={letters}
            onChange={(event) => {
              letLettersAct(event.target.checked);
              setLetters(event.target.checked);
            }}
          />
          <span>{t("keys_letters")}</span>
        </label>
      </div>
    </dialog>
  );
}
