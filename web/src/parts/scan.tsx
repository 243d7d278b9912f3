/** A link as a QR code for another device's camera, and what to do with it. */
import { useMemo } from "react";
import { useWords } from "../context.tsx";
import { qrCode } from "../qr.ts";
import { Ticks } from "./banners.tsx";
import { CopyButton } from "./verbatim.tsx";

/** Light around the code, in modules; cameras need it. */
const QUIET = 4;

/** Whether a name means the machine itself, on whichever it is used. */
export const isOwnName = (host: string): boolean => /^(?:localhost$|127\.|\[::1\])/.test(host) || host.endsWith(".localhost");

export function Scan({ link, words, copies = false }: { link: string; words: string; copies?: boolean }) {
  const { t } = useWords();
  const grid = useMemo(() => qrCode(link), [link]);
  // Another device that opens this machine's own name finds itself.
  if (!grid || isOwnName(new URL(link).hostname)) return <p className="quiet small" data-testid="scan-not"><Ticks text={t("scan_loopback")} /></p>;
  const size = grid.length + 2 * QUIET;
  const dark = grid.flatMap((row, y) => row.map((each, x) => (each ? `M${x + QUIET} ${y + QUIET}h1v1h-1z` : ""))).join("");
  return (
    <figure className="scan" data-testid="scan" data-link={copies ? undefined : link}>
      <svg viewBox={`0 0 ${size} ${size}`} role="img" aria-label={t("scan_label")} shapeRendering="crispEdges">
        <rect width={size} height={size} />
        <path d={dark} />
      </svg>
      <figcaption className="quiet small">{words}</figcaption>
      {copies && <div className="code"><CopyButton text={link} /></div>}
    </figure>
  );
}
