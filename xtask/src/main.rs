//! Builds, starts, tests and measures Baton. Each command is a thin wrapper around the real tools (npm, cargo), says what
//! it runs, and stops at the first failure. Nothing of the product lives here.

mod bench;
mod fuzz;
mod prerequisites;
mod root;
mod test;
mod tools;
mod types;
mod up;
mod web;

use anyhow::Result;
use root::Root;
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask COMMAND

  up [ARGUMENTS…]   build everything and start `baton up ARGUMENTS…`
  test [--fast]     prepare what the tests need, and run all checks and tests;
                    --fast: the checks and the unit tests of the Rust crates only
  build             build the console, and the release binary with the console in it
  web               build the console only
  types             write the wire's JSON Schema and the TypeScript types from crates/baton-proto
  bench [NAME …]    run a bench (figures on standard output, one JSON object a line); without a name, list them
  fuzz [TARGET …] [--seconds N]
                    throw made-up input at what reads operations, stored events, arguments, manifests and archives
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode> {
    let root = Root::find()?;
    let Some((command, rest)) = arguments.split_first() else {
        eprint!("{USAGE}");
        return Ok(ExitCode::from(2));
    };
    match (command.as_str(), rest) {
        ("up", rest) => up::up(&root, rest)?,
        ("test", []) => test::everything(&root)?,
        ("test", [fast]) if fast == "--fast" => test::fast(&root)?,
        ("build", []) => up::build_release(&root)?,
        ("web", []) => {
            prerequisites::require(prerequisites::CONSOLE)?;
            web::build(&root)?;
        }
        ("types", []) => types::write(&root)?,
        ("bench", rest) => bench::bench(&root, rest)?,
        ("fuzz", rest) => fuzz::fuzz(&root, rest)?,
        ("help" | "--help" | "-h", _) => eprint!("{USAGE}"),
        _ => {
            eprintln!("xtask: there is no command '{}'.\n", arguments.join(" "));
            eprint!("{USAGE}");
            return Ok(ExitCode::from(2));
        }
    }
    Ok(ExitCode::SUCCESS)
}
