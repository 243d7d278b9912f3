/** What this browser is and can do at the moment, by asking it, never by assuming. */
import type { Capabilities, ClientType } from "@baton/sdk";

const coarse = () => matchMedia("(pointer: coarse)").matches;

export function clientType(): ClientType {
  if (!coarse()) return "web";
  return Math.min(screen.width, screen.height) < 600 ? "phone" : "tablet";
}

/** Whether Enter should begin a new line, as keyboards on glass have it. */
export const touchKeyboard = (): boolean => coarse() && !matchMedia("(any-pointer: fine)").matches;

export function capabilities(): Capabilities {
  const features: string[] = ["multi_window"];
  if (canCopy()) features.push("clipboard");
  if ("geolocation" in navigator && isSecureContext) features.push("geolocation");
  if ("Notification" in window && isSecureContext) features.push("notifications");
  if (!coarse()) features.push("drag_and_drop");
  features.push("file_picker");
  return {
    inputs: coarse() ? ["text", "touch"] : ["text", "pointer"],
    screen: [Math.round(screen.width), Math.round(screen.height)],
    features,
    language: navigator.language,
  };
}

/** Plain http on a LAN has no clipboard. */
export const canCopy = (): boolean => isSecureContext && typeof navigator.clipboard?.writeText === "function";

/** A name to begin with; the user may change it. */
export function suggestedName(): string {
  const agent = navigator.userAgent;
  if (/iPhone/.test(agent)) return "iPhone";
  if (/iPad/.test(agent) || (/Macintosh/.test(agent) && navigator.maxTouchPoints > 1)) return "iPad";
  const browser = /Edg\//.test(agent) ? "Edge" : /Firefox\//.test(agent) ? "Firefox" : /Chrome\//.test(agent) ? "Chrome" : "Safari";
  if (/Android/.test(agent)) return /Mobile/.test(agent) ? "Android phone" : "Android tablet";
  const system = /Windows/.test(agent) ? "Windows" : /Macintosh/.test(agent) ? "Mac" : "Linux";
  return `${browser}, ${system}`;
}
