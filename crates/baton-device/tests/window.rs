//! What people look at in a workspace without a call: files in parts, and names for whoever begins to write one.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

mod common;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use baton_proto::{Digest, FilePart, FileShown, FoundPaths, MAX_FILE_PART_BYTES, MAX_SHOWN_FILE_BYTES};
use common::Place;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::Instant;

async fn look(place: &Place, path: &str, offset: u64, digest: Option<&Digest>) -> Result<FilePart, String> {
    match place.tools.window().unwrap().file(path.to_owned(), offset, digest.cloned()).await {
        FileShown::Part(part) => Ok(part),
        FileShown::Refused { error } => Err(error.code),
    }
}

/// A whole file, by its parts.
async fn whole(place: &Place, path: &str) -> Vec<u8> {
    let mut part = look(place, path, 0, None).await.unwrap();
    let mut bytes = Vec::new();
    loop {
        assert_eq!(part.offset, bytes.len() as u64);
        bytes.extend(BASE64_STANDARD.decode(&part.content).unwrap());
        if bytes.len() as u64 == part.bytes {
            assert_eq!(Digest::of_bytes(&bytes), part.digest);
            return bytes;
        }
        part = look(place, path, bytes.len() as u64, Some(&part.digest)).await.unwrap();
    }
}

async fn find(place: &Place, query: &str, limit: u32) -> FoundPaths {
    place.tools.window().unwrap().paths(query.to_owned(), limit).await
}

fn paths(found: &FoundPaths) -> Vec<&str> {
    found.paths.iter().map(|found| found.path.as_str()).collect()
}

