/** The user's devices: who they are, how far each is trusted, and the way to add or remove one. */
import { HubError, makeVisible, type BatonClient, type DeviceView, type Invitation, type PairingPreview, type Trust } from "@baton/sdk";
import { useEffect, useRef, useState, type FormEvent } from "react";
import { useClient, useWords } from "../context.tsx";
import { asOf } from "../format.ts";
import { clearWorker } from "../service_worker_start.ts";
import { sayAfterReload } from "../toast.ts";
import type { Key } from "../i18n/index.ts";
import { AllAsking, AsksByLink } from "../parts/asking.tsx";
import { Icon } from "../parts/icons.tsx";
import { Install } from "./install.tsx";
import { Rules } from "../parts/rules.tsx";
import { Ticks } from "../parts/banners.tsx";
import { isOwnName, Scan } from "../parts/scan.tsx";
import { asHubError, Trouble } from "../parts/trouble.tsx";

/** `code`: a new device's QR code led here. */
export function Devices({ code, onClose }: { code: string | null; onClose: () => void }) {
  const client = useClient();
  const { t } = useWords();
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState<HubError | null>(null);
  const [approving, setApproving] = useState(code !== null);

  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    void client.refreshDevices();
    return () => element?.close();
  }, [client]);

  const devices = [...(client.devices ?? [])].sort((a, b) => Number(b.own ?? false) - Number(a.own ?? false) || (a.name < b.name ? -1 : 1));
  const own = devices.find((device) => device.own);

  return (
    <dialog ref={dialog} className="sheet" aria-labelledby="devices-title" onClose={onClose} onClick={(event) => event.target === dialog.current && dialog.current.close()}>
      <div className="sheet-inside">
        <header className="bar">
          <h1 id="devices-title" className="bar-title">{t("devices")}</h1>
          <button type="button" className="icon-button" aria-label={t("close")} onClick={() => dialog.current?.close()}>
            <Icon name="cross" />
          </button>
        </header>
        {error && <Trouble error={error} onDismiss={() => setError(null)} />}
        {!approving && <AllAsking />}
        {!approving && <ul className="devices">
          {devices.filter((device) => !device.revoked_at).map((device) => (
            <Device key={device.device_id} device={device} mayManage={own?.trust === "trusted"} onError={setError} />
          ))}
        </ul>}
        {!approving && <Rules />}
        {own?.trust === "trusted" && <ApproveDevice scanned={code} open={approving} setOpen={setApproving} />}
        {own && own.trust !== "trusted" && approving && <p className="quiet">{t("approve_device_trusted_only")}</p>}
        {!approving && <Install />}
      </div>
    </dialog>
  );
}

function Device({ device, mayManage, onError }: { device: DeviceView; mayManage: boolean; onError: (error: HubError) => void }) {
  const client = useClient();
  const { t, language } = useWords();
  const [edits, setEdits] = useState(false);
  const name = makeVisible(device.name);
  const details = [device.own ? t("device_this") : t(`type_${device.client_type}` as Key), t(`trust_${device.trust}` as Key), device.online ? t("device_online") : device.last_seen_at ? t("device_offline_since", { time: asOf(device.last_seen_at, language) }) : t("device_offline")];

  return (
    <li className="device" data-testid="device" data-online={device.online} data-own={device.own ?? false}>
      <span className="presence" data-online={device.online} aria-hidden="true" />
      <div className="device-words">
        <p className="device-name">{name}</p>
        <p className="quiet small">
          {details.join(" · ")}
        </p>
        {(device.workspaces ?? []).map((workspace) => (
          <p key={workspace.workspace_id} className="quiet small path">{makeVisible(workspace.baseline.path)}</p>
        ))}
      </div>
      {(mayManage || device.own) && (
        <button type="button" className="quiet-button" data-testid="device-edit" aria-expanded={edits} aria-label={t("device_edit_named", { name })} onClick={() => setEdits(!edits)}>
          {t("device_edit")}
        </button>
      )}
      {edits && <Edit device={device} onDone={() => setEdits(false)} onError={onError} />}
    </li>
  );
}

/** Nothing but what makes this device quick; then all of it is loaded afresh. */
async function clearCache(client: BatonClient): Promise<void> {
  await client.forgetKept().catch(() => undefined);
  await clearWorker().catch(() => undefined);
  sayAfterReload("forget_kept_done");
  location.reload();
}

const TRUSTS: readonly Trust[] = ["trusted", "standard", "guest"];

