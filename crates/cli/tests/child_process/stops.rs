//! A stop: TERM now, KILL at an instant.

use std::time::{Duration, Instant};

use crate::support::{Driver, members_of};

#[test]
fn a_command_that_heeds_term_ends_well_before_the_kill() {
    let start = Instant::now();
    let script = r#"trap 'echo term > "$DIR/term"; exit 0' TERM; while :; do sleep 0.02; done"#;
    let ended = Driver::shell(&["--stop-at", "100", "--stop-grace", "60000"], script).ended();
    assert_eq!(ended.code, Some(79));
    ended.assert_outcome("Code(0), stopped_by_us: Some(Lost)");
    assert_eq!(ended.text("term"), "term\n");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_command_that_ignores_term_is_killed_at_the_instant_and_not_before() {
    for clock in ["boottime", "monotonic"] {
        let start = Instant::now();
        let script = r#"trap '' TERM; echo $$ > "$DIR/pid"; while :; do sleep 0.02; done"#;
        let options = ["--clock", clock, "--stop-at", "100", "--stop-grace", "300"];
        let driver = Driver::shell(&options, script);
        let group = driver.pid_from("pid");
        let ended = driver.ended();
        assert!(start.elapsed() >= Duration::from_millis(400), "{:?}", start.elapsed());
        assert_eq!(ended.code, Some(79));
        ended.assert_outcome("Signal(9), stopped_by_us: Some(Lost)");
        assert!(members_of(group).is_empty());
    }
}

#[test]
fn a_stop_also_reaches_the_grandchild_that_ignores_term_and_outlives_the_command() {
    let script = r#"
        (trap '' TERM; echo ready > "$DIR/ready"; while :; do sleep 0.02; done) &
        while ! [ -e "$DIR/ready" ]; do sleep 0.01; done
        echo $$ > "$DIR/pid"; exec sleep 1000"#;
    let driver = Driver::shell(&["--stop-at", "300", "--stop-grace", "200"], script);
    let group = driver.pid_from("pid");
    let ended = driver.ended();
    assert!(members_of(group).is_empty());
    assert_eq!(ended.code, Some(79));
    ended.assert_outcome("Signal(15), stopped_by_us: Some(Lost)");
}

#[test]
fn a_stopped_command_is_continued_so_that_it_can_heed_term() {
    let script = r#"trap 'echo term > "$DIR/term"; exit 1' TERM; kill -STOP $$
        while :; do sleep 0.02; done"#;
    let options = ["--stop-at", "200", "--stop-grace", "60000", "--stop-for", "max-hold"];
    let ended = Driver::shell(&options, script).ended();
    ended.assert_outcome("Code(1), stopped_by_us: Some(MaxHold)");
    assert_eq!(ended.text("term"), "term\n");
}

#[test]
fn the_end_of_the_lease_kills_even_if_nobody_asks_for_a_stop() {
    let start = Instant::now();
    let ended = Driver::shell(&["--kill-at", "250"], "sleep 1000").ended();
    assert!(start.elapsed() >= Duration::from_millis(250));
    assert_eq!(ended.code, Some(79));
    ended.assert_outcome("Signal(9), stopped_by_us: Some(Deadline)");
}
