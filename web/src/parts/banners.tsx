/** Calm lines that say how things are: the link, the model, who holds the session. */
import { makeVisible, type SessionState } from "@baton/sdk";
import { findDevice, useClient, useWords } from "../context.tsx";
import { deviceName } from "../format.ts";
import type { Key } from "../i18n/index.ts";
import { ContinueOn, useTransferWords } from "./handoff.tsx";
import { Icon } from "./icons.tsx";

export function ConnectionDot() {
  const { connection } = useClient();
  const { t } = useWords();
  const words = t(`link_${connection}` as Key);
  return (
    <span className="dot" data-testid="connection" data-state={connection} role="status" title={words}>
      <span className="dot-words">{words}</span>
    </span>
  );
}

export function LinkBanner() {
  const client = useClient();
  const { t } = useWords();
  if (client.connection !== "reconnecting" && client.connection !== "offline") return null;
  return (
    <div className="banner" data-tone="warn" role="status">
      <span className="pulse" aria-hidden="true" />
      <p>{t(`link_${client.connection}_text`)}</p>
      <button type="button" className="quiet-button" onClick={() => client.wake()}>{t("try_again")}</button>
    </div>
  );
}

export function ModelBanner() {
  const { info } = useClient();
  const { t } = useWords();
  if (!info || info.model != null) return null;
  return (
    <section className="notice" data-testid="model-missing" aria-labelledby="model-missing-title">
      <h2 id="model-missing-title">{t("model_missing")}</h2>
      <p><Ticks text={t("model_missing_text")} /></p>
      {info.commands.length > 0 && (
        <details>
          <summary>
            {t("commands")} <Icon name="chevron" className="turns" />
          </summary>
          <dl className="commands">
            {info.commands.map((command) => (
              <div key={command.name}>
                <dt><code>{makeVisible(command.usage || command.name)}</code></dt>
                <dd>{makeVisible(command.description)}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </section>
  );
}

/** Words of ours with commands between backticks. */
export function Ticks({ text }: { text: string }) {
  return text.split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : <span key={index}>{part}</span>));
}

export function HolderLine({ state }: { state: SessionState }) {
  const client = useClient();
  const { t } = useWords();
  const transfer = useTransferWords(state);
  const session = state.session;
  if (!session) return null;
  const own = client.welcome?.device_id ?? client.devices?.find((device) => device.own)?.device_id;
  const self = session.holder != null && session.holder === own;
  const words = transfer
    ? transfer
    : self
      ? t("holder_self")
      : session.holder == null
        ? t("holder_none")
        : t("holder_other", { name: makeVisible(deviceName(findDevice(client, session.holder), t)) });
  return (
    <div className="holder">
      <p data-testid="holder" data-self={self} data-transfer={transfer !== null} role={transfer ? "status" : undefined}>
        <span className="holder-mark" aria-hidden="true" />
        {words}
      </p>
      <ContinueOn session={session} />
    </div>
  );
}

export function NeedsYou({ count, onShow }: { count: number; onShow: () => void }) {
  const { t } = useWords();
  if (count === 0) return null;
  return (
    <button type="button" className="needs-you" onClick={onShow}>
      <Icon name="alert" />
      {t("waiting_count", { count })}
    </button>
  );
}
