//! No descriptor, process or zombie is left anywhere.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::support::{Driver, all_processes, driver_path, name_of, until};

#[test]
fn the_command_has_the_descriptors_that_it_would_have_without_us() {
    let list = ["sh", "-c", "exec ls /proc/self/fd"];
    let alone = Command::new(list[0]).args(&list[1..]).stdin(Stdio::null()).output().unwrap();
    let under = Command::new(driver_path())
        .arg("--")
        .args(list)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&under.stdout), String::from_utf8_lossy(&alone.stdout));
}

#[test]
fn closed_standard_streams_do_not_hand_a_line_of_ours_to_the_command() {
    let path = driver_path();
    let script = format!(
        r#"exec 0<&- 1>&- 2>&-; {} -- sh -c 'ls -l /proc/self/fd > "$DIR/fds"'"#,
        path.to_str().unwrap()
    );
    let ended = Driver::shell(&[], &script).ended();
    let listed = ended.text("fds");
    assert!(!listed.is_empty());
    assert!(!listed.contains("socket:") && !listed.contains("anon_inode"), "{listed}");
}

#[test]
fn the_commands_signal_mask_and_dispositions_are_the_default() {
    let script = r#"trap '' USR1; exec grep -E '^Sig(Blk|Ign)' /proc/self/status > "$DIR/s""#;
    let status = Driver::shell(&[], script).ended().text("s");
    let values: Vec<_> = status
        .lines()
        .filter_map(|line| u64::from_str_radix(line.split('\t').nth(1)?, 16).ok())
        // 32 and 33 belong to the C library, which lets nobody change them.
        .map(|mask| mask & !(0b11 << 31))
        .collect();
    // Nothing blocked; of the ignored only what the script itself set.
    assert_eq!(values, [0, 1 << (10 - 1)], "{status}");
}

#[test]
fn the_minder_holds_nothing_of_the_wrappers() {
    let driver = Driver::shell(&[], r#"echo $$ > "$DIR/pid"; exec sleep 1000"#);
    driver.pid_from("pid");
    let minder = driver.minder();
    let links = || -> Vec<String> {
        let entries = fs::read_dir(format!("/proc/{minder}/fd")).unwrap();
        let mut links: Vec<_> = entries
            .filter_map(|entry| {
                fs::read_link(entry.ok()?.path()).ok()?.into_os_string().into_string().ok()
            })
            .collect();
        links.sort();
        links
    };
    // Two lines at most (that of the child is closed after the greeting) and the timer.
    until("only its own descriptors", || {
        let links = links();
        links.iter().filter(|link| *link == "/dev/null").count() == 3
            && links.iter().filter(|link| link.starts_with("socket:")).count() == 1
            && links.iter().filter(|link| link.contains("timerfd")).count() == 1
            && links.len() <= 6
    });
    assert_eq!(fs::read_link(format!("/proc/{minder}/cwd")).unwrap().to_str(), Some("/"));
}

#[test]
fn a_reader_behind_run_sees_the_end_when_run_ends() {
    let mut process = Command::new(driver_path())
        .args(["--", "sh", "-c", "echo text"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut text = String::new();
    process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "text\n");
    assert!(process.wait().unwrap().success());
}

#[test]
fn two_hundred_runs_leave_no_minder_and_no_zombie() {
    let marker = format!("marker-{}", std::process::id());
    for _ in 0..200 {
        let status = Command::new(driver_path())
            .args(["--", "true", &marker])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
    }
    // The minder is reaped before its wrapper ends: there is nothing to wait for.
    let left: Vec<_> = all_processes()
        .into_iter()
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&marker))
        })
        .map(|pid| (pid, name_of(pid)))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
