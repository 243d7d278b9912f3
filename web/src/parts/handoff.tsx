/** A session moves between devices: the user sends it on, or takes what another device offers. */
import { HubError, makeVisible, type Brief, type DeviceView, type HandoffOffer, type SessionEntity, type SessionId, type SessionState } from "@baton/sdk";
import { useEffect, useRef, useState } from "react";
import { findDevice, useClient, useWords } from "../context.tsx";
import { deviceName, exactClock } from "../format.ts";
import type { Key } from "../i18n/index.ts";
import { toSession } from "../route.ts";
import { Icon } from "./icons.tsx";
import { asHubError, Trouble } from "./trouble.tsx";

/** Devices that can hold a session, those that are there first. */
export function targets(devices: readonly DeviceView[]): DeviceView[] {
  return devices
    .filter((device) => !device.own && !device.revoked_at && device.trust !== "guest" && device.client_type !== "device")
    .sort((a, b) => Number(b.online) - Number(a.online) || (a.name < b.name ? -1 : 1));
}

export function ContinueOn({ session }: { session: SessionEntity }) {
  const client = useClient();
  const { t } = useWords();
  const [open, setOpen] = useState(false);
  const own = client.welcome?.device_id;
  const devices = targets(client.devices ?? []);
  if (own === undefined || session.holder !== own || session.transfer || devices.length === 0) return null;
  return (
    <>
      <button type="button" className="quiet-button continue-on" data-testid="continue-on" onClick={() => setOpen(true)}>
        {t("continue_on")}
      </button>
      {open && (
        <Targets
          devices={devices}
          onClose={() => setOpen(false)}
          onChoose={(device) => {
            setOpen(false);
            void client.ask({ intent: "handoff", payload: { to_device: device.device_id } }, session.id);
          }}
        />
      )}
    </>
  );
}

/** A follower takes the session over without saying anything. */
export function ContinueHere({ session }: { session: SessionEntity }) {
  const client = useClient();
  const { t } = useWords();
  const asked = client.outbox.list().find((one) => one.operation.intent === "take_over" && one.operation.session_id === session.id);
  const pending = asked?.state === "waiting" || asked?.state === "sent";
  if (client.devices?.find((device) => device.own)?.trust === "guest") return null;
  return (
    <button
      type="button"
      className="quiet-button continue-on"
      data-testid="continue-here"
      disabled={pending}
      // Somebody may be working there: that the user asks for it here, in so many words, is what counts.
      onClick={() => void client.ask({ intent: "take_over", payload: { force: true } }, session.id)}
    >
      {t("continue_here")}
    </button>
  );
}

function Targets({ devices, onChoose, onClose }: { devices: DeviceView[]; onChoose: (device: DeviceView) => void; onClose: () => void }) {
  const { t } = useWords();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog ref={dialog} className="sheet" aria-labelledby="continue-title" onClose={onClose} onClick={(event) => event.target === dialog.current && dialog.current.close()}>
      <div className="sheet-inside">
        <header className="bar">
          <h1 id="continue-title" className="bar-title">{t("continue_on")}</h1>
          <button type="button" className="icon-button" aria-label={t("close")} onClick={() => dialog.current?.close()}>
            <Icon name="cross" />
          </button>
        </header>
        <p className="quiet small sheet-lead">{t("continue_on_text")}</p>
        <ul className="devices">
          {devices.map((device) => (
            <li key={device.device_id}>
              <button type="button" className="device target" data-testid="handoff-target" data-online={device.online} onClick={() => onChoose(device)}>
                <span className="presence" data-online={device.online} aria-hidden="true" />
                <span className="device-words">
                  <span className="device-name">{makeVisible(device.name)}</span>
                  <span className="quiet small">
                    {[t(`type_${device.client_type}` as Key), t(`trust_${device.trust}` as Key), t(device.online ? "device_online" : "device_offline")].join(" · ")}
                  </span>
                </span>
              </button>
            </li>
          ))}
        </ul>
      </div>
    </dialog>
  );
}

