/** Where the user writes. It never sends in the middle of an input method's composition, and forgets no draft. */
import { makeVisible, type Attachment, type Delivery, type SlashCommand } from "@baton/sdk";
import { useLayoutEffect, useRef, useState, useSyncExternalStore, type KeyboardEvent } from "react";
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

  const matching = slashMatches(client.info?.commands ?? [], text);
  const menu = closed ? [] : matching;
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

  function complete(command: SlashCommand) {
    write(`${command.name} `);
    field.current?.focus();
  }

  function keyDown(event: KeyboardEvent<HTMLTextAreaElement>) {
    // Some browsers end the composition before they report its Enter; 229 is how they still tell.
    if (event.nativeEvent.isComposing || event.keyCode === 229) return;
    const command = menu[chosen];
    if (command) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        setChosen((chosen + (event.key === "ArrowDown" ? 1 : menu.length - 1)) % menu.length);
        return;
      }
      if (event.key === "Tab" || (event.key === "Enter" && text !== command.name)) {
        event.preventDefault();
        complete(command);
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
        <ul className="slash" id={list} role="listbox" aria-label={t("commands")}>
          {menu.map((command, index) => (
            <li
              key={command.name}
              id={`${list}-${index}`}
              role="option"
              aria-selected={index === chosen}
              data-testid="slash-option"
              onPointerDown={(event) => {
                event.preventDefault();
                complete(command);
              }}
            >
              <code>{makeVisible(command.usage || command.name)}</code>
              <span className="quiet small">{makeVisible(command.description)}</span>
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
          onChange={(event) => write(event.target.value)}
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

/** Commands whose name begins with what stands in the field, while it is only that. */
function slashMatches(commands: readonly SlashCommand[], text: string): SlashCommand[] {
  if (!/^\/\S*$/.test(text)) return [];
  return commands.filter((command) => command.name.startsWith(text));
}
