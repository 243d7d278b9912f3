use crate::args::{Args, Completions};
use crate::output;
use clap::CommandFactory;

/// Prints what a shell has to read to complete commands and options.
pub(crate) fn run(args: Completions) -> u8 {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "baton", &mut text);
    output::bytes(&text);
    0
}
