/** The sessions, what needs the user first, and the way to begin a new one. */
import { HubError, makeVisible, type Attachment, type Delivery, type SessionSummary } from "@baton/sdk";
import { createContext, useContext, useEffect, useState } from "react";
import { findDevice, useBoard, useClient, useNow, useWords } from "../context.tsx";
import { ago, deviceName } from "../format.ts";
import type { Key } from "../i18n/index.ts";
import { ModelBanner } from "../parts/banners.tsx";
import { Composer } from "../parts/composer.tsx";
import { Icon } from "../parts/icons.tsx";
import { SearchHits, useSearch } from "../parts/search_hits.tsx";
import { asHubError, Trouble } from "../parts/trouble.tsx";
import { toSession } from "../route.ts";
import { COLUMNS, EVERYTHING, isFiltered, matches, projectsOf, standingOf, type Filter, type Standing } from "../sessions.ts";

const NowContext = createContext(0);

/** With fewer sessions than this there is nothing to look for, but in the archive. */
const FILTER_FROM = 1;

export function Home({ open }: { open: string | null }) {
  const client = useClient();
  const { t } = useWords();
  const board = useBoard();
  const now = useNow();
  const [filter, setFilter] = useState(EVERYTHING);
  const archived = useArchived(filter.standing === "archived");
  const search = useSearch(filter.words);
  const all = [...(archived ?? (client.sessions ?? []).filter((session) => !session.archived))].sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
  const sessions = all.filter((session) => matches(session, filter));
  const waiting = sessions.filter((session) => standingOf(session) === "needs_you");
  const pinned = sessions.filter((session) => standingOf(session) !== "needs_you" && session.pinned);
  const others = sessions.filter((session) => standingOf(session) !== "needs_you" && !session.pinned);
  const filtered = isFiltered(filter);
  return (
    <NowContext value={now}>
    <nav className="home" aria-label={t("sessions")} data-board={board}>
      <ModelBanner />
      {(all.length >= FILTER_FROM || filtered) && <Filters filter={filter} onChange={setFilter} />}
      {client.sessions === null ? (
        <div className="loading" role="status">
          <span className="unseen">{t("sessions_loading")}</span>
          {[0, 1, 2].map((each) => <span key={each} className="bone row" aria-hidden="true" />)}
        </div>
      ) : board && all.length > 0 ? (
        <div className="board">
          {COLUMNS.map((column) => (
            <Group
              key={column.key}
              name={column.key}
              title={t(column.key)}
              sessions={sessions.filter((session) => column.standings.includes(standingOf(session)))}
              open={open}
              always
            />
          ))}
        </div>
      ) : (
        <>
          <Group name="needs_you" title={t("needs_you")} sessions={waiting} open={open} />
          <Group name="pinned" title={t("pinned")} sessions={pinned} open={open} />
          <Group name="recent" title={t(archived ? "standing_archived" : "recent")} sessions={others} open={open} />
        </>
      )}
      <SearchHits {...search} />
      {client.sessions?.length === 0 && !filtered && (
        <div className="nothing">
          <p>{t("no_sessions")}</p>
          <p className="quiet">{t("no_sessions_hint")}</p>
          <button type="button" className="quiet-button" data-testid="show-archived" onClick={() => setFilter({ ...EVERYTHING, standing: "archived" })}>{t("archived_show")}</button>
        </div>
      )}
      {filtered && sessions.length === 0 && !search.results?.hits.length && (
        <div className="nothing">
          <p>{t("filter_nothing")}</p>
          <button type="button" onClick={() => setFilter(EVERYTHING)}>{t("filter_clear")}</button>
        </div>
      )}
      {client.sessionsBefore !== null && <More />}
    </nav>
    </NowContext>
  );
}

/** The sessions that are out of the list, once they are asked for; `null` before. */
function useArchived(wanted: boolean): readonly SessionSummary[] | null {
  const client = useClient();
  const [found, setFound] = useState<readonly SessionSummary[] | null>(null);
  // One that comes back, or another that goes, changes the list.
  const { sessions } = client;
  useEffect(() => {
    if (!wanted) {
      setFound(null);
      return;
    }
    let ended = false;
    client.hub.sessions(undefined, true).then((page) => !ended && setFound(page.sessions), () => !ended && setFound([]));
    return () => {
      ended = true;
    };
  }, [client, wanted, sessions]);
  return wanted ? (found ?? []) : null;
}