/** A device's name, how far it is trusted, and its leave. */
function Edit({ device, onDone, onError }: { device: DeviceView; onDone: () => void; onError: (error: HubError) => void }) {
  const client = useClient();
  const { t } = useWords();
  const [newName, setNewName] = useState(device.name);
  const [asks, setAsks] = useState<"leave" | Trust | null>(null);
  const [busy, setBusy] = useState(false);
  const name = makeVisible(device.name);
  const unsent = device.own ? client.outbox.list().length : 0;

  async function attempt(work: () => Promise<unknown>) {
    setBusy(true);
    try {
      await work();
      onDone();
    } catch (caught) {
      onError(asHubError(caught));
    } finally {
      setBusy(false);
      if (client.connection !== "signed_out") await client.refreshDevices();
    }
  }
  const rename = (event: FormEvent) => {
    event.preventDefault();
    void attempt(() => client.hub.patchDevice(device.device_id, { name: newName.trim() }));
  };
  const trust = (level: Trust) => void attempt(() => client.hub.patchDevice(device.device_id, { trust: level }));
  const leave = () => void attempt(() => (device.own ? client.signOut() : client.hub.revokeDevice(device.device_id)));

  if (asks) {
    const leaving = asks === "leave";
    const words = !leaving
      ? t("device_trust_sure", { name })
      : device.own
        ? [t("sign_out_sure"), unsent > 0 ? t("sign_out_unsent", { count: unsent }) : ""].join(" ").trim()
        : t("device_revoke_sure", { name });
    return (
      <div className="sure">
        <p>{words}</p>
        {!leaving && <p className="quiet small">{t("trust_trusted_text")}</p>}
        <div className="card-actions">
          <button type="button" className={leaving ? "danger" : "primary"} data-testid={device.own ? "sign-out-yes" : leaving ? "revoke-yes" : "trust-yes"} disabled={busy} onClick={leaving ? leave : () => trust(asks)}>
            {t(!leaving ? "device_trust_yes" : device.own ? "sign_out" : "device_revoke")}
          </button>
          <button type="button" onClick={() => setAsks(null)}>{t("cancel")}</button>
        </div>
      </div>
    );
  }
  return (
    <div className="sure">
      <form className="rename" onSubmit={rename}>
        <label>
          <span className="quiet small">{t("device_name")}</span>
          <input data-testid="device-name" value={newName} maxLength={80} autoComplete="off" enterKeyHint="done" onChange={(event) => setNewName(event.target.value)} />
        </label>
        <button type="submit" data-testid="device-rename" disabled={busy || newName.trim() === "" || newName.trim() === device.name}>{t("device_rename")}</button>
      </form>
      {!device.own && (
        <label>
          <span className="quiet small">{t("device_trust")}</span>
          <select
            data-testid="device-trust"
            value={device.trust}
            disabled={busy}
            onChange={(event) => {
              const level = TRUSTS.find((each) => each === event.target.value);
              // To trust a device with everything takes a second yes.
              if (level === "trusted") setAsks(level);
              else if (level) trust(level);
            }}
          >
            {TRUSTS.map((level) => <option key={level} value={level}>{t(`trust_${level}`)}</option>)}
          </select>
        </label>
      )}
      {device.own && (
        <>
          {/* Without the hub there is nothing to load it from. */}
          <button type="button" data-testid="forget-kept" disabled={busy || client.connection !== "live"} onClick={() => { setBusy(true); void clearCache(client); }}>{t("forget_kept")}</button>
          <p className="quiet small">{t("forget_kept_text")}</p>
        </>
      )}
      <button type="button" className="leave" data-testid={device.own ? "sign-out" : "revoke"} onClick={() => setAsks("leave")}>
        {t(device.own ? "sign_out" : "device_revoke")}
      </button>
    </div>
  );
}

