// Generated from the Rust types of the wire by `cargo xtask types`. Don't edit: change crates/baton-proto.
/* eslint-disable */

/**
 * The loop's own state, for the line under the conversation (T3).
 */
export type Activity =
  | "idle"
  | "thinking"
  | "awaiting_tool"
  | "awaiting_user"
  | "awaiting_device"
  | "executing"
  | "stopping"
  | "error"
  | "awaiting_workspace"
  | "retrying";
/**
 * Who brought an event about.
 */
export type Actor =
  | {
      id: DeviceId;
      kind: "device";
    }
  | {
      kind: "agent";
    }
  | {
      kind: "hub";
    };
/**
 * Anything paired with the hub.
 */
export type DeviceId = string;
/**
 * A SHA-256 digest as 64 lower-case hexadecimal digits.
 */
export type Digest = string;
export type OriginKind = "attachment" | "path" | "command" | "tool";
/**
 * How much harm a call can do, and so who may allow it (requirements, "Who may do what").
 */
export type Risk = "safe" | "sensitive" | "dangerous";
/**
 * One piece of work in a session.
 */
export type TaskId = string;
/**
 * One user input and all that follows until the agent rests.
 */
export type TurnId = string;
export type Timestamp = string;
/**
 * One requested action; its idempotency key, stable over its attempts (E1).
 */
export type CallId = string;
/**
 * What an end is (D1). `Device` only acts: it holds workspaces and tools, and has no user in front of it.
 */
export type ClientType = "phone" | "tablet" | "web" | "ide" | "cli" | "device";
/**
 * One request for approval (E5).
 */
export type ApprovalId = string;
export type RememberScope = "task" | "always";
/**
 * One remembered approval (E5).
 */
export type RuleId = string;
export type ApprovalState = "open" | "approved" | "rejected" | "voided";
export type WaitingOn =
  | {
      for: "approval";
      id: ApprovalId;
    }
  | {
      for: "question";
      id: QuestionId;
    }
  | {
      for: "device";
      id: DeviceId;
    }
  | {
      behind: SessionId;
      for: "workspace";
      title: string;
    }
  | {
      for: "model";
      retry_at: Timestamp;
    };
/**
 * One question to the user (T11).
 */
export type QuestionId = string;
/**
 * One continuous interaction of one user.
 */
export type SessionId = string;
/**
 * What repeating a call does to the world (R2, E3).
 */
export type Effect = "read" | "idempotent" | "once";
/**
 * Whether something may have been changed (F4).
 */
export type StateModified = "no" | "yes" | "unknown";
export type CallOrigin = "model" | "user";
export type CallState =
  | "proposed"
  | "awaiting_approval"
  | "planned"
  | "started"
  | "unknown"
  | "succeeded"
  | "failed"
  | "cancelled"
  | "awaiting_answer"
  | "cancelling";
export type UnknownCause = "hub_restarted" | "device_disconnected" | "device_restarted" | "journal_lost";
/**
 * One line of dialogue in a session. Only `main` exists until roles work in parallel (R9).
 */
export type Lane = string;
/**
 * What ends are shown (D2): whole entities, each replaced by a newer version of itself. The hub folds; ends keep a map by kind and id.
 *
 * `version` is the sequence number of the event that last touched the entity; `created_seq` orders a timeline.
 */
export type EntityView =
  | (SessionEntity & {
      kind: "session";
    })
  | (TaskEntity & {
      kind: "task";
    })
  | (TurnEntity & {
      kind: "turn";
    })
  | (MessageEntity & {
      kind: "message";
    })
  | (CallEntity & {
      kind: "call";
    })
  | (ApprovalEntity & {
      kind: "approval";
    })
  | (QuestionEntity & {
      kind: "question";
    })
  | (FactEntity & {
      kind: "fact";
    })
  | (NoteEntity & {
      kind: "note";
    })
  | (HandoffEntity & {
      kind: "handoff";
    })
  | (WorkspaceEntity & {
      kind: "workspace";
    });
/**
 * The conversation's language, for what the hub itself says in it.
 */
export type Language = "en" | "zh";
/**
 * One message of the dialogue.
 */
export type MessageId = string;
/**
 * What ends show of a task or session at a glance (T3).
 */
export type WorkState = "pending" | "running" | "awaiting_input" | "completed" | "failed" | "cancelled";
/**
 * One offer of a session to another device (H5).
 */
export type HandoffId = string;
/**
 * A directory of the user's on one device (E7).
 */
export type WorkspaceId = string;
/**
 * The phases of a task (T3). Which may follow which is a table in `baton-core`.
 */
export type Phase =
  | "idle"
  | "planning"
  | "executing"
  | "checking"
  | "waiting_user"
  | "waiting_device"
  | "paused"
  | "done"
  | "failed"
  | "cancelled";
export type StepStatus = "pending" | "running" | "done";
export type TurnState = "running" | "waiting" | "stopping" | "finished" | "interrupted" | "failed";
export type Role = "user" | "agent" | "hub";
export type QuestionKind = "agent" | "outcome";
export type QuestionState = "open" | "answered" | "voided";
/**
 * One fact (T1).
 */
export type FactId = string;
export type FactScope = "task" | "session";
export type HandoffState = "offered" | "accepted" | "declined" | "expired";
export type Changed = "sessions" | "devices" | "rules" | "invitations";
/**
 * What a client sends over the WebSocket.
 */
export type ClientFrame =
  | {
      capabilities?: Capabilities;
      client_type: ClientType;
      /**
       * Sessions to go on with, each after the last sequence number that was seen.
       */
      cursors?: {
        [k: string]: number;
      };
      /**
       * Which journal `running` is from. Another one than before shows that the device forgot what it had been given (F7).
       */
      journal?: JournalId | null;
      protocol: number;
      running?: RunningCall[];
      tools?: ToolSpec[];
      type: "hello";
      workspaces?: Workspace[];
    }
  | {
      after?: number | null;
      session_id: SessionId;
      type: "subscribe";
    }
  | {
      session_id: SessionId;
      type: "unsubscribe";
    }
  | {
      type: "op";
      [k: string]: unknown;
    }
  | {
      capabilities?: Capabilities | null;
      epochs?: {
        [k: string]: number;
      };
      type: "heartbeat";
    }
  | {
      attempt: number;
      call_id: CallId;
      session_id: SessionId;
      type: "tool_started";
    }
  | {
      attempt: number;
      call_id: CallId;
      session_id: SessionId;
      text: string;
      type: "tool_progress";
    }
  | {
      call_id: CallId;
      prepared: Prepared;
      session_id: SessionId;
      type: "prepared";
    }
  | {
      attempt: number;
      call_id: CallId;
      outcome: Outcome;
      session_id: SessionId;
      type: "tool_result";
    }
  | {
      attempt: number;
      call_id: CallId;
      finding: Finding;
      session_id: SessionId;
      type: "probed";
    }
  | {
      /**
       * Files by which it differs from what was told before, as people are shown them; the first of them.
       */
      files?: string[];
      files_left_out?: number;
      type: "workspace_changed";
      workspace: Workspace;
    }
  | {
      changes: RecordedChanges;
      question: QuestionToDevice;
      type: "changes_shown";
    }
  | {
      question: QuestionToDevice;
      shown: FileShown;
      type: "file_shown";
    }
  | {
      found: FoundPaths;
      question: QuestionToDevice;
      type: "paths_found";
    };
/**
 * One life of a device's journal: another one is what a device shows that has lost the first (F7).
 */
export type JournalId = string;
export type RunningState = "running" | "accepted" | "finished" | "interrupted";
/**
 * How a call ended on its device.
 */
