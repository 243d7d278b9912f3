/** One session, live: where it works, what the plan is, what was said and done, and where the user goes on. */
import { makeVisible, type Attachment, type Delivery, type SessionId, type SessionState, type SessionSummary, type TaskEntity } from "@baton/sdk";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { SessionContext, useClient, useDiffRoom, usePlanRoom, useTwoRooms, useWords } from "../context.tsx";
import { HolderLine, LinkBanner, ModelBanner, NeedsYou, ConnectionDot, StorageBanner, UpgradeBanner } from "../parts/banners.tsx";
import { Composer } from "../parts/composer.tsx";
import { DiffBeside, DiffSheet, type DiffProps } from "../parts/diff.tsx";
import { FileSheet, OpenFileContext } from "../parts/file.tsx";
import { GoOn } from "../parts/go_on.tsx";
import { OfferHere } from "../parts/handoff.tsx";
import { Icon } from "../parts/icons.tsx";
import { Outgoing } from "../parts/outgoing.tsx";
import { Beside, PlanOnTop } from "../parts/plan.tsx";
import { SessionMenu } from "../parts/session_menu.tsx";
import { Timeline, type TimelineHandle } from "../parts/timeline.tsx";
import { Trouble } from "../parts/trouble.tsx";
import { WorkspaceBar } from "../parts/workspace_bar.tsx";
import { asOf } from "../format.ts";
import { currentTask } from "../rest.ts";
import { toHome, type Target } from "../route.ts";
import { standingOf } from "../sessions.ts";

export function SessionView({ sessionId, target, elsewhere }: { sessionId: SessionId; target: Target | null; elsewhere?: ReactNode }) {
  const client = useClient();
  const { t } = useWords();
  const state = client.state(sessionId);
  const session = state.session;
  const twoRooms = useTwoRooms();
  const planRoom = usePlanRoom();
  const wide = useDiffRoom();
  const [showsDiff, setShowsDiff] = useState(false);
  const [file, setFile] = useState<string | null>(null);
  const [cardInView, setCardInView] = useState(false);
  const timeline = useRef<TimelineHandle>(null);

  useEffect(() => client.follow(sessionId), [client, sessionId]);

  // Where the list made room for the session, whoever goes by keyboard or ear begins at its title.
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (document.activeElement === document.body) heading.current?.focus({ preventScroll: true });
  }, []);

  const listed = client.sessions?.find((one) => one.session_id === sessionId);
  const title = makeVisible(session?.title ?? listed?.title ?? "") || t(state.trouble ? "session" : "untitled");
  const turn = state.all("turn").find((each) => !each.ended_at);
  const task = currentTask(state);
  const own = client.welcome?.device_id;
  const following = session?.holder != null && own !== undefined && session.holder !== own;

  const settled = state.all("call").filter((call) => call.ended_at).length;
  const diff = (about: TaskEntity): DiffProps => ({ sessionId, task: about, changes: settled, onClose: () => setShowsDiff(false) });

  async function say(text: string, delivery: Delivery, files: Attachment[]): Promise<boolean> {
    await client.ask({ intent: "say", payload: { text, delivery: turn ? delivery : "steer", ...(files.length > 0 ? { attachments: files } : {}) } }, sessionId);
    timeline.current?.toEnd();
    return true;
  }

  return (
    <main className="stage session" data-following={following}>
      <header className="bar">
        {!twoRooms && (
          <a href={toHome} className="icon-button back" aria-label={t("back")}>
            <Icon name="back" />
          </a>
        )}
        <h1 ref={heading} tabIndex={-1} className="bar-title" title={title}>{title}</h1>
        {!twoRooms && <ConnectionDot />}
        {session && <SessionMenu session={session} />}
      </header>
      <WorkspaceBar state={state} />
      {elsewhere}
      {!twoRooms && <><LinkBanner /><UpgradeBanner /><StorageBanner /></>}
      {!twoRooms && client.trouble && <Trouble error={client.trouble} onDismiss={() => client.dismissTrouble()} />}
      {state.trouble ? (
        <Unshown state={state} onAgain={() => client.tryAgain(sessionId)} />
      ) : (
        <div className="session-body">
          <div className="talk">
            {task && !planRoom && <PlanOnTop state={state} task={task} onShowDiff={() => setShowsDiff(true)} />}
            <SessionContext value={sessionId}>
            <OpenFileContext value={setFile}>
              <Timeline
                ref={timeline}
                state={state}
                target={target}
                loadOlder={() => client.loadHistory(sessionId)}
                loadUntil={(to) => client.loadUntil(sessionId, to.messageId, to.seq)}
                onCardInView={setCardInView}
                top={<>{!twoRooms && <ModelBanner />}{!state.loaded && (client.connection === "live" || client.connection === "connecting" || !listed ? <Loading /> : <LastSummary session={listed} />)}</>}
              >
                <Outgoing sessionId={sessionId} onRefused={() => timeline.current?.toEnd()} />
              </Timeline>
            </OpenFileContext>
            </SessionContext>
            <footer className="dock">
              <NeedsYou count={cardInView ? 0 : (session?.waiting ?? 0)} onShow={() => timeline.current?.toOpenCard()} />
              <OfferHere state={state} />
              <GoOn state={state} />
              <HolderLine state={state} />
              <Composer
                place={sessionId}
                label={t("composer")}
                placeholder={t(turn ? "composer_running" : following ? "composer_follow" : "composer_placeholder")}
                onSend={say}
                delivers={turn !== undefined}
                stop={
                  turn && {
                    stopping: turn.state === "stopping",
                    onStop: () => void client.ask({ intent: "cancel", payload: {} }, sessionId),
                  }
                }
              />
            </footer>
          </div>
          {task && wide && showsDiff && <DiffBeside {...diff(task)} />}
          {task && planRoom && !(wide && showsDiff) && <Beside state={state} task={task} onShowDiff={() => setShowsDiff(true)} />}
          {task && !wide && showsDiff && <DiffSheet {...diff(task)} />}
          {file !== null && <FileSheet sessionId={sessionId} path={file} onClose={() => setFile(null)} />}
        </div>
      )}
      <Announcer state={state} />
    </main>
  );
}

