use super::command::{Said, Terminal};
use super::hub::{Hub, Unusual, code_of, confirm, ledger_device};
use super::until;
use super::workspace::small_project;
use baton_client::{ChangeEntry, Http, Token};
use baton_proto::{
    ApprovalEntity, ApprovalState, CallEntity, CallState, Capabilities, Change, ClientType, Credentials, EntityView, ErrorCode, Intent,
    InvitationClaim, Operation, OperationId, PairingApproval, QuestionEntity, QuestionState, Reply, Role, SessionEntity, SessionEvent,
    SessionId, SessionView, TaskEntity, Trust,
};
use baton_sim::ledger::Ledger;
use baton_sim::scripted_model::{Script, ScriptedModel};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::process::Child;
use uuid::Uuid;

/// A hub with its device, a phone that speaks HTTP, a terminal, and a scripted model where there is one.
#[derive(Debug)]
pub struct House {
    pub hub: Hub,
    pub model: Option<ScriptedModel>,
    pub workspace: PathBuf,
    pub phone: Http,
    pub terminal: Terminal,
    pub directory: TempDir,
}

/// How a house is built where it isn't as usual.
#[derive(Debug, Default)]
pub struct Plan<'a> {
    /// The model's rules; none is configured without them.
    pub rules: Option<Value>,
    /// The text of `baton.toml`.
    pub config: Option<&'a str>,
    pub hub: Unusual<'a>,
    /// Makes the workspace below a directory; a small git repository unless given.
    pub workspace: Option<fn(&Path) -> PathBuf>,
}

impl House {
    /// With a model that answers by these rules.
    pub async fn with_model(rules: Value) -> Self {
        Self::build(Plan { rules: Some(rules), ..Plan::default() }).await
    }

    pub async fn build(plan: Plan<'_>) -> Self {
        let directory = TempDir::new().expect("a directory");
        let workspace = plan.workspace.unwrap_or(small_project)(directory.path());
        let model = match plan.rules {
            Some(rules) => Some(ScriptedModel::start(script(rules)).await.expect("the scripted model starts")),
            None => None,
        };
        if let Some(config) = plan.config {
            std::fs::create_dir_all(directory.path().join("data")).expect("a directory");
            std::fs::write(directory.path().join("data/baton.toml"), config).expect("a file");
        }
        let url = model.as_ref().map(ScriptedModel::url);
        let hub = Hub::with(directory.path(), &workspace, url.as_deref(), &plan.hub).await;
        let (phone, _) = claim(&hub, &hub.owner_link(), "Phone", ClientType::Phone).await;
        let terminal = Terminal::new(directory.path());
        let house = Self { hub, model, workspace, phone, terminal, directory };
        house.pair(&house.terminal, "desk", Trust::Trusted).await;
        house
    }

    /// Lets a terminal in by the code that it shows, as a person does with the phone.
    pub async fn pair(&self, terminal: &Terminal, name: &str, trust: Trust) {
        pair_with(&self.hub, &self.phone, terminal, name, trust).await;
    }

    /// A device whose tools act on the ledger, paired by an invitation and connected.
    pub async fn ledger_device(&self, ledger: &Ledger) -> Child {
        let invitation = self.phone.invite(Trust::Trusted).await.expect("an invitation");
        let child = ledger_device(&self.hub, self.directory.path(), ledger.url(), Some(&invitation.secret));
        confirm(&self.phone).await;
        self.online("ledger").await;
        child
    }

    /// Waits until a device of that name is connected.
    pub async fn online(&self, name: &str) {
        until("the device is connected", || async {
            let devices = self.phone.devices().await.ok()?;
            devices.iter().any(|device| device.name == name && device.online).then_some(())
        })
        .await;
    }

    /// Waits until the device beside the hub is connected, with its workspace.
    pub async fn hands(&self) {
        until("the hub's own device is connected", || async {
            let devices = self.phone.devices().await.ok()?;
            devices.iter().any(|device| device.online && !device.workspaces.is_empty()).then_some(())
        })
        .await;
    }

