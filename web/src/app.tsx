/** The console: finds out whether this browser is paired, then shows pairing or the sessions. */
import { BatonClient, HubError } from "@baton/sdk";
import { useCallback, useEffect, useMemo, useState } from "react";
import { ClientContext, WordsContext, type Words } from "./context.tsx";
import { capabilities, clientType } from "./device.ts";
import type { Arrival } from "./route.ts";
import { firstLanguage, rememberLanguage, tagOf, translator } from "./i18n/index.ts";
import { Console } from "./views/console.tsx";
import { Pairing } from "./views/pairing.tsx";

type Phase = { at: "loading" } | { at: "unreachable"; error: HubError } | { at: "pairing" } | { at: "ready" };

export function App({ arrival }: { arrival: Arrival }) {
  const [language, setLanguage] = useState(firstLanguage);
  const [client, setClient] = useState<BatonClient | null>(null);
  const [phase, setPhase] = useState<Phase>({ at: "loading" });

  const words = useMemo<Words>(() => {
    const t = translator(language);
    return {
      t,
      language,
      switchLanguage: () => {
        const other = language === "en" ? "zh" : "en";
        rememberLanguage(other);
        setLanguage(other);
      },
    };
  }, [language]);

  useEffect(() => {
    document.documentElement.lang = tagOf(language);
  }, [language]);

  useEffect(() => {
    let ended = false;
    void BatonClient.start({ clientType: clientType(), capabilities }).then((started) => {
      if (!ended) setClient(started);
    });
    return () => {
      ended = true;
    };
  }, []);

  /** Whether the hub knows this browser. */
  const look = useCallback(async (): Promise<boolean> => {
    if (!client) return false;
    try {
      const paired = await client.paired();
      if (paired) client.connect();
      setPhase({ at: paired ? "ready" : "pairing" });
      return paired;
    } catch (error) {
      // Paired before, it shows what it last knew, as what it is, until the hub is there.
      if (client.remembers) {
        client.connect();
        setPhase({ at: "ready" });
        return true;
      }
      setPhase({ at: "unreachable", error: error instanceof HubError ? error : new HubError("unreachable", String(error), "", 0) });
      return true;
    }
  }, [client]);

  useEffect(() => {
    void look();
    return () => client?.close();
  }, [client, look]);

  // Revoked: the hub no longer knows this browser.
  useEffect(() => client?.subscribe(() => {
    if (client.connection !== "signed_out") return;
    client.close();
    setPhase({ at: "pairing" });
  }), [client]);

  // A hub that wasn't there when the page was opened may come up a moment later.
  useEffect(() => {
    if (phase.at !== "unreachable") return;
    const timer = setInterval(() => void look(), 5_000);
    return () => clearInterval(timer);
  }, [phase, look]);

  return (
    <WordsContext value={words}>
      {client && phase.at === "ready" ? (
        <ClientContext value={client}>
          <Console pairing={arrival.pairing} />
        </ClientContext>
      ) : client && phase.at === "pairing" ? (
        <Pairing client={client} invitation={arrival.invitation} pairing={arrival.pairing} onPaired={look} />
      ) : phase.at === "unreachable" ? (
        <main className="lone" role="alert">
          <h1>{words.t("unreachable")}</h1>
          <p>{words.t("unreachable_hint")}</p>
          <button type="button" className="primary" onClick={() => void look()}>
            {words.t("try_again")}
          </button>
        </main>
      ) : (
        <main className="lone">
          <p className="quiet" role="status">{words.t("loading")}</p>
        </main>
      )}
    </WordsContext>
  );
}