/** Who the session is being handed to, and until when; `null` while nobody offers it. */
export function useTransferWords(state: SessionState): string | null {
  const client = useClient();
  const { t, language } = useWords();
  const session = state.session;
  if (!session?.transfer) return null;
  const handoff = state.get("handoff", session.transfer);
  if (!handoff) return t("holder_transfer");
  const until = exactClock(handoff.deadline, language);
  if (handoff.to === client.welcome?.device_id) {
    return t("holder_transfer_here", { name: makeVisible(deviceName(findDevice(client, handoff.from), t)), until });
  }
  return t("holder_transfer_to", { name: makeVisible(deviceName(findDevice(client, handoff.to), t)), until });
}

/** Sessions that other devices offer to this one, wherever in the console the user is; `except` has its card in its own view. */
export function Offers({ except }: { except: SessionId | null }) {
  const client = useClient();
  const offers = [...client.offers.values()].filter((offer) => offer.session_id !== except);
  return offers.map((offer) => (
    <OfferCard
      key={offer.handoff_id}
      offer={offer}
      from={offer.from}
      deadline={offer.deadline}
      title={offer.summary}
      brief={offer.brief}
    />
  ));
}

/** The offer of the session that is being looked at; it is known even where its frame came before this page. */
export function OfferHere({ state }: { state: SessionState }) {
  const client = useClient();
  const session = state.session;
  const handoff = state.get("handoff", session?.transfer);
  const wanted = handoff !== undefined && handoff.state === "offered" && handoff.to === client.welcome?.device_id;
  const frame = handoff && client.offers.get(handoff.id);
  const [brief, setBrief] = useState<Brief | null>(null);
  useEffect(() => {
    if (!wanted || frame) return;
    let ended = false;
    client.hub.brief(state.id).then(
      (loaded) => !ended && setBrief(loaded),
      // The offer can be answered without its brief.
      () => undefined,
    );
    return () => {
      ended = true;
    };
  }, [client, state.id, wanted, frame]);
  if (!wanted || !session) return null;
  return (
    <OfferCard
      offer={{ handoff_id: handoff.id, session_id: state.id }}
      from={handoff.from}
      deadline={handoff.deadline}
      title={session.title}
      brief={frame?.brief ?? brief}
    />
  );
}

interface OfferCardProps {
  offer: Pick<HandoffOffer, "handoff_id" | "session_id">;
  from: string;
  deadline: string;
  title: string;
  brief: Brief | null;
}

function OfferCard({ offer, from, deadline, title, brief }: OfferCardProps) {
  const client = useClient();
  const { t, language } = useWords();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<HubError | null>(null);

  async function answer(accept: boolean) {
    setBusy(true);
    setError(null);
    try {
      const reply = await client.answerOffer(offer, accept);
      if (reply?.error) {
        setError(HubError.of(reply.error));
        await client.outbox.discard(reply.operation_id);
      } else if (reply && accept) {
        location.hash = toSession(offer.session_id);
      }
    } catch (caught) {
      setError(asHubError(caught));
    } finally {
      setBusy(false);
    }
  }

  const lines: [Key, string][] = brief
    ? [
        ["goal", brief.goal],
        ["brief_done", brief.completed_steps.join(" · ")],
        ["brief_next", brief.next_step ?? ""],
      ]
    : [];
  return (
    <section className="card asks offer" data-testid="handoff-offer" data-session={offer.session_id} aria-label={t("offer_title")}>
      <header className="card-head">
        <Icon name="devices" />
        <h2>{t("offer_title")}</h2>
      </header>
      <p className="offer-what">{makeVisible(title) || t("untitled")}</p>
      <p className="quiet small">{t("offer_from", { name: makeVisible(deviceName(findDevice(client, from), t)), until: exactClock(deadline, language) })}</p>
      {lines.some(([, text]) => text) && (
        <dl className="where-what">
          {lines.filter(([, text]) => text).map(([key, text]) => (
            <div key={key}>
              <dt>{t(key)}</dt>
              <dd>{makeVisible(text)}</dd>
            </div>
          ))}
        </dl>
      )}
      {error && <Trouble error={error} />}
      <div className="card-actions">
        <button type="button" className="primary" data-testid="offer-accept" disabled={busy} onClick={() => void answer(true)}>{t("offer_accept")}</button>
        <button type="button" data-testid="offer-decline" disabled={busy} onClick={() => void answer(false)}>{t("offer_decline")}</button>
      </div>
    </section>
  );
}
