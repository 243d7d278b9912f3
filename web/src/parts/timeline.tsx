/** What was said and done, in the order in which it happened, and what is under way at its end. */
import type { CallEntity, MessageEntity, PartialAnswer, QuestionEntity, SessionState, TurnEntity, Unfamiliar } from "@baton/sdk";
import { makeVisible } from "@baton/sdk";
import { useEffect, useImperativeHandle, useLayoutEffect, useRef, useState, type ReactNode, type Ref } from "react";
import { findDevice, useClient, useWords } from "../context.tsx";
import type { Key } from "../i18n/index.ts";
import { CallRow } from "./call.tsx";
import { Icon } from "./icons.tsx";
import { Answering, MessageRow } from "./message.tsx";
import { QuestionCard } from "./question.tsx";
import { asHubError, Trouble } from "./trouble.tsx";

export interface TimelineHandle {
  toEnd(): void;
  toOpenCard(): void;
}

type Item =
  | { kind: "message"; at: number; key: string; it: MessageEntity }
  | { kind: "call"; at: number; key: string; it: CallEntity }
  | { kind: "question"; at: number; key: string; it: QuestionEntity }
  | { kind: "turn"; at: number; key: string; it: TurnEntity }
  | { kind: "unfamiliar"; at: number; key: string; it: Unfamiliar };

function items(state: SessionState): Item[] {
  const found: Item[] = [];
  for (const it of state.all("message")) found.push({ kind: "message", at: it.created_seq, key: it.id, it });
  for (const it of state.all("call")) found.push({ kind: "call", at: it.created_seq, key: it.id, it });
  // A question stands with its call; where that call is not loaded it stands alone.
  for (const it of state.all("question")) if (!state.get("call", it.call_id)) found.push({ kind: "question", at: it.created_seq, key: it.id, it });
  // The end of a turn that did not go well is where the last event that touched it is.
  for (const it of state.all("turn")) if (it.state === "failed" || it.state === "interrupted") found.push({ kind: "turn", at: it.version, key: it.id, it });
  for (const it of state.unfamiliar) found.push({ kind: "unfamiliar", at: it.seq, key: `${it.seq}-${it.name}`, it });
  return found.sort((a, b) => a.at - b.at);
}

export interface TimelineProps {
  ref: Ref<TimelineHandle>;
  state: SessionState;
  loadOlder: () => Promise<void>;
  /** Whether a card that waits for the user can be seen, so that nothing else needs to point at it. */
  onCardInView: (inView: boolean) => void;
  /** Stands before the first entry. */
  top: ReactNode;
  children: ReactNode;
}

/** Within this many pixels of the end the view stays at the end. */
const NEAR_END = 80;

