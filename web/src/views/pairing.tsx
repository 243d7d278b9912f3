/** A browser that the hub doesn't know yet: by the link that it was opened with, or by a code that a trusted device approves. */
import { HubError, type BatonClient } from "@baton/sdk";
import { useEffect, useRef, useState, type FormEvent } from "react";
import { useWords } from "../context.tsx";
import { capabilities, clientType, suggestedName } from "../device.ts";
import { Ticks } from "../parts/banners.tsx";
import { Mark } from "../parts/icons.tsx";
import { Scan } from "../parts/scan.tsx";
import { asHubError, Trouble } from "../parts/trouble.tsx";
import { pairingLink } from "../route.ts";

const ASK_MS = 1_500;

/** What this browser waits with; without a code it came by a link, and the device that made it is asked. */
interface Asked {
  pairing_id: string;
  secret: string;
  number: string;
  code: string | null;
}

export interface PairingProps {
  client: BatonClient;
  invitation: string | null;
  /** Another device's code, brought here by its QR code, while this browser isn't paired itself. */
  pairing: string | null;
  /** The hub has let this browser in; resolves to whether it knows it now. */
  onPaired: () => Promise<boolean>;
}

export function Pairing({ client, invitation, pairing, onPaired }: PairingProps) {
  const { t, switchLanguage } = useWords();
  const [noCookie, setNoCookie] = useState(false);
  const entered = async () => setNoCookie(!(await onPaired()));
  const [secret, setSecret] = useState(invitation);
  const [name, setName] = useState(suggestedName);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<HubError | null>(null);
  const [started, setStarted] = useState<Asked | null>(null);

  const introduction = () => ({ name: name.trim(), client_type: clientType(), capabilities: capabilities() });

  async function begin(event?: FormEvent) {
    event?.preventDefault();
    if (busy || name.trim() === "") return;
    setBusy(true);
    setError(null);
    try {
      if (secret) {
        const state = await client.hub.claimInvitation(secret, introduction());
        setSecret(null);
        if (state.state === "asking") setStarted({ ...state, code: null });
        else await entered();
      } else {
        const begun = await client.hub.startPairing(introduction());
        setStarted({ ...begun, number: begun.number ?? "" });
      }
    } catch (caught) {
      const trouble = asHubError(caught);
      setError(trouble);
      // A used or expired link doesn't get better: the code is the way that is left.
      if (secret && trouble.code !== "unreachable" && trouble.code !== "rate_limited" && trouble.status < 500) setSecret(null);
    } finally {
      setBusy(false);
    }
  }

  return (
    <main className="lone">
      <div className="lone-bar">
        <Mark />
        <button type="button" className="quiet-button" aria-label={t("language_switch")} onClick={switchLanguage}>
          {t("language_other")}
        </button>
      </div>
      {started ? (
        <WaitForApproval client={client} started={started} onPaired={() => { setStarted(null); void entered(); }} onAgain={() => { setStarted(null); void begin(); }} />
      ) : (
        <form onSubmit={(event) => void begin(event)}>
          <h1>{t("pair_title")}</h1>
          <p className="lead">{t(secret ? "pair_invited" : client.revoked ? "pair_revoked" : "pair_uninvited")}</p>
          {error && <Trouble error={error} />}
          {noCookie && <p className="trouble" role="alert" data-testid="no-cookie">{t("no_cookie")}</p>}
          {pairing && <p className="notice" role="status">{t("pair_other_first")}</p>}
          <label>
            <span>{t("pair_name")}</span>
            <input
              data-testid="pair-name"
              value={name}
              maxLength={80}
              autoComplete="off"
              enterKeyHint="go"
              onChange={(event) => setName(event.target.value)}
            />
          </label>
          <button type="submit" className="primary wide" data-testid="pair-start" disabled={busy || name.trim() === ""}>
            {t(secret ? "pair_start" : "pair_with_code")}
          </button>
          {!secret && <p className="quiet small"><Ticks text={t("pair_link_hint")} /></p>}
        </form>
      )}
    </main>
  );
}

function WaitForApproval({ client, started, onPaired, onAgain }: { client: BatonClient; started: Asked; onPaired: () => void; onAgain: () => void }) {
  const { t } = useWords();
  const [now, setNow] = useState(Date.now);
  const [error, setError] = useState<HubError | null>(null);
  const paired = useRef(onPaired);
  paired.current = onPaired;
  // The hub's clock may differ from ours: count from when the code arrived.
  const [until] = useState(() => Date.now() + 300_000);
  const expired = now >= until || error?.code === "not_found";
  const refused = error?.code === "forbidden";

  useEffect(() => {
    let ended = false;
    let timer: ReturnType<typeof setTimeout>;
    const ask = async () => {
      try {
        const state = await client.hub.claimPairing(started.pairing_id, started.secret);
        if (ended) return;
        setError(null);
        if (state.state === "approved") {
          paired.current();
          return;
        }
      } catch (caught) {
        if (ended) return;
        const trouble = asHubError(caught);
        setError(trouble);
        if (trouble.status >= 400 && trouble.status < 500 && trouble.code !== "rate_limited") return;
      }
      setNow(Date.now());
      timer = setTimeout(() => void ask(), ASK_MS);
    };
    timer = setTimeout(() => void ask(), ASK_MS);
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [client, started]);

  return (
    <section aria-labelledby="code-title">
      <h1 id="code-title">{t("pair_code_title")}</h1>
      {started.code === null ? (
        <>
          <p className="lead">{t("pair_number_text")}</p>
          <output className="device-code" data-testid="pair-number" data-expired={expired || refused}>{started.number}</output>
        </>
      ) : (
        <>
          <p className="lead">{t("pair_code_text")}</p>
          <output className="device-code" data-testid="device-code" data-expired={expired}>{started.code}</output>
          {!expired && <Scan link={pairingLink(started.code)} words={t("pair_code_scan")} />}
          {!expired && <p>{t("pair_number_then")} <output className="preview-name" data-testid="pair-number">{started.number}</output></p>}
        </>
      )}
      {error && !expired && <Trouble error={error} />}
      {expired || refused ? (
        <>
          {expired && <p role="alert">{t(started.code === null ? "pair_number_expired" : "pair_code_expired")}</p>}
          <button type="button" className="primary wide" onClick={onAgain}>{t("pair_code_new")}</button>
        </>
      ) : (
        <p className="quiet" role="status">
          <span className="pulse" aria-hidden="true" /> {t("pair_code_waiting")}{" "}
          <span className="small">{t("pair_code_left", { minutes: Math.min(5, Math.max(1, Math.ceil((until - now) / 60_000))) })}</span>
        </p>
      )}
    </section>
  );
}
