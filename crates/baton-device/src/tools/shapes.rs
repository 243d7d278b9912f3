//! Which commands only read (S18): whole argument vectors of known shapes, since a program's name alone says nothing.
//!
//! They run with a workspace that can't be written, so a mistake here shows something and changes nothing.

use crate::workspace::RelativePath;

/// Whether a command is one of the shapes that run without asking.
pub(super) fn only_reads(argv: &[String]) -> bool {
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let Some((program, rest)) = words.split_first() else { return false };
    match *program {
        "pwd" => rest.is_empty(),
        "ls" => operands(rest, &["-l", "-a", "-A", "-1", "-h", "-la", "-al", "-lh", "-lah"], 0),
        "cat" => operands(rest, &["-n"], 1),
        "wc" => operands(rest, &["-l", "-w", "-c"], 1),
        "head" | "tail" => match rest {
            ["-n", count, paths @ ..] => number(count) && operands(paths, &[], 1),
            paths => operands(paths, &[], 1),
        },
        "git" => git(rest),
        _ => false,
    }
}

/// Whether a shape starts git, which acts by the repository's configuration and so needs a sandbox even to read (S9).
pub(super) fn is_git(argv: &[String]) -> bool {
    argv.first().is_some_and(|program| program == "git")
}

fn git(rest: &[&str]) -> bool {
    match rest {
        ["status", flags @ ..] => flags.iter().all(|flag| ["-s", "-b", "-sb", "--short", "--branch", "--porcelain"].contains(flag)),
        ["diff", flags @ ..] => {
            flags.iter().all(|flag| ["--stat", "--staged", "--cached", "--name-only", "--no-ext-diff", "--no-textconv"].contains(flag))
        }
        ["log", "--oneline", "-n", count] | ["log", "-n", count] | ["log", "-n", count, "--oneline"] => number(count),
        ["branch", "--show-current"] | ["rev-parse", "HEAD"] => true,
        _ => false,
    }
}

/// Flags of a list, then at least `least` plain paths inside the workspace. Anything else that starts with `-` is no path.
fn operands(words: &[&str], flags: &[&str], least: usize) -> bool {
    let paths = words.iter().skip_while(|word| flags.contains(word));
    let paths: Vec<_> = paths.collect();
    paths.len() >= least && paths.iter().all(|path| plain_path(path))
}

fn plain_path(word: &str) -> bool {
    !word.is_empty() && !word.starts_with('-') && RelativePath::parse(word).is_ok_and(|path| !path.is_git_internal())
}

fn number(word: &str) -> bool {
    (1..=5).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(line: &str) -> bool {
        only_reads(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn s18_whole_shapes_are_known_and_all_else_asks() {
        for line in [
            "pwd",
            "ls",
            "ls -la src",
            "cat README.md a/b",
            "wc -l x",
            "head -n 20 x",
            "tail x",
            "git status",
            "git status --short",
            "git diff --stat",
            "git log --oneline -n 20",
            "git branch --show-current",
            "git rev-parse HEAD",
        ] {
            assert!(reads(line), "{line}");
        }
        for line in [
            "git log --output=x",
            "git log --oneline -n 5 --output=x",
            "git log --oneline -n -5",
            "git diff --ext-diff",
            "git diff --output=x",
            "git -c core.pager=x log -n 1",
            "git status --no-such",
            "git show",
            "git grep -O x",
            "git branch x",
            "sort -o x y",
            "sort --outp x y",
            "find . -exec rm x ;",
            "find . -fprintf x y",
            "env -S x",
            "env ls",
            "rg --pre x y",
            "awk x y",
            "xargs rm",
            "less x",
            "man ls",
            "sh -c ls",
            "bash -c ls",
            "busybox ls",
            "sudo ls",
            "nohup ls",
            "timeout 5 ls",
            "/bin/ls",
            "./ls",
            "cat",
            "cat /etc/passwd",
            "cat ../x",
            "cat a/../../x",
            "cat .git/config",
            "cat -",
            "cat -A x",
            "cat x -n",
            "ls --color=always",
            "ls -R --hyperlink",
            "head -c 5 x",
            "head -n x y",
            "tail -f x",
            "tail -n 5 -f x",
            "wc --files0-from=x",
            "wc --files0-from x",
            "LS",
            "ls\n-la",
            "tee x",
            "cp a b",
            "",
        ] {
            assert!(!reads(line), "{line:?}");
        }
        assert!(!only_reads(&[]));
    }

    #[test]
    fn s18_a_chain_of_60_harmless_commands_and_a_denied_one_asks() {
        let chain = format!("{}rm x", "ls; ".repeat(60));
        for argv in [vec!["sh", "-c", &chain], vec!["bash", "-lc", &chain], vec!["ls", ";", "rm", "x", "&&", "-rf"], vec![&chain]] {
            assert!(!only_reads(&argv.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()), "{argv:?}");
        }
    }
}