export type Outcome =
  | (ToolResult & {
      status: "succeeded";
    })
  | {
      error: ToolError;
      result?: ToolResult | null;
      status: "failed";
    }
  | {
      result?: ToolResult | null;
      status: "cancelled";
    }
  | {
      known: string;
      status: "interrupted";
    };
/**
 * What a lookup found out about a call whose outcome was unknown (E3).
 */
export type Finding =
  | {
      finding: "happened";
      result: ToolResult;
    }
  | {
      finding: "not_happened";
    }
  | {
      finding: "unclear";
      known: string;
    };
export type FileStatus = "added" | "modified" | "deleted" | "renamed";
/**
 * A question to a device outside of any log, so that its answer finds whoever asked.
 */
export type QuestionToDevice = string;
/**
 * A device's answer to the question for a file.
 */
export type FileShown =
  | (FilePart & {
      status: "part";
    })
  | {
      error: ToolError;
      status: "refused";
    };
/**
 * How far a device is trusted (H9). Ordered from least to most.
 */
export type Trust = "guest" | "standard" | "trusted";
/**
 * A person whose sessions, devices and memory belong together (O3).
 */
export type UserId = string;
export type Decision = "approve" | "reject";
/**
 * When input that arrives in the middle of a turn is taken in (T10).
 */
export type Delivery = "steer" | "queue" | "interrupt";
export type DeltaPart = "text" | "thinking";
/**
 * A stable error code; each has a page in `docs/errors`.
 */
export type ErrorCode =
  | "stale_epoch"
  | "stale_version"
  | "not_holder"
  | "transferring"
  | "trust_too_low"
  | "needs_confirmation"
  | "operation_conflict"
  | "illegal_transition"
  | "approval_closed"
  | "approval_mismatch"
  | "question_closed"
  | "too_large"
  | "rate_limited"
  | "workspace_busy"
  | "device_offline"
  | "no_capability"
  | "model_unavailable"
  | "not_found"
  | "unauthenticated"
  | "forbidden"
  | "cursor_too_old"
  | "shutting_down"
  | "unsupported_version"
  | "invalid"
  | "internal"
  | "storage_failed";
/**
 * What the hub sends over the WebSocket.
 */
export type HubFrame =
  | {
      device_id: DeviceId;
      heartbeat_s: number;
      hub: HubInfo;
      limits: Limits;
      name: string;
      trust: Trust;
      type: "welcome";
      user_id: UserId;
    }
  | (SessionView & {
      type: "view";
    })
  | (Change & {
      type: "change";
    })
  | {
      attempt: number;
      message_id: MessageId;
      offset: number;
      part: DeltaPart;
      session_id: SessionId;
      text: string;
      type: "delta";
    }
  | {
      attempt: number;
      call_id: CallId;
      session_id: SessionId;
      text: string;
      type: "progress";
    }
  | (Reply & {
      type: "ack";
    })
  | {
      arguments: unknown;
      call_id: CallId;
      fence: number;
      session_id: SessionId;
      tool: string;
      type: "prepare_call";
    }
  | (DispatchedCall & {
      type: "tool_call";
    })
  | {
      attempt: number;
      call_id: CallId;
      fence: number;
      session_id: SessionId;
      type: "cancel_call";
    }
  | {
      arguments: unknown;
      attempt: number;
      call_id: CallId;
      fence: number;
      session_id: SessionId;
      tool: string;
      type: "probe_call";
    }
  | {
      attempt: number;
      call_id: CallId;
      session_id: SessionId;
      type: "tool_result_ack";
    }
  | {
      calls: CallId[];
      question: QuestionToDevice;
      type: "show_changes";
    }
  | {
      /**
       * The whole that the part has to be of; without it, the file as it is now.
       */
      digest?: Digest | null;
      /**
       * Where the part begins, in bytes.
       */
      offset?: number;
      /**
       * Relative to the workspace, or below its absolute path.
       */
      path: string;
      question: QuestionToDevice;
      type: "show_file";
    }
  | {
      limit: number;
      query: string;
      question: QuestionToDevice;
      type: "find_paths";
    }
  | {
      brief: Brief;
      deadline: Timestamp;
      from: DeviceId;
      handoff_id: HandoffId;
      session_id: SessionId;
      summary: string;
      type: "handoff_offer";
    }
  | {
      reason: string;
      session_id: SessionId;
      type: "reset";
    }
  | {
      type: "changed";
      what: Changed;
    }
  | {
      error: ErrorBody;
      session_id?: SessionId | null;
      type: "error";
    }
  | {
      type: "heartbeat";
    }
  | {
      reason: string;
      retry_after_s: number;
      type: "bye";
    };
/**
 * One thing an end asks for, named by the end (D3, E1).
 */
export type OperationId = string;
export type ReplyStatus = "accepted" | "rejected" | "duplicate";
/**
 * A one-time link that pairs a device.
 */
export type InvitationId = string;
/**
 * How far a link has come.
 */
export type InvitationStanding = "open" | "asking" | "approved" | "refused";
/**
 * The answer to it. Only a link that the hub's own machine made lets in at once; any other one asks the device that made it.
 */
export type InvitationState =
  | {
      expires_at: Timestamp;
      number: string;
      pairing_id: PairingId;
      secret: string;
      state: "asking";
    }
  | (Credentials & {
      state: "approved";
    });
/**
 * A new device's request to be paired.
 */
export type PairingId = string;
/**
 * One request to the model, stable over its attempts.
 */
export type ModelCallId = string;
/**
 * Why the model is asked.
 */
export type ModelCause = "input" | "results" | "retry" | "recovered";
export type ModelErrorKind =
  "unreachable" | "timed_out" | "unauthorized" | "rate_limited" | "unavailable" | "refused" | "malformed" | "cancelled";
/**
 * One thing an end asks for (D3). The sender and its trust are those of the token's device, never of this envelope.
 */
export type Operation = {
  /**
   * The version of the entity that is written, as the end last saw it (H8).
   */
  base_version?: number | null;
  /**
   * May be given, and must then match the token's device.
   */
  client_type?: ClientType | null;
  /**
   * The same operation sent again after `needs_confirmation`.
   */
  confirmed?: boolean;
  /**
   * The session's epoch as the end believes it to be (H5).
   */
  epoch?: number | null;
  operation_id: OperationId;
  /**
   * May be given, and must then match the token's device.
   */
  sender_id?: DeviceId | null;
  sent_at?: Timestamp | null;
  /**
   * Absent for `new_session` only.
   */
  session_id?: SessionId | null;
  v: number;
} & (
  | {
      intent: "new_session";
      payload: {
        title?: string | null;
        workspace?: WorkspaceId | null;
      };
    }
  | {
      intent: "say";
      payload: {
        /**
         * Files that go with the message, uploaded before (D6).
         */
        attachments?: Attachment[];
        delivery?: Delivery;
        selection?: Selection | null;
        text: string;
      };
    }
  | {
      intent: "new_task";
      payload: {
        acceptance?: string[];
        description?: string;
        title: string;
      };
    }
  | {
      intent: "confirm";
      payload: {
        approval_id: ApprovalId;
        decision: Decision;
        /**
         * Why not, for the agent to read; with a rejection only.
         */
        reason?: string | null;
        /**
         * Makes a rule of an approval (E5).
         */
        remember?: Remember | null;
      };
    }
  | {
      intent: "answer";
      payload: {
        option?: string | null;
        question_id: QuestionId;
        text?: string | null;
      };
    }
  | {
      intent: "cancel";
      payload: {
        task_id?: TaskId | null;
      };
    }
  | {
      intent: "pause";
      payload: {
        task_id?: TaskId | null;
      };
    }
  | {
      intent: "resume";
      payload: {
        task_id?: TaskId | null;
      };
    }
  | {
      intent: "handoff";
      payload: {
        to_device: DeviceId;
      };
    }
  | {
      intent: "accept_handoff";
      payload: {
        handoff_id: HandoffId;
      };
    }
  | {
      intent: "decline_handoff";
      payload: {
        handoff_id: HandoffId;
      };
    }
  | {
      intent: "take_over";
      payload: {
        force?: boolean;
      };
    }
  | {
      intent: "release";
      payload: {};
    }
  | {
      intent: "set_note";
      payload: {
        key: string;
        value: string;
      };
    }
  | {
      intent: "forget";
      payload: {
        key: string;
      };
    }
  | {
      intent: "rename";
      payload: {
        title: string;
      };
    }
  | {
      intent: "pin";
      payload: {
        pinned: boolean;
      };
    }
  | {
      intent: "archive";
      payload: {
        archived: boolean;
      };
    }
  | {
      intent: "reset_context";
      payload: {};
    }
  | {
      intent: "undo_reset";
      payload: {};
    }
);
/**
 * `POST /v1/pairings/{pairing_id}/claim` with the secret: what became of the request. The token is in it once.
 */
