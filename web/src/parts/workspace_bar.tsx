/** Where the work happens: directory, branch, commit, and whether anything is uncommitted. */
import { makeVisible, type SessionState } from "@baton/sdk";
import { findDevice, useClient, useMedia, useWords } from "../context.tsx";
import { asOf, deviceName, shortCommit } from "../format.ts";
import { Icon } from "./icons.tsx";

export function WorkspaceBar({ state }: { state: SessionState }) {
  const client = useClient();
  const { t, language } = useWords();
  const wide = useMedia("(min-width: 700px)");
  const workspace = state.get("workspace", state.session?.workspace_id) ?? state.all("workspace")[0];
  if (!workspace) return null;
  const { path, branch, commit, dirty } = workspace.baseline;
  const device = findDevice(client, workspace.device_id);
  // Without a branch and a commit there is no git, and the digest says nothing about changes.
  const tracked = branch != null || commit != null;
  const whole = makeVisible(path);
  const name = whole.replace(/\/+$/, "").split("/").at(-1) || whole;
  return (
    <div className="workspace-bar" data-testid="workspace-bar" aria-label={t("workspace")} role="group">
      <Icon name="folder" />
      {/* The last name says where one is; the way to it is there for who has the room, and for who asks. */}
      <span className="path" title={whole}>{wide ? <bdi dir="ltr">{whole}</bdi> : name}</span>
      {branch && <span className="branch">{makeVisible(branch)}</span>}
      {commit && <span className="commit">{shortCommit(commit)}</span>}
      {tracked && <span className="dirty" data-dirty={dirty != null}>{t(dirty ? "workspace_dirty" : "workspace_clean")}</span>}
      {device && (device.online ? <span className="on">{t("workspace_on", { name: makeVisible(deviceName(device, t)) })}</span> : <span className="away" data-testid="workspace-away">{device.last_seen_at ? t("workspace_away_since", { name: makeVisible(device.name), time: asOf(device.last_seen_at, language) }) : t("workspace_away", { name: makeVisible(device.name) })}</span>)}
    </div>
  );
}