#[tokio::test]
async fn s13_nothing_outside_the_workspace_is_shown_and_nothing_hangs() {
    let place = Place::new();
    std::fs::write(place.directory.path().join("secret"), "secret").unwrap();
    let at = place.path();
    symlink("../secret", at.join("link")).unwrap();
    symlink("..", at.join("up")).unwrap();
    symlink("/dev/zero", at.join("zero")).unwrap();
    mknodat(CWD, at.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _listener = UnixListener::bind(at.join("socket")).unwrap();
    let beside = format!("{}-beside/secret", at.display());
    let through = format!("{}/../secret", at.display());
    for (path, code) in [
        ("../secret", "outside_workspace"),
        ("/etc/passwd", "outside_workspace"),
        ("//etc/passwd", "outside_workspace"),
        ("a/../../secret", "outside_workspace"),
        (beside.as_str(), "outside_workspace"),
        (through.as_str(), "outside_workspace"),
        ("link", "outside_workspace"),
        ("up/secret", "outside_workspace"),
        ("zero", "outside_workspace"),
        ("a\0b", "outside_workspace"),
        ("pipe", "not_a_file"),
        ("socket", "not_a_file"),
        ("", "not_a_file"),
        ("%2e%2e/secret", "not_found"),
        ("..%2fsecret", "not_found"),
        ("nothing", "not_found"),
    ] {
        assert_eq!(look(&place, path, 0, None).await.unwrap_err(), code, "{path}");
    }
    // A directory that is swapped for a link between two parts.
    place.write("inner/file", vec![b'x'; 2 * MAX_FILE_PART_BYTES]);
    assert!(look(&place, "inner/file", 0, None).await.is_ok());
    std::fs::rename(at.join("inner"), at.join("moved")).unwrap();
    symlink(place.directory.path(), at.join("inner")).unwrap();
    assert_eq!(look(&place, "inner/secret", 0, None).await.unwrap_err(), "outside_workspace");
}

#[tokio::test]
async fn c33_a_file_comes_whole_in_parts_without_secrets_and_never_as_two_halves_of_different_ones() {
    let place = Place::new();
    let long: Vec<u8> = (0..300_000_u32).flat_map(|n| if n % 97 == 0 { [0, 10] } else { [b'a', u8::try_from(n % 251).unwrap()] }).collect();
    place.write("long.bin", &long);
    assert_eq!(whole(&place, "long.bin").await, long);
    place.write("empty", "");
    assert_eq!(whole(&place, "empty").await, b"");
    // By its absolute path on the device, too (C31).
    place.write("sub/文字.txt", "你好\r\n");
    assert_eq!(whole(&place, &format!("{}/sub/文字.txt", place.path().display())).await, "你好\r\n".as_bytes());

    // A secret is masked also where it lies across two parts, and bytes beside it that are no characters stay as they are.
    let token = format!("ghp_{}", "a".repeat(36));
    let mut text = vec![b' '; MAX_FILE_PART_BYTES - 10];
    text.extend(format!("{token} ").bytes());
    text.extend(b"caf\xe9\n");
    place.write("keys.txt", &text);
    let shown = whole(&place, "keys.txt").await;
    let lossy = String::from_utf8_lossy(&shown);
    assert!(!lossy.contains("aaaa") && lossy.contains("[token not shown]") && shown.ends_with(b"caf\xe9\n"));

    let first = look(&place, "long.bin", 0, None).await.unwrap();
    let next = MAX_FILE_PART_BYTES as u64;
    assert!(look(&place, "long.bin", next, Some(&first.digest)).await.is_ok());
    // Many others are opened meanwhile, so the first is read anew; it is another file by then.
    for number in 0..8 {
        let name = format!("long{number}.bin");
        place.write(&name, &long);
        look(&place, &name, 0, None).await.unwrap();
    }
    place.write("long.bin", vec![b'b'; 600_000]);
    assert_eq!(look(&place, "long.bin", next, Some(&first.digest)).await.unwrap_err(), "changed_since");

    let large = std::fs::File::create(place.path().join("large")).unwrap();
    large.set_len(MAX_SHOWN_FILE_BYTES).unwrap();
    assert!(look(&place, "large", 0, None).await.is_ok());
    large.set_len(MAX_SHOWN_FILE_BYTES + 1).unwrap();
    assert_eq!(look(&place, "large", 0, None).await.unwrap_err(), "too_large");
}

#[tokio::test]
async fn names_are_found_by_beginning_part_and_letters_and_what_git_ignores_is_not_named() {
    let place = Place::new();
    for name in [
        "src/main.rs",
        "src/domain.rs",
        "maintain/README.md",
        "文档/说明.txt",
        "docs/Makefile",
        "build/main.o",
        "kept.log",
        "other.log",
        "inner/own.tmp",
        "inner/deep/own.tmp",
        "inner/deep/main.tmp",
        "node_modules/main/main.js",
        ".git/main",
    ] {
        place.write(name, "x");
    }
    place.write(".gitignore", "/build/\n*.log\n!kept.log\n");
    place.write("inner/.gitignore", "/own.tmp\n");
    std::fs::write(place.path().join(OsStr::from_bytes(b"caf\xe9.txt")), "x").unwrap();
    std::fs::write(place.path().join("evil\u{202e}txt.exe"), "x").unwrap();
    symlink("/etc", place.path().join("main-link")).unwrap();

    let found = find(&place, "main", 20).await;
    assert_eq!(paths(&found), ["maintain", "src/main.rs", "inner/deep/main.tmp", "maintain/README.md", "src/domain.rs"], "{found:?}");
    assert!(!found.more && found.cut.is_none() && found.paths[0].directory);
    assert_eq!(paths(&find(&place, "SRC/MA", 20).await), ["src/main.rs", "src/domain.rs"], "letters that are apart come last");
    assert_eq!(paths(&find(&place, "./src/main.rs", 20).await)[0], "src/main.rs");
    assert_eq!(paths(&find(&place, "说", 20).await), ["文档/说明.txt"]);
    assert_eq!(paths(&find(&place, "dmkf", 20).await), ["docs/Makefile"], "its letters in that order");
    assert_eq!(paths(&find(&place, ".log", 20).await), ["kept.log"]);
    assert_eq!(paths(&find(&place, "own.tmp", 20).await), ["inner/deep/own.tmp"]);
    let top = find(&place, "", 4).await;
    assert!(top.more && paths(&top).iter().all(|path| !path.contains('/')), "{top:?}");
    assert_eq!(find(&place, "", 10_000).await.paths.len() as u64, top.listed, "all of them, up to a hundred");

    // What deceives is shown as it is, and what is taken leads to the file.
    let evil = &find(&place, "evil", 1).await.paths[0];
    assert_eq!((evil.path.as_str(), evil.shown.as_deref()), ("evil\u{202e}txt.exe", Some("evil⟨U+202E⟩txt.exe")));
    let cafe = find(&place, "caf", 1).await.paths[0].clone();
    assert_eq!(cafe.shown.as_deref(), Some("caf\\xE9.txt"));
    assert_eq!(whole(&place, &cafe.path).await, b"x");
}

#[tokio::test]
async fn as_many_files_as_people_fetch_at_once_come_whole_though_they_change_meanwhile() {
    let place = Place::new();
    let contents: Vec<_> = (0..8).map(|number| vec![b'0' + number; 2 * MAX_FILE_PART_BYTES + 1]).collect();
    let mut digests = Vec::new();
    for (number, content) in contents.iter().enumerate() {
        place.write(&format!("file{number}"), content);
        digests.push(look(&place, &format!("file{number}"), 0, None).await.unwrap().digest);
    }
    // What is read of them from here on is another file.
    for number in 0..contents.len() {
        place.write(&format!("file{number}"), "changed");
    }
    for offset in [MAX_FILE_PART_BYTES, 2 * MAX_FILE_PART_BYTES] {
        for (number, digest) in digests.iter().enumerate() {
            let part = look(&place, &format!("file{number}"), offset as u64, Some(digest)).await.unwrap();
            assert_eq!(part.bytes, 2 * MAX_FILE_PART_BYTES as u64 + 1);
        }
    }

    // What they hold together is bounded: of five of the largest, the first is let go.
    for number in 0..5 {
        let file = std::fs::File::create(place.path().join(format!("large{number}"))).unwrap();
        file.set_len(MAX_SHOWN_FILE_BYTES).unwrap();
        let digest = look(&place, &format!("large{number}"), 0, None).await.unwrap().digest;
        file.set_len(1).unwrap();
        if number == 4 {
            let next = MAX_FILE_PART_BYTES as u64;
            assert_eq!(look(&place, "large0", next, Some(&digest)).await.unwrap_err(), "changed_since");
            assert!(look(&place, "large4", next, Some(&digest)).await.is_ok());
        }
    }
}

/// Packages with that many components each.
fn packages(place: &Place, packages: usize, components: usize) {
    for package in 0..packages {
        let at = place.path().join(format!("package{package}/source"));
        std::fs::create_dir_all(&at).unwrap();
        for component in 0..components {
            std::fs::File::create(at.join(format!("component_{component}.tsx"))).unwrap();
        }
    }
}

#[tokio::test]
async fn a_name_among_many_is_found_by_a_few_of_its_letters() {
    let place = Place::new();
    packages(&place, 40, 50);
    let found = find(&place, "p39comp49", 20).await;
    assert_eq!(paths(&found)[0], "package39/source/component_49.tsx");
    assert_eq!((found.listed, found.cut, found.more), (40 * 52, None, false));
}

#[tokio::test]
#[ignore = "a bench: it prints what it takes to list a hundred thousand names, and to look at them"]
async fn a_look_at_a_hundred_thousand_names() {
    let place = Place::new();
    packages(&place, 400, 250);
    let began = Instant::now();
    let first = find(&place, "package7/component_9", 20).await;
    let listed = began.elapsed();
    let began = Instant::now();
    let found = find(&place, "p399comp249", 20).await;
    eprintln!("listing {} names: {listed:?}; a look at them: {:?}; cut: {:?}", first.listed, began.elapsed(), first.cut);
    assert_eq!(paths(&found)[0], "package399/source/component_249.tsx");
}