function Filters({ filter, onChange }: { filter: Filter; onChange: (filter: Filter) => void }) {
  const client = useClient();
  const { t } = useWords();
  const chosen = filter.standing !== "" || filter.device !== "" || filter.project !== "";
  const [more, setMore] = useState(false);
  const shows = more || chosen;
  const devices = (client.devices ?? []).filter((device) => !device.revoked_at && device.client_type !== "device");
  const projects = projectsOf(client.devices ?? []);
  const standings: (Standing | "archived")[] = ["needs_you", "running", "resting", "failed", "done", "stopped", "archived"];
  const choose = (name: "standing" | "device" | "project", options: [string, string][]) => (
    <label>
      <span className="quiet small">{t(`filter_${name}`)}</span>
      <select value={filter[name]} data-testid={`filter-${name}`} onChange={(event) => onChange({ ...filter, [name]: event.target.value })}>
        <option value="">{t("filter_any")}</option>
        {options.map(([value, words]) => <option key={value} value={value}>{words}</option>)}
      </select>
    </label>
  );
  return (
    <search className="filters">
      <div className="filter-line">
        <input
          type="search"
          id="filter"
          data-testid="filter"
          value={filter.words}
          placeholder={t("filter")}
          aria-label={t("filter")}
          autoComplete="off"
          enterKeyHint="search"
          onChange={(event) => onChange({ ...filter, words: event.target.value })}
          onKeyDown={(event) => {
            if (event.key !== "Escape" || filter.words === "") return;
            event.stopPropagation();
            onChange({ ...filter, words: "" });
          }}
        />
        <button type="button" className="icon-button" data-testid="filter-more" data-on={chosen} aria-expanded={shows} aria-label={t("filter_more")} title={t("filter_more")} onClick={() => (shows ? (setMore(false), onChange({ ...EVERYTHING, words: filter.words })) : setMore(true))}>
          <Icon name="filter" />
        </button>
      </div>
      {shows && (
        <div className="filter-choices">
          {choose("standing", standings.map((each) => [each, t(`standing_${each}`)]))}
          {choose("device", devices.map((device) => [device.device_id, makeVisible(device.name)]))}
          {projects.length > 0 && choose("project", projects.map((project) => [project.id, `${makeVisible(project.name)} · ${makeVisible(project.device.name)}`]))}
        </div>
      )}
    </search>
  );
}

function More() {
  const client = useClient();
  const { t } = useWords();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<HubError | null>(null);
  return (
    <>
      {error && <Trouble error={error} onDismiss={() => setError(null)} />}
      <button
        type="button"
        className="older"
        data-testid="more-sessions"
        disabled={busy}
        onClick={() => {
          setBusy(true);
          client.loadMoreSessions().catch((caught: unknown) => setError(asHubError(caught))).finally(() => setBusy(false));
        }}
      >
        {t("older")}
      </button>
    </>
  );
}

function Group({ name, title, sessions, open, always = false }: { name: string; title: string; sessions: SessionSummary[]; open: string | null; always?: boolean }) {
  const { t } = useWords();
  if (sessions.length === 0 && !always) return null;
  return (
    <section className="group" data-group={name}>
      <h2 className="group-title">{title}<span className="group-count" aria-hidden="true">{sessions.length}</span></h2>
      {sessions.length === 0 ? (
        <p className="quiet small group-empty">{t("column_empty")}</p>
      ) : (
        <ul className="sessions">
          {sessions.map((session) => <Item key={session.session_id} session={session} open={session.session_id === open} />)}
        </ul>
      )}
    </section>
  );
}

function Item({ session, open }: { session: SessionSummary; open: boolean }) {
  const client = useClient();
  const { t, language } = useWords();
  const now = useContext(NowContext);
  const standing = standingOf(session);
  const holder = findDevice(client, session.holder);
  const words = session.waiting > 0 ? t("waiting_count", { count: session.waiting }) : t(`standing_${standing}`);
  // Where nothing is said about it, where it works says most.
  const line = makeVisible(session.line || (projectsOf(client.devices ?? []).find((project) => project.id === session.workspace_id)?.name ?? ""));
  return (
    <li>
      <a
        href={toSession(session.session_id)}
        className="session-item"
        data-testid="session-item"
        data-state={standing === "needs_you" ? "awaiting_input" : session.state}
        data-standing={standing}
        aria-current={open ? "page" : undefined}
      >
        <span className="standing" aria-hidden="true">{standing === "done" && <Icon name="check" />}{standing === "failed" && <Icon name="cross" />}</span>
        <span className="session-title">{makeVisible(session.title) || t("untitled")}{session.pinned && <Icon name="pin" className="pinned" />}</span>
        <span className="session-foot">
          {/* What the heading above it says already, and a line that only says the words again, are left out. */}
          {(standing !== "needs_you" || session.waiting > 1) && <span className="session-words">{words}</span>}
          {line && line !== words && standing !== "done" && <span className="session-line">{line}</span>}
          {/* That it is here needs no words; where else it is does. */}
          {holder && !holder.own && <span className="holder-name">{t("held_by", { name: makeVisible(holder.name) })}</span>}
          <time dateTime={session.updated_at}>{ago(session.updated_at, language, now)}</time>
        </span>
        {standing === "running" && session.progress > 0 && <progress max={100} value={session.progress} aria-label={`${session.progress} %`} />}
      </a>
    </li>
  );
}

export function NewSession() {
  const client = useClient();
  const { t } = useWords();
  const [workspace, setWorkspace] = useState("");
  const [error, setError] = useState<HubError | null>(null);
  const places = projectsOf(client.devices ?? []);

  async function begin(text: string, _: Delivery, files: Attachment[]): Promise<boolean> {
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
        { intent: "say", payload: { text, ...(files.length > 0 ? { attachments: files } : {}) } },
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
              <option key={place.id} value={place.id}>
                {`${makeVisible(place.name)} · ${makeVisible(deviceName(place.device, t))}`}
              </option>
            ))}
          </select>
        </label>
      )}
      {error && <Trouble error={error} onDismiss={() => setError(null)} />}
    </section>
  );
}
