use crate::args::{Rules, RulesAction};
use crate::failure::Failure;
use crate::output::Output;
use crate::{profile, words};
use baton_client::Http;
use baton_proto::{Rule, RuleId, RulePattern};
use serde_json::json;

pub(crate) async fn run(args: Rules, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    match args.action {
        None => list(&http, out).await?,
        Some(RulesAction::Remove { id }) => {
            let id = find(&http, &id).await?;
            http.remove_rule(id).await?;
            out.say(&json!({"event": "rule_removed", "rule_id": id}), "Removed. Calls like it are asked about again.");
        }
    }
    Ok(0)
}

async fn list(http: &Http, out: &Output) -> Result<(), Failure> {
    let rules = http.rules().await?;
    if rules.is_empty() {
        out.say(&serde_json::Value::Null, "Nothing is remembered: each call that needs approval is asked about.");
    }
    for rule in &rules {
        let mut value = serde_json::to_value(rule).unwrap_or_default();
        value["event"] = json!("rule");
        out.say(&value, &words(rule));
    }
    Ok(())
}

fn words(rule: &Rule) -> String {
    let what = match &rule.pattern {
        RulePattern::Exact { shown, .. } => format!("exactly: {}", shown.lines().next().unwrap_or_default()),
        RulePattern::Prefix { words } => format!("beginning with: {}", words::command(words.iter().map(String::as_str))),
    };
    let scope = rule.only.map_or_else(|| "always".to_owned(), |only| format!("for task {}", only.task_id));
    let risk = words::risk(rule.max_risk);
    let directory = rule.directory.as_ref().map(|directory| format!("\n    in {directory}")).unwrap_or_default();
    format!("{}  {} {what}\n    {scope}, up to {risk}, granted on {}{directory}", rule.rule_id, rule.tool, rule.granted_by.name)
}

/// A rule by its id or by the end of it.
async fn find(http: &Http, named: &str) -> Result<RuleId, Failure> {
    if let Ok(id) = named.parse() {
        return Ok(id);
    }
    let rules = http.rules().await?;
    let matching: Vec<_> = rules.iter().filter(|rule| named.len() >= 4 && rule.rule_id.to_string().ends_with(named)).collect();
    match matching.as_slice() {
        [one] => Ok(one.rule_id),
        [] => Err(Failure::usage(format!("No rule's id ends with '{named}'."), "`baton rules` lists them.")),
        _ => Err(Failure::usage(format!("More than one rule's id ends with '{named}'."), "Give its whole id.")),
    }
}
