//! Remembered approvals (E5): what a rule is made of, and which calls it answers for.

use crate::context::Surroundings;
use crate::machine::tool_call::ToolCall;
use crate::policy;
use crate::words::excerpt;
use baton_proto::{
    ApprovalEntity, Digest, ErrorBody, ErrorCode, Remember, RememberScope, Risk, Rule, RuleId, RulePattern, RuleScope, Sender, SessionId,
    Timestamp,
};
use serde_json::Value;

/// Programs that run whatever they are given: the beginning of such a command says nothing about the rest of it.
const RUN_ANYTHING: [&str; 29] = [
    "ash", "awk", "bash", "bun", "csh", "dash", "deno", "doas", "env", "eval", "exec", "find", "fish", "ksh", "lua", "nice", "node", "nohup", "perl",
    "php", "powershell", "pwsh", "python", "python3", "ruby", "sh", "sudo", "xargs", "zsh",
];
/// Bytes that a rule shows of what was approved.
const SHOWN_BYTES: usize = 400;

/// The rule that an approval makes, or why it can't be one.
pub fn rule_of(approval: &ApprovalEntity, session_id: SessionId, remember: Remember, by: Sender, now: Timestamp) -> Result<Rule, ErrorBody> {
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
                return refused("Only a command has a beginning that can be remembered.", "Leave `prefix_words` out to remember the very same call.");
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
        rule_id: RuleId(approval.id.0),
        tool: binding.tool.clone(),
        device_id,
        directory: binding.directory.clone(),
        pattern,
        max_risk: binding.risk,
        granted_by: by,
        granted_at: now,
        only,
    })
}

/// The rule that allows a call, if its granter is still trusted with that risk.
pub(crate) fn allowing<'a>(around: &'a Surroundings, session: SessionId, call: &ToolCall, directory: Option<&str>) -> Option<&'a Rule> {
    around.rules.iter().find(|rule| {
        let granter = around.devices.get(&rule.granted_by.device_id);
        let scope = rule.only.is_none_or(|only| only.session_id == session && Some(only.task_id) == call.task_id);
        scope
            && rule.tool == call.tool
            && Some(rule.device_id) == call.terms.device_id
            && rule.directory.as_deref() == directory
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
    let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_ascii_lowercase();
    words.len() == 1 && words.first().is_some_and(|word| RUN_ANYTHING.contains(&name(word).trim_end_matches(".exe")))
        || words.first().is_some_and(|word| ["sudo", "doas", "env", "xargs", "nice", "nohup"].contains(&name(word).as_str()))
        || words.iter().skip(1).any(|word| word == "-c" || word == "-e" || word == "--eval") && words.len() <= 2
}
