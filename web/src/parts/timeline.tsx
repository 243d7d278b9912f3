/** What was said and done, in the order in which it happened, and what is under way at its end. */
import type { CallEntity, MessageEntity, PartialAnswer, QuestionEntity, SessionState, TurnEntity, Unfamiliar } from "@baton/sdk";
import { HubError, makeVisible } from "@baton/sdk";
import { useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState, type ReactNode, type Ref, type RefObject } from "react";
import { flushSync } from "react-dom";
import { findDevice, useClient, useWords } from "../context.tsx";
import type { Key } from "../i18n/index.ts";
import { ApprovalCard } from "./approval.tsx";
import { CallRow, keepsOnly, KeptCalls } from "./call.tsx";
import { Icon } from "./icons.tsx";
import type { Target } from "../route.ts";
import { currentTask, readings, restOf } from "../rest.ts";
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
  | { kind: "afresh"; at: number; key: string; it: null }
  | { kind: "unfamiliar"; at: number; key: string; it: Unfamiliar };

function items(state: SessionState): Item[] {
  const found: Item[] = [];
  for (const it of state.all("message")) found.push({ kind: "message", at: it.created_seq, key: it.id, it });
  for (const it of state.all("call")) found.push({ kind: "call", at: it.created_seq, key: it.id, it });
  // A question stands with its call; where that call is not loaded it stands alone.
  for (const it of state.all("question")) if (!state.get("call", it.call_id)) found.push({ kind: "question", at: it.created_seq, key: it.id, it });
  // The end of a turn that did not go well is where the last event that touched it is.
  for (const it of state.all("turn")) if (it.state === "failed" || it.state === "interrupted") found.push({ kind: "turn", at: it.version, key: it.id, it });
  const from = state.session?.context_from;
  if (from != null && (state.historyBefore === null || state.historyBefore <= from)) found.push({ kind: "afresh", at: from, key: "afresh", it: null });
  for (const it of state.unfamiliar) found.push({ kind: "unfamiliar", at: it.seq, key: `${it.seq}-${it.name}`, it });
  return found.sort((a, b) => a.at - b.at);
}

/** Entries stand in chunks, and only chunks near the view are drawn. Sequence numbers decide: an entry never moves. */
const CHUNK_SEQS = 64;
/** The last chunks are always drawn, so that the end stays where it is. */
const NEAR_CHUNKS = 2;
/** What an entry that was never drawn is taken to be high, in pixels. */
const ROW_GUESS = 72;
/** Chunks are drawn this far beyond what can be seen, in pixels. */
const AHEAD = 1_200;

function chunksOf(list: Item[]): { number: number; items: Item[] }[] {
  const chunks: { number: number; items: Item[] }[] = [];
  for (const item of list) {
    const number = Math.floor(item.at / CHUNK_SEQS);
    const last = chunks.at(-1);
    if (last?.number === number) last.items.push(item);
    else chunks.push({ number, items: [item] });
  }
  return chunks;
}

export interface TimelineProps {
  ref: Ref<TimelineHandle>;
  state: SessionState;
  loadOlder: () => Promise<void>;
  /** A message that the reader was led to, and the way back to where it stands; `false` if it isn't there. */
  target: Target | null;
  loadUntil: (target: Target) => Promise<boolean>;
  /** Whether a card that waits for the user can be seen, so that nothing else needs to point at it. */
  onCardInView: (inView: boolean) => void;
  /** Stands before the first entry. */
  top: ReactNode;
  children: ReactNode;
}

/** Entries that are drawn at first, and how many more each look backwards adds. */
const WINDOW = 200;
/** Beyond this many, what is far back is forgotten while the reader is at the end; the history gives it back. */
const KEPT_MOST = 1_000;
const KEPT = 400;

