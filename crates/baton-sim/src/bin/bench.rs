//! `cargo xtask bench [NAME] [--seconds S] [--first SEED] [--seeds N]`: lists the benches, or runs one.

use anyhow::{Context as _, Result, bail};
use baton_sim::bench::{fanout, faults, hub_process, list, open, reconnect, search, steps};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next();
    if name.as_deref() == Some("hub") {
        // What a bench starts for itself.
        let wanted = arguments.next().context("the hub of a bench is told what it is to be like")?;
        return hub_process::run(serde_json::from_str(&wanted)?).await;
    }
    let mut seconds = 1.0;
    let (mut first, mut seeds) = (0, 1000);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.next().and_then(|value| value.parse::<f64>().ok())) {
            ("--seconds", Some(value)) if value > 0.0 && value <= 600.0 => seconds = value,
            ("--first", Some(value)) if value >= 0.0 => first = whole(value),
            ("--seeds", Some(value)) if value >= 1.0 => seeds = whole(value),
            _ => bail!("usage: bench [NAME] [--seconds S] [--first SEED] [--seeds N], S above 0 and at most 600"),
        }
    }
    let mut fine = true;
    let figures = match name.as_deref() {
        None => {
            eprintln!(
                "fanout  50 sessions of 5 devices over real sockets: from an operation to its event on the last; memory of an idle device"
            );
            eprintln!("faults  seeded worlds in which everything goes wrong: how many lose, double or strand anything");
            eprintln!("list    5,000 sessions, one of them very long: a page, the whole list, and the start of a hub that has them");
            eprintln!("open    a session of 100 to 100,000 events, with its cached state and without");
            eprintln!(
                "reconnect  reconnections (--seeds N) at random instants of a busy task: gaps, repeats, and the time to be caught up"
            );
            eprintln!("search  words among 100,000 messages, English and Chinese; beside a plain scan of the same file");
            eprintln!("steps   durable steps a second: decided, appended with the operation's id, committed, answered; beside bare SQLite");
            return Ok(());
        }
        Some("fanout") => fanout::run(seconds).await?,
        Some("reconnect") => {
            let (figures, complete) = reconnect::run(first, seeds).await?;
            fine = complete;
            figures
        }
        Some("list") => list::run().await?,
        Some("open") => open::run().await?,
        Some("faults") => faults::run(first, seeds)?,
        Some("search") => search::run().await?,
        Some("steps") => steps::run(seconds).await?,
        Some(other) => bail!("there is no bench '{other}'; run without a name to list them"),
    };
    let mut out = std::io::stdout().lock();
    for figure in figures {
        std::io::Write::write_all(&mut out, format!("{}\n", figure.line()).as_bytes())?;
    }
    if !fine {
        bail!("a change was missed, came twice, or isn't what the log says");
    }
    Ok(())
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are far below 2^52 and not negative")]
fn whole(value: f64) -> u64 {
    value as u64
}