export type PairingState =
  | {
      expires_at: Timestamp;
      state: "waiting";
    }
  | (Credentials & {
      state: "approved";
    });
/**
 * What settled, or moved on, a call with an unknown outcome (E3).
 */
export type Reconciliation =
  | {
      by: "still_running";
    }
  | {
      by: "not_happened";
    }
  | {
      by: "unclear";
      known: string;
    }
  | {
      by: "repeatable";
    }
  | {
      by: "human_says_happened";
      by_device: Sender;
    }
  | {
      by: "human_says_do_it";
      by_device: Sender;
    }
  | {
      by: "human_says_skip";
      by_device: Sender;
    }
  | {
      by: "late";
      known: string;
    };
/**
 * Which calls of the tool are meant.
 */
export type RulePattern =
  | {
      argument_digest: Digest;
      kind: "exact";
      /**
       * What the approval showed, by its beginning.
       */
      shown: string;
    }
  | {
      kind: "prefix";
      words: string[];
    };
/**
 * What happens in a session (O1).
 */
export type SessionEvent =
  | {
      data: {
        epoch: number;
        holder?: DeviceId | null;
        language: Language;
        title: string;
        user_id: UserId;
        workspace?: Workspace | null;
      };
      type: "session_created";
    }
  | {
      data: {
        device_id: DeviceId;
      };
      type: "session_imported";
    }
  | {
      data: {
        language: Language;
        title: string;
      };
      type: "session_titled";
    }
  | {
      data: {
        title: string;
      };
      type: "session_renamed";
    }
  | {
      data: {
        pinned: boolean;
      };
      type: "session_pinned";
    }
  | {
      data: {
        archived: boolean;
      };
      type: "session_archived";
    }
  | {
      data: {
        attachments?: Attachment[];
        message_id: MessageId;
        role: Role;
        selection?: Selection | null;
        sender?: Sender | null;
        task_id?: TaskId | null;
        text: string;
        turn_id?: TurnId | null;
      };
      type: "message_added";
    }
  | {
      data: {
        literal: boolean;
        message_id?: MessageId | null;
        task_id?: TaskId | null;
        turn_id: TurnId;
      };
      type: "turn_started";
    }
  | {
      data: {
        delivery: Delivery;
        goal?: string | null;
        message_id: MessageId;
        turn_id: TurnId;
      };
      type: "turn_input_queued";
    }
  | {
      data: {
        /**
         * Queued input begins the next turn at once.
         */
        for_input?: boolean;
        pause: boolean;
        reason: string;
        turn_id: TurnId;
      };
      type: "turn_stop_requested";
    }
  | {
      data: {
        reason: string;
        turn_id: TurnId;
      };
      type: "turn_finished";
    }
  | {
      data: {
        reason: string;
        turn_id: TurnId;
      };
      type: "turn_interrupted";
    }
  | {
      data: {
        reason: string;
        turn_id: TurnId;
      };
      type: "turn_failed";
    }
  | {
      data: {
        attempt: number;
        cause: ModelCause;
        iteration: number;
        message_id: MessageId;
        model_call_id: ModelCallId;
        read: MessageId[];
        turn_id: TurnId;
      };
      type: "model_started";
    }
  | {
      data: {
        attempt: number;
        error: ModelError;
        model_call_id: ModelCallId;
        retry_at?: Timestamp | null;
      };
      type: "model_failed";
    }
  | {
      data: {
        attempt: number;
        calls: CalledTool[];
        message_id: MessageId;
        model: string;
        model_call_id: ModelCallId;
        text: string;
        thinking: string;
        truncated: boolean;
        usage: Usage;
      };
      type: "model_finished";
    }
  | {
      data: {
        core_intent: CoreIntent;
        task_id: TaskId;
        title: string;
      };
      type: "task_created";
    }
  | {
      data: {
        core_intent: CoreIntent;
        task_id: TaskId;
      };
      type: "task_intent_revised";
    }
  | {
      data: {
        steps: PlanStep[];
        task_id: TaskId;
      };
      type: "task_planned";
    }
  | {
      data: {
        from: Phase;
        reason?: string | null;
        task_id: TaskId;
        to: Phase;
      };
      type: "task_phase_changed";
    }
  | {
      data: {
        line: string;
        progress: number;
        task_id: TaskId;
      };
      type: "task_progressed";
    }
  | {
      data: {
        day?: string | null;
        task_id?: TaskId | null;
      };
      type: "budget_extended";
    }
  | {
      data: {
        summary: string;
        task_id: TaskId;
      };
      type: "task_concluded";
    }
  | {
      data: {
        step_id: string;
        task_id: TaskId;
      };
      type: "step_started";
    }
  | {
      data: {
        conclusion: string;
        evidence?: string | null;
        product?: string | null;
        step_id: string;
        task_id: TaskId;
      };
      type: "step_finished";
    }
  | {
      data: {
        confidence?: number | null;
        fact_id: FactId;
        key: string;
        origins?: Origins;
        scope: FactScope;
        source: string;
        task_id?: TaskId | null;
        value: string;
      };
      type: "fact_recorded";
    }
  | {
      data: {
        fact_id: FactId;
      };
      type: "fact_forgotten";
    }
  | {
      data: {
        key: string;
        value: string;
      };
      type: "note_set";
    }
  | {
      data: {
        key: string;
      };
      type: "note_forgotten";
    }
  | {
      data: {};
      type: "context_reset";
    }
  | {
      data: {};
      type: "context_restored";
    }
  | {
      data: {
        arguments: unknown;
        call_id: CallId;
        origin: CallOrigin;
        step_id?: string | null;
        task_id?: TaskId | null;
        terms: CallTerms;
        tool: string;
        turn_id: TurnId;
      };
      type: "tool_proposed";
    }
  | {
      data: {
        call_id: CallId;
        prepared: Prepared;
      };
      type: "tool_prepared";
    }
  | {
      data: {
        attempt: number;
        call_id: CallId;
        /**
         * The journal that its device was known by then, into which it may be written from now on.
         */
        journal?: JournalId | null;
      };
      type: "tool_planned";
    }
  | {
      data: {
        attempt: number;
        call_id: CallId;
        device_id: DeviceId;
      };
      type: "tool_started";
    }
  | {
      data: {
        attempt: number;
        call_id: CallId;
        error: ToolError;
      };
      type: "tool_attempt_failed";
    }
  | {
      data: {
        attempt: number;
        call_id: CallId;
        cause: UnknownCause;
        known: string;
      };
      type: "tool_unknown";
    }
  | {
      data: {
        attempt: number;
        call_id: CallId;
        finding: Reconciliation;
      };
      type: "tool_reconciled";
    }
  | {
      data: {
        attempt: number;
        call_id: CallId;
        result: ToolResult;
      };
      type: "tool_succeeded";
    }
  | {
      data: {
        attempt: number;
        call_id: CallId;
        error: ToolError;
        result?: ToolResult | null;
      };
      type: "tool_failed";
    }
  | {
      data: {
        call_id: CallId;
        reason: string;
      };
      type: "tool_cancel_requested";
    }
  | {
      data: {
        call_id: CallId;
        reason: string;
        result?: ToolResult | null;
      };
      type: "tool_cancelled";
    }
  | {
      data: {
        approval_id: ApprovalId;
        binding: ApprovalBinding;
        call_id: CallId;
      };
      type: "approval_requested";
    }
  | {
      data: {
        approval_id: ApprovalId;
        by: Sender;
        decision: Decision;
      };
      type: "approval_decided";
    }
  | {
      data: {
        approval_id: ApprovalId;
        binding: ApprovalBinding;
        by: Sender;
        call_id: CallId;
        rule_id: RuleId;
      };
      type: "approval_granted";
    }
  | {
      data: {
        approval_id: ApprovalId;
        reason: string;
      };
      type: "approval_expired";
    }
  | {
      data: {
        approval_id: ApprovalId;
        reason: string;
      };
      type: "approval_voided";
    }
  | {
      data: {
        call_id: CallId;
        /**
         * Why the outcome is unknown, where that is the question.
         */
        cause?: UnknownCause | null;
        kind: QuestionKind;
        known?: string | null;
        options: string[];
        question_id: QuestionId;
        task_id?: TaskId | null;
        text: string;
      };
      type: "question_asked";
    }
  | {
      data: {
        answer: string;
        by: Sender;
        question_id: QuestionId;
      };
      type: "question_answered";
    }
  | {
      data: {
        question_id: QuestionId;
        reason: string;
      };
      type: "question_voided";
    }
  | {
      data: {
        deadline: Timestamp;
        from: DeviceId;
        handoff_id: HandoffId;
        to: DeviceId;
      };
      type: "handoff_offered";
    }
  | {
      data: {
        epoch: number;
        from: DeviceId;
        handoff_id: HandoffId;
        to: DeviceId;
      };
      type: "handoff_accepted";
    }
  | {
      data: {
        handoff_id: HandoffId;
      };
      type: "handoff_declined";
    }
  | {
      data: {
        handoff_id: HandoffId;
      };
      type: "handoff_expired";
    }
  | {
      data: {
        epoch: number;
        forced: boolean;
        from?: DeviceId | null;
        to: DeviceId;
      };
      type: "handoff_taken_over";
    }
  | {
      data: {
        epoch: number;
        from: DeviceId;
      };
      type: "handoff_released";
    }
  | {
      data: {
        baseline: Baseline;
        changed?: string | null;
      };
      type: "workspace_seen";
    }
  | {
      data: {
        behind: SessionId;
        title: string;
        turn_id: TurnId;
      };
      type: "workspace_waited";
    }
  | {
      data: {
        turn_id: TurnId;
      };
      type: "workspace_granted";
    }
  | {
      data: {
        found: string[];
        in_a_row?: number;
        incarnation: number;
      };
      type: "recovered";
    }
  | {
      data: {
        incarnation: number;
      };
      type: "driver_released";
    }
  | {
      data: {
        code: ErrorCode;
        device_id: DeviceId;
        intent: string;
      };
      type: "conflict_refused";
    };