    pub fn model(&self) -> &ScriptedModel {
        self.model.as_ref().expect("a model")
    }

    /// Says something in a new session and waits until the agent rests or asks.
    pub async fn ask(&self, text: &str) -> (SessionId, Said) {
        let said = self.terminal.run(&["send", "--new", "--wait", text]).await;
        let session = said.event("sent")["session_id"].as_str().expect("an id").parse().expect("an id");
        (session, said)
    }

    /// Says something in a new session without waiting.
    pub async fn tell(&self, text: &str) -> SessionId {
        let said = self.terminal.ok(&["send", "--new", text]).await;
        said.event("sent")["session_id"].as_str().expect("an id").parse().expect("an id")
    }

    pub async fn view(&self, session: SessionId) -> SessionView {
        self.phone.session(session).await.expect("the session can be read")
    }

    /// Looks at the session until it shows what is waited for.
    pub async fn until<T>(&self, session: SessionId, what: &str, look: impl Fn(&SessionView) -> Option<T>) -> T {
        let shown = until(what, || async {
            let view = self.phone.session(session).await.ok()?;
            look(&view)
        });
        tokio::select! {
            found = shown => found,
            () = tokio::time::sleep(std::time::Duration::from_secs(40)) => panic!("it never came: {what}\n{:#?}\n{}", self.phone.session(session).await, self.hub.logs()),
        }
    }

    pub async fn open_approval(&self, session: SessionId) -> ApprovalEntity {
        self.until(session, "an approval", |view| open_approvals(view).into_iter().next()).await
    }

    pub async fn open_question(&self, session: SessionId) -> QuestionEntity {
        self.until(session, "a question", open_question).await
    }

    /// Waits until nothing is under way in a session.
    pub async fn rest(&self, session: SessionId) -> SessionView {
        self.until(session, "rest", |view| {
            let running = view.entities.iter().any(|entity| {
                matches!(entity, EntityView::Turn(turn) if matches!(turn.state, baton_proto::TurnState::Running | baton_proto::TurnState::Waiting | baton_proto::TurnState::Stopping))
            });
            (!running).then(|| view.clone())
        })
        .await
    }

    /// The whole log.
    pub async fn log(&self, session: SessionId) -> Vec<Change> {
        let mut log: Vec<Change> = Vec::new();
        loop {
            let after = log.last().map_or(0, |change| change.seq);
            let page = self.phone.events(session, after, Some(500)).await.expect("the log can be read");
            if page.changes.is_empty() {
                return log;
            }
            log.extend(page.changes.into_iter().map(|entry| match entry {
                ChangeEntry::Known(change) => *change,
                ChangeEntry::Unknown(change) => panic!("unknown event {}", change.seq),
            }));
        }
    }

    pub async fn events(&self, session: SessionId) -> Vec<SessionEvent> {
        self.log(session).await.into_iter().map(|change| change.event.body).collect()
    }

    /// Every dialogue that the model was sent was one that a strict provider takes, and the script knew an answer.
    pub fn all_dialogues_were_valid(&self) {
        let unanswered = self.model().unanswered();
        assert!(unanswered.is_empty(), "refused, or unknown to the script: {unanswered:#?}");
    }

    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.workspace.join(name)).unwrap_or_default()
    }
}

pub fn script(rules: Value) -> Script {
    serde_json::from_value(rules).expect("the script can be read")
}

/// Pairs a new end by a one-time link.
pub async fn claim(hub: &Hub, link: &str, name: &str, client_type: ClientType) -> (Http, Credentials) {
    let secret = link.split("invite=").nth(1).expect("a secret").to_owned();
    let door = Http::new(hub.url().parse().expect("an address"), None).expect("a client");
    let claim = InvitationClaim { secret, name: name.to_owned(), client_type, capabilities: Capabilities::default(), cookie: false };
    let credentials = door.claim_invitation(&claim).await.expect("the invitation is good");
    let token = Token::new(&credentials.token).expect("a token");
    (Http::new(hub.url().parse().expect("an address"), Some(token)).expect("a client"), credentials)
}

