//! How the command ends is how `run` ends.

use crate::support::{Driver, children_of, is_alive, stat, until};

#[test]
fn the_commands_exit_code_comes_back() {
    for code in [0, 1, 2, 42, 125, 126, 127, 255] {
        let ended = Driver::shell(&[], &format!("exit {code}")).ended();
        assert_eq!(ended.code, Some(code));
        ended.assert_outcome(&format!("Code({code}), stopped_by_us: None"));
    }
}

#[test]
fn a_signal_that_ends_the_command_comes_back_as_128_and_n() {
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("HUP", 1), ("INT", 2)] {
        let ended = Driver::shell(&[], &format!("kill -{name} $$")).ended();
        assert_eq!(ended.code, Some(128 + number), "{name}");
        ended.assert_outcome(&format!("Signal({number}), stopped_by_us: None"));
    }
}

#[test]
fn a_command_that_is_not_there_is_127_and_says_so() {
    for name in ["surely-no-such-command", "/surely/not/there"] {
        let ended = Driver::start(&[], &[name]).ended();
        assert_eq!(ended.code, Some(127));
        assert!(ended.stderr.contains("command not found"), "{}", ended.stderr);
        assert!(ended.stderr.contains(name), "{}", ended.stderr);
    }
}

#[test]
fn a_file_that_cannot_be_executed_is_126_and_says_so() {
    for name in ["/etc/passwd", "/etc", "/etc/passwd/x"] {
        let ended = Driver::start(&[], &[name]).ended();
        assert_eq!(ended.code, Some(126), "{name}: {}", ended.stderr);
        assert!(ended.stderr.contains("NotExecutable"), "{}", ended.stderr);
    }
}

#[test]
fn a_script_whose_interpreter_is_missing_names_that_as_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    let text = "cp /dev/stdin \"$0\" <<X\n#!/surely/not/there\nX\nchmod +x \"$0\"; exec \"$0\"";
    let made = std::process::Command::new("sh").args(["-c", text]).arg(&script).output().unwrap();
    assert!(!made.status.success());
    let ended = Driver::start(&[], &[script.to_str().unwrap()]).ended();
    assert_eq!(ended.code, Some(127));
    assert!(ended.stderr.contains("interpreter"), "{}", ended.stderr);
}

#[test]
fn the_environment_is_set_and_removed_as_asked() {
    let script = r#"echo "$DRIVER_SET-${DRIVER_REMOVED-gone}" > "$DIR/env""#;
    let ended = Driver::shell(&[], script).ended();
    assert_eq!(ended.text("env"), "1-gone\n");
}

#[test]
fn what_the_command_leaves_in_its_group_is_stopped_and_reported() {
    let script = r#"
        (trap 'echo term > "$DIR/term"; exit 0' TERM; echo ready > "$DIR/ready"
         while :; do sleep 0.02; done) &
        echo $! > "$DIR/left"
        while ! [ -e "$DIR/ready" ]; do sleep 0.01; done
        exit 3"#;
    let driver = Driver::shell(&["--left-behind-grace", "10000"], script);
    let left = driver.pid_from("left");
    let ended = driver.ended();
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(!is_alive(left));
    assert_eq!(ended.text("term"), "term\n");
    assert!(ended.stderr.contains("notice: LeftBehind("), "{}", ended.stderr);
}

#[test]
fn what_is_left_behind_and_ignores_term_is_killed_after_the_grace() {
    let script = r#"
        (trap '' TERM; echo ready > "$DIR/ready"; while :; do sleep 0.02; done) &
        echo $! > "$DIR/left"
        while ! [ -e "$DIR/ready" ]; do sleep 0.01; done
        exit 4"#;
    let driver = Driver::shell(&["--left-behind-grace", "150"], script);
    let left = driver.pid_from("left");
    let ended = driver.ended();
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    assert!(!is_alive(left));
}

#[test]
fn an_orphan_that_ends_is_reaped_and_not_taken_for_the_command() {
    let script = r#"
        for i in 1 2 3 4 5; do (sh -c 'exit 9' &); (setsid sh -c 'exit 8' &); done
        echo $$ > "$DIR/pid"
        while ! [ -e "$DIR/quit" ]; do sleep 0.02; done
        exit 6"#;
    let driver = Driver::shell(&[], script);
    let command = driver.pid_from("pid");
    let known = [command, driver.minder()];
    until("all orphans are reaped", || {
        children_of(driver.pid()).iter().all(|child| known.contains(child))
    });
    std::fs::write(driver.path("quit"), "").unwrap();
    assert_eq!(driver.ended().code, Some(6));
}

#[test]
fn a_daemon_in_a_session_of_its_own_is_a_documented_escape() {
    // It is neither killed nor waited for: only the group is ours.
    let script = r#"setsid sh -c 'echo $$ > "$DIR/daemon"; exec sleep 1000' &
        while ! [ -s "$DIR/daemon" ]; do sleep 0.01; done; exit 5"#;
    let driver = Driver::shell(&[], script);
    let daemon = driver.pid_from("daemon");
    let ended = driver.ended();
    assert_eq!(ended.code, Some(5));
    assert!(is_alive(daemon) && stat(daemon).is_some());
    rustix::process::kill_process(daemon, rustix::process::Signal::KILL).unwrap();
}