/**
 * What an approval is for, word for word (E5, S17).
 */
export interface ApprovalBinding {
  argument_digest: Digest;
  device_id?: DeviceId | null;
  directory?: string | null;
  /**
   * Recorded, not compared: a switch doesn't void an approval.
   */
  epoch: number;
  file_digests: {
    [k: string]: Digest | null;
  };
  origins?: Origins;
  preview: string;
  risk: Risk;
  risk_reason: string;
  /**
   * The same sentence by sentence, each with a code. Empty where the device gave words only.
   */
  risk_said?: Said[];
  task_id?: TaskId | null;
  tool: string;
  turn_id: TurnId;
}
/**
 * What the agent had read, besides the user's own words, before it came to something (S21). Whatever it read may have led to it.
 */
export interface Origins {
  /**
   * Whether it had read such things for other tasks before, and may still have them in mind.
   */
  earlier?: boolean;
  /**
   * How much more it was.
   */
  more?: number;
  /**
   * For the same task, the latest last; of much the latest.
   */
  read?: Origin[];
}
/**
 * One thing that was read.
 */
export interface Origin {
  kind: OriginKind;
  /**
   * The path, the command line, the attachment's or the tool's name; shortened where it is long.
   */
  name: string;
}
/**
 * A sentence of the hub's or a device's, with a code and what it names, so that each end can say it in its user's language. `text` says
 * the same for ends that don't know the code.
 */
export interface Said {
  /**
   * Stable, such as `runs_program`; docs/protocol.md lists them. Families have a dot: `acts_later.git`.
   */
  code: string;
  params?: {
    [k: string]: string;
  };
  text: string;
}
export interface ApprovalEntity {
  arguments: unknown;
  at: Timestamp;
  binding: ApprovalBinding;
  call_id: CallId;
  created_seq: number;
  decided_at?: Timestamp | null;
  decided_by?: Sender | null;
  id: ApprovalId;
  /**
   * Why nothing of it may be remembered, or not how the command begins.
   */
  not_remembered?: Said | null;
  /**
   * Why it was voided.
   */
  reason?: string | null;
  /**
   * What of it may be remembered, as long as it is open: each choice is what `confirm` takes as `remember`.
   */
  remember?: RememberChoice[];
  /**
   * The rule that answered in that device's name.
   */
  rule_id?: RuleId | null;
  state: ApprovalState;
  version: number;
  /**
   * The workspace changed since it was asked; set on the card.
   */
  workspace_changed?: boolean;
}
/**
 * A device as it was when it acted: names may change, the record of who did it may not.
 */
export interface Sender {
  client_type: ClientType;
  device_id: DeviceId;
  name: string;
}
/**
 * One way in which an open approval may be remembered: `scope` and `prefix_words` are what [`Remember`] takes.
 */
export interface RememberChoice {
  /**
   * These first words, to be shown. Empty where the very same call is meant.
   */
  prefix?: string[];
  prefix_words?: number | null;
  scope: RememberScope;
}
/**
 * What asks to be let in by a link, shown to the device that made it.
 */
export interface Asking {
  client_type: ClientType;
  /**
   * The address it asks from, as far as the hub can see.
   */
  from: string;
  name: string;
  /**
   * The new device has to show the same.
   */
  number: string;
}
/**
 * A file that goes with a message (D6). Its bytes are a blob of the user's, uploaded before.
 */
export interface Attachment {
  /**
   * Its size. The hub sets it from the blob, whatever an end wrote.
   */
  bytes?: number;
  digest: Digest;
  /**
   * Such as `text/plain` or `image/png`. The hub looks at the bytes before it shows a model an image.
   */
  media_type: string;
  /**
   * What it is called, for people and for the agent; no path.
   */
  name: string;
}
/**
 * What a workspace looked like at a moment: the commit, if any, and a digest of uncommitted changes.
 */
export interface Baseline {
  branch?: string | null;
  commit?: string | null;
  /**
   * Digest of uncommitted changes, `None` when there are none (or, without git, of the whole tree's listing).
   */
  dirty?: Digest | null;
  /**
   * Absolute path on the device.
   */
  path: string;
}
/**
 * Where the work stands, for an agent or a person who takes it up (H4). By template, at most 2 KiB, in the conversation's language.
 */
