/** Where the user writes. It never sends in the middle of an input method's composition, and forgets no draft. */
import { makeVisible, type Attachment, type Delivery, type FoundPath, type SlashCommand } from "@baton/sdk";
import { useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore, type KeyboardEvent } from "react";
import { useClient, useWords } from "../context.tsx";
import { touchKeyboard } from "../device.ts";
import { bytesOf, keepFiles, keptFiles, sizeWords } from "../files.ts";
import { tagOf } from "../i18n/index.ts";
import { AttachButton, DraftFiles, useIncoming } from "./attachments.tsx";
import { Icon } from "./icons.tsx";

export interface ComposerProps {
  /** Which draft this is: a session's id, or `new`. */
  place: string;
  label: string;
  placeholder: string;
  /** Resolves to whether the text is safe elsewhere; only then it leaves the draft. */
  onSend: (text: string, delivery: Delivery, files: Attachment[]) => Promise<boolean>;
  /** The agent works: what is sent may be read at its next step, after its turn, or at once. */
  delivers?: boolean;
  stop?: { stopping: boolean; onStop: () => void } | undefined;
}

export function Composer({ place, label, placeholder, onSend, delivers = false, stop }: ComposerProps) {
  const client = useClient();
  const { t, language } = useWords();
  const text = useSyncExternalStore(client.drafts.subscribe, () => client.drafts.get(place));
  const [busy, setBusy] = useState(false);
  const [chosen, setChosen] = useState(0);
  const [closed, setClosed] = useState(false);
  const [drops, setDrops] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);

  const files = keptFiles(client, place);
  const arriving = useIncoming(place);
  const most = client.welcome?.limits.max_text_bytes ?? Infinity;
  // Counted only where it can be true: a character has at most three bytes here.
  const tooLong = text.length * 3 > most && bytesOf(text) > most;
  const empty = (text.trim() === "" && files.length === 0) || arriving.incoming.length > 0 || tooLong;

  const [caret, setCaret] = useState(0);
  const begun = pathBegun(text, caret);
  const paths = usePaths(place, closed ? null : begun?.query ?? null);
  const menu: Choice[] = closed ? [] : begun ? paths.map(pathChoice).filter((choice) => choice.insert !== `@${begun.query}`) : slashMatches(client.info?.commands ?? [], text).map(commandChoice);
  const list = `commands-${place}`;

  function write(next: string) {
    setChosen(0);
    setClosed(false);
    client.drafts.set(place, next);
  }

  useLayoutEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight}px`;
  }, [text]);

  async function send(delivery: Delivery = "steer") {
    const sent = text.trim();
    if (empty || busy) return;
    setBusy(true);
    const safe = await onSend(sent, delivery, files).catch(() => false);
    setBusy(false);
    // What was typed meanwhile stays.
    if (safe && client.drafts.get(place) === text) write("");
    if (safe) keepFiles(client, place, []);
    field.current?.focus();
  }

  function textAsFile(content: string) {
    return arriving.add([new File([content], "text.txt", { type: "text/plain" })]);
  }

  function complete(choice: Choice) {
    const from = begun?.from ?? 0;
    const until = begun ? caret : text.length;
    const at = from + choice.insert.length;
    write(text.slice(0, from) + choice.insert + text.slice(until));
    field.current?.focus();
    // Once the new text is in the field.
    requestAnimationFrame(() => {
      field.current?.setSelectionRange(at, at);
      setCaret(at);
    });
  }

  function keyDown(event: KeyboardEvent<HTMLTextAreaElement>) {
    // Some browsers end the composition before they report its Enter; 229 is how they still tell.
    if (event.nativeEvent.isComposing || event.keyCode === 229) return;
    const choice = menu[chosen];
    if (choice) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        setChosen((chosen + (event.key === "ArrowDown" ? 1 : menu.length - 1)) % menu.length);
        return;
      }
      if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && text !== choice.insert.trimEnd())) {
        event.preventDefault();
        complete(choice);
        return;
      }
      if (event.key === "Escape") {
        event.preventDefault();
        setClosed(true);
        return;
      }
    }
    const wantsLine = event.shiftKey || event.altKey || touchKeyboard();
    if (event.key === "Enter" && (!wantsLine || event.metaKey || event.ctrlKey)) {
      event.preventDefault();
      void send();
    }
  }

  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {menu.length > 0 && (
        <ul className="slash" id={list} role="listbox" aria-label={t(begun ? "files" : "commands")}>
          {menu.map((choice, index) => (
            <li
              key={choice.insert}
              id={`${list}-${index}`}
              role="option"
              aria-selected={index === chosen}
              data-testid={begun ? "path-option" : "slash-option"}
              onPointerDown={(event) => {
                event.preventDefault();
                complete(choice);
              }}
            >
              <code>{choice.words}</code>
              {choice.about && <span className="quiet small">{choice.about}</span>}
            </li>
          ))}
        </ul>
      )}
      <DraftFiles place={place} incoming={arriving.incoming} retry={arriving.retry} remove={arriving.remove} />
      {tooLong && (
        <div className="too-long" role="status" data-testid="too-long">
          <p>{t("text_too_long", { limit: sizeWords(most, tagOf(language)) })}</p>
          <button type="button" onClick={() => textAsFile(text) && write("")}>{t("text_as_file")}</button>
        </div>
      )}
      <div
        className="composer-box"
        data-drop={drops}
        onDragOver={(event) => {
          if (!event.dataTransfer.types.includes("Files")) return;
          event.preventDefault();
          setDrops(true);
        }}
        onDragLeave={() => setDrops(false)}
        onDrop={(event) => {
          event.preventDefault();
          setDrops(false);
          arriving.add(event.dataTransfer.files);
        }}
      >
        <AttachButton onFiles={arriving.add} />
        <textarea
          ref={field}
          id={`composer-${place}`}
          data-testid="composer"
          rows={1}
          value={text}
          placeholder={placeholder}
          aria-label={label}
          aria-autocomplete="list"
          aria-controls={menu.length > 0 ? list : undefined}
          aria-activedescendant={menu.length > 0 ? `${list}-${chosen}` : undefined}
          enterKeyHint={touchKeyboard() ? "enter" : "send"}
          autoCapitalize="sentences"
          onChange={(event) => {
            setCaret(event.target.selectionStart);
            write(event.target.value);
          }}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
          onKeyDown={keyDown}
          onPaste={(event) => {
            if (event.clipboardData.files.length > 0 && arriving.add(event.clipboardData.files)) event.preventDefault();
          }}
        />
        {stop && (
          <button
            type="button"
            className="round stop"
            data-testid="stop"
            aria-label={t(stop.stopping ? "stopping" : "stop")}
            title={t(stop.stopping ? "stopping" : "stop")}
            disabled={stop.stopping}
            onClick={stop.onStop}
          >
            <Icon name="stop" />
          </button>
        )}
        <button type="submit" className="round send" data-testid="send" aria-label={t("send")} title={t("send")} disabled={busy || empty}>
          <Icon name="send" />
        </button>
      </div>
      {delivers && !empty && (
        <div className="delivery" role="group" aria-label={t("delivery")}>
          <span className="quiet small">{t(stop?.stopping ? "delivery_after" : "delivery_steer")}</span>
          {!stop?.stopping && (
            <>
              <button type="button" className="quiet-button" data-testid="send-queue" title={t("delivery_queue_text")} disabled={busy} onClick={() => void send("queue")}>
                {t("delivery_queue")}
              </button>
              <button type="button" className="quiet-button" data-testid="send-interrupt" title={t("delivery_interrupt_text")} disabled={busy} onClick={() => void send("interrupt")}>
                {t("delivery_interrupt")}
              </button>
            </>
          )}
        </div>
      )}
    </form>
  );
}

/** What the menu over the field offers. */
interface Choice {
  insert: string;
  words: string;
  about: string;
}

const commandChoice = (command: SlashCommand): Choice => ({ insert: `${command.name} `, words: makeVisible(command.usage || command.name), about: makeVisible(command.description) });

/** A directory is gone on with, a file is done with. */
const pathChoice = (found: FoundPath): Choice => {
  const quoted = /[\s"]/.test(found.path) ? `@"${found.path}"` : `@${found.path}`;
  return { insert: found.directory ? `@${found.path}/` : `${quoted} `, words: `${found.shown ?? makeVisible(found.path)}${found.directory ? "/" : ""}`, about: "" };
};

/** The path that is being written before the caret, after an `@` that begins a word. */
function pathBegun(text: string, caret: number): { from: number; query: string } | null {
  const match = /(?:^|[\s(（，。])@([^\s@]*)$/.exec(text.slice(0, caret));
  return match ? { from: caret - (match[1] ?? "").length - 1, query: match[1] ?? "" } : null;
}

/** Names are asked for once the hand is still for a moment. */
const STILL_MS = 80;

/** Paths that fit, from the device that holds the session's workspace. */
function usePaths(place: string, query: string | null): FoundPath[] {
  const client = useClient();
  const [found, setFound] = useState<FoundPath[]>([]);
  useEffect(() => {
    if (query === null || place === "new") {
      setFound([]);
      return;
    }
    const end = new AbortController();
    const timer = setTimeout(() => {
      client.hub.paths(place, query.replace(/\/$/, "/"), 8, end.signal).then(
        (answer) => !end.signal.aborted && setFound(answer.paths),
        // A device that is away completes nothing; what is written is written.
        () => !end.signal.aborted && setFound([]),
      );
    }, STILL_MS);
    return () => {
      clearTimeout(timer);
      end.abort();
    };
  }, [client, place, query]);
  return query === null ? [] : found;
}

/** Commands whose name begins with what stands in the field, while it is only that. */
function slashMatches(commands: readonly SlashCommand[], text: string): SlashCommand[] {
  if (!/^\/\S*$/.test(text)) return [];
  return commands.filter((command) => command.name.startsWith(text));
}
