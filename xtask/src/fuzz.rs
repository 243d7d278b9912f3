use crate::root::Root;
use crate::tools;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A fuzzer's name, with the beginnings of the golden files that its inputs are made of.
type Target = (&'static str, &'static [&'static str]);

const TARGETS: [Target; 5] = [
    ("operation", &["operation.", "client_frame."]),
    ("stored_event", &["event.", "user_event."]),
    ("arguments", &[]),
    ("manifest", &["client_frame.hello"]),
    ("archive", &["event."]),
];
const SECONDS: u64 = 60;
/// One input that takes longer is a finding.
const LONGEST_INPUT_S: u64 = 10;
/// Larger than any frame, so that limits are met from both sides.
const LONGEST_INPUT_BYTES: u64 = 300 * 1024;
/// What lets libFuzzer see which ways an input takes. They are options of every stable compiler.
const INSTRUMENTED: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                            -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=4 --cfg fuzzing";

/// Builds the fuzzers with instrumentation and runs one or all of them for so long each. What was found earlier is kept below `target`, and
/// so is an input that breaks something.
pub(crate) fn fuzz(root: &Root, arguments: &[String]) -> Result<()> {
    let (chosen, seconds) = choose(arguments)?;
    let host = host()?;
    let target = root.join("target/fuzz");
    let mut build = tools::command(
        root,
        &tools::cargo_program(),
        format!("build --release --manifest-path fuzz/Cargo.toml --target {host}").split_whitespace(),
    );
    build.env("RUSTFLAGS", INSTRUMENTED).env("CARGO_TARGET_DIR", &target);
    tools::run(build)?;
    for (name, families) in chosen {
        let corpus = target.join("corpus").join(name);
        seed(root, name, families, &corpus)?;
        let found = target.join("found").join(name);
        fs::create_dir_all(&found).with_context(|| format!("can't make {}", found.display()))?;
        let program = target.join(&host).join("release").join(name);
        let mut run = Command::new(program);
        run.current_dir(root.path()).arg(&corpus).args([
            format!("-max_total_time={seconds}"),
            format!("-timeout={LONGEST_INPUT_S}"),
            format!("-max_len={LONGEST_INPUT_BYTES}"),
            "-rss_limit_mb=2048".to_owned(),
            "-print_final_stats=1".to_owned(),
            format!("-artifact_prefix={}/", found.display()),
        ]);
        tools::run(run)?;
    }
    Ok(())
}

fn choose(arguments: &[String]) -> Result<(Vec<Target>, u64)> {
    let (mut chosen, mut seconds) = (Vec::new(), SECONDS);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--seconds" {
            let number = words.next().and_then(|number| number.parse().ok());
            seconds = number.context("--seconds is followed by a number, such as `--seconds 600`")?;
        } else if let Some(target) = TARGETS.into_iter().find(|(name, _)| name == word) {
            chosen.push(target);
        } else {
            bail!("there is no fuzzer '{word}'; there are {}", TARGETS.map(|(name, _)| name).join(", "));
        }
    }
    Ok((if chosen.is_empty() { TARGETS.to_vec() } else { chosen }, seconds))
}

/// The machine that programs are built for where nothing else is said. Naming it keeps the instrumentation out of build scripts.
fn host() -> Result<String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(rustc).arg("-vV").output().context("can't ask rustc what it builds for")?;
    let told = String::from_utf8_lossy(&output.stdout);
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc doesn't say what it builds for")
}

/// Puts golden files and the target's own seeds beside what was found earlier.
fn seed(root: &Root, name: &str, families: &[&str], corpus: &Path) -> Result<()> {
    fs::create_dir_all(corpus).with_context(|| format!("can't make {}", corpus.display()))?;
    let golden = root.join("crates/baton-proto/tests/golden/v1");
    for path in files(&golden)? {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if families.iter().any(|family| file.starts_with(family)) {
            let text = fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
            // In one line, as events stand in a store and in an archive: whatever is between tokens is indentation.
            let line = text.lines().map(str::trim_start).collect::<String>();
            fs::write(corpus.join(file), line).context("can't write the corpus")?;
        }
    }
    if name == "archive" {
        let lines = |file: &str| fs::read_to_string(corpus.join(file)).with_context(|| format!("can't read {file}"));
        let created = lines("event.session_created.json")?;
        let mut all = vec![created.clone()];
        for path in files(corpus)? {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if file.starts_with("event.") && file != "event.session_created.json" {
                let event = lines(&file)?;
                fs::write(corpus.join(format!("two.{file}")), format!("{created}\n{event}")).context("can't write the corpus")?;
                all.push(event);
            }
        }
        fs::write(corpus.join("all.json"), all.join("\n")).context("can't write the corpus")?;
    }
    let own = root.join("fuzz/seeds").join(name);
    if own.is_dir() {
        for path in files(&own)? {
            fs::copy(&path, corpus.join(path.file_name().unwrap_or_default())).context("can't write the corpus")?;
        }
    }
    Ok(())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("can't read {}", folder.display()))?;
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}