export interface Brief {
  completed_steps: string[];
  constraints: string[];
  /**
   * What was put off, by title.
   */
  deferred: string[];
  goal: string;
  next_step?: string | null;
  /**
   * The same as one text.
   */
  text: string;
  waiting_on?: WaitingOn | null;
  workspace?: Baseline | null;
}
export interface CallEntity {
  approval_id?: ApprovalId | null;
  arguments: unknown;
  at: Timestamp;
  attempt: number;
  created_seq: number;
  device_id?: DeviceId | null;
  effect: Effect;
  ended_at?: Timestamp | null;
  error?: ToolError | null;
  id: CallId;
  origin: CallOrigin;
  question_id?: QuestionId | null;
  /**
   * Why it was cancelled.
   */
  reason?: string | null;
  result?: ToolResult | null;
  risk: Risk;
  started_at?: Timestamp | null;
  state: CallState;
  step_id?: string | null;
  task_id?: TaskId | null;
  tool: string;
  turn_id: TurnId;
  /**
   * Why its outcome is unknown.
   */
  unknown?: UnknownCause | null;
  version: number;
}
/**
 * Why a call failed, in words for the model and for people.
 */
export interface ToolError {
  /**
   * Stable, such as `outside_workspace`, `changed_since_read`, `no_match`, `timed_out`.
   */
  code: string;
  /**
   * What to do.
   */
  hint: string;
  /**
   * What happened.
   */
  message: string;
  state_modified?: StateModified;
}
/**
 * What a call produced.
 */
export interface ToolResult {
  /**
   * The workspace after the call.
   */
  baseline?: Baseline | null;
  /**
   * Bytes produced in all.
   */
  bytes: number;
  /**
   * Files that the call changed.
   */
  changes?: FileChange[];
  /**
   * What the model and people read, at most [`crate::MAX_RESULT_BYTES`]; head and tail where more was produced (E9).
   */
  content: string;
  /**
   * Digest of everything that was produced, where something was left out.
   */
  digest?: Digest | null;
  /**
   * What the call changed, or may have changed, without a record, and why (E7).
   */
  not_recorded?: NotRecorded[];
  /**
   * Bytes left out between head and tail.
   */
  omitted?: number;
  /**
   * The outside system's own name for what was done.
   */
  outside_id?: string | null;
}
/**
 * One file before and after a call.
 */
export interface FileChange {
  /**
   * Lines added and removed, where it is text.
   */
  added?: number;
  /**
   * `None`: it was deleted.
   */
  after?: Digest | null;
  /**
   * `None`: it didn't exist.
   */
  before?: Digest | null;
  /**
   * Relative to the workspace, with `/`.
   */
  path: string;
  removed?: number;
}
/**
 * Something that changed, or may have changed, without a record.
 */
export interface NotRecorded {
  /**
   * Relative to the workspace, as in [`FileDiff`].
   */
  path: string;
  /**
   * Why, in words.
   */
  reason: string;
}
/**
 * The terms under which a call runs, fixed when it is proposed.
 */
export interface CallTerms {
  /**
   * `None`: the hub itself.
   */
  device_id?: DeviceId | null;
  effect: Effect;
  lasting: boolean;
  lookup: boolean;
  prepare: boolean;
  risk: Risk;
  timeout_s: number;
}
/**
 * A call as the model made it, in the order in which its result must follow (E4).
 */
export interface CalledTool {
  /**
   * As written by the model, for its own dialogue.
   */
  arguments: string;
  call_id: CallId;
  tool: string;
}
/**
 * What a device can do at the moment (H11). Unknown features and inputs are kept as they are.
 */
export interface Capabilities {
  features?: string[];
  inputs?: string[];
  /**
   * A language tag the end prefers, such as `zh-CN`.
   */
  language?: string | null;
  /**
   * Width and height in CSS pixels or character cells.
   *
   * @minItems 2
   * @maxItems 2
   */
  screen?: [number, number] | null;
}
/**
 * One change of a session, as it is stored and sent (D4): the event, and the entities it touched.
 */
export interface Change {
  event: Event;
  seq: number;
  session_id: SessionId;
  upserts: EntityView[];
}
export interface Event {
  actor: Actor;
  at: Timestamp;
  data: {
    [k: string]: unknown;
  };
  lane?: Lane;
  operation_id?: string | null;
  type: string;
  v: number;
}
export interface SessionEntity {
  /**
   * The task that input goes to.
   */
  active_task?: TaskId | null;
  activity: Activity;
  /**
   * Out of the list of sessions. Speaking in it brings it back.
   */
  archived?: boolean;
  /**
   * The event at which the agent's context was reset: it doesn't see what stands before (D7). `undo_reset` takes the latest reset back.
   */
  context_from?: number | null;
  /**
   * Tokens of the last request to the model with its answer. Beside `context_tokens` of `GET /v1/hub` it says how full the model's window is.
   */
  context_tokens?: number;
  created_at: Timestamp;
  epoch: number;
  /**
   * The device that holds the session (H5); everybody else follows live.
   */
  holder?: DeviceId | null;
  id: SessionId;
  language: Language;
  /**
   * The user keeps it at the top of lists.
   */
  pinned?: boolean;
  /**
   * Messages that begin a turn of their own once the one under way has ended (T10).
   */
  queued?: MessageId[];
  state: WorkState;
  title: string;
  /**
   * The open offer to another device.
   */
  transfer?: HandoffId | null;
  updated_at: Timestamp;
  version: number;
  /**
   * Approvals and questions that wait for the user.
   */
  waiting: number;
  workspace_id?: WorkspaceId | null;
}
export interface TaskEntity {
  core_intent: CoreIntent;
  created_at: Timestamp;
  current_step?: string | null;
  id: TaskId;
  last_error?: string | null;
  /**
   * What is happening, in words, in the conversation's language.
   */
  line: string;
  phase: Phase;
  /**
   * 0 to 100.
   */
  progress: number;
  state: WorkState;
  steps?: StepView[];
  summary?: string | null;
  title: string;
  updated_at: Timestamp;
  usage?: Usage;
  version: number;
  waiting_on?: WaitingOn | null;
}
/**
 * What the user wants, kept apart from how it is done (T2, T6).
 */
export interface CoreIntent {
  acceptance?: string[];
  constraints?: string[];
  goal: string;
  /**
   * Who set this version.
   */
  source: string;
  /**
   * From 1.
   */
  version: number;
}
export interface StepView {
  conclusion?: string | null;
  depends_on?: string[];
  evidence?: string | null;
  product?: string | null;
  status: StepStatus;
  step_id: string;
  title: string;
}
/**
 * Tokens of one model call, as the provider counted them (R3).
 */
export interface Usage {
  /**
   * How many of these the provider had kept from an earlier request, which costs less.
   */
  cached_input_tokens?: number;
  /**
   * All that the model read, whether the provider kept it from before or not.
   */
  input_tokens: number;
  output_tokens: number;
}
export interface TurnEntity {
  /**
   * The answer under way, to which `delta` frames belong.
   */
  answering?: MessageId | null;
  created_seq: number;
  ended_at?: Timestamp | null;
  id: TurnId;
  /**
   * Model calls made in it (R4).
   */
  iterations: number;
  reason?: string | null;
  started_at: Timestamp;
  state: TurnState;
  task_id?: TaskId | null;
  /**
   * Messages that the model reads at its next step (T10); ends mark them.
   */
  unread?: MessageId[];
  version: number;
}
export interface MessageEntity {
  at: Timestamp;
  attachments?: Attachment[];
  created_seq: number;
  id: MessageId;
  role: Role;
  selection?: Selection | null;
  sender?: Sender | null;
  task_id?: TaskId | null;
  text: string;
  thinking?: string | null;
  turn_id?: TurnId | null;
  version: number;
}
/**
 * Text that was selected in an editor when the user spoke.
 */
