use crate::args::{Args, Man};
use crate::failure::Failure;
use crate::output;
use clap::CommandFactory;

/// Prints the manual page, or writes a page for each command into a directory.
pub(crate) fn run(args: Man) -> Result<u8, Failure> {
    let command = Args::command();
    if let Some(directory) = args.directory {
        std::fs::create_dir_all(&directory)?;
        clap_mangen::generate_to(command, &directory)?;
        return Ok(0);
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    output::bytes(&text);
    Ok(0)
}
