/** One line that says what a call is about, from its arguments alone. */
import { makeVisible } from "@baton/sdk";

/** The arguments that say most, best first. */
const TELLING = ["command", "argv", "path", "file", "pattern", "query", "url", "question", "text", "title", "step_id", "name", "goal", "summary"];

const MOST = 160;

export function callTitle(args: unknown): string {
  if (typeof args === "string") return line(args);
  if (args === null || typeof args !== "object") return "";
  const fields = args as Record<string, unknown>;
  const key = fields["key"];
  if (typeof key === "string") {
    const value = fields["value"];
    return line(value === undefined ? key : `${key} = ${plain(value)}`);
  }
  const steps = fields["steps"];
  if (Array.isArray(steps)) return line(steps.map(stepTitle).join(" · "));
  const path = fields["path"];
  const pattern = fields["pattern"] ?? fields["query"];
  if (typeof path === "string" && typeof pattern === "string") return line(`${pattern} in ${path}`);
  for (const name of TELLING) {
    const value = fields[name];
    if (value !== undefined && value !== null && value !== "") return line(plain(value));
  }
  const first = Object.values(fields).find((value) => typeof value === "string" && value !== "");
  return typeof first === "string" ? line(first) : "";
}

function stepTitle(step: unknown): string {
  if (typeof step === "string") return step;
  const title = (step as { title?: unknown } | null)?.title;
  return typeof title === "string" ? title : "";
}

function plain(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value.map(quoted).join(" ");
  return JSON.stringify(value);
}

/** A word of a command as a shell takes it, so that words can be told apart. */
function quoted(word: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function line(text: string): string {
  const shown = makeVisible(text.trim()).replace(/\s*\n\s*/g, " ⏎ ");
  const characters = [...shown];
  return characters.length > MOST ? `${characters.slice(0, MOST).join("")}…` : shown;
}
