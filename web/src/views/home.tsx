/** The sessions, what needs the user first, and the way to begin a new one. */
import { HubError, makeVisible, type SessionSummary } from "@baton/sdk";
import { useState } from "react";
import { findDevice, useClient, useWords } from "../context.tsx";
import { ago, deviceName } from "../format.ts";
import type { Key } from "../i18n/index.ts";
import { ModelBanner } from "../parts/banners.tsx";
import { Composer } from "../parts/composer.tsx";
import { asHubError, Trouble } from "../parts/trouble.tsx";
import { toSession } from "../route.ts";

export function Home({ open }: { open: string | null }) {
  const client = useClient();
  const { t } = useWords();
  const sessions = [...(client.sessions ?? [])].sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
  const waiting = sessions.filter((session) => session.waiting > 0);
  const others = sessions.filter((session) => session.waiting === 0);
  return (
    <nav className="home" aria-label={t("sessions")}>
      <ModelBanner />
      {waiting.length > 0 && <Group title={t("needs_you")} sessions={waiting} open={open} />}
      {others.length > 0 && <Group title={t("recent")} sessions={others} open={open} />}
      {client.sessions?.length === 0 && (
        <div className="nothing">
          <p>{t("no_sessions")}</p>
          <p className="quiet">{t("no_sessions_hint")}</p>
        </div>
      )}
    </nav>
  );
}

function Group({ title, sessions, open }: { title: string; sessions: SessionSummary[]; open: string | null }) {
  return (
    <section>
      <h2 className="group-title">{title}</h2>
      <ul className="sessions">
        {sessions.map((session) => <Item key={session.session_id} session={session} open={session.session_id === open} />)}
      </ul>
    </section>
  );
}

function Item({ session, open }: { session: SessionSummary; open: boolean }) {
  const client = useClient();
  const { t, language } = useWords();
  const working = session.state === "running";
  const holder = findDevice(client, session.holder);
  const state = session.waiting > 0 ? t("waiting_count", { count: session.waiting }) : t(`state_${session.state}` as Key);
  return (
    <li>
      <a
        href={toSession(session.session_id)}
        className="session-item"
        data-testid="session-item"
        data-state={session.waiting > 0 ? "awaiting_input" : session.state}
        aria-current={open ? "page" : undefined}
      >
        <span className="session-title">{makeVisible(session.title) || t("untitled")}</span>
        <time className="quiet small" dateTime={session.updated_at}>{ago(session.updated_at, language)}</time>
        <span className="session-line">{makeVisible(session.line)}</span>
        <span className="session-foot">
          <span className="chip" data-state={session.waiting > 0 ? "awaiting_input" : session.state}>{state}</span>
          {working && session.progress > 0 && <progress max={100} value={session.progress} aria-label={`${session.progress} %`} />}
          {holder && <span className="quiet small holder-name">{holder.own ? t("you") : t("held_by", { name: makeVisible(holder.name) })}</span>}
        </span>
      </a>
    </li>
  );
}

export function NewSession() {
  const client = useClient();
  const { t } = useWords();
  const [workspace, setWorkspace] = useState("");
  const [error, setError] = useState<HubError | null>(null);
  const places = (client.devices ?? [])
    .filter((device) => !device.revoked_at)
    .flatMap((device) => (device.workspaces ?? []).map((each) => ({ ...each, on: device })));

  async function begin(text: string): Promise<boolean> {
    setError(null);
    try {
      const { settled } = await client.ask({ intent: "new_session", payload: workspace ? { workspace } : {} });
      const reply = await settled;
      if (!reply) return false;
      if (reply.error || !reply.session_id) {
        if (reply.error) {
          setError(HubError.of(reply.error));
          await client.outbox.discard(reply.operation_id);
        }
        return false;
      }
      await client.outbox.add(
        { intent: "say", payload: { text } },
        { sessionId: reply.session_id, ...(reply.epoch === undefined ? {} : { epoch: reply.epoch }) },
      );
      location.hash = toSession(reply.session_id);
      return true;
    } catch (caught) {
      setError(asHubError(caught));
      return false;
    }
  }

  return (
    <section className="new-session" aria-labelledby="new-session-title">
      <h1 id="new-session-title">{t("new_session_text")}</h1>
      <Composer place="new" placeholder={t("composer_placeholder")} label={t("new_session")} onSend={begin} />
      {places.length > 1 && (
        <label className="where">
          <span className="quiet small">{t("new_session_where")}</span>
          <select value={workspace} onChange={(event) => setWorkspace(event.target.value)}>
            <option value="">{t("new_session_anywhere")}</option>
            {places.map((place) => (
              <option key={place.workspace_id} value={place.workspace_id}>
                {`${makeVisible(place.name)} · ${makeVisible(deviceName(place.on, t))}`}
              </option>
            ))}
          </select>
        </label>
      )}
      {error && <Trouble error={error} onDismiss={() => setError(null)} />}
    </section>
  );
}
