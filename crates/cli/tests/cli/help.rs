//! The texts that people read: complete, and in agreement with the program.

use crate::support::Bench;

#[test]
fn help_and_version_exit_0_on_standard_output() {
    let bench = Bench::new();
    for words in [
        &["--help"][..],
        &["-h"],
        &["--version"],
        &["-V"],
        &["help"],
        &["help", "run"],
        &["run", "--help"],
        &["run", "-h"],
    ] {
        let ended = bench.run(words);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{words:?}");
        assert!(!ended.stdout.is_empty());
    }
    let version = bench.run(["--version"]).stdout;
    assert_eq!(version, format!("fencelock {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn each_command_has_examples_and_the_table_of_exit_codes() {
    let bench = Bench::new();
    for command in ["run", "elect", "acquire", "renew", "release", "show", "ls", "revoke"] {
        let help = bench.run([command, "--help"]).stdout;
        assert!(help.contains("Examples:\n"), "{command}: {help}");
        assert!(help.contains(&format!("fencelock {command} ")), "{command}: {help}");
        for code in ["128+n", "1 ", "64", "69", "70", "75", "77", "78", "79", "126", "127"] {
            let line = help.lines().any(|line| line.trim_start().starts_with(code));
            assert!(line, "{command}: {code} is not in {help}");
        }
        let short = bench.run([command, "-h"]).stdout;
        assert!(short.lines().count() < help.lines().count(), "{short}");
    }
}

#[test]
fn the_readme_and_the_manual_have_the_same_table_of_exit_codes() {
    let bench = Bench::new();
    let help = bench.run(["run", "--help"]).stdout;
    let table = &help[help.find("Exit codes:\n").expect("a table")..];
    assert!(table.lines().all(|line| line.len() < 80), "{table}");
    let readme = include_str!("../../../../README.md");
    assert!(readme.contains(table.trim_end()), "README.md has another table than:\n{table}");
    let manual = bench.run(["man"]).stdout;
    for line in table.lines().skip(1) {
        let words = line.split_whitespace().next_back().expect("a line has words");
        assert!(manual.contains(words), "{line}");
    }
}

#[test]
fn each_variable_and_option_is_in_the_help() {
    let bench = Bench::new();
    let overview = bench.run(["--help"]).stdout;
    let run = bench.run(["run", "--help"]).stdout;
    for name in [
        "store",
        "store-password-file",
        "dialect",
        "distributed",
        "ttl",
        "wait",
        "no-wait",
        "conflict-exit-code",
        "on-lost",
        "grace",
        "min-hold",
        "max-hold",
        "kill",
        "meta",
        "export-token",
        "json",
        "quiet",
        "verbose",
    ] {
        let variable = format!("FENCELOCK_{}", name.to_uppercase().replace('-', "_"));
        assert!(overview.contains(&variable), "{variable}");
        assert!(run.contains(&format!("--{name}")), "{name}");
    }
    for variable in ["NAME", "FENCING_TOKEN", "DEADLINE_MS", "STORE", "TOKEN"] {
        assert!(run.contains(&format!("FENCELOCK_{variable} ")), "{variable}");
    }
    assert!(overview.contains("locks.db") && overview.contains("--distributed"));
}

#[test]
fn completions_are_made_for_each_shell() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = bench.run(["completions", shell]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{shell}");
        assert!(ended.stdout.contains("conflict-exit-code"), "{shell}");
    }
    bench.run(["completions", "tcsh"]).assert_refused(64, &["tcsh"]);
}

#[test]
fn the_manual_is_a_page_for_each_command() {
    let bench = Bench::new();
    let all = bench.run(["man"]);
    assert_eq!((all.code, all.stderr.as_str()), (0, ""));
    let ended = bench.run(["man", "--dir", "pages/man1"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "", ""));
    for page in [
        "",
        "-run",
        "-elect",
        "-acquire",
        "-renew",
        "-release",
        "-show",
        "-ls",
        "-revoke",
        "-completions",
        "-man",
    ] {
        let text = bench.read(&format!("pages/man1/fencelock{page}.1"));
        assert!(text.contains(".TH FENCELOCK"), "{page}: {text}");
        assert!(all.stdout.contains(text.lines().last().unwrap()), "{page}");
    }
    let run = bench.read("pages/man1/fencelock-run.1");
    assert!(run.contains("the lock was lost"), "{run}");
}

#[test]
fn help_needs_no_settings() {
    let bench = Bench::new().set("FENCELOCK_TTL", "wrong");
    bench.write("fencelock.toml", "nonsense");
    for words in [&["--help"][..], &["run", "--help"], &["completions", "bash"], &["man"]] {
        assert_eq!(bench.run(words).code, 0, "{words:?}");
    }
}
