/** Messages in which the searched words stand, each with the way to it. */
import { makeVisible, type SearchHit, type SearchResults } from "@baton/sdk";
import { useEffect, useState } from "react";
import { useClient, useNow, useWords } from "../context.tsx";
import { ago } from "../format.ts";
import type { Key } from "../i18n/index.ts";
import { toMessage } from "../route.ts";
import { asHubError, Trouble } from "./trouble.tsx";

const STILL_MS = 150;
const MOST = 30;

/** What the hub finds for words that stand still for a moment; `null` while nothing is searched. */
export function useSearch(words: string): { results: SearchResults | null; error: unknown } {
  const client = useClient();
  const [found, setFound] = useState<{ words: string; results: SearchResults | null; error: unknown }>({ words: "", results: null, error: null });
  const wanted = words.trim();
  useEffect(() => {
    if (wanted.length < 2) return;
    const end = new AbortController();
    const timer = setTimeout(() => {
      client.hub.search(wanted, MOST, end.signal).then(
        (results) => !end.signal.aborted && setFound({ words: wanted, results, error: null }),
        // A hub that is away, or older, finds nothing in messages; the list is still filtered.
        (error: unknown) => !end.signal.aborted && setFound({ words: wanted, results: null, error: ["unreachable", "not_found"].includes(asHubError(error).code) ? null : error }),
      );
    }, STILL_MS);
    return () => {
      clearTimeout(timer);
      end.abort();
    };
  }, [client, wanted]);
  // What was found for other words stays until the next answer, so that the list doesn't flicker; without words it goes.
  return wanted.length < 2 ? { results: null, error: null } : found;
}

export function SearchHits({ results, error }: { results: SearchResults | null; error: unknown }) {
  const { t } = useWords();
  if (error) return <Trouble error={asHubError(error)} />;
  if (!results) return null;
  return (
    <section className="group" data-group="found" data-testid="search-results">
      <h2 className="group-title">{t("search_messages")}<span className="group-count" aria-hidden="true">{results.hits.length === MOST ? `${MOST}+` : results.hits.length}</span></h2>
      {results.hits.length === 0 ? (
        <p className="quiet small group-empty">{t("search_nothing")}</p>
      ) : (
        <ul className="sessions">{results.hits.map((hit) => <li key={hit.message_id}><Hit hit={hit} /></li>)}</ul>
      )}
      {!results.complete && <p className="quiet small search-note">{t("search_incomplete")}</p>}
    </section>
  );
}

function Hit({ hit }: { hit: SearchHit }) {
  const { t, language } = useWords();
  const now = useNow();
  // Positions count characters, not the halves that a string here consists of.
  const letters = [...hit.excerpt];
  const parts: { text: string; marked: boolean }[] = [];
  let from = 0;
  for (const [begin, end] of hit.matches) {
    if (begin > from) parts.push({ text: letters.slice(from, begin).join(""), marked: false });
    parts.push({ text: letters.slice(Math.max(begin, from), end).join(""), marked: true });
    from = Math.max(from, end);
  }
  parts.push({ text: letters.slice(from).join(""), marked: false });
  return (
    <a className="session-item hit" href={toMessage(hit.session_id, hit.seq, hit.message_id)} data-testid="search-hit" data-message={hit.message_id}>
      <span className="session-title">{makeVisible(hit.title) || t("untitled")}</span>
      <span className="hit-text">{parts.map((part, index) => (part.marked ? <mark key={index}>{makeVisible(part.text)}</mark> : <span key={index}>{makeVisible(part.text)}</span>))}</span>
      <span className="session-foot">
        <span>{t(`role_${hit.role}` as Key)}</span>
        {hit.archived && <span>{t("standing_archived")}</span>}
        <time dateTime={hit.at}>{ago(hit.at, language, now)}</time>
      </span>
    </a>
  );
}
