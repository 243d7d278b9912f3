//! Remembered approvals (E5): what a rule is made of, and which calls it answers for.

use crate::context::Surroundings;
use crate::machine::tool_call::ToolCall;
use crate::policy;
use crate::words::excerpt;
use baton_proto::{
    ApprovalBinding, ApprovalEntity, Digest, ErrorBody, ErrorCode, Remember, RememberChoice, RememberScope, Risk, Rule, RuleId,
    RulePattern, RuleScope, Said, Sender, SessionId, Timestamp,
};
use serde_json::Value;
use uuid::Uuid;

/// Programs that start another one: the beginning of such a command says nothing about the rest of it.
const LAUNCHERS: [&str; 33] = [
    "bunx", "busybox", "chroot", "chrt", "command", "doas", "docker", "env", "exec", "find", "flatpak", "ionice", "nice", "nohup", "npx",
    "nsenter", "parallel", "pipx", "podman", "proot", "runuser", "script", "setpriv", "setsid", "ssh", "stdbuf", "su", "sudo", "time",
    "timeout", "uvx", "watch", "xargs",
];
/// Programs that run what they are given. With a script's name behind them, the script is what is allowed.
const INTERPRETERS: [&str; 22] = [
    "ash",
    "awk",
    "bash",
    "bun",
    "csh",
    "dash",
    "deno",
    "fish",
    "gawk",
    "ksh",
    "lua",
    "node",
    "nodejs",
    "perl",
    "php",
    "powershell",
    "pwsh",
    "python",
    "ruby",
    "sh",
    "tclsh",
    "zsh",
];
/// First words of a command that are offered at most; longer beginnings are hard to tell apart.
const MOST_WORDS: usize = 4;
/// Bytes that a rule shows of what was approved.
const SHOWN_BYTES: usize = 400;

/// The rule that an approval makes, or why it can't be one.
pub fn rule_of(
    approval: &ApprovalEntity,
    session_id: SessionId,
    remember: Remember,
    by: Sender,
    now: Timestamp,
) -> Result<Rule, ErrorBody> {
    let refused = |message: &str, hint: &str| Err(ErrorBody::new(ErrorCode::Invalid, message, hint));
    let binding = &approval.binding;
    if binding.risk == Risk::Dangerous {
        return refused("What is dangerous is asked about each time.", "Approve it once, without `remember`.");
    }
    let Some(device_id) = binding.device_id else { return refused("The call names no device.", "Approve it once, without `remember`.") };
    let only = match (remember.scope, binding.task_id) {
        (RememberScope::Always, _) => None,
        (RememberScope::Task, Some(task_id)) => Some(RuleScope { session_id, task_id }),
        (RememberScope::Task, None) => return refused("The call belongs to no task.", "Approve it once, or for always."),
    };
    let pattern = match remember.prefix_words {
        None => RulePattern::Exact {
            argument_digest: binding.argument_digest.clone(),
            shown: excerpt(&baton_proto::redact(&binding.preview), SHOWN_BYTES),
        },
        Some(count) => {
            let Some(words) = command(&approval.arguments) else {
                return refused(
                    "Only a command has a beginning that can be remembered.",
                    "Leave `prefix_words` out to remember the very same call.",
                );
            };
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            if count == 0 || count > words.len() {
                let message = format!("The command has {} words; `prefix_words` is one of them to all of them.", words.len());
                return refused(&message, "Choose how many of its first words later commands have to begin with.");
            }
            let words: Vec<String> = words.into_iter().take(count).map(str::to_owned).collect();
            if runs_anything(&words) {
                let message = format!("A command that begins with '{}' can run anything.", words.join(" "));
                return refused(&message, "Remember the very same call instead: leave `prefix_words` out.");
            }
            RulePattern::Prefix { words }
        }
    };
    Ok(Rule {
        rule_id: id_of(approval, &by),
        tool: binding.tool.clone(),
        device_id,
        directory: binding.directory.clone(),
        risk_reason: binding.risk_reason.clone(),
        pattern,
        max_risk: binding.risk,
        granted_by: by,
        granted_at: now,
        only,
    })
}