/** The hub has this session and can't show it, or has none of this name: why, and the two ways on. */
function Unshown({ state, onAgain }: { state: SessionState; onAgain: () => void }) {
  const { t } = useWords();
  const { trouble } = state;
  if (!trouble) return null;
  return (
    <section className="unshown" data-testid="unshown" data-code={trouble.code} role="alert">
      <Icon name="alert" />
      <h2>{t(trouble.code === "not_found" ? "session_unknown" : "session_unshown")}</h2>
      {trouble.code === "not_found" ? <p className="quiet">{t("session_unknown_hint")}</p> : <Trouble error={trouble} />}
      <div className="card-actions">
        <button type="button" className="primary" onClick={onAgain}>{t("try_again")}</button>
        <a className="button" href={toHome}>{t("back")}</a>
      </div>
    </section>
  );
}

/** Without a link, of a session that wasn't opened here lately: what the list last said of it. */
function LastSummary({ session }: { session: SessionSummary }) {
  const { t, language } = useWords();
  return (
    <section className="card" data-testid="last-summary">
      <p>
        <strong>{t(`standing_${standingOf(session)}`)}</strong>
        {session.line && <> · {makeVisible(session.line)}</>}
      </p>
      {session.progress > 0 && <progress max={100} value={session.progress} aria-label={`${session.progress} %`} />}
      <p className="quiet small">{t("last_summary", { time: asOf(session.updated_at, language) })}</p>
    </section>
  );
}

/** Where the conversation will stand. It comes in late, so that a session that is there at once doesn't flicker. */
function Loading() {
  const { t } = useWords();
  return (
    <div className="loading" role="status">
      <span className="unseen">{t("session_loading")}</span>
      <span className="bone own" aria-hidden="true" />
      <span className="bone" aria-hidden="true" />
      <span className="bone short" aria-hidden="true" />
    </div>
  );
}

/** Says aloud, politely, when an answer is complete or something waits; never word by word. */
function Announcer({ state }: { state: SessionState }) {
  const { t } = useWords();
  const [words, setWords] = useState("");
  const messages = state.all("message").filter((message) => message.role !== "user").length;
  const waiting = state.session?.waiting ?? 0;
  const seen = useRef<{ messages: number; waiting: number } | null>(null);
  const loaded = state.loaded;
  useEffect(() => {
    if (!loaded) return;
    const before = seen.current;
    seen.current = { messages, waiting };
    if (!before) return;
    if (waiting > before.waiting) setWords(t("needs_announced"));
    else if (messages > before.messages) setWords(t("answer_ready"));
  }, [loaded, messages, waiting, t]);
  return <p className="unseen" role="status" aria-live="polite">{words}</p>;
}
