//! Bad days of diff and undo: long, wide, binary and strangely named files, through the routes and in a terminal.

use crate::support::house::{House, Plan};
use crate::support::workspace::{commit, git, plain_project};
use crate::window::Window;
use baton_proto::{FileStatus, RecordedChanges};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// What a frame of the wire holds; an answer that comes in one is smaller.
const FRAME: usize = 256 * 1024;

const CHANGE: &str = r#"set -e
sed -i 's/^/x/' long.txt
sed -i 's/a/b/g' wide.txt
printf 'a\000b\377' > picture.bin
mv Case.txt case.txt
printf 'one\r\nTWO\r\n' > crlf.txt
for name in odd* evil*; do echo changed > "$name"; done
printf 'red \033[31m and \033]0;title\007 and \302\233 and back \r over' > escape.txt
"#;

fn project(directory: &Path) -> PathBuf {
    let work = plain_project(directory);
    let mut long = String::new();
    for line in 0..10_000 {
        writeln!(long, "line {line}").expect("a text can be written");
    }
    let write = |name: &[u8], text: &[u8]| std::fs::write(work.join(OsStr::from_bytes(name)), text).expect("a file");
    write(b"long.txt", long.as_bytes());
    write(b"wide.txt", "a".repeat(1_000_000).as_bytes());
    write(b"picture.bin", b"\x89PNG\0\0");
    write(b"Case.txt", b"the same\n");
    write(b"crlf.txt", b"one\r\ntwo\r\n");
    write(b"odd\xe9.txt", b"before\n");
    write("evil\u{202e}txt.exe".as_bytes(), b"before\n");
    write("evil\u{200b}.txt".as_bytes(), b"before\n");
    write(b"escape.txt", b"plain\n");
    write(b"change.sh", CHANGE.as_bytes());
    git(&work, &["init", "--quiet", "--initial-branch=main"]);
    commit(&work, "The beginning");
    work
}

fn snapshot(work: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(work)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), std::fs::read(&path).expect("a file")))
        .collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_s19_a_diff_of_long_wide_binary_and_strange_files_is_bounded_and_harmless_and_all_of_it_is_taken_back() {
    let house = House::build(Plan { workspace: Some(project), ..Plan::default() }).await;
    house.hands().await;
    let before = snapshot(&house.workspace);
    let said = house.terminal.ok(&["send", "--new", "--wait", "/run sh change.sh"]).await;
    let session = said.event("sent")["session_id"].as_str().expect("an id").parse().expect("an id");
    let diff = house.phone.diff(session, None, None, None).await.expect("a diff");
    let bytes = serde_json::to_vec(&diff).expect("a diff is data").len();
    assert!(bytes < FRAME, "{bytes} bytes");
    let RecordedChanges { files, files_left_out, .. } = diff.changes;
    assert_eq!(files_left_out, 0);
    let file = |path: &str| files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path} in {files:#?}"));
    let long = file("long.txt");
    assert_eq!((long.added, long.removed), (10_000, 10_000));
    let shown = u32::try_from(long.diff.lines().count()).expect("few");
    assert!(long.lines_left_out > 0 && shown + long.lines_left_out >= 20_000, "{shown} and {}", long.lines_left_out);
    let wide = file("wide.txt");
    assert!(wide.diff.len() < 10_000 && wide.diff.contains("bbbb"), "{} bytes", wide.diff.len());
    assert!(file("picture.bin").binary && file("picture.bin").diff.is_empty());
    let renamed = file("case.txt");
    assert_eq!((renamed.status, renamed.old_path.as_deref()), (FileStatus::Renamed, Some("Case.txt")));
    assert!(file("crlf.txt").diff.contains("-two\\r\n+TWO\\r\n") && !file("crlf.txt").diff.contains("-one"));
    for path in ["odd\\xE9.txt", "evil⟨U+202E⟩txt.exe", "evil⟨U+200B⟩.txt"] {
        assert!(file(path).diff.contains("-before\n+changed\n"), "{path}");
    }

    // People are shown nothing that acts on their terminal.
    let shown = house.terminal.show(&["diff"], "").await;
    let harmless = |text: &str| text.chars().all(|c| c == '\n' || !c.is_control() && !matches!(c, '\u{202e}' | '\u{200b}'));
    assert!(shown.code == 0 && harmless(&shown.out), "{}", shown.errors);
    assert!(shown.out.contains("red ⟨U+001B⟩[31m and ⟨U+001B⟩]0;title⟨U+0007⟩ and ⟨U+009B⟩"));
    for words in ["more lines of this diff are left out]", "● modified picture.bin  (not text)", "● renamed case.txt (was Case.txt)"] {
        assert!(shown.out.contains(words), "{words}");
    }

    // In a small terminal it comes a screen at a time, and what is looked at first is its beginning.
    let mut window = Window::open(&house.terminal, &["diff"], (24, 80));
    window.sees("● renamed case.txt").await;
    assert!(!window.everything().contains("● modified wide.txt"), "the rest waits for a key");
    window.press("/wide.txt\r");
    window.sees("● modified wide.txt").await;
    window.press("q");
    assert_eq!(window.code().await, 0);

    let undone = house.terminal.run(&["send", "--wait", "/undo"]).await;
    assert_eq!(undone.code, 0, "{undone:?}");
    assert!(snapshot(&house.workspace) == before, "every file is as it was, byte for byte, and has its name");
}