/** Which chunks are near the view, and how high those were that no longer are. */
function useInSight(box: RefObject<HTMLElement | null>, numbers: string) {
  const [inSight, setInSight] = useState<ReadonlySet<number>>(new Set());
  const heights = useRef(new Map<number, number>());
  const watch = useRef<IntersectionObserver | null>(null);
  const watched = useRef(new Set<Element>());
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => {
        setInSight((before) => {
          const next = new Set(before);
          for (const { target, isIntersecting, boundingClientRect } of entries) {
            const number = Number((target as HTMLElement).dataset["chunk"]);
            if (isIntersecting) {
              next.add(number);
              continue;
            }
            // What is in use or was opened stays as it is.
            if (target.matches(":focus-within") || target.querySelector("details[open]:not([data-asked=true])")) continue;
            if (before.has(number)) heights.current.set(number, boundingClientRect.height);
            next.delete(number);
          }
          return next;
        });
      },
      { root: box.current, rootMargin: `${AHEAD}px 0px` },
    );
    watch.current = observer;
    watched.current.clear();
    return () => observer.disconnect();
  }, [box]);
  useEffect(() => {
    const present = new Set<Element>(box.current?.querySelectorAll("[data-chunk]") ?? []);
    for (const chunk of watched.current) if (!present.has(chunk)) watch.current?.unobserve(chunk);
    for (const chunk of present) if (!watched.current.has(chunk)) watch.current?.observe(chunk);
    watched.current = present;
  }, [box, numbers]);
  return { inSight, heights };
}

/** Within this many pixels of the end the view stays at the end. */
const NEAR_END = 80;

