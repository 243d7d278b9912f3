/** Where the user writes. It never sends in the middle of an input method's composition, and forgets no draft. */
import { makeVisible, type Delivery, type SlashCommand } from "@baton/sdk";
import { useLayoutEffect, useRef, useState, useSyncExternalStore, type KeyboardEvent } from "react";
import { useClient, useWords } from "../context.tsx";
import { touchKeyboard } from "../device.ts";
import { Icon } from "./icons.tsx";

export interface ComposerProps {
  /** Which draft this is: a session's id, or `new`. */
  place: string;
  label: string;
  placeholder: string;
  /** Resolves to whether the text is safe elsewhere; only then it leaves the draft. */
  onSend: (text: string, delivery: Delivery) => Promise<boolean>;
  /** The agent works: what is sent may be read at its next step, after its turn, or at once. */
  delivers?: boolean;
  stop?: { stopping: boolean; onStop: () => void } | undefined;
}

export function Composer({ place, label, placeholder, onSend, delivers = false, stop }: ComposerProps) {
  const client = useClient();
  const { t } = useWords();
  const text = useSyncExternalStore(client.drafts.subscribe, () => client.drafts.get(place));
  const [busy, setBusy] = useState(false);
  const [chosen, setChosen] = useState(0);
  const [closed, setClosed] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);

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
    if (sent === "" || busy) return;
    setBusy(true);
    const safe = await onSend(sent, delivery).catch(() => false);
    setBusy(false);
    // What was typed meanwhile stays.
    if (safe && client.drafts.get(place) === text) write("");
    field.current?.focus();
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
      <div className="composer-box">
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
        <button type="submit" className="round send" data-testid="send" aria-label={t("send")} title={t("send")} disabled={busy || text.trim() === ""}>
          <Icon name="send" />
        </button>
      </div>
      {delivers && text.trim() !== "" && (
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