export interface Selection {
  path: string;
  /**
   * First and last line, from 1.
   *
   * @minItems 2
   * @maxItems 2
   */
  range: [number, number];
  text: string;
}
export interface QuestionEntity {
  answer?: string | null;
  answered_by?: Sender | null;
  at: Timestamp;
  call_id: CallId;
  /**
   * Why the outcome is unknown, for a question about one.
   */
  cause?: UnknownCause | null;
  created_seq: number;
  id: QuestionId;
  /**
   * What is known, in words.
   */
  known?: string | null;
  /**
   * For a question about an outcome: `happened`, `do_it`, `skip`.
   */
  options: string[];
  question_kind: QuestionKind;
  reason?: string | null;
  state: QuestionState;
  task_id?: TaskId | null;
  text: string;
  version: number;
}
export interface FactEntity {
  at: Timestamp;
  confidence?: number | null;
  id: FactId;
  key: string;
  origins?: Origins;
  scope: FactScope;
  source: string;
  task_id?: TaskId | null;
  /**
   * `false` once it was replaced or forgotten.
   */
  valid: boolean;
  value: string;
  version: number;
}
export interface NoteEntity {
  /**
   * The note's key.
   */
  id: string;
  /**
   * `None` once it was forgotten.
   */
  value?: string | null;
  version: number;
}
export interface HandoffEntity {
  deadline: Timestamp;
  from: DeviceId;
  id: HandoffId;
  state: HandoffState;
  to: DeviceId;
  version: number;
}
export interface WorkspaceEntity {
  baseline: Baseline;
  device_id?: DeviceId | null;
  id: WorkspaceId;
  name: string;
  version: number;
}
/**
 * A call as a device's journal knows it, told when the device connects.
 */
export interface RunningCall {
  attempt: number;
  call_id: CallId;
  session_id: SessionId;
  state: RunningState;
}
/**
 * A tool that a device offers (R2). Checked at registration: see [`ToolSpec::problem`].
 */
export interface ToolSpec {
  /**
   * What it does, when to use it, and its limits; read by the model.
   */
  description: string;
  effect: Effect;
  /**
   * Reaches beyond the workspace with a lasting effect, so that a switch of device in mid-call needs confirmation (H6).
   */
  lasting?: boolean;
  /**
   * The device can find out whether a call with an unknown outcome happened (E3).
   */
  lookup?: boolean;
  /**
   * Verb first, `snake_case`, at most 64 characters, such as `edit_file`.
   */
  name: string;
  /**
   * A JSON Schema of an object.
   */
  parameters: {
    [k: string]: unknown;
  };
  /**
   * Ask the device for digests, risk and a preview before deciding (E5).
   */
  prepare?: boolean;
  risk: Risk;
  /**
   * Seconds until the device gives up, 1 to 3600.
   */
  timeout_s: number;
}
/**
 * A directory of the user's on one device (E7). Which directory is meant is decided by its device alone.
 */
export interface Workspace {
  baseline: Baseline;
  /**
   * The device that holds it; filled in by the hub from the connection, never from the device's word.
   */
  device_id?: DeviceId | null;
  /**
   * The last part of the path, for people.
   */
  name: string;
  /**
   * Whether commands run in a sandbox here, and in which.
   */
  sandbox?: string | null;
  workspace_id: WorkspaceId;
}
/**
 * What a device found out about a call before it is decided on (E5).
 */
export interface Prepared {
  /**
   * Digest of each file that the arguments name; `None` where there is no such file.
   */
  digests?: {
    [k: string]: Digest | null;
  };
  /**
   * The directory it acts in, as the device names it.
   */
  directory?: string | null;
  /**
   * What will happen, whole: the command line, or a diff. At most 32 KiB; a longer one is refused, never cut (S19).
   */
  preview: string;
  /**
   * Set when the device refuses the call outright; it then fails with this and nobody is asked.
   */
  refusal?: ToolError | null;
  risk: Risk;
  /**
   * Why, in words for the card.
   */
  risk_reason: string;
  /**
   * The same sentence by sentence, where the device says it so.
   */
  risk_said?: Said[];
}
/**
 * What a device's history knows of some calls. Their own changes only: what the user changed in between isn't in it.
 */
export interface RecordedChanges {
  files: FileDiff[];
  /**
   * Changed files that aren't in `files`, since there were too many for one answer.
   */
  files_left_out?: number;
  /**
   * What the calls changed, or may have changed, without a record. It can't be shown or undone.
   */
  not_recorded?: NotRecorded[];
  not_recorded_left_out?: number;
  /**
   * Calls whose changes were taken back. They aren't in `files`.
   */
  undone?: CallId[];
}
/**
 * One file before and after the calls.
 */
export interface FileDiff {
  /**
   * Lines added and removed in all, also where the diff is cut.
   */
  added?: number;
  /**
   * It isn't text, so there is no diff.
   */
  binary?: boolean;
  /**
   * The calls that changed it, in order.
   */
  calls: CallId[];
  /**
   * It is no longer as these calls left it: the user or a later call changed it.
   */
  changed_since?: boolean;
  /**
   * A unified diff with three lines of context. Characters that deceive are written as `⟨U+NNNN⟩`, a carriage return at the end of a
   * line as `\r`, bytes that are not UTF-8 as `\xNN`. Long lines are cut, with a count of what is missing.
   */
  diff?: string;
  /**
   * Lines of the diff that are left out at its end.
   */
  lines_left_out?: number;
  /**
   * Permission bits before and after, such as 420 for `rw-r--r--`, where they were changed.
   *
   * @minItems 2
   * @maxItems 2
   */
  modes?: [number, number] | null;
  /**
   * What else is to be known, in words.
   */
  note?: string | null;
  /**
   * Its name before, where it was renamed.
   */
  old_path?: string | null;
  /**
   * Relative to the workspace. Bytes that are not UTF-8 are written as `\xNN`.
   */
  path: string;
  removed?: number;
  status: FileStatus;
  /**
   * The steps of the plan that these calls belong to.
   */
  steps?: string[];
  /**
   * It is too large for a diff.
   */
  too_large?: boolean;
}
/**
 * A part of a file of the workspace. What is plainly a secret in a text is replaced by a note, as in results of tools.
 */
export interface FilePart {
  /**
   * Of the whole as it is shown.
   */
  bytes: number;
  /**
   * In base64.
   */
  content: string;
  digest: Digest;
  /**
   * Where the part begins, in bytes.
   */
  offset: number;
}
/**
 * `GET /v1/sessions/{id}/paths`, and a device's answer to it: files and directories of the workspace whose names fit, the best first.
 */
export interface FoundPaths {
  /**
   * Why not every name was looked at, where that is so.
   */
  cut?: string | null;
  /**
   * Names that were looked at.
   */
  listed?: number;
  /**
   * Whether more fit than are named.
   */
  more?: boolean;
  paths: FoundPath[];
}
/**
 * A file or a directory of the workspace.
 */
export interface FoundPath {
  directory?: boolean;
  /**
   * As tools take it: relative to the workspace; bytes that are not UTF-8 are characters of a private range.
   */
  path: string;
  /**
   * As people are shown it, where that differs: such bytes as `\xNN`, characters that deceive as `⟨U+NNNN⟩`.
   */
  shown?: string | null;
}
/**
 * What a newly paired device is given.
 */