export function Timeline({ ref, state, loadOlder, target, loadUntil, onCardInView, top, children }: TimelineProps) {
  const client = useClient();
  const { t } = useWords();
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const lastTop = useRef(0);
  const [away, setAway] = useState(false);
  const [seenAtLeaving, setSeen] = useState(0);
  const [most, setMost] = useState(WINDOW);
  const [loading, setLoading] = useState(false);
  const [error, setError] = useState<unknown>(null);

  const { changes } = state;
  // The state is one object; this counter says when its entries changed.
  const list = useMemo(() => items(state), [state, changes]);
  const answering = [...state.overlay.entries()];
  const last = list.at(-1)?.at ?? 0;
  const fresh = away ? list.filter((item) => item.at > seenAtLeaving).length : 0;
  // While the reader looks back the first entry that is drawn stays the same, whatever comes at the end.
  const hidden = Math.max(0, list.length - most - fresh);
  const drawn = hidden > 0 ? list.slice(hidden) : list;

  const { id: sessionId, size } = state;
  useEffect(() => {
    if (!away && size > KEPT_MOST) client.trim(sessionId, KEPT);
  }, [client, sessionId, size, away]);

  const back = () => {
    setAway(false);
    setMost(WINDOW);
  };
  const toEnd = () => {
    atEnd.current = true;
    back();
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
      if (!atEnd.current) return;
      element.scrollTop = element.scrollHeight;
      lastTop.current = element.scrollTop;
    };
    const watch = new ResizeObserver(() => {
      stay();
      element.closest<HTMLElement>(".talk")?.style.setProperty("--gutter", `${element.offsetWidth - element.clientWidth}px`);
    });
    watch.observe(content.current);
    watch.observe(element);
    stay();
    return () => watch.disconnect();
  }, []);

  const chunks = chunksOf(drawn);
  /** A card that waits for the user is always there, so that the way to it leads somewhere. */
  const isOpen = (item: Item) =>
    item.kind === "call" && (state.get("approval", item.it.approval_id)?.state === "open" || state.get("question", item.it.question_id)?.state === "open");
  const { inSight, heights } = useInSight(box, chunks.map((chunk) => chunk.number).join(" "));

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
    const up = element.scrollTop < lastTop.current;
    lastTop.current = element.scrollTop;
    if (near === atEnd.current) return;
    // What came in below while the page was on its way to the end isn't the reader's leaving it.
    if (!near && !up) {
      element.scrollTop = element.scrollHeight;
      return;
    }
    atEnd.current = near;
    if (near) {
      back();
      return;
    }
    setAway(true);
    setSeen(last);
  }

  async function older() {
    const element = box.current;
    if (!element || loading) return;
    setLoading(true);
    setError(null);
    const fromEnd = element.scrollHeight - element.scrollTop;
    try {
      if (hidden < WINDOW && state.historyBefore !== null) await loadOlder();
      flushSync(() => setMost((before) => before + WINDOW));
      element.scrollTop = element.scrollHeight - fromEnd;
    } catch (caught) {
      setError(caught);
    } finally {
      setLoading(false);
    }
  }

  const ready = state.loaded;
  useEffect(() => {
    if (!target || !ready) return;
    let ended = false;
    atEnd.current = false;
    setAway(true);
    setSeen(last);
    setError(null);
    loadUntil(target).then((found) => {
      if (ended) return;
      if (!found) {
        setError(new HubError("not_found", t("hit_gone"), "", 404));
        return;
      }
      const behind = items(state).filter((item) => item.at >= target.seq).length;
      flushSync(() => setMost((before) => Math.max(before, behind + WINDOW / 2)));
      lead(target.messageId);
    }, (caught: unknown) => !ended && setError(caught));
    return () => {
      ended = true;
    };
    // Once for each message that the reader is led to.
  }, [target?.messageId, ready]);

  /** Brings an entry into view. Its chunk, and those before it, are drawn on the way, which moves it; so it is looked for until it stands still. */
  function lead(messageId: string) {
    const element = box.current;
    if (!element) return;
    let tries = 0;
    let before = NaN;
    const step = () => {
      const index = list.findIndex((item) => item.key === messageId);
      const found = element.querySelector<HTMLElement>(`[data-id="${messageId}"]`);
      const at = found ?? element.querySelector<HTMLElement>(`[data-chunk="${Math.floor((target?.seq ?? list[index]?.at ?? 0) / CHUNK_SEQS)}"]`);
      at?.scrollIntoView({ block: "center" });
      const top = at?.getBoundingClientRect().top ?? NaN;
      tries += 1;
      if ((found && Math.abs(top - before) < 2) || tries > 40) {
        found?.setAttribute("data-led", "true");
        found?.setAttribute("tabindex", "-1");
        found?.focus({ preventScroll: true });
        return;
      }
      before = top;
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  const reading = readings(state);
  const waitingOn = currentTask(state)?.waiting_on;
  const behind = waitingOn?.for === "workspace" ? makeVisible(waitingOn.title) : "";
  const doing = state.session?.activity ?? "idle";
  // What rests says why beside the composer; what waits for the user says so on its card.
  const silent = answering.length > 0 || doing === "idle" || doing === "awaiting_user" || (doing === "error" && restOf(state) !== null);
  const activity = silent ? null : doing;

  /** Turns that a command of the user's has begun. */
  const byCommand = useMemo(() => new Set(state.all("message").filter((message) => message.role === "user" && message.text.startsWith("/")).map((message) => message.turn_id)), [state, changes]);

  /** The title of the step that a call names. */
  function stepOf(call: CallEntity): string | undefined {
    const id = (call.arguments as { step_id?: unknown } | null)?.step_id;
    return typeof id === "string" ? state.get("task", call.task_id)?.steps?.find((step) => step.step_id === id)?.title : undefined;
  }

  /** Calls that follow one another stand in one box, until one of them has a card that waits for the user. */
  function rowsOf(list: Item[]): ReactNode[] {
    const rows: ReactNode[] = [];
    let calls: ReactNode[] = [];
    let kept: CallEntity[] = [];
    let first = "";
    const closeKept = () => {
      const [one] = kept;
      if (one) calls.push(<KeptCalls key={`kept-${one.id}`} calls={kept} stepOf={stepOf}>{kept.map(callRow)}</KeptCalls>);
      kept = [];
    };
    const close = () => {
      closeKept();
      if (calls.length > 0) rows.push(<div key={`calls-${first}`} className="calls">{calls}</div>);
      calls = [];
    };
    for (const item of list) {
      if (item.kind !== "call") {
        close();
        rows.push(row(item));
        continue;
      }
      if (calls.length === 0 && kept.length === 0) first = item.key;
      if (keepsOnly(item.it)) {
        kept.push(item.it);
        continue;
      }
      closeKept();
      const approval = state.get("approval", item.it.approval_id);
      const question = state.get("question", item.it.question_id);
      // The card says all of what is asked; only what became of a call that was lost is asked about the call itself.
      const onCard = item.it.state === "awaiting_approval" ? approval?.state === "open" : item.it.state === "awaiting_answer" && question?.state === "open";
      if (!onCard) calls.push(row(item));
      if (approval?.state !== "open" && question?.state !== "open") continue;
      close();
      if (approval?.state === "open") rows.push(<ApprovalCard key={approval.id} approval={approval} askedBy={state.all("message").find((message) => message.turn_id === approval.binding.turn_id && message.role === "user")?.sender ?? undefined} />);
      if (question?.state === "open") rows.push(<QuestionCard key={question.id} question={question} />);
    }
    close();
    return rows;
  }

  /** The hub has said in a message why the turn ended: the line doesn't say it again. */
  const said = (turn: TurnEntity): boolean => {
    const reason = turn.reason?.trim() ?? "";
    return reason === "" || state.all("message").some((message) => message.role === "hub" && message.turn_id === turn.id && (message.text.includes(reason) || reason.includes(message.text.trim())));
  };

  // Only whoever holds the session may, and not while the agent works.
  const mayUndoReset = client.welcome != null && state.session?.holder === client.welcome.device_id && !state.all("turn").some((turn) => !turn.ended_at);

  function callRow(call: CallEntity) {
    return (
      <CallRow
        key={call.id}
        call={call}
        approval={state.get("approval", call.approval_id)}
        question={state.get("question", call.question_id)}
        progress={state.progress.get(call.id)}
        device={findDevice(client, call.device_id)}
        step={stepOf(call)}
        asked={byCommand.has(call.turn_id)}
      />
    );
  }

  function row(item: Item) {
    switch (item.kind) {
      case "message":
        return <MessageRow key={item.key} message={item.it} reading={reading.get(item.it.id)} own={client.welcome?.device_id} />;
      case "call":
        return callRow(item.it);
      case "question":
        return <QuestionCard key={item.key} question={item.it} />;
      case "turn":
        return (
          <p key={item.key} className="turn-end" data-testid="turn-end" data-state={item.it.state}>
            {said(item.it) ? t(`turn_${item.it.state}_said` as Key) : t(`turn_${item.it.state}` as Key, { reason: makeVisible(item.it.reason ?? "") })}
          </p>
        );
      case "afresh":
        return (
          <div key={item.key} className="turn-end afresh" data-testid="afresh">
            <span>{t("reset_context_line")}</span>
            {mayUndoReset && <button type="button" className="quiet-button" data-testid="undo-reset" onClick={() => void client.ask({ intent: "undo_reset", payload: {} }, sessionId)}>{t("undo_short")}</button>}
          </div>
        );
      case "unfamiliar":
        return <p key={item.key} className="turn-end" data-testid="unfamiliar">{t("unfamiliar", { name: makeVisible(item.it.name) })}</p>;
    }
  }

  return (
    <div className="timeline-frame">
      <div className="timeline" ref={box} onScroll={scrolled} data-testid="timeline" data-loaded={state.loaded} role="log" aria-live="off" aria-label={t("timeline")} tabIndex={0}>
        <div className="timeline-content" ref={content}>
          {top}
          {(hidden > 0 || state.historyBefore !== null) && (
            <button type="button" className="older" disabled={loading} onClick={() => void older()}>{t("older")}</button>
          )}
          {error !== null && <Trouble error={asHubError(error)} onDismiss={() => setError(null)} />}
          {chunks.map(({ number, items: rows }, index) => {
            const draws = index >= chunks.length - NEAR_CHUNKS || inSight.has(number) || rows.some(isOpen);
            return (
              <div key={number} className="chunk" data-chunk={number} data-drawn={draws} style={draws ? undefined : { height: heights.current.get(number) ?? rows.length * ROW_GUESS }}>
                {draws && rowsOf(rows)}
              </div>
            );
          })}
          {answering.map(([id, partial]: [string, PartialAnswer]) => <Answering key={id} partial={partial} />)}
          {/* Without a link nobody knows what is under way. */}
          {activity && client.connection === "live" && (
            <p className="activity" data-testid="activity" data-activity={activity}>
              <span className="pulse" aria-hidden="true" />
              {activity === "awaiting_workspace" && behind ? t("activity_behind", { title: behind }) : t(`activity_${activity}` as Key)}
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
