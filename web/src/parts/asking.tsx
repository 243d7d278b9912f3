/** Who opened a link that this device made, with the number to compare. Nobody gets in by a link before that. */
import { HubError, makeVisible, type InvitationView } from "@baton/sdk";
import { useState } from "react";
import { useClient, useWords } from "../context.tsx";
import type { Key } from "../i18n/index.ts";
import { Icon } from "./icons.tsx";
import { asHubError, Trouble } from "./trouble.tsx";

/** Every device that asks by one of this device's links. */
export function AllAsking() {
  const client = useClient();
  return (client.invitations ?? []).filter((link) => link.standing === "asking").map((link) => <AsksByLink key={link.invitation_id} link={link} />);
}

export function AsksByLink({ link }: { link: InvitationView }) {
  const client = useClient();
  const { t } = useWords();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<HubError | null>(null);
  const { asking } = link;
  if (!asking) return null;
  const name = makeVisible(asking.name);

  async function decide(work: () => Promise<unknown>) {
    setBusy(true);
    setError(null);
    try {
      await work();
    } catch (caught) {
      setError(asHubError(caught));
    } finally {
      setBusy(false);
      await client.refreshInvitations();
    }
  }
  if (link.standing !== "asking") {
    const entered = link.standing === "approved";
    return (
      <p className={entered ? "good" : "quiet"} role="status" data-testid="invite-decided" data-standing={link.standing}>
        <Icon name={entered ? "check" : "cross"} /> {t(entered ? "approve_device_done" : "asking_refused", { name })}
      </p>
    );
  }
  return (
    <div className="card asks" role="alert" data-testid="asking">
      <p>{t("approve_device_asks")}</p>
      <p className="preview-name">
        {name} <span className="chip">{t(`type_${asking.client_type}` as Key)}</span>
      </p>
      <p className="quiet small">{t("asking_from", { from: asking.from })}</p>
      <p>{t("number_compare")}</p>
      <output className="device-code" data-testid="asking-number">{asking.number}</output>
      {(link.others ?? 0) > 0 && <p className="trouble" data-testid="asking-others">{t("asking_others")}</p>}
      {error && <Trouble error={error} />}
      <div className="card-actions">
        <button type="button" className="primary" data-testid="asking-approve" disabled={busy} onClick={() => void decide(() => client.hub.approveInvitation(link.invitation_id, asking.number))}>
          {t("asking_approve")}
        </button>
        <button type="button" className="leave" data-testid="asking-refuse" disabled={busy} onClick={() => void decide(() => client.hub.refuseInvitation(link.invitation_id))}>
          {t("asking_refuse")}
        </button>
      </div>
    </div>
  );
}
