use crate::args::{Args, Completions};
use crate::failure::Failure;
use crate::output;
use clap::CommandFactory;

/// Prints what a shell has to read to complete commands and options.
pub(crate) fn run(args: Completions) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "baton", &mut text);
    output::bytes(&text);
    Ok(0)
}