export interface Credentials {
  device_id: DeviceId;
  name: string;
  /**
   * Shown once. Empty for a browser, which gets it as a cookie that its scripts can't read.
   */
  token?: string;
  trust: Trust;
  user_id: UserId;
}
/**
 * Tokens used on one day (R3), which is counted in UTC.
 */
export interface DayUsage {
  /**
   * What it cost at the price that is configured now, in its currency; in `GET /v1/usage` only.
   */
  cost?: number | null;
  /**
   * Such as `2026-11-30`.
   */
  day: string;
  usage: Usage;
}
/**
 * `PATCH /v1/devices/{id}`.
 */
export interface DevicePatch {
  name?: string | null;
  trust?: Trust | null;
}
/**
 * `GET /v1/devices`: a device as its user sees it.
 */
export interface DeviceView {
  client_type: ClientType;
  device_id: DeviceId;
  /**
   * Its last sign of life: since when it is away, if it isn't online. `None` when it was never heard since it was paired.
   */
  last_seen_at?: Timestamp | null;
  name: string;
  online: boolean;
  /**
   * Whether this is the device that asks.
   */
  own?: boolean;
  paired_at: Timestamp;
  revoked_at?: Timestamp | null;
  tools?: string[];
  trust: Trust;
  workspaces?: Workspace[];
}
/**
 * A call as it is handed to a device.
 */
export interface DispatchedCall {
  arguments: unknown;
  attempt: number;
  call_id: CallId;
  /**
   * Digests that were approved; the device runs the call only if they still hold (S17).
   */
  digests?: {
    [k: string]: Digest | null;
  };
  /**
   * The hub's incarnation; a device refuses one that is older than the newest it has seen.
   */
  fence: number;
  lease_s: number;
  session_id: SessionId;
  tool: string;
}
/**
 * What went wrong, in a code for programs and two sentences for people.
 */
export interface ErrorBody {
  code: ErrorCode;
  /**
   * What to do.
   */
  hint: string;
  /**
   * What happened.
   */
  message: string;
}
/**
 * The last line of an exported session; without it the file is cut short.
 */
export interface ExportEnd {
  digest: Digest;
  events: number;
}
/**
 * The first line of an exported session.
 */
export interface ExportHead {
  /**
   * The format, under a name that tells what the file is.
   */
  baton_session: number;
  /**
   * How many events follow.
   */
  events: number;
  exported_at: Timestamp;
  session_id: SessionId;
  /**
   * For whoever looks into the file; an import takes the title from the events.
   */
  title: string;
  /**
   * The Baton that wrote it.
   */
  version: string;
}
/**
 * `GET /v1/sessions/{id}/history`: older messages and calls, oldest first (H3).
 */
export interface History {
  before?: number | null;
  entries: EntityView[];
}
/**
 * What an end should know of the hub it talks to.
 */
export interface HubInfo {
  commands: SlashCommand[];
  /**
   * Tokens that the model's window holds, where that is configured.
   */
  context_tokens?: number | null;
  incarnation: number;
  /**
   * The model's name, or `None` when none is configured: every end says so, and slash commands still work (R7).
   */
  model?: string | null;
  version: string;
}
/**
 * A command that works without a model; the same list on every end.
 */
export interface SlashCommand {
  description: string;
  /**
   * With its slash, such as `/show`.
   */
  name: string;
  usage: string;
}
/**
 * Limits that a client should know before it runs into them.
 */
export interface Limits {
  max_frame_bytes: number;
  max_text_bytes: number;
}
/**
 * A session at one moment: its entities and recent timeline at `seq` (D4). What follows is every change after `seq`.
 */
export interface SessionView {
  entities: EntityView[];
  /**
   * Where the timeline goes on backwards: pass it to `history?before=`. `None` at the beginning.
   */
  history_before?: number | null;
  seq: number;
  session_id: SessionId;
}
/**
 * What became of an operation.
 */
export interface Reply {
  epoch?: number;
  error?: ErrorBody | null;
  operation_id: OperationId;
  session_id?: SessionId | null;
  status: ReplyStatus;
  task_id?: TaskId | null;
  turn_id?: TurnId | null;
  /**
   * The session's last sequence number after it.
   */
  version?: number;
}
/**
 * The link's secret, shown once.
 */
export interface Invitation {
  expires_at: Timestamp;
  invitation_id: InvitationId;
  secret: string;
  url: string;
}
/**
 * `POST /v1/invitations/{id}/approve`, by the device that made the link.
 */
export interface InvitationApproval {
  /**
   * The number that the new device shows: whoever approves has looked at it.
   */
  number: string;
}
/**
 * `POST /v1/invitations/claim`: whoever opened the link names itself.
 */
export interface InvitationClaim {
  capabilities?: Capabilities;
  client_type: ClientType;
  cookie?: boolean;
  name: string;
  secret: string;
}
/**
 * `POST /v1/invitations`: a trusted device makes a one-time link.
 */
export interface InvitationRequest {
  trust: Trust;
}
/**
 * `GET /v1/invitations`: a link that the asking device made, until it expires.
 */
export interface InvitationView {
  /**
   * Whoever opened the link first; nobody else can.
   */
  asking?: Asking | null;
  expires_at: Timestamp;
  invitation_id: InvitationId;
  /**
   * How often the link was tried after it was taken. Somebody else knows it.
   */
  others?: number;
  standing: InvitationStanding;
  trust: Trust;
}
/**
 * What the long-term memory was when the snapshot was taken; version 0 while there is none (R6).
 */
export interface MemoryRef {
  refs: string[];
  version: number;
}
/**
 * How a model call failed, with what to do about it.
 */
export interface ModelError {
  /**
   * What to do.
   */
  hint: string;
  kind: ModelErrorKind;
  /**
   * What happened, without the key and without the whole body.
   */
  message: string;
  /**
   * The provider asked to wait this long, in milliseconds.
   */
  retry_after_ms?: number | null;
}
export interface Omitted {
  count: number;
  /**
   * Where the whole is to be had.
   */
  ref: string;
}
/**
 * What is to be remembered of an approval.
 */
export interface Remember {
  /**
   * The first words of the command that later ones have to begin with; without it the very same call is meant.
   */
  prefix_words?: number | null;
  scope: RememberScope;
}
/**
 * `POST /v1/pairings/{code}/approve`.
 */
export interface PairingApproval {
  /**
   * The number that the new device shows: whoever approves has looked at it.
   */
  number: string;
  trust: Trust;
}
/**
 * `POST /v1/pairings/{pairing_id}/claim`.
 */
export interface PairingClaim {
  /**
   * Set the token as a cookie and leave it out of the body (browsers).
   */
  cookie?: boolean;
  secret: string;
}
/**
 * `GET /v1/pairings/{code}` by a trusted device: what asks, shown before it is approved (S4).
 */
export interface PairingPreview {
  client_type: ClientType;
  code: string;
  expires_at: Timestamp;
  /**
   * The address it asks from, as far as the hub can see.
   */
  from?: string;
  name: string;
  /**
   * The new device has to show the same.
   */
  number?: string;
}
/**
 * `POST /v1/pairings`: a new device asks to be paired.
 */
export interface PairingRequest {
  capabilities?: Capabilities;
  client_type: ClientType;
  name: string;
}
/**
 * The hub's answer to it. `secret` is for the new device alone; `code` is read to the approving one.
 */
export interface PairingStarted {
  /**
   * Eight characters of an alphabet without look-alikes, shown as `ABCD-EFGH`.
   */
  code: string;
  expires_at: Timestamp;
  /**
   * Shown on both screens, for a person to compare: [`pairing_number`].
   */
  number?: string;
  pairing_id: PairingId;
  secret: string;
}
export interface PlanStep {
  depends_on?: string[];
  step_id: string;
  title: string;
}
/**
 * What a million tokens cost.
 */