export function Timeline({ ref, state, loadOlder, onCardInView, top, children }: TimelineProps) {
  const client = useClient();
  const { t } = useWords();
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const [away, setAway] = useState(false);
  const [seenAtLeaving, setSeen] = useState(0);
  const [loading, setLoading] = useState(false);
  const [error, setError] = useState<unknown>(null);

  const list = items(state);
  const answering = [...state.overlay.entries()];
  const last = list.at(-1)?.at ?? 0;
  const fresh = away ? list.filter((item) => item.at > seenAtLeaving).length : 0;

  const toEnd = () => {
    atEnd.current = true;
    setAway(false);
    const element = box.current;
    if (element) element.scrollTop = element.scrollHeight;
  };
  useImperativeHandle(ref, () => ({
    toEnd,
    toOpenCard: () => {
      const card = box.current?.querySelector<HTMLElement>("[data-open-card=true]");
      card?.scrollIntoView({ block: "start" });
      card?.focus({ preventScroll: true });
    },
  }));

  // Text, cards and the dock change the height at many moments; the end is kept in sight through all of them.
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !content.current) return;
    const stay = () => {
      if (atEnd.current) element.scrollTop = element.scrollHeight;
    };
    const watch = new ResizeObserver(stay);
    watch.observe(content.current);
    watch.observe(element);
    stay();
    return () => watch.disconnect();
  }, []);

  const open = [...state.all("approval"), ...state.all("question")].filter((each) => each.state === "open").map((each) => each.id).join(" ");
  useEffect(() => {
    const inView = new Set<Element>();
    const watch = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          if (entry.isIntersecting) inView.add(entry.target);
          else inView.delete(entry.target);
        }
        onCardInView(inView.size > 0);
      },
      { root: box.current, rootMargin: "-40px 0px" },
    );
    for (const card of box.current?.querySelectorAll("[data-open-card=true]") ?? []) watch.observe(card);
    return () => {
      watch.disconnect();
      onCardInView(false);
    };
  }, [open, onCardInView]);

  function scrolled() {
    const element = box.current;
    if (!element) return;
    const near = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END;
    if (near === atEnd.current) return;
    atEnd.current = near;
    setAway(!near);
    if (!near) setSeen(last);
  }

  async function older() {
    const element = box.current;
    if (!element || loading) return;
    setLoading(true);
    setError(null);
    const fromEnd = element.scrollHeight - element.scrollTop;
    try {
      await loadOlder();
      requestAnimationFrame(() => {
        element.scrollTop = element.scrollHeight - fromEnd;
      });
    } catch (caught) {
      setError(caught);
    } finally {
      setLoading(false);
    }
  }

  const unread = new Set(state.all("turn").flatMap((turn) => turn.unread ?? []));
  const doing = state.session?.activity ?? "idle";
  const activity = answering.length > 0 || doing === "idle" || doing === "awaiting_user" ? null : doing;

  return (
    <div className="timeline-frame">
      <div className="timeline" ref={box} onScroll={scrolled} data-testid="timeline" data-loaded={state.loaded} role="log" aria-live="off" aria-label={t("timeline")} tabIndex={0}>
        <div className="timeline-content" ref={content}>
          {top}
          {state.historyBefore !== null && (
            <button type="button" className="older" disabled={loading} onClick={() => void older()}>{t("older")}</button>
          )}
          {error !== null && <Trouble error={asHubError(error)} onDismiss={() => setError(null)} />}
          {list.map((item) => {
            switch (item.kind) {
              case "message":
                return <MessageRow key={item.key} message={item.it} unread={unread.has(item.it.id)} own={client.welcome?.device_id} />;
              case "call":
                return (
                  <CallRow
                    key={item.key}
                    call={item.it}
                    approval={state.get("approval", item.it.approval_id)}
                    question={state.get("question", item.it.question_id)}
                    progress={state.progress.get(item.it.id)}
                    device={findDevice(client, item.it.device_id)}
                  />
                );
              case "question":
                return <QuestionCard key={item.key} question={item.it} />;
              case "turn":
                return (
                  <p key={item.key} className="turn-end" data-testid="turn-end" data-state={item.it.state}>
                    {t(`turn_${item.it.state}` as Key, { reason: makeVisible(item.it.reason ?? "") })}
                  </p>
                );
              case "unfamiliar":
                return <p key={item.key} className="turn-end" data-testid="unfamiliar">{t("unfamiliar", { name: makeVisible(item.it.name) })}</p>;
            }
          })}
          {answering.map(([id, partial]: [string, PartialAnswer]) => <Answering key={id} partial={partial} />)}
          {activity && (
            <p className="activity" data-testid="activity" data-activity={activity}>
              <span className="pulse" aria-hidden="true" />
              {t(`activity_${activity}` as Key)}
            </p>
          )}
          {children}
        </div>
      </div>
      {away && (
        <button type="button" className="jump" data-testid="jump" onClick={toEnd}>
          <Icon name="down" />
          {fresh > 0 ? t("jump_new", { count: fresh }) : t("jump")}
        </button>
      )}
    </div>
  );
}
