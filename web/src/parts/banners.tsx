/** Calm lines that say how things are: the link, the model, who holds the session. */
import { makeVisible, type SessionState } from "@baton/sdk";
import { useEffect, useState } from "react";
import { findDevice, useClient, useWords } from "../context.tsx";
import { asOf } from "../format.ts";
import type { Key } from "../i18n/index.ts";
import { ContinueHere, ContinueOn, useTransferWords } from "./handoff.tsx";
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
  const { t, language } = useWords();
  const { connection, asOf: at } = client;
  // A page that has just been opened connects in a moment; what it shows meanwhile is what it kept.
  if (connection !== "reconnecting" && connection !== "offline") return null;
  return (
    <div className="banner" data-tone="warn" data-testid="link-banner" data-as-of={at ?? ""} role="status">
      <span className="pulse" aria-hidden="true" />
      <p>
        {at && <strong>{t(connection === "offline" ? "as_of_offline" : "as_of_reconnecting", { time: asOf(at, language) })}</strong>}{" "}
        {t(at ? "as_of_text" : `link_${connection}_text`)}
      </p>
      <button type="button" className="quiet-button" onClick={() => client.wake()}>{t("try_again")}</button>
    </div>
  );
}

/** Nothing that is typed here survives: said once, before it is lost. */
export function StorageBanner() {
  const client = useClient();
  const { t } = useWords();
  const [dismissed, setDismissed] = useState(false);
  if (client.durable || dismissed) return null;
  return (
    <div className="banner" data-testid="not-kept" role="status">
      <p>{t("not_kept")}</p>
      <button type="button" className="quiet-button" onClick={() => setDismissed(true)}>{t("understood")}</button>
    </div>
  );
}

/** The hub was started anew and may bring another page than the one that is open: then it says so, and loads it when asked. */
export function UpgradeBanner() {
  const client = useClient();
  const { t } = useWords();
  const [newer, setNewer] = useState(false);
  const incarnation = client.info?.incarnation;
  useEffect(() => {
    if (incarnation === undefined) return;
    let ended = false;
    void fetch("/", { cache: "no-store" }).then((answer) => answer.text()).then(
      (page) => {
        const own = [...document.scripts].map((script) => script.getAttribute("src")).filter((source) => source !== null);
        const theirs = /<script[^>]*\ssrc="([^"]+)"/.exec(page)?.[1];
        if (!ended && theirs !== undefined && !own.includes(theirs)) setNewer(true);
      },
      // Without a link there is nothing to compare.
      () => undefined,
    );
    return () => {
      ended = true;
    };
  }, [incarnation]);
  // A hub that no longer speaks this page's version of the wire says so.
  if (!newer && client.trouble?.code !== "unsupported_version") return null;
  return (
    <div className="banner" data-tone="good" data-testid="newer-page" role="status">
      <p>{t("newer_page")}</p>
      <button type="button" className="quiet-button" onClick={() => location.reload()}>{t("reload")}</button>
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
  const { t, language } = useWords();
  const transfer = useTransferWords(state);
  const session = state.session;
  if (!session) return null;
  const own = client.welcome?.device_id ?? client.devices?.find((device) => device.own)?.device_id;
  const self = session.holder != null && session.holder === own;
  const holder = findDevice(client, session.holder);
  const name = holder ? makeVisible(holder.name) : t("another_device");
  const words = transfer
    ? transfer
    : self
      ? t("holder_self")
      : session.holder == null
        ? t("holder_none")
        : holder && !holder.online
          ? holder.last_seen_at ? t("holder_away_since", { name, time: asOf(holder.last_seen_at, language) }) : t("holder_away", { name })
          : t("holder_other", { name });
  return (
    <div className="holder">
      <p data-testid="holder" data-self={self} data-transfer={transfer !== null} role={transfer ? "status" : undefined}>
        <span className="holder-mark" aria-hidden="true" />
        <span>{words}</span>
      </p>
      <ContinueOn session={session} />
      {!self && own !== undefined && !transfer && <ContinueHere session={session} />}
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
