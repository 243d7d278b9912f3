/** One session, live: where it works, what the plan is, what was said and done, and where the user goes on. */
import { makeVisible, type Delivery, type SessionId, type SessionState } from "@baton/sdk";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { SessionContext, useClient, useThreeRooms, useTwoRooms, useWords } from "../context.tsx";
import { HolderLine, LinkBanner, ModelBanner, NeedsYou, ConnectionDot } from "../parts/banners.tsx";
import { Composer } from "../parts/composer.tsx";
import { Facts } from "../parts/facts.tsx";
import { GoOn } from "../parts/go_on.tsx";
import { OfferHere } from "../parts/handoff.tsx";
import { Icon } from "../parts/icons.tsx";
import { Outgoing } from "../parts/outgoing.tsx";
import { Plan } from "../parts/plan.tsx";
import { Timeline, type TimelineHandle } from "../parts/timeline.tsx";
import { Trouble } from "../parts/trouble.tsx";
import { WorkspaceBar } from "../parts/workspace_bar.tsx";
import { currentTask } from "../rest.ts";
import { toHome } from "../route.ts";

export function SessionView({ sessionId, elsewhere }: { sessionId: SessionId; elsewhere?: ReactNode }) {
  const client = useClient();
  const { t } = useWords();
  const state = client.state(sessionId);
  const session = state.session;
  const twoRooms = useTwoRooms();
  const threeRooms = useThreeRooms();
  const [cardInView, setCardInView] = useState(false);
  const timeline = useRef<TimelineHandle>(null);

  useEffect(() => client.follow(sessionId), [client, sessionId]);

  const title = makeVisible(session?.title ?? "") || t("untitled");
  useEffect(() => {
    document.title = `${title} · Baton`;
    return () => {
      document.title = "Baton";
    };
  }, [title]);

  const turn = state.all("turn").find((each) => !each.ended_at);
  const task = currentTask(state);
  const own = client.welcome?.device_id;
  const following = session?.holder != null && own !== undefined && session.holder !== own;

  async function say(text: string, delivery: Delivery): Promise<boolean> {
    await client.ask({ intent: "say", payload: { text, delivery: turn ? delivery : "steer" } }, sessionId);
    timeline.current?.toEnd();
    return true;
  }

  return (
    <main className="stage session">
      <header className="bar">
        {!twoRooms && (
          <a href={toHome} className="icon-button back" aria-label={t("back")}>
            <Icon name="back" />
          </a>
        )}
        <h1 className="bar-title">{title}</h1>
        {!twoRooms && <ConnectionDot />}
      </header>
      <WorkspaceBar state={state} />
      {elsewhere}
      {!twoRooms && <LinkBanner />}
      {!twoRooms && client.trouble && <Trouble error={client.trouble} onDismiss={() => client.dismissTrouble()} />}
      <div className="session-body">
        <div className="talk">
          {task && !threeRooms && <div className="plan-top"><Plan task={task} facts={state.all("fact")} /></div>}
          <SessionContext value={sessionId}>
            <Timeline ref={timeline} state={state} loadOlder={() => client.loadHistory(sessionId)} onCardInView={setCardInView} top={!twoRooms && <ModelBanner />}>
              <Outgoing sessionId={sessionId} />
            </Timeline>
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
        {task && threeRooms && (
          <aside className="beside" aria-label={t("plan")}>
            <Plan task={task} facts={[]} unfolded />
            <Facts facts={state.all("fact")} taskId={task.id} unfolded />
          </aside>
        )}
      </div>
      <Announcer state={state} />
    </main>
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

