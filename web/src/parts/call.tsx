/** One tool call: its name, a line from its arguments, how it stands, and what came of it. */
import { HubError, isShortened, makeVisible, type ApprovalEntity, type CallEntity, type DeviceView, type QuestionEntity } from "@baton/sdk";
import { memo, useContext, useMemo, useState, type ReactNode } from "react";
import { callTitle } from "../call_title.ts";
import { SessionContext, useClient, useWords } from "../context.tsx";
import type { Key } from "../i18n/index.ts";
import { ApprovalCard } from "./approval.tsx";
import { Icon } from "./icons.tsx";
import { QuestionCard } from "./question.tsx";
import { asHubError, Trouble } from "./trouble.tsx";
import { Verbatim } from "./verbatim.tsx";

export interface CallRowProps {
  call: CallEntity;
  /** Those that are settled are part of the row; open ones stand below it. */
  approval: ApprovalEntity | undefined;
  question: QuestionEntity | undefined;
  progress: string | undefined;
  device: DeviceView | undefined;
  /** The title of the step that the call is about, where it names one. */
  step: string | undefined;
  /** The user asked for it by a command of their own: its result is what they want to see. */
  asked?: boolean;
}

/** What the hub keeps for the session itself: its words say what it did, its name is for those who look closer. */
const KEPT: Readonly<Record<string, Key>> = {
  set_plan: "kept_set_plan",
  start_step: "kept_start_step",
  finish_step: "kept_finish_step",
  record_fact: "kept_record_fact",
  note: "kept_note",
  finish_task: "kept_finish_task",
};

/** Whether a call only kept something, and did: then it needs no attention. */
export const keepsOnly = (call: CallEntity): boolean => call.device_id == null && call.state === "succeeded" && call.tool in KEPT;

/** What it says at the end is the message below it. */
const titleOf = (call: CallEntity, step: string | undefined): string =>
  call.tool === "finish_task" && call.state === "succeeded" ? "" : step ? makeVisible(step) : callTitle(call.arguments);

/** Such calls that follow one another: one quiet line, and each by its name behind it. */
export function KeptCalls({ calls, stepOf, children }: { calls: readonly CallEntity[]; stepOf: (call: CallEntity) => string | undefined; children: ReactNode }) {
  const { t } = useWords();
  const words = calls.map((call) => {
    const title = titleOf(call, stepOf(call));
    const kept = t(KEPT[call.tool] ?? "kept_note");
    // A plan stands beside the conversation in full.
    return title && call.tool !== "set_plan" ? `${kept}: ${title}` : kept;
  });
  return (
    <details className="kept" data-testid="kept">
      <summary>
        <span className="call-mark"><Icon name="check" /></span>
        <span className="kept-words">{words.map((each, index) => <span key={index}>{each}</span>)}</span>
        <Icon name="chevron" className="turns" />
      </summary>
      {children}
    </details>
  );
}

export const CallRow = memo(function CallRow({ call, approval, question, progress, device, step, asked = false }: CallRowProps) {
  const { t } = useWords();
  const title = titleOf(call, step);
  const words = t(`call_${call.state}` as Key);
  const failed = call.state === "failed";
  const notes = [
    call.attempt > 1 ? t("call_attempt", { count: call.attempt }) : "",
    device && !device.own ? t("call_on", { name: makeVisible(device.name) }) : "",
  ].filter(Boolean);
  return (
    <div className="call-group">
      <details className="call" open={asked || undefined} data-asked={asked} data-testid="call" data-tool={call.tool} data-state={call.state} data-id={call.id} data-inside={call.device_id == null}>
        <summary>
          <span className="call-mark" data-state={call.state}>{markOf(call.state)}</span>
          <span className="call-words">
            <code className="tool">{makeVisible(call.tool)}</code>
            {title && <span className="call-title">{title}</span>}
          </span>
          <span className="call-state" data-quiet={call.state === "succeeded"}>{words}</span>
          <Icon name="chevron" className="turns" />
        </summary>
        <div className="call-body">
          {call.ended_at && call.started_at && <p className="quiet small">{t("call_took", { time: duration(call.started_at, call.ended_at) })}</p>}
          {notes.length > 0 && <p className="quiet small">{notes.join(" · ")}</p>}
          {asked && call.result && <Result call={call} />}
          <h2>{t("call_arguments")}</h2>
          <Verbatim text={argumentsText(call.arguments)} label={t("call_arguments")} />
          {!asked && call.result && <Result call={call} />}
          <ShowAll call={call} />
        </div>
      </details>
      {progress && !call.ended_at && <p className="call-note quiet">{makeVisible(progress)}</p>}
      {call.state === "unknown" && call.unknown && <p className="call-note">{t(`unknown_${call.unknown}` as Key)}</p>}
      {call.state === "cancelled" && call.reason && <p className="call-note quiet">{makeVisible(call.reason)}</p>}
      {failed && call.error && (
        <div className="call-note failed" data-testid="call-error">
          <p>{makeVisible(call.error.message)}</p>
          {call.error.hint && <p className="quiet">{makeVisible(call.error.hint)}</p>}
          {call.error.state_modified === "yes" && <p>{t("state_was_changed")}</p>}
          {call.error.state_modified === "unknown" && <p className="quiet">{t("state_maybe_changed")}</p>}
        </div>
      )}
      {approval && approval.state !== "open" && <ApprovalCard approval={approval} />}
      {question && question.state !== "open" && <QuestionCard question={question} />}
    </div>
  );
});

