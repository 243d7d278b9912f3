use crate::failure::Failure;
use crate::output::Output;
use crate::profile;
use baton_proto::DayUsage;
use serde_json::json;

pub(crate) async fn run(profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let report = profile::load(profile)?.http()?.usage().await?;
    if report.days.is_empty() {
        out.say(&serde_json::Value::Null, "No model was asked yet.");
    }
    let price = report.price.as_ref();
    for DayUsage { day, usage, cost } in &report.days {
        let costs = price.zip(*cost).map(|(price, cost)| format!("; {cost:.2} {}", price.currency)).unwrap_or_default();
        out.say(
            &json!({"event": "usage", "day": day, "usage": usage, "cost": cost, "currency": price.map(|price| &price.currency)}),
            &format!(
                "{day}  {:>11} tokens: {} read ({} of them from the provider's cache), {} written{costs}",
                usage.total(),
                usage.input_tokens,
                usage.cached_input_tokens,
                usage.output_tokens
            ),
        );
    }
    let words = |budget: Option<u64>| budget.map_or_else(|| "none".to_owned(), |tokens| format!("{tokens} tokens"));
    out.say(
        &json!({"event": "budgets", "task_tokens": report.task_budget, "day_tokens": report.day_budget}),
        &format!("Budget of a task: {}. Budget of a day: {}.", words(report.task_budget), words(report.day_budget)),
    );
    Ok(0)
}
