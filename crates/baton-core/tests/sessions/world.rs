//! A small world around one session: devices, tools, a model, and the log. Every event that is decided goes through JSON and back before it
//! is applied, so that each test here is a test of the log as well. After each step the laws that hold in every state are checked.

use crate::strict;
use baton_core::dialogue::{Spoken, seen};
use baton_core::{
    ActingDevice, Budgets, CallStage, Command, Context, Decided, Effect, Ids, ModelOutcome, ModelStage, OfferedTool, ProposedCall, Session,
    Surroundings, ToolCall, Waiting, decide, entities, pending, prompt, upserts,
};
use baton_proto::{
    ApprovalId, Baseline, CallId, ClientType, Decision, Delivery, DeviceId, EntityView, ErrorBody, ErrorCode, Event, Finding, Intent,
    JournalId, ModelAnswer, ModelError, ModelErrorKind, ModelRequest, Operation, OperationId, Outcome, Phase, Prepared, QuestionId, Risk,
    RunningState, SessionEvent, SessionId, StateModified, Timestamp, ToolError, ToolResult, ToolSpec, Trust, UserId, Workspace,
    WorkspaceId,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// Milliseconds of 2026-11-30T10:00:00Z, where every world begins.
const BEGIN: i64 = 1_796_032_800_000;

/// Ends and devices by name: `laptop` only acts, `desk` is a second one that does.
pub(crate) const DEVICES: [(&str, ClientType, Trust); 7] = [
    ("phone", ClientType::Phone, Trust::Trusted),
    ("cli", ClientType::Cli, Trust::Trusted),
    ("tablet", ClientType::Tablet, Trust::Standard),
    ("ide", ClientType::Ide, Trust::Standard),
    ("visitor", ClientType::Web, Trust::Guest),
    ("laptop", ClientType::Device, Trust::Trusted),
    ("desk", ClientType::Device, Trust::Trusted),
];

pub(crate) fn id(name: &str) -> DeviceId {
    let place = DEVICES.iter().position(|(known, ..)| *known == name).unwrap_or_else(|| panic!("no device {name}"));
    DeviceId(Uuid::from_u128(0xd000 + place as u128))
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) state: Session,
    pub(crate) log: Vec<Event>,
    /// What an end that followed from the beginning shows, by kind and id.
    pub(crate) shown: BTreeMap<(&'static str, String), EntityView>,
    pub(crate) around: Surroundings,
    pub(crate) model: Option<String>,
    pub(crate) budgets: Budgets,
    pub(crate) held_by: Option<(SessionId, String)>,
    pub(crate) so_far: Option<baton_core::SoFar>,
    pub(crate) now: Timestamp,
    /// Whether the laws are checked after each step; off only while something large is built up.
    pub(crate) checks: bool,
    draws: u64,
}

impl World {
    /// A user with devices and tools, and no session yet.
    pub(crate) fn empty() -> Self {
        let devices = DEVICES
            .iter()
            .map(|(name, client_type, trust)| {
                (
                    id(name),
                    ActingDevice { device_id: id(name), name: (*name).to_owned(), client_type: *client_type, trust: *trust, journal: None },
                )
            })
            .collect();
        let around = Surroundings {
            online: DEVICES.iter().map(|(name, ..)| id(name)).collect(),
            devices,
            offers: tools().into_iter().map(|(name, spec)| (name, vec![OfferedTool { device_id: id("laptop"), spec }])).collect(),
            workspaces: vec![workspace()],
            rules: Vec::new(),
        };
        let mut state = Session::empty(SessionId(Uuid::from_u128(0x5e55)));
        state.user = UserId(Uuid::from_u128(0x05e7));
        Self {
            state,
            log: Vec::new(),
            shown: BTreeMap::new(),
            around,
            model: Some("test-model".to_owned()),
            held_by: None,
            so_far: None,
            budgets: Budgets::default(),
            now: Timestamp(BEGIN),
            checks: true,
            draws: 0,
        }
    }

    /// A session held by the phone.
    pub(crate) fn new() -> Self {
        let mut world = Self::empty();
        world.op("phone", Intent::NewSession { title: None, workspace: None }).unwrap();
        world
    }

    /// A session in which the phone has just said something, and the model is being asked.
    pub(crate) fn asked(text: &str) -> Self {
        let mut world = Self::new();
        world.say("phone", text).unwrap();
        world
    }

    /// A session in which the model has just made these calls.
    pub(crate) fn calling(calls: &[(&str, Value)]) -> Self {
        let mut world = Self::asked("do the work");
        world.answer("", calls);
        world
    }

    pub(crate) fn context(&mut self, sender: Option<&str>) -> Context {
        self.draws += 1;
        Context {
            now: self.now,
            // Spread over all 64 bits, as randomness would be.
            ids: Ids::new(self.now, self.draws.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            sender: sender.map(|name| self.around.devices[&id(name)].clone()),
            around: Arc::new(self.around.clone()),
            model: self.model.clone(),
            workspace_held_by: self.held_by.clone(),
            so_far: self.so_far.clone(),
            budgets: self.budgets,
        }
    }

    /// Runs a command, appends what it decides, and checks what holds in every state.
    pub(crate) fn run(&mut self, sender: Option<&str>, command: &Command) -> Result<Decided, ErrorBody> {
        let at = self.context(sender);
        let before = self.state.clone();
        let outcome = decide(&self.state, command, &at);
        let decided = match &outcome {
            Ok(decided) => Some(decided.clone()),
            Err(rejection) => rejection.trace.clone(),
        };
        let events = decided.as_ref().map(|decided| decided.events.clone()).unwrap_or_default();
        let touched: Vec<_> = events.iter().map(|event| self.append(event)).collect();
        if let Some(decided) = decided {
            assert_eq!(decided.next, self.state, "the state that was decided on is the fold of its events");
            assert_eq!(decided.upserts, touched, "and so are the entities that its ends are shown");
        }
        self.check(&before, &events);
        outcome.map_err(|rejection| rejection.error)
    }

    fn append(&mut self, event: &Event) -> Vec<EntityView> {
        let bytes = serde_json::to_vec(event).unwrap();
        let read: Event = Event::decode(&bytes).unwrap();
        assert_eq!(read, *event, "an event changes on its way through the store");
        self.state.apply(&read);
        let touched = upserts(&self.state, &read);
        for entity in touched.clone() {
            let key = (entity.kind(), entity.id());
            if let Some(known) = self.shown.get(&key) {
                assert!(known.version() <= entity.version(), "{key:?} went back from {} to {}", known.version(), entity.version());
            }
            self.shown.insert(key, entity);
        }
        self.log.push(read);
        touched
    }

    pub(crate) fn op(&mut self, from: &str, intent: Intent) -> Result<Decided, ErrorBody> {
        self.op_with(from, intent, |_| {})
    }

    pub(crate) fn op_with(&mut self, from: &str, intent: Intent, change: impl FnOnce(&mut Operation)) -> Result<Decided, ErrorBody> {
        let operation = self.operation(intent, change);
        self.run(Some(from), &Command::Operation(operation))
    }

    pub(crate) fn operation(&mut self, intent: Intent, change: impl FnOnce(&mut Operation)) -> Operation {
        self.draws += 1;
        let mut operation = Operation::new(OperationId(Uuid::from_u128(0x0900_0000 + u128::from(self.draws))), Some(self.state.id), intent);
        if operation.intent.needs_epoch() {
            operation.epoch = Some(self.state.holder.epoch);
        }
        change(&mut operation);
        operation
    }

    pub(crate) fn say(&mut self, from: &str, text: &str) -> Result<Decided, ErrorBody> {
        self.op(from, say(text))
    }

    pub(crate) fn confirm(&mut self, from: &str, approval_id: ApprovalId, decision: Decision) -> Result<Decided, ErrorBody> {
        self.op(from, Intent::confirm(approval_id, decision))
    }

    /// The one open approval.
    pub(crate) fn approval(&self) -> ApprovalId {
        let open: Vec<_> = self.state.open_approvals().map(|approval| approval.id).collect();
        assert_eq!(open.len(), 1, "open approvals");
        open[0]
    }

    /// The one open question.
    pub(crate) fn question(&self) -> QuestionId {
        let open: Vec<_> = self.state.open_questions().map(|question| question.id).collect();
        assert_eq!(open.len(), 1, "open questions");
        open[0]
    }

    /// The latest call of that tool.
    pub(crate) fn call(&self, tool: &str) -> &ToolCall {
        self.state
            .calls
            .values()
            .filter(|call| call.tool == tool)
            .max_by_key(|call| call.created_seq)
            .unwrap_or_else(|| panic!("no call of {tool}"))
    }

    pub(crate) fn phase(&self) -> Phase {
        let worked_on = self.state.turn.as_ref().and_then(|turn| turn.task_id);
        worked_on.and_then(|id| self.state.tasks.get(&id)).expect("a task").phase
    }

    pub(crate) fn pending(&self) -> Vec<Effect> {
        pending(&self.state)
    }

    /// The model answers what it is being asked.
    pub(crate) fn answer(&mut self, text: &str, calls: &[(&str, Value)]) {
        let calls = calls
            .iter()
            .map(|(tool, arguments)| ProposedCall {
                tool: (*tool).to_owned(),
                written: arguments.to_string(),
                arguments: Ok(arguments.clone()),
                fetched: None,
            })
            .collect();
        self.answer_with(text, calls);
    }

    pub(crate) fn answer_with(&mut self, text: &str, calls: Vec<ProposedCall>) {
        let answer = ModelAnswer { text: text.to_owned(), ..ModelAnswer::default() };
        self.model_ended(ModelOutcome::Answered { model: "test-model".to_owned(), answer, calls });
    }

    pub(crate) fn fail_model(&mut self, kind: ModelErrorKind, retry_after_ms: Option<u64>) {
        let error = ModelError { kind, message: "It failed.".to_owned(), hint: "Look at it.".to_owned(), retry_after_ms };
        self.model_ended(ModelOutcome::Failed(error));
    }

    pub(crate) fn model_ended(&mut self, outcome: ModelOutcome) {
        let (model_call_id, attempt) = self.asked_model().expect("the model is being asked");
        self.run(None, &Command::Model { model_call_id, attempt, outcome }).unwrap();
    }

    pub(crate) fn asked_model(&self) -> Option<(baton_proto::ModelCallId, u32)> {
        self.pending().into_iter().find_map(|effect| match effect {
            Effect::CallModel { model_call_id, attempt } => Some((model_call_id, attempt)),
            _ => None,
        })
    }

    /// The device prepares a call of that tool, and finds this risk.
    pub(crate) fn prepare(&mut self, tool: &str, risk: Risk) {
        let call_id = self.call(tool).id;
        let prepared = Prepared {
            risk,
            risk_reason: "as prepared".to_owned(),
            risk_said: Vec::new(),
            digests: BTreeMap::new(),
            preview: format!("what {tool} will do"),
            directory: Some("/home/ada/site".to_owned()),
            refusal: None,
        };
        self.run(None, &Command::Prepared { call_id, device: id("laptop"), prepared }).unwrap();
    }

    pub(crate) fn start(&mut self, tool: &str) {
        let (call_id, attempt) = (self.call(tool).id, self.call(tool).attempt);
        self.run(None, &Command::ToolStarted { call_id, attempt, device: id("laptop") }).unwrap();
    }

    pub(crate) fn end(&mut self, tool: &str, outcome: Outcome) {
        let (call_id, attempt) = (self.call(tool).id, self.call(tool).attempt);
        self.run(None, &Command::ToolResult { call_id, attempt, device: id("laptop"), outcome }).unwrap();
    }

    /// Starts the call and ends it well.
    pub(crate) fn perform(&mut self, tool: &str) {
        self.start(tool);
        self.end(tool, succeeded("done"));
    }

    pub(crate) fn probe(&mut self, tool: &str, finding: Finding) {
        let (call_id, attempt) = (self.call(tool).id, self.call(tool).attempt);
        self.run(None, &Command::Probed { call_id, attempt, device: id("laptop"), finding }).unwrap();
    }

    pub(crate) fn lose(&mut self, device: &str) {
        self.around.online.remove(&id(device));
        self.run(None, &Command::DeviceLost { device: id(device) }).unwrap();
    }

    /// The device says hello with a journal of that number, before it reports.
    pub(crate) fn comes_with(&mut self, device: &str, journal: Option<u128>) {
        if let Some(device) = self.around.devices.get_mut(&id(device)) {
            device.journal = journal.map(|number| JournalId(Uuid::from_u128(number)));
        }
    }

    pub(crate) fn report(&mut self, device: &str, running: Vec<(CallId, u32, RunningState)>) {
        self.around.online.insert(id(device));
        self.run(None, &Command::DeviceReported { device: id(device), running }).unwrap();
    }

    /// A new hub process reads the log, and takes the session up.
    pub(crate) fn restart(&mut self) {
        let mut folded = Session::empty(self.state.id);
        for event in &self.log {
            folded.apply(event);
        }
        assert_eq!(folded, self.state, "the fold of the log isn't the state");
        self.state = folded;
        self.run(None, &Command::Resumed { incarnation: 2 }).unwrap();
    }

    pub(crate) fn tick(&mut self, milliseconds: i64) {
        self.now = self.now.plus(milliseconds);
        self.run(None, &Command::Tick).unwrap();
    }

    pub(crate) fn dialogue(&self) -> Vec<Spoken> {
        let all = seen(&self.state, (1..).zip(&self.log));
        all[all.len().saturating_sub(prompt::DIALOGUE_EVENTS as usize)..].to_vec()
    }

    pub(crate) fn request(&mut self) -> ModelRequest {
        let dialogue = self.dialogue();
        let at = self.context(None);
        prompt::assemble(&self.state, &dialogue, &at)
    }

    pub(crate) fn count(&self, matches: impl Fn(&SessionEvent) -> bool) -> usize {
        self.log.iter().filter(|event| matches(&event.body)).count()
    }

    /// The laws of every state.
    fn check(&mut self, before: &Session, events: &[Event]) {
        if !self.state.exists() || !self.checks {
            return;
        }
        assert!(self.state.holder.epoch >= before.holder.epoch, "the epoch fell");
        assert_eq!(self.state.seq, before.seq + events.len() as u64, "one event, one number");
        assert_eq!(self.state.version, self.state.seq);
        // Every few steps, since it takes longer than all else here.
        if self.draws.is_multiple_of(6) {
            let cached: Session = serde_json::from_slice(&serde_json::to_vec(&self.state).unwrap()).unwrap();
            assert_eq!(cached, self.state, "the state changes on its way through the cache");
        }
        self.not_stuck();
        self.nothing_runs_unplanned();
        for entity in entities(&self.state) {
            self.ends_show(&entity);
        }
        for event in events {
            if let SessionEvent::TaskPhaseChanged { from, to, .. } = &event.body {
                assert!(baton_core::may_follow(*from, *to), "{from:?} became {to:?}");
            }
        }
        let request = self.request();
        strict::check(&request).unwrap_or_else(|wrong| panic!("a strict provider refuses: {wrong}\n{:#?}", request.messages));
    }

    /// An open turn owes something, or waits for somebody.
    fn not_stuck(&self) {
        if self.state.open_turn().is_none() {
            assert_eq!(self.state.unsettled_calls().count(), 0, "a call is open though no turn is");
            assert_eq!(
                self.state.open_approvals().count() + self.state.open_questions().count(),
                0,
                "something is asked though no turn is open"
            );
            return;
        }
        let owed = self.pending().iter().any(|effect| {
            matches!(
                effect,
                Effect::CallModel { .. }
                    | Effect::Prepare { .. }
                    | Effect::Dispatch { .. }
                    | Effect::Cancel { .. }
                    | Effect::Probe { .. }
                    | Effect::HoldWorkspace { .. }
            )
        });
        let retries = self.state.open_turn().and_then(|turn| turn.model.as_ref()).is_some_and(|call| call.stage != ModelStage::Started);
        let asks = self.state.open_approvals().next().is_some() || self.state.open_questions().next().is_some();
        let device = self.state.unsettled_calls().any(|call| matches!(call.stage, CallStage::Unknown { waiting: Waiting::Device, .. }));
        assert!(owed || retries || asks || device, "stuck: {:#?}", self.state);
        for call in self.state.unsettled_calls() {
            match &call.stage {
                CallStage::AwaitingApproval { approval_id } => {
                    assert!(self.state.open_approvals().any(|open| open.id == *approval_id), "waits for a closed approval");
                }
                CallStage::AwaitingAnswer { question_id } | CallStage::Unknown { waiting: Waiting::Human { question_id }, .. } => {
                    assert!(self.state.open_questions().any(|open| open.id == *question_id), "waits for a closed question");
                }
                _ => {}
            }
        }
        for approval in self.state.open_approvals() {
            let call = &self.state.calls[&approval.call_id];
            assert_eq!(call.stage, CallStage::AwaitingApproval { approval_id: approval.id }, "an approval is open for nothing");
        }
        for question in self.state.open_questions() {
            let call = &self.state.calls[&question.call_id];
            let waits = match &call.stage {
                CallStage::AwaitingAnswer { question_id } | CallStage::Unknown { waiting: Waiting::Human { question_id }, .. } => {
                    *question_id == question.id
                }
                _ => false,
            };
            assert!(waits, "a question is open for nothing: {:?}", call.stage);
        }
    }

    /// What a device is told to do was written down as planned before, and nothing new starts once the turn is to stop.
    fn nothing_runs_unplanned(&self) {
        let stopping = self.state.open_turn().is_some_and(|turn| turn.stop.is_some());
        for effect in self.pending() {
            if let Effect::Dispatch { call_id, attempt, .. } = effect {
                let planned = self.count(
                    |body| matches!(body, SessionEvent::ToolPlanned { call_id: id, attempt: at, .. } if *id == call_id && *at == attempt),
                );
                assert_eq!(planned, 1, "dispatched without exactly one plan");
                assert!(!stopping, "dispatched while stopping");
            }
        }
    }

    /// An end that followed shows what an end that reads the view anew is given (D4).
    fn ends_show(&self, entity: &EntityView) {
        let key = (entity.kind(), entity.id());
        let shown = self.shown.get(&key).unwrap_or_else(|| panic!("ends were never shown {key:?}"));
        match (shown, entity) {
            // Its version and time move with every event, most of which change nothing else of it.
            (EntityView::Session(shown), EntityView::Session(now)) => {
                let shown = baton_proto::SessionEntity { version: now.version, updated_at: now.updated_at, ..(**shown).clone() };
                assert_eq!(shown, **now);
            }
            (EntityView::Handoff(shown), EntityView::Handoff(now)) => assert_eq!(shown.state, now.state),
            _ => assert_eq!(shown, entity, "ends show something else"),
        }
    }

    /// Each settled call got exactly one terminal event, each approval at most one decision; the fold of the log is the state.
    pub(crate) fn check_log(&self) {
        let mut ends: BTreeMap<CallId, u32> = BTreeMap::new();
        let mut decisions: BTreeMap<ApprovalId, u32> = BTreeMap::new();
        let mut proposed = Vec::new();
        for event in &self.log {
            match &event.body {
                SessionEvent::ToolProposed { call_id, .. } => proposed.push(*call_id),
                SessionEvent::ToolSucceeded { call_id, .. }
                | SessionEvent::ToolFailed { call_id, .. }
                | SessionEvent::ToolCancelled { call_id, .. } => *ends.entry(*call_id).or_default() += 1,
                SessionEvent::ApprovalDecided { approval_id, .. } | SessionEvent::ApprovalVoided { approval_id, .. } => {
                    *decisions.entry(*approval_id).or_default() += 1;
                }
                _ => {}
            }
        }
        for call in proposed {
            let open = self.state.calls.get(&call).is_some_and(|call| !call.is_settled());
            assert_eq!(ends.get(&call).copied().unwrap_or(0), u32::from(!open), "{call:?} ends once");
        }
        assert!(decisions.values().all(|count| *count == 1), "an approval was closed twice");
        let mut folded = Session::empty(self.state.id);
        for event in &self.log {
            folded.apply(event);
        }
        assert_eq!(folded, self.state, "the fold of the log isn't the state");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.state.exists() {
            self.check_log();
        }
    }
}

pub(crate) fn say(text: &str) -> Intent {
    Intent::Say { text: text.to_owned(), selection: None, attachments: Vec::new(), delivery: Delivery::Steer }
}

pub(crate) fn code(outcome: &Result<Decided, ErrorBody>) -> Option<ErrorCode> {
    outcome.as_ref().err().map(|error| error.code)
}

pub(crate) fn succeeded(content: &str) -> Outcome {
    Outcome::Succeeded(result(content))
}

pub(crate) fn result(content: &str) -> ToolResult {
    ToolResult { content: content.to_owned(), bytes: content.len() as u64, ..ToolResult::default() }
}

pub(crate) fn failed(code: &str) -> Outcome {
    let error =
        ToolError { code: code.to_owned(), message: "It failed.".to_owned(), hint: "Look.".to_owned(), state_modified: StateModified::No };
    Outcome::Failed { error, result: None }
}

pub(crate) fn interrupted() -> Outcome {
    Outcome::Interrupted { known: "The device restarted.".to_owned() }
}

pub(crate) fn baseline(commit: &str) -> Baseline {
    Baseline { path: "/home/ada/site".to_owned(), branch: Some("main".to_owned()), commit: Some(commit.to_owned()), dirty: None }
}

pub(crate) fn workspace() -> Workspace {
    Workspace {
        workspace_id: WorkspaceId(Uuid::from_u128(0x3000)),
        device_id: Some(id("laptop")),
        name: "site".to_owned(),
        baseline: baseline("1111111111111111"),
        sandbox: Some("bubblewrap".to_owned()),
    }
}

/// Tools of every kind of terms, by name.
pub(crate) fn tools() -> BTreeMap<String, ToolSpec> {
    use baton_proto::Effect::{Idempotent, Once, Read};
    let rows = [
        // name, effect, risk, prepare, lookup, lasting
        ("read_file", Read, Risk::Safe, false, false, false),
        ("find_text", Read, Risk::Safe, false, false, false),
        ("edit_file", Idempotent, Risk::Safe, false, true, false),
        ("format_file", Idempotent, Risk::Safe, false, false, false),
        ("run_command", Once, Risk::Sensitive, true, false, false),
        ("delete_file", Idempotent, Risk::Dangerous, true, true, false),
        ("send_payment", Once, Risk::Dangerous, false, false, true),
        ("ring_bell", Once, Risk::Safe, false, false, false),
        ("undo", Idempotent, Risk::Safe, false, false, false),
    ];
    rows.into_iter()
        .map(|(name, effect, risk, prepare, lookup, lasting)| {
            let spec = ToolSpec {
                name: name.to_owned(),
                description: format!("The tool {name}."),
                parameters: json!({"type": "object"}),
                effect,
                risk,
                prepare,
                lookup,
                lasting,
                timeout_s: 30,
            };
            (name.to_owned(), spec)
        })
        .collect()
}