/// Lets in the device with that code, as a person does who compared the numbers.
pub async fn approve(approver: &Http, code: &str, trust: Trust) {
    let number = approver.preview_pairing(code).await.expect("the code is good").number;
    approver.approve_pairing(code, &PairingApproval { trust, number }).await.expect("the number is good");
}

/// Pairs a new end by a link that another end makes and confirms.
pub async fn invited(hub: &Hub, maker: &Http, trust: Trust, name: &str, client_type: ClientType) -> (Http, Credentials) {
    let link = maker.invite(trust).await.expect("a link").url;
    tokio::join!(claim(hub, &link, name, client_type), confirm(maker)).0
}

pub async fn pair_with(hub: &Hub, approver: &Http, terminal: &Terminal, name: &str, trust: Trust) {
    let url = hub.url();
    let mut pairing = terminal.start(&["pair", &url, "--name", name]);
    let code = code_of(&mut pairing).await;
    approve(approver, &code, trust).await;
    pairing.event("paired").await;
}

/// Sends an operation with a fresh id.
pub async fn operate(http: &Http, session: SessionId, intent: Intent) -> Reply {
    let operation = Operation::new(OperationId(Uuid::now_v7()), Some(session), intent);
    http.operate(&operation).await.expect("the hub answers")
}

pub fn refusal(reply: &Reply) -> Option<ErrorCode> {
    reply.error.as_ref().map(|error| error.code)
}

pub fn open_approvals(view: &SessionView) -> Vec<ApprovalEntity> {
    let open = view.entities.iter().filter_map(|entity| match entity {
        EntityView::Approval(approval) if approval.state == ApprovalState::Open => Some((**approval).clone()),
        _ => None,
    });
    open.collect()
}

pub fn open_question(view: &SessionView) -> Option<QuestionEntity> {
    view.entities.iter().find_map(|entity| match entity {
        EntityView::Question(question) if question.state == QuestionState::Open => Some(question.clone()),
        _ => None,
    })
}

pub fn session_of(view: &SessionView) -> &SessionEntity {
    view.entities
        .iter()
        .find_map(|entity| match entity {
            EntityView::Session(session) => Some(&**session),
            _ => None,
        })
        .expect("a session")
}

/// The calls in their order.
pub fn calls(view: &SessionView) -> Vec<CallEntity> {
    let mut calls: Vec<_> = view
        .entities
        .iter()
        .filter_map(|entity| match entity {
            EntityView::Call(call) => Some((**call).clone()),
            _ => None,
        })
        .collect();
    calls.sort_by_key(|call| call.created_seq);
    calls
}

/// The call of that tool which came last.
pub fn call(view: &SessionView, tool: &str) -> CallEntity {
    calls(view).into_iter().rfind(|call| call.tool == tool).unwrap_or_else(|| panic!("no call of {tool}: {view:#?}"))
}

pub fn is(view: &SessionView, tool: &str, state: CallState) -> Option<CallEntity> {
    calls(view).into_iter().rfind(|call| call.tool == tool && call.state == state)
}

pub fn task(view: &SessionView) -> &TaskEntity {
    view.entities
        .iter()
        .find_map(|entity| match entity {
            EntityView::Task(task) => Some(&**task),
            _ => None,
        })
        .expect("a task")
}

/// What was said, by whom, in order.
pub fn messages(view: &SessionView) -> Vec<(Role, String)> {
    let mut messages: Vec<_> = view
        .entities
        .iter()
        .filter_map(|entity| match entity {
            EntityView::Message(message) => Some((message.created_seq, message.role, message.text.clone())),
            _ => None,
        })
        .collect();
    messages.sort_by_key(|(seq, ..)| *seq);
    messages.into_iter().map(|(_, role, text)| (role, text)).collect()
}
