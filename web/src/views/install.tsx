/** How the console becomes an app on this device, or what is missing for it. */
import { useSyncExternalStore } from "react";
import { useWords } from "../context.tsx";
import { installWords } from "../i18n/install.ts";
import { Ticks } from "../parts/banners.tsx";
import "../styles/install.css";
import { installStanding, onInstallStanding, type Standing } from "../service_worker_start.ts";

type Way = "installed" | "offer" | "plain" | "untrusted" | "iphone" | "mac_safari" | "firefox" | "menu" | "none";

export function Install() {
  const { language } = useWords();
  const words = installWords(language);
  const standing = useSyncExternalStore(onInstallStanding, installStanding);
  const way = wayOf(standing, navigator.userAgent, navigator.maxTouchPoints);
  return (
    <section className="install" data-testid="install" data-way={way} aria-labelledby="install-title">
      <h2 id="install-title">{words.title}</h2>
      {way === "installed" ? (
        <p className="quiet">{words.installed}</p>
      ) : (
        <>
          <p className="quiet">{words.why}</p>
          {way === "offer" ? (
            <button type="button" data-testid="install-now" onClick={() => void standing.offer?.prompt()}>{words.install}</button>
          ) : (
            <p><Ticks text={words[way]} /></p>
          )}
          {way === "untrusted" && <p><a href={`http://${location.host}/trust`}>{words.untrusted_link}</a></p>}
        </>
      )}
    </section>
  );
}

function wayOf(standing: Standing, agent: string, touchPoints: number): Way {
  if (standing.installed) return "installed";
  if (standing.offer) return "offer";
  if (!isSecureContext) return "plain";
  if (standing.worker === "failed") return "untrusted";
  if (/iPhone|iPad/.test(agent) || (/Macintosh/.test(agent) && touchPoints > 1)) return "iphone";
  if (/Firefox\//.test(agent)) return /Android/.test(agent) ? "menu" : "firefox";
  if (/Chrome\//.test(agent)) return "menu";
  return /Macintosh/.test(agent) ? "mac_safari" : "none";
}
