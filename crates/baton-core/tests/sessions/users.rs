//! A user's devices and invitations: pairing, trust, revocation, and their limits (H9, S4).

use baton_core::Ids;
use baton_core::user::{User, UserCommand, checked_name};
use baton_proto::ErrorCode::{IllegalTransition, Invalid, NotFound, TooLarge};
use baton_proto::{
    Baseline, Capabilities, ClientType, DeviceId, Digest, ErrorBody, ErrorCode, Event, JournalId, Timestamp, Trust, UserEvent, UserId,
    Workspace, WorkspaceId,
};

struct Account {
    user: User,
    log: Vec<Event<UserEvent>>,
    now: i64,
    draws: u64,
}

impl Account {
    fn new() -> Self {
        let mut account = Self { user: User::empty(UserId(uuid::Uuid::from_u128(1))), log: Vec::new(), now: 1_796_032_800_000, draws: 0 };
        account.run(UserCommand::Create { name: "ada".to_owned() }).unwrap();
        account
    }

    fn run(&mut self, command: UserCommand) -> Result<usize, ErrorBody> {
        self.draws += 1;
        let ids = Ids::new(Timestamp(self.now), self.draws.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let events = self.user.decide(&command, Timestamp(self.now), &ids)?;
        for event in &events {
            let read = Event::<UserEvent>::decode(&serde_json::to_vec(event).unwrap()).unwrap();
            assert_eq!(read, *event, "an event changes on its way through the store");
            self.user.apply(&read);
            self.log.push(read);
        }
        let mut folded = User::empty(self.user.id);
        self.log.iter().for_each(|event| folded.apply(event));
        assert_eq!(folded, self.user, "the fold of the log isn't the state");
        Ok(events.len())
    }

    fn pair(&mut self, name: &str, trust: Trust) -> DeviceId {
        let token_hash = Digest::of_bytes(name.as_bytes());
        let command = UserCommand::Pair {
            name: name.to_owned(),
            client_type: ClientType::Phone,
            capabilities: Capabilities::default(),
            trust,
            token_hash,
        };
        self.run(command).unwrap();
        self.user.devices.values().find(|device| device.record.name == name).unwrap().record.device_id
    }

    fn invite(&mut self, secret: &str, trust: Trust) {
        self.run(UserCommand::Invite { secret_hash: Digest::of_bytes(secret.as_bytes()), trust }).unwrap();
    }

    fn claim(&mut self, secret: &str) -> Option<ErrorCode> {
        let command = UserCommand::Claim {
            secret_hash: Digest::of_bytes(secret.as_bytes()),
            name: "new phone".to_owned(),
            client_type: ClientType::Phone,
            capabilities: Capabilities::default(),
            token_hash: Digest::of_bytes(b"token"),
        };
        self.run(command).err().map(|error| error.code)
    }
}

#[test]
fn an_invitation_works_once_and_for_five_minutes() {
    let mut account = Account::new();
    account.invite("one", Trust::Standard);
    assert_eq!(account.claim("another"), Some(NotFound));
    assert_eq!(account.claim("one"), None);
    let device = account.user.devices.values().next().unwrap();
    assert_eq!((device.record.trust, device.record.name.as_str()), (Trust::Standard, "new phone"));
    assert_eq!(account.claim("one"), Some(NotFound), "used up");
    account.invite("two", Trust::Trusted);
    account.now += 299_999;
    account.invite("three", Trust::Trusted);
    account.now += 1;
    assert_eq!(account.claim("two"), Some(NotFound), "expired");
    assert_eq!(account.claim("three"), None);
}

#[test]
fn open_invitations_are_bounded_and_the_newest_stays() {
    let mut account = Account::new();
    for n in 0..30 {
        // A clock that steps back changes nothing (C45).
        account.now -= 1;
        account.invite(&n.to_string(), Trust::Standard);
    }
    assert_eq!(account.user.invitations.len(), 20);
    assert_eq!(account.claim("29"), None);
    assert_eq!(account.claim("0"), Some(NotFound));
}

#[test]
fn a_device_is_renamed_trusted_and_revoked() {
    let mut account = Account::new();
    let device = account.pair("phone", Trust::Guest);
    account.run(UserCommand::SetTrust { device, trust: Trust::Trusted }).unwrap();
    account.run(UserCommand::Rename { device, name: " pocket ".to_owned() }).unwrap();
    assert_eq!(
        (account.user.devices[&device].record.trust, account.user.devices[&device].record.name.as_str()),
        (Trust::Trusted, "pocket")
    );
    account.run(UserCommand::Revoke { device }).unwrap();
    assert!(!account.user.devices[&device].is_active());
    let commands = [
        UserCommand::Revoke { device },
        UserCommand::Rename { device, name: "again".to_owned() },
        UserCommand::SetTrust { device, trust: Trust::Guest },
        UserCommand::Describe { device, capabilities: Capabilities::default(), tools: Vec::new(), workspaces: Vec::new(), journal: None },
        UserCommand::Revoke { device: DeviceId(uuid::Uuid::nil()) },
    ];
    for command in commands {
        let words = format!("{command:?}");
        assert_eq!(account.run(command).err().map(|error| error.code), Some(NotFound), "{words}");
    }
    assert_eq!(account.run(UserCommand::Create { name: "eve".to_owned() }).err().map(|error| error.code), Some(IllegalTransition));
}

#[test]
fn a_description_that_says_nothing_new_is_not_written() {
    let mut account = Account::new();
    let device = account.pair("laptop", Trust::Trusted);
    let describe = |features: &[&str]| UserCommand::Describe {
        device,
        capabilities: Capabilities { features: features.iter().map(|name| (*name).to_owned()).collect(), ..Capabilities::default() },
        tools: Vec::new(),
        workspaces: Vec::new(),
        journal: None,
    };
    assert_eq!(account.run(describe(&["camera"])).unwrap(), 1);
    assert_eq!(account.run(describe(&["camera"])).unwrap(), 0);
    assert_eq!(account.run(describe(&[])).unwrap(), 1);
}

#[test]
fn a_saved_file_adds_nothing_to_the_users_stream() {
    let mut account = Account::new();
    let device = account.pair("laptop", Trust::Trusted);
    let mut describe = |path: &str, commit: &str| {
        let baseline = Baseline { path: path.to_owned(), branch: None, commit: Some(commit.to_owned()), dirty: None };
        let workspace_id = WorkspaceId(uuid::Uuid::from_u128(1));
        let workspace = Workspace { workspace_id, device_id: Some(device), name: "site".to_owned(), baseline, sandbox: None };
        let (capabilities, tools) = (Capabilities::default(), Vec::new());
        account.run(UserCommand::Describe { device, capabilities, tools, workspaces: vec![workspace], journal: None }).unwrap()
    };
    assert_eq!(describe("/site", "aaaa"), 1);
    assert_eq!(describe("/site", "bbbb"), 0, "what it looks like is kept beside the stream");
    assert_eq!(describe("/other", "bbbb"), 1, "another place is another workspace");
}

#[test]
fn f7_the_last_journal_that_a_device_told_is_kept() {
    let mut account = Account::new();
    let device = account.pair("laptop", Trust::Trusted);
    let mut hello = |journal: Option<u128>| {
        let journal = journal.map(|number| JournalId(uuid::Uuid::from_u128(number)));
        let describe =
            UserCommand::Describe { device, capabilities: Capabilities::default(), tools: Vec::new(), workspaces: Vec::new(), journal };
        let written = account.run(describe).unwrap();
        (written, account.user.devices[&device].record.journal.map(|journal| journal.0.as_u128()))
    };
    assert_eq!(hello(None), (0, None));
    assert_eq!(hello(Some(1)), (1, Some(1)));
    assert_eq!(hello(Some(1)), (0, Some(1)));
    assert_eq!(hello(None), (0, Some(1)), "what isn't told is no other one");
    assert_eq!(hello(Some(2)), (1, Some(2)));
}

#[test]
fn revoked_devices_make_room_for_new_ones() {
    let mut account = Account::new();
    let first = account.pair("d0", Trust::Standard);
    for n in 1..200 {
        account.pair(&format!("d{n}"), Trust::Standard);
    }
    let pair = || UserCommand::Pair {
        name: "one more".to_owned(),
        client_type: ClientType::Web,
        capabilities: Capabilities::default(),
        trust: Trust::Standard,
        token_hash: Digest::of_bytes(b"t"),
    };
    let refused = account.run(pair()).unwrap_err();
    assert_eq!(refused.code, TooLarge);
    assert!(refused.hint.contains("Revoke"));
    account.run(UserCommand::Revoke { device: first }).unwrap();
    account.run(pair()).unwrap();
    assert_eq!(account.user.devices.len(), 200);
    assert!(!account.user.devices.contains_key(&first), "the oldest revoked one is forgotten");
}

#[test]
fn a_name_is_for_people_and_cannot_deceive() {
    let long = "x".repeat(81);
    for bad in ["", "  ", "a\nb", "a\u{202e}b", "zero\u{200b}width", long.as_str()] {
        assert_eq!(checked_name(bad).err().map(|error| error.code), Some(Invalid), "{bad:?}");
    }
    assert_eq!(checked_name(" 小明的手机 ").unwrap(), "小明的手机");
}
