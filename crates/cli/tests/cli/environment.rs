//! What the command finds in its environment.

use crate::support::Bench;

/// The variables of ours that a command sees.
fn seen(bench: &Bench, variables: &[(&str, &str)], flags: &[&str]) -> Vec<String> {
    let words = [&["run", "job"], flags, &["--", "env"]].concat();
    let ended = bench.run_with(variables, &words);
    assert_eq!(ended.code, 0, "{ended:?}");
    let mut lines: Vec<String> = ended
        .stdout
        .lines()
        .filter(|line| line.starts_with("FENCELOCK_"))
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

fn value<'a>(lines: &'a [String], variable: &str) -> Option<&'a str> {
    lines.iter().find_map(|line| line.strip_prefix(variable)?.strip_prefix('='))
}

#[test]
fn the_command_is_told_of_its_lock() {
    let bench = Bench::new();
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let lines = seen(&bench, &[], &["--ttl", "10s"]);
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(value(&lines, "FENCELOCK_NAME"), Some("job"));
    let store = format!("sqlite:{}/fencelock/locks.db", bench.state().display());
    assert_eq!(value(&lines, "FENCELOCK_STORE"), Some(store.as_str()));
    let deadline: u128 = value(&lines, "FENCELOCK_DEADLINE_MS").unwrap().parse().unwrap();
    assert!(deadline > now + 5_000 && deadline < now + 40_000, "{deadline} {now}");
    let first: u64 = value(&lines, "FENCELOCK_FENCING_TOKEN").unwrap().parse().unwrap();
    let lines = seen(&bench, &[], &[]);
    let second: u64 = value(&lines, "FENCELOCK_FENCING_TOKEN").unwrap().parse().unwrap();
    assert!(second > first, "{second} {first}");
}

#[test]
fn nothing_of_an_outer_lock_shines_through() {
    let bench = Bench::new();
    let variables = [
        ("FENCELOCK_NAME", "outer"),
        ("FENCELOCK_FENCING_TOKEN", "1"),
        ("FENCELOCK_DEADLINE_MS", "1"),
        ("FENCELOCK_TOKEN", "secret"),
    ];
    let lines = seen(&bench, &variables, &[]);
    assert_eq!(value(&lines, "FENCELOCK_TOKEN"), None);
    assert_eq!(value(&lines, "FENCELOCK_NAME"), Some("job"));
    assert!(value(&lines, "FENCELOCK_FENCING_TOKEN").unwrap().len() > 10);
    assert!(value(&lines, "FENCELOCK_DEADLINE_MS").unwrap().len() > 10);
}

#[test]
fn the_token_is_given_only_when_asked_for_and_it_holds_the_lock() {
    let bench = Bench::new();
    assert_eq!(value(&seen(&bench, &[], &[]), "FENCELOCK_TOKEN"), None);
    let program = env!("CARGO_BIN_EXE_fencelock");
    let script = format!("{program} renew job && echo renewed");
    let ended = bench.run(["run", "job", "--export-token", "--", "sh", "-c", &script]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "renewed\n"), "{ended:?}");
}
