use crate::args::{Args, Man};
use crate::failure::Failure;
use clap::CommandFactory;
use std::io::Write;

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
    std::io::stdout().lock().write_all(&text)?;
    Ok(0)
}