/** The hub sends old calls in a shorter form; the whole is in its history. */
function ShowAll({ call }: { call: CallEntity }) {
  const client = useClient();
  const { t } = useWords();
  const sessionId = useContext(SessionContext);
  const shortened = useMemo(() => isShortened(call), [call]);
  const [busy, setBusy] = useState(false);
  // What still looks shortened after the whole was loaded only says so itself.
  const [loaded, setLoaded] = useState(false);
  const [error, setError] = useState<HubError | null>(null);
  if (!shortened || loaded) return null;
  async function load() {
    setBusy(true);
    setError(null);
    try {
      await client.loadWhole(sessionId, call.version);
      setLoaded(true);
    } catch (caught) {
      setError(asHubError(caught));
    } finally {
      setBusy(false);
    }
  }
  return (
    <>
      {error && <Trouble error={error} />}
      <button type="button" className="show-all" data-testid="show-all" disabled={busy} onClick={() => void load()}>{t("call_show_all")}</button>
    </>
  );
}

function Result({ call }: { call: CallEntity }) {
  const { t, language } = useWords();
  const result = call.result;
  if (!result) return null;
  const changes = result.changes ?? [];
  return (
    <>
      <h2>{t("call_result")}</h2>
      {result.content === "" ? (
        <p className="quiet">{t("call_no_output")}</p>
      ) : (
        <Verbatim text={result.content} label={t("call_result")} />
      )}
      {result.omitted ? <p className="quiet small">{t("call_omitted", { bytes: result.omitted.toLocaleString(language) })}</p> : null}
      {changes.length > 0 && (
        <>
          <h2>{t("call_changes")}</h2>
          <ul className="changes">
            {changes.map((change) => (
              <li key={change.path}>
                <code>{makeVisible(change.path)}</code>
                <span className="added">+{change.added ?? 0}</span>
                <span className="removed">−{change.removed ?? 0}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

function markOf(state: CallEntity["state"]) {
  switch (state) {
    case "succeeded":
      return <Icon name="check" />;
    case "failed":
      return <Icon name="cross" />;
    case "cancelled":
      return <Icon name="stop" />;
    case "unknown":
      return <Icon name="question" />;
    case "awaiting_approval":
    case "awaiting_answer":
      return <Icon name="clock" />;
    default:
      return <span className="spinner" />;
  }
}

function duration(from: string, to: string): string {
  const ms = Math.max(0, Date.parse(to) - Date.parse(from));
  if (ms < 1_000) return `${ms} ms`;
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}

export function argumentsText(value: unknown): string {
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    const fields = Object.entries(value);
    // One `name: value` a line reads better than JSON, as long as every value is plain.
    if (fields.length > 0 && fields.every(([, each]) => typeof each !== "object" || each === null)) {
      return fields.map(([name, each]) => (typeof each === "string" && each.includes("\n") ? `${name}:\n${each}` : `${name}: ${String(each)}`)).join("\n");
    }
  }
  return JSON.stringify(value, null, 2) ?? "";
}
