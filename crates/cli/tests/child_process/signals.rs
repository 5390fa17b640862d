//! Signals are passed on, each once.

use std::fs;

use rustix::process::Signal;

use crate::support::{Driver, is_stopped, until};

/// Logs every signal of the contract; TERM also ends it.
const LOGGER: &str = r#"
    for s in HUP INT QUIT USR1 USR2 WINCH CONT TSTP PIPE ALRM; do
        trap "echo $s >> \"\$DIR/log\"" $s
    done
    trap 'echo TERM >> "$DIR/log"; exit 5' TERM
    echo $$ > "$DIR/pid"
    while :; do sleep 1000 & wait; done"#;

const SENT: [(&str, Signal); 11] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("WINCH", Signal::WINCH),
    ("TSTP", Signal::TSTP),
    ("CONT", Signal::CONT),
    ("PIPE", Signal::PIPE),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
];

#[test]
fn every_signal_of_the_contract_reaches_the_command_exactly_once() {
    let driver = Driver::shell(&[], LOGGER);
    driver.pid_from("pid");
    let mut expected = String::new();
    for (name, signal) in SENT {
        driver.signal(signal);
        expected.push_str(name);
        expected.push('\n');
        until(name, || fs::read_to_string(driver.path("log")).is_ok_and(|log| log.contains(name)));
    }
    let ended = driver.ended();
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(ended.text("log"), expected);
}

#[test]
fn a_signal_that_the_command_does_not_catch_ends_it_and_comes_back() {
    for (name, signal) in SENT {
        if matches!(signal, Signal::WINCH | Signal::CONT | Signal::TSTP) {
            continue;
        }
        let driver = Driver::shell(&[], r#"echo $$ > "$DIR/pid"; exec sleep 1000"#);
        driver.pid_from("pid");
        driver.signal(signal);
        assert_eq!(driver.ended().code, Some(128 + signal.as_raw()), "{name}");
    }
}

#[test]
fn a_signal_while_waiting_ends_the_waiting() {
    for (name, signal) in SENT {
        if matches!(signal, Signal::WINCH | Signal::CONT | Signal::TSTP) {
            continue;
        }
        let driver = Driver::shell(&["--wait-first", "1"], "true");
        until("it waits", || driver.stderr().contains("waiting"));
        driver.signal(Signal::WINCH);
        driver.signal(Signal::CONT);
        driver.signal(signal);
        assert_eq!(driver.ended().code, Some(128 + signal.as_raw()), "{name}");
    }
}

#[test]
fn a_second_term_kills() {
    let script = r#"trap 'echo TERM >> "$DIR/log"' TERM; trap 'echo INT >> "$DIR/log"' INT
        echo $$ > "$DIR/pid"; while :; do sleep 0.02; done"#;
    for second in [Signal::TERM, Signal::INT] {
        let driver = Driver::shell(&[], script);
        driver.pid_from("pid");
        driver.signal(Signal::INT);
        until("INT is passed on", || fs::read_to_string(driver.path("log")).is_ok());
        driver.signal(Signal::TERM);
        until("TERM is passed on", || {
            fs::read_to_string(driver.path("log")).is_ok_and(|log| log == "INT\nTERM\n")
        });
        driver.signal(second);
        let ended = driver.ended();
        assert_eq!(ended.code, Some(137));
        ended.assert_outcome("Signal(9), stopped_by_us: None");
    }
}

#[test]
fn tstp_stops_the_group_and_then_the_wrapper_and_cont_continues_both() {
    let script = r#"echo $$ > "$DIR/pid"; while ! [ -e "$DIR/quit" ]; do sleep 0.02; done; exit 3"#;
    // Not dash, which is unstoppable while it starts a command by vfork.
    let driver = Driver::start(&["--kill-at", "3600000"], &["bash", "-c", script]);
    let command = driver.pid_from("pid");
    driver.signal(Signal::TSTP);
    until("the wrapper is stopped", || is_stopped(driver.pid()));
    assert!(is_stopped(command));
    driver.signal(Signal::CONT);
    until("both run", || !is_stopped(driver.pid()) && !is_stopped(command));
    fs::write(driver.path("quit"), "").unwrap();
    assert_eq!(driver.ended().code, Some(3));
}

#[test]
fn what_nohup_ignored_stays_ignored() {
    let path = crate::support::driver_path();
    let path = path.to_str().unwrap();
    // Both the wrapper (blocked or ignored) and the command must survive the HUP.
    let script = format!(
        r#"trap '' HUP; {path} -- sh -c 'kill -HUP $$; kill -HUP $PPID; exit 9' 2> "$DIR/inner""#
    );
    let ended = Driver::shell(&[], &script).ended();
    assert_eq!(ended.code, Some(9), "{}", ended.text("inner"));
}