function ApproveDevice({ scanned, open, setOpen }: { scanned: string | null; open: boolean; setOpen: (open: boolean) => void }) {
  const client = useClient();
  const { t } = useWords();
  const [code, setCode] = useState(scanned ?? "");
  const [invites, setInvites] = useState(false);
  const [preview, setPreview] = useState<PairingPreview | null>(null);
  const [busy, setBusy] = useState(false);
  const [done, setDone] = useState<string | null>(null);
  const [error, setError] = useState<HubError | null>(null);

  async function attempt(work: () => Promise<void>) {
    setBusy(true);
    setError(null);
    try {
      await work();
    } catch (caught) {
      setError(asHubError(caught));
    } finally {
      setBusy(false);
    }
  }

  const lookUp = () => attempt(async () => setPreview(await client.hub.previewPairing(tidyCode(code))));
  const look = (event: FormEvent) => {
    event.preventDefault();
    void lookUp();
  };
  // A scanned code is looked up at once; it is still the user who lets the device in.
  useEffect(() => {
    if (scanned) void lookUp();
    // Once, for the code that the page was opened with.
  }, []);
  const approve = (trust: Trust) =>
    attempt(async () => {
      if (!preview) return;
      await client.hub.approvePairing(preview.code, trust, preview.number ?? "");
      setDone(preview.name);
      setPreview(null);
      setCode("");
      setOpen(false);
      await client.refreshDevices();
    });

  return (
    <section className="approve-device">
      {done && <p role="status" className="good"><Icon name="check" /> {t("approve_device_done", { name: makeVisible(done) })}</p>}
      {!open ? (
        <button type="button" className="primary wide" data-testid="approve-device" onClick={() => { setOpen(true); setDone(null); }}>
          {t("approve_device")}
        </button>
      ) : preview ? (
        <div className="card asks">
          <p>{t("approve_device_asks")}</p>
          <p className="preview-name" data-testid="pairing-preview">
            {makeVisible(preview.name)} <span className="chip">{t(`type_${preview.client_type}` as Key)}</span>
          </p>
          <p className="quiet small">{t("asking_from", { from: preview.from ?? "" })}</p>
          <p>{t("number_compare")}</p>
          <output className="device-code" data-testid="approve-number">{preview.number}</output>
          <p className="quiet small">{t("approve_device_warn")}</p>
          {error && <Trouble error={error} />}
          {(["trusted", "standard"] as const).map((trust) => (
            <div key={trust} className="choice">
              <button type="button" className={trust === "trusted" ? "primary wide" : "wide"} data-testid={`approve-as-${trust}`} disabled={busy} onClick={() => void approve(trust)}>
                {t("approve_device_as", { trust: t(`trust_${trust}`) })}
              </button>
              <p className="quiet small">{t(`trust_${trust}_text`)}</p>
            </div>
          ))}
          <button type="button" className="quiet-button" onClick={() => { setPreview(null); setOpen(false); setCode(""); }}>{t("cancel")}</button>
        </div>
      ) : (
        <form className="card" onSubmit={look}>
          <label>
            <span>{t("approve_device_text")}</span>
            <input
              className="code-input"
              data-testid="approve-code"
              aria-label={t("approve_device_code")}
              value={code}
              placeholder="ABCD-EFGH"
              maxLength={12}
              autoFocus
              autoComplete="off"
              autoCapitalize="characters"
              spellCheck={false}
              enterKeyHint="go"
              onChange={(event) => setCode(event.target.value)}
            />
          </label>
          {error && <Trouble error={error} />}
          <div className="card-actions">
            <button type="submit" className="primary" data-testid="approve-check" disabled={busy || tidyCode(code).length < 9}>{t("approve_device_check")}</button>
            <button type="button" onClick={() => setOpen(false)}>{t("cancel")}</button>
          </div>
          {invites ? <Invite /> : (
            <>
              <button type="button" className="quiet-button" data-testid="invite" onClick={() => setInvites(true)}>{t("invite_instead")}</button>
              {isOwnName(location.hostname) && <p className="quiet small" data-testid="invite-loopback"><Ticks text={t("invite_loopback")} /></p>}
            </>
          )}
        </form>
      )}
    </section>
  );
}

/** The other way round: a link that a phone's camera opens. Whoever opens it asks, and is let in here. */
function Invite() {
  const client = useClient();
  const { t } = useWords();
  const [trust, setTrust] = useState<Trust>("standard");
  const [link, setLink] = useState<Invitation | null>(null);
  const [error, setError] = useState<HubError | null>(null);
  const opened = link && (client.invitations ?? []).find((each) => each.invitation_id === link.invitation_id && each.asking);

  if (opened) return <AsksByLink link={opened} />;
  return (
    <div className="sure">
      {error && <Trouble error={error} />}
      {link ? (
        <Scan link={link.url} words={t("invite_scan")} copies />
      ) : (
        <>
          <label>
            <span className="quiet small">{t("device_trust")}</span>
            <select value={trust} data-testid="invite-trust" onChange={(event) => setTrust(event.target.value as Trust)}>
              {TRUSTS.map((level) => <option key={level} value={level}>{t(`trust_${level}`)}</option>)}
            </select>
          </label>
          <p className="quiet small" data-testid="invite-trust-text">{t(`trust_${trust}_text`)}</p>
          <button type="button" data-testid="invite-show" onClick={() => void client.hub.invite(trust).then(setLink, (caught: unknown) => setError(asHubError(caught)))}>
            {t("invite_show")}
          </button>
        </>
      )}
    </div>
  );
}

/** As the hub shows codes, however it was typed. */
function tidyCode(typed: string): string {
  const letters = typed.toUpperCase().replace(/[^A-Z0-9]/g, "");
  return letters.length > 4 ? `${letters.slice(0, 4)}-${letters.slice(4, 8)}` : letters;
}
