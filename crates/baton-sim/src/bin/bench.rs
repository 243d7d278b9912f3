//! `cargo xtask bench [NAME] [--seconds S]`: lists the benches, or runs one.

use anyhow::{Result, bail};
use baton_sim::bench::steps;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next();
    let mut seconds = 1.0;
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.next().and_then(|value| value.parse::<f64>().ok())) {
            ("--seconds", Some(value)) if value > 0.0 && value <= 600.0 => seconds = value,
            _ => bail!("usage: bench [NAME] [--seconds S], S above 0 and at most 600"),
        }
    }
    let figures = match name.as_deref() {
        None => {
            eprintln!("steps   durable steps a second: decided, appended with the operation's id, committed, answered; beside bare SQLite");
            return Ok(());
        }
        Some("steps") => steps::run(seconds).await?,
        Some(other) => bail!("there is no bench '{other}'; run without a name to list them"),
    };
    let mut out = std::io::stdout().lock();
    for figure in figures {
        std::io::Write::write_all(&mut out, format!("{}\n", figure.line()).as_bytes())?;
    }
    Ok(())
}
