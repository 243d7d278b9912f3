/** The paired console: the list of sessions beside, or on a phone instead of, the session that is open. */
import { useState } from "react";
import { useClient, useTwoRooms, useWords } from "../context.tsx";
import { ConnectionDot, LinkBanner } from "../parts/banners.tsx";
import { Offers } from "../parts/handoff.tsx";
import { Icon, Mark } from "../parts/icons.tsx";
import { Trouble } from "../parts/trouble.tsx";
import { toHome, useRoute } from "../route.ts";
import { Devices } from "./devices.tsx";
import { Home, NewSession } from "./home.tsx";
import { SessionView } from "./session.tsx";

export function Console() {
  const client = useClient();
  const { t, switchLanguage } = useWords();
  const route = useRoute();
  const twoRooms = useTwoRooms();
  const [showsDevices, setShowsDevices] = useState(false);

  return (
    <div className="console" data-view={route.at}>
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
          <button type="button" className="icon-button" data-testid="devices" aria-label={t("devices")} onClick={() => setShowsDevices(true)}>
            <Icon name="devices" />
          </button>
        </header>
        <LinkBanner />
        {client.trouble && <Trouble error={client.trouble} onDismiss={() => client.dismissTrouble()} />}
        <Offers except={route.at === "session" ? route.sessionId : null} />
        <Home open={route.at === "session" ? route.sessionId : null} />
      </div>}
      {route.at === "session" ? (
        <SessionView elsewhere={!twoRooms && <Offers except={route.sessionId} />} key={route.sessionId} sessionId={route.sessionId} />
      ) : (
        <main className="stage begin">
          <NewSession />
        </main>
      )}
      {showsDevices && <Devices onClose={() => setShowsDevices(false)} />}
    </div>
  );
}
