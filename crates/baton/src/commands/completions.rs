use crate::args::{Args, Completions};
use crate::failure::Failure;
use clap::CommandFactory;
use std::io::Write;

/// Prints what a shell has to read to complete commands and options.
pub(crate) fn run(args: Completions) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "baton", &mut text);
    std::io::stdout().lock().write_all(&text)?;
    Ok(0)
}