/// What of an approval may be remembered, for ends to offer: exactly what [`rule_of`] would take. And why nothing may be, or not how the
/// command begins.
pub(crate) fn choices(binding: &ApprovalBinding, arguments: &Value) -> (Vec<RememberChoice>, Option<Said>) {
    if binding.risk == Risk::Dangerous {
        return (Vec::new(), Some(Said::new("remember.dangerous", "What is dangerous is asked about each time.")));
    }
    if binding.device_id.is_none() {
        return (Vec::new(), Some(Said::new("remember.no_device", "The call names no device.")));
    }
    let words: Vec<String> = command(arguments).unwrap_or_default().into_iter().map(str::to_owned).collect();
    let longest = words.len().min(MOST_WORDS);
    let prefixes: Vec<_> = (1..=longest).rev().map(|count| words[..count].to_vec()).filter(|prefix| !runs_anything(prefix)).collect();
    let why = (longest > 0 && prefixes.is_empty()).then(|| {
        let begins = words[..1].join(" ");
        Said::new("remember.runs_anything", format!("A command that begins with '{begins}' can run anything.")).naming("words", begins)
    });
    let scopes = [binding.task_id.map(|_| RememberScope::Task), Some(RememberScope::Always)];
    let of_scope = |scope: RememberScope| {
        let exact = RememberChoice { scope, prefix_words: None, prefix: Vec::new() };
        let beginnings = prefixes.iter().map(move |prefix| RememberChoice {
            scope,
            prefix_words: u32::try_from(prefix.len()).ok(),
            prefix: prefix.clone(),
        });
        std::iter::once(exact).chain(beginnings)
    };
    (scopes.into_iter().flatten().flat_map(of_scope).collect(), why)
}

/// One rule for each approval and device, so that making it again makes no other, and taking one's own back leaves another's.
fn id_of(approval: &ApprovalEntity, by: &Sender) -> RuleId {
    RuleId(Uuid::from_u128(approval.id.0.as_u128() ^ by.device_id.0.as_u128().rotate_left(64)))
}

/// The rule that allows a call, if its granter is still trusted with that risk, and the device gives the same reason for the risk: a command
/// that runs in a sandbox isn't the same one without it.
pub(crate) fn allowing<'a>(around: &'a Surroundings, session: SessionId, call: &ToolCall, binding: &ApprovalBinding) -> Option<&'a Rule> {
    around.rules.iter().find(|rule| {
        let granter = around.devices.get(&rule.granted_by.device_id);
        let scope = rule.only.is_none_or(|only| only.session_id == session && Some(only.task_id) == call.task_id);
        scope
            && rule.tool == call.tool
            && Some(rule.device_id) == call.terms.device_id
            && rule.directory == binding.directory
            && rule.risk_reason == binding.risk_reason
            && call.risk <= rule.max_risk
            && call.risk < Risk::Dangerous
            && granter.is_some_and(|granter| policy::covers(granter.trust, call.risk, true).is_ok())
            && matches(&rule.pattern, &call.arguments)
    })
}

fn matches(pattern: &RulePattern, arguments: &Value) -> bool {
    match pattern {
        RulePattern::Exact { argument_digest, .. } => Digest::of_json(arguments) == *argument_digest,
        RulePattern::Prefix { words } => {
            command(arguments).is_some_and(|given| given.len() >= words.len() && given.iter().zip(words).all(|(given, word)| given == word))
        }
    }
}

/// The words of a call that is a command: an argument list is the one form whose beginning means something.
fn command(arguments: &Value) -> Option<Vec<&str>> {
    arguments.get("argv")?.as_array()?.iter().map(Value::as_str).collect()
}

fn runs_anything(words: &[String]) -> bool {
    let Some(first) = words.first() else { return true };
    let name = first.rsplit(['/', '\\']).next().unwrap_or(first).to_ascii_lowercase();
    // `python3.12` is a Python, and `bash.exe` a shell.
    let name = name.trim_end_matches(".exe").trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let names_a_script = words.get(1).is_some_and(|word| !word.starts_with('-') && !word.is_empty());
    LAUNCHERS.contains(&name) || INTERPRETERS.contains(&name) && !names_a_script
}
