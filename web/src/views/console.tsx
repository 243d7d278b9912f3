/** The paired console: the list of sessions beside, or on a phone instead of, the session that is open. */
import { makeVisible } from "@baton/sdk";
import { useEffect, useState } from "react";
import { useBoard, useClient, useTwoRooms, useWords } from "../context.tsx";
import { useKeys } from "../keys.ts";
import { ConnectionDot, LinkBanner, StorageBanner, UpgradeBanner } from "../parts/banners.tsx";
import { Offers } from "../parts/handoff.tsx";
import { Icon, Mark } from "../parts/icons.tsx";
import { ToastLine } from "../parts/toast.tsx";
import { Trouble } from "../parts/trouble.tsx";
import { toHome, useRoute } from "../route.ts";
import { waitingIn } from "../sessions.ts";
import { showToast, takeAfterReload } from "../toast.ts";
import { Devices } from "./devices.tsx";
import { Help } from "./help.tsx";
import { Home, NewSession } from "./home.tsx";
import { SessionView } from "./session.tsx";

export function Console({ pairing }: { pairing: string | null }) {
  const client = useClient();
  const { t, switchLanguage } = useWords();
  const route = useRoute();
  const twoRooms = useTwoRooms();
  const board = useBoard();
  const [shows, setShows] = useState<"devices" | "help" | null>(pairing ? "devices" : null);
  const [code, setCode] = useState(pairing);
  useKeys({ client, route, showDevices: () => setShows("devices"), showHelp: () => setShows("help") });

  useEffect(() => {
    const words = takeAfterReload();
    if (words) showToast({ words: t(words) });
    // Once, when the page is there.
  }, []);

  // What waits is on the tab, and on the installed app's icon.
  const sessions = client.sessions ?? [];
  const openId = route.at === "session" ? route.sessionId : null;
  const live = openId ? client.state(openId).session : undefined;
  const waiting = (client.waitingTotal ?? waitingIn(sessions)) + (live ? live.waiting - (sessions.find((one) => one.session_id === openId)?.waiting ?? 0) : 0);
  const title = openId ? makeVisible(live?.title ?? sessions.find((one) => one.session_id === openId)?.title ?? "") || t("untitled") : "";
  useEffect(() => {
    document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${title ? `${title} · ` : ""}Baton`;
    if ("setAppBadge" in navigator) void (waiting > 0 ? navigator.setAppBadge(waiting) : navigator.clearAppBadge()).catch(() => undefined);
  }, [waiting, title]);

  return (
    <div className="console" data-view={route.at} data-board={board} data-stale={client.connection !== "live"}>
      {(twoRooms || route.at === "home") && <div className="side">
        <header className="bar">
          <Mark />
          <span className="bar-title">{t("app")}</span>
          <ConnectionDot />
          <a
            href={toHome}
            className="icon-button"
            data-testid="new-session"
            aria-label={t("new_session")}
            title={t("new_session")}
            onClick={() => requestAnimationFrame(() => document.getElementById("composer-new")?.focus())}
          >
            <Icon name="plus" />
          </a>
          <button type="button" className="quiet-button" aria-label={t("language_switch")} onClick={switchLanguage}>
            {t("language_other")}
          </button>
          <button type="button" className="icon-button" data-testid="devices" aria-label={t("devices")} title={t("devices")} onClick={() => setShows("devices")}>
            <Icon name="devices" />
          </button>
        </header>
        <LinkBanner />
        <UpgradeBanner />
        <StorageBanner />
        {client.trouble && <Trouble error={client.trouble} onDismiss={() => client.dismissTrouble()} />}
        <Offers except={openId} />
        <Home open={openId} />
        {twoRooms && (
          <button type="button" className="quiet-button keys-button" data-testid="keys" onClick={() => setShows("help")}>
            <Icon name="keyboard" /> {t("keys")} <kbd>?</kbd>
          </button>
        )}
      </div>}
      {route.at === "session" ? (
        <SessionView elsewhere={!twoRooms && <Offers except={route.sessionId} />} key={route.sessionId} sessionId={route.sessionId} target={route.target} />
      ) : (
        <main className="stage begin">
          <NewSession />
        </main>
      )}
      {shows === "devices" && <Devices code={code} onClose={() => { setShows(null); setCode(null); }} />}
      <ToastLine />
      {shows === "help" && <Help onClose={() => setShows(null)} />}
    </div>
  );
}