export interface Price {
  /**
   * Of those that the provider had kept from an earlier request.
   */
  cached_input: number;
  /**
   * As it is written, such as `USD` or `¥`.
   */
  currency: string;
  input: number;
  output: number;
}
/**
 * RFC 9457 problem details.
 */
export interface Problem {
  code: ErrorCode;
  detail: string;
  hint: string;
  instance: string;
  status: number;
  title: string;
  type: string;
}
/**
 * A remembered approval (E5): calls of one tool on one device that are allowed without asking again, in the name of whoever granted it.
 * It dies with its granter's trust, and never covers what is dangerous.
 */
export interface Rule {
  device_id: DeviceId;
  /**
   * The directory they run in.
   */
  directory?: string | null;
  granted_at: Timestamp;
  granted_by: Sender;
  max_risk: Risk;
  /**
   * For this task of this session alone; else for every session of the user's.
   */
  only?: RuleScope | null;
  pattern: RulePattern;
  /**
   * Why the device called it risky. With another reason, calls are asked about.
   */
  risk_reason?: string;
  rule_id: RuleId;
  tool: string;
}
export interface RuleScope {
  session_id: SessionId;
  task_id: TaskId;
}
/**
 * A message that was found.
 */
export interface SearchHit {
  /**
   * The session is out of the list.
   */
  archived?: boolean;
  at: Timestamp;
  /**
   * A piece of the message around the first match.
   */
  excerpt: string;
  /**
   * Where the words stand in the excerpt: begin and end of each, counted in characters (Unicode scalar values), in order.
   */
  matches: [number, number][];
  message_id: MessageId;
  role: Role;
  /**
   * Its place in the session's timeline: `history?before=` one more leads to it.
   */
  seq: number;
  session_id: SessionId;
  /**
   * The session's.
   */
  title: string;
}
/**
 * `GET /v1/search?q=&limit=`: messages in which all of the words stand, the newest first.
 */
export interface SearchResults {
  /**
   * `false` while older messages are still being read for the first time: some may be missing.
   */
  complete: boolean;
  hits: SearchHit[];
}
/**
 * `GET /v1/sessions?archived=&waiting=&pinned=`: which sessions are listed. Those that are archived are a list of their own.
 */
export interface SessionFilter {
  archived?: boolean;
  pinned?: boolean;
  /**
   * Only those in which something waits for the user.
   */
  waiting?: boolean;
}
/**
 * `POST /v1/sessions/import`: a file that was uploaded before becomes a session of the user's.
 */
export interface SessionImport {
  blob: Digest;
  operation_id: OperationId;
}
export interface SessionList {
  /**
   * Pass it as `?before=` for the next page.
   */
  next?: string | null;
  sessions: SessionSummary[];
  /**
   * Approvals and questions that wait for the user, in all sessions.
   */
  waiting_total?: number;
}
/**
 * `GET /v1/sessions`: one line of the list.
 */
export interface SessionSummary {
  activity: Activity;
  archived?: boolean;
  epoch: number;
  holder?: DeviceId | null;
  language: Language;
  /**
   * The active task's line and progress.
   */
  line: string;
  pinned?: boolean;
  progress: number;
  seq: number;
  session_id: SessionId;
  state: WorkState;
  task_id?: TaskId | null;
  title: string;
  updated_at: Timestamp;
  /**
   * Tokens used on each of the last days, the newest last.
   */
  usage?: DayUsage[];
  waiting: number;
  workspace_id?: WorkspaceId | null;
}
/**
 * The whole running state of a session, at most 32 KiB however long its history is (H2).
 */
export interface Snapshot {
  brief: Brief;
  /**
   * Who held the session before, where it moved.
   */
  device_from?: DeviceId | null;
  device_to?: DeviceId | null;
  epoch: number;
  holder?: DeviceId | null;
  /**
   * What was left out of a section, and where the whole is.
   */
  omitted?: {
    [k: string]: Omitted;
  };
  saved_at: Timestamp;
  session_id: SessionId;
  state: SnapshotState;
  user_id: UserId;
  /**
   * The session's last sequence number.
   */
  version: number;
}
export interface SnapshotState {
  approvals: EntityView[];
  capabilities: Capabilities;
  /**
   * The latest messages, oldest first.
   */
  dialogue_history: EntityView[];
  facts: EntityView[];
  memory: MemoryRef;
  questions: EntityView[];
  short_term_memory: {
    [k: string]: string;
  };
  skill_state: {
    [k: string]: unknown;
  };
  /**
   * Open tasks, the active one last.
   */
  task_stack: TaskId[];
  tasks: {
    [k: string]: SnapshotTask;
  };
  /**
   * Calls in flight.
   */
  tool_state: EntityView[];
  workspace?: Baseline | null;
}
export interface SnapshotTask {
  core_intent: CoreIntent;
  phase: Phase;
  task_progress: TaskProgress;
  title: string;
}
export interface TaskProgress {
  completed_steps: StepView[];
  current_step?: string | null;
  line: string;
  percent: number;
  remaining_steps: StepView[];
}
/**
 * `GET /v1/usage`: tokens by day over all sessions, the newest last, beside the budgets that hold.
 */
export interface UsageReport {
  /**
   * Tokens of one day after which work pauses until the user confirms it.
   */
  day_budget?: number | null;
  days: DayUsage[];
  /**
   * The price at which `cost` of the days is reckoned, where one is configured.
   */
  price?: Price | null;
  /**
   * Tokens after which a task pauses; resuming gives it as many again.
   */
  task_budget?: number | null;
}
/**
 * `GET /v1/sessions/{id}/diff`: what the agent changed in the workspace, in one task, step or call (E7).
 */
export interface WorkspaceDiff {
  call_id?: CallId | null;
  /**
   * Calls that were looked at: those which could have changed something.
   */
  calls: number;
  device_id: DeviceId;
  files: FileDiff[];
  /**
   * Changed files that aren't in `files`, since there were too many for one answer.
   */
  files_left_out?: number;
  /**
   * What the calls changed, or may have changed, without a record. It can't be shown or undone.
   */
  not_recorded?: NotRecorded[];
  not_recorded_left_out?: number;
  session_id: SessionId;
  step_id?: string | null;
  /**
   * `None`: what was asked for word by word, outside of any task; or a single call.
   */
  task_id?: TaskId | null;
  /**
   * Calls whose changes were taken back. They aren't in `files`.
   */
  undone?: CallId[];
}

/** The event types that this version knows; others are shown neutrally. */
export const SESSION_EVENT_TYPES: readonly string[] = ["session_created","session_imported","session_titled","session_renamed","session_pinned","session_archived","message_added","turn_started","turn_input_queued","turn_stop_requested","turn_finished","turn_interrupted","turn_failed","model_started","model_failed","model_finished","task_created","task_intent_revised","task_planned","task_phase_changed","task_progressed","budget_extended","task_concluded","step_started","step_finished","fact_recorded","fact_forgotten","note_set","note_forgotten","context_reset","context_restored","tool_proposed","tool_prepared","tool_planned","tool_started","tool_attempt_failed","tool_unknown","tool_reconciled","tool_succeeded","tool_failed","tool_cancel_requested","tool_cancelled","approval_requested","approval_decided","approval_granted","approval_expired","approval_voided","question_asked","question_answered","question_voided","handoff_offered","handoff_accepted","handoff_declined","handoff_expired","handoff_taken_over","handoff_released","workspace_seen","workspace_waited","workspace_granted","recovered","driver_released","conflict_refused"];
/** The kinds of entity that this version knows. */
export const ENTITY_KINDS: readonly string[] = ["session","task","turn","message","call","approval","question","fact","note","handoff","workspace"];
