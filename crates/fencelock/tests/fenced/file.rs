//! Fenced files: the rule, what a crash leaves behind, what is refused, and writers at once.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use fencelock::fenced::{Checked, file::FencedFile};
use fencelock_testkit::{Process, eventually, process};

use crate::token;

fn in_folder() -> (tempfile::TempDir, FencedFile) {
    let folder = tempfile::tempdir().unwrap();
    let file = FencedFile::new(folder.path().join("state.json"));
    (folder, file)
}

fn fence(file: &FencedFile) -> std::path::PathBuf {
    let mut path = file.path().to_owned().into_os_string();
    path.push(".fence");
    path.into()
}

#[test]
fn a_smaller_token_changes_nothing() {
    let (_folder, file) = in_folder();
    assert_eq!(file.highest().unwrap(), None);
    assert_eq!(file.read(token(33)).unwrap(), Checked::Accepted(None));
    assert_eq!(file.write(token(33), b"first").unwrap(), Checked::Accepted(()));
    assert_eq!(file.write(token(33), b"again").unwrap(), Checked::Accepted(()));
    assert_eq!(file.read(token(34)).unwrap(), Checked::Accepted(Some(b"again".to_vec())));
    let stale = Checked::Stale { highest: token(34) };
    assert_eq!(file.write(token(33), b"late").unwrap(), stale);
    assert_eq!(file.remove(token(33)).unwrap(), stale);
    assert_eq!(file.read(token(33)).unwrap(), Checked::Stale { highest: token(34) });
    assert_eq!(fs::read(file.path()).unwrap(), b"again");
    assert_eq!(fs::read(fence(&file)).unwrap(), b"0000000000000034\n");
}

#[test]
fn removing_keeps_the_token() {
    let (_folder, file) = in_folder();
    assert_eq!(file.write(token(34), b"x").unwrap(), Checked::Accepted(()));
    assert_eq!(file.remove(token(35)).unwrap(), Checked::Accepted(()));
    assert_eq!(file.remove(token(35)).unwrap(), Checked::Accepted(()));
    assert!(!file.path().exists());
    assert_eq!(file.write(token(34), b"late").unwrap(), Checked::Stale { highest: token(35) });
    assert!(!file.path().exists());
}

/// A crash between the two renames leaves the token of a write whose content is not there.
#[test]
fn a_write_that_was_cut_off_is_done_again_by_its_holder_and_by_nobody_before() {
    let (_folder, file) = in_folder();
    assert_eq!(file.write(token(33), b"before").unwrap(), Checked::Accepted(()));
    fs::write(fence(&file), "0000000000000034\n").unwrap();
    fs::write(fence(&file).with_extension("fence-new"), "half of the con").unwrap();
    assert_eq!(file.write(token(33), b"late").unwrap(), Checked::Stale { highest: token(34) });
    assert_eq!(fs::read(file.path()).unwrap(), b"before");
    assert_eq!(file.write(token(34), b"after").unwrap(), Checked::Accepted(()));
    assert_eq!(fs::read(file.path()).unwrap(), b"after");
}

#[test]
fn a_folder_in_the_way_is_an_error_and_changes_nothing() {
    let (_folder, file) = in_folder();
    fs::create_dir(file.path()).unwrap();
    let error = file.write(token(34), b"x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(file.highest().unwrap(), None);
}

#[test]
fn a_fence_that_is_not_one_is_an_error_that_says_so() {
    let (_folder, file) = in_folder();
    for wrong in ["", "34\n", "0000000000000034", "9999999999999999\n", "1.7645420001235e+15\n"] {
        fs::write(fence(&file), wrong).unwrap();
        let error = file.write(token(34), b"x").unwrap_err();
        assert!(error.to_string().contains("state.json failed while reading the fence"), "{error}");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        assert!(!file.path().exists());
    }
}

#[test]
fn a_link_is_refused_and_permissions_are_kept() {
    let (folder, file) = in_folder();
    let link = folder.path().join("link");
    symlink(file.path(), &link).unwrap();
    let error = FencedFile::new(&link).write(token(34), b"x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(fs::read_link(&link).unwrap(), file.path());

    fs::write(file.path(), b"before").unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(file.write(token(34), b"x").unwrap(), Checked::Accepted(()));
    assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o640);
}

/// Goal: contents only ever go up, whoever writes when, and readers never see a part.
/// Method: threads with tokens that interleave, each with descriptors of its own, while one reads.
#[test]
fn writers_that_race_leave_the_contents_in_the_order_of_their_tokens() {
    let (_folder, file) = in_folder();
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let writers: Vec<_> = (0..4)
            .map(|thread| {
                let file = &file;
                threads.spawn(move || {
                    for round in 0..20 {
                        let number = 1 + thread + 4 * round;
                        let _ = file.write(token(number), &numbered(number)).unwrap();
                    }
                })
            })
            .collect();
        threads.spawn(|| {
            let mut last = 0;
            while !done.load(Ordering::Acquire) {
                let Ok(found) = fs::read(file.path()) else { continue };
                let number: u64 = std::str::from_utf8(&found[..8]).unwrap().parse().unwrap();
                assert_eq!(found, numbered(number), "a part of a content");
                assert!(number >= last, "{number} came after {last}");
                last = number;
                // The token goes first: no content is ever above it.
                let highest = file.highest().unwrap();
                assert!(highest >= Some(token(number)), "{number} above its token {highest:?}");
            }
        });
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        // Before anything may panic, or the reader would read for ever.
        done.store(true, Ordering::Release);
        assert!(ended.iter().all(Result::is_ok), "a writer failed");
    });
    assert_eq!(fs::read(file.path()).unwrap(), numbered(80));
    assert_eq!(file.highest().unwrap(), Some(token(80)));
}

/// What the killed process does: it writes, with one token after the other.
#[test]
#[ignore = "the other process of the next test"]
fn writer() {
    let Ok(path) = std::env::var("FENCELOCK_TEST_FENCED_FILE") else { return };
    let file = FencedFile::new(path);
    let first = file.highest().unwrap().map_or(1, |highest| highest.as_u64() + 1);
    eprintln!("@ready");
    for number in first.. {
        let _ = file.write(token(number), &numbered(number)).unwrap();
    }
}

/// Longer than a page, so that a content in two pieces would be seen.
fn numbered(number: u64) -> Vec<u8> {
    format!("{number:08}\n").repeat(2000).into_bytes()
}

#[test]
fn a_writer_that_is_killed_leaves_a_whole_content_and_nothing_locked() {
    let (_folder, file) = in_folder();
    for round in 0..20 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "file::writer", "--ignored", "--nocapture", "--test-threads=1"])
            .env("FENCELOCK_TEST_FENCED_FILE", file.path());
        let before = file.highest().unwrap();
        let mut writer = Process::spawn(command);
        let what = "it writes";
        eventually(Duration::from_secs(60), what, || file.highest().unwrap() > before);
        process::kill(writer.pid());
        writer.wait_within(Duration::from_secs(60));

        let highest = file.highest().unwrap().unwrap();
        if let Ok(content) = fs::read(file.path()) {
            let number: u64 = std::str::from_utf8(&content[..8]).unwrap().parse().unwrap();
            assert!(content == numbered(number), "round {round}: a part of a content");
            assert!(token(number) <= highest, "round {round}: {number} above {highest}");
        }
        // The next holder neither waits nor is refused.
        let next = highest.next().unwrap();
        assert_eq!(file.write(next, &numbered(next.as_u64())).unwrap(), Checked::Accepted(()));
    }
}
