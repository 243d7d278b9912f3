/** One message, and an answer that is still being written. */
import { makeVisible, type MessageEntity, type PartialAnswer } from "@baton/sdk";
import { memo } from "react";
import { useWords } from "../context.tsx";
import { clock, deviceName } from "../format.ts";
import type { Key } from "../i18n/index.ts";
import type { Reading } from "../rest.ts";
import { MessageFiles } from "./attachments.tsx";
import { Icon } from "./icons.tsx";
import { RichText } from "./rich_text.tsx";
import { Verbatim } from "./verbatim.tsx";

export interface MessageRowProps {
  message: MessageEntity;
  /** When the model will read it, if it hasn't yet. */
  reading: Reading | undefined;
  own: string | undefined;
}

export const MessageRow = memo(function MessageRow({ message, reading, own }: MessageRowProps) {
  const { t, language } = useWords();
  const { role, sender } = message;
  const foreign = sender && own !== undefined && sender.device_id !== own;
  return (
    <article className="message" data-testid="message" data-role={role} data-id={message.id} aria-label={t(`role_${role}` as Key)}>
      {message.thinking && <Thinking text={message.thinking} />}
      {message.selection && (
        <details className="selection">
          <summary>
            {t("selection_lines", { path: makeVisible(message.selection.path), first: message.selection.range[0], last: message.selection.range[1] })}
          </summary>
          <Verbatim text={message.selection.text} />
        </details>
      )}
      {message.text !== "" && <div className="bubble">{role === "user" ? makeVisible(message.text) : <RichText text={message.text} />}</div>}
      {(message.attachments ?? []).length > 0 && <MessageFiles files={message.attachments ?? []} />}
      <p className="meta">
        {role === "hub" && <span>{t("role_hub")} · </span>}
        <time dateTime={message.at}>{clock(message.at, language)}</time>
        {foreign && <span> · {t("from_device", { name: makeVisible(deviceName(sender, t)) })}</span>}
        {reading && <span className="unread" data-testid={reading === "step" ? "unread" : "queued"} data-reading={reading}> · {t(`reading_${reading}`)}</span>}
      </p>
    </article>
  );
});

export function Answering({ partial }: { partial: PartialAnswer }) {
  const { t } = useWords();
  return (
    <article className="message" data-testid="message" data-role="agent" data-streaming="true" aria-label={t("answering")} aria-busy="true">
      {partial.thinking && <Thinking text={partial.thinking} growing={partial.text === ""} />}
      {partial.text && (
        <div className="bubble">
          <RichText text={partial.text} />
        </div>
      )}
    </article>
  );
}

function Thinking({ text, growing = false }: { text: string; growing?: boolean }) {
  const { t } = useWords();
  return (
    <details className="thinking" data-testid="thinking">
      <summary>
        {growing && <span className="pulse" aria-hidden="true" />}
        {t("thinking")}
        <Icon name="chevron" className="turns" />
      </summary>
      <p>{makeVisible(text)}</p>
    </details>
  );
}
