//! `fencelock run x -- true` on the embedded file as a whole process, against `flock x true`.
//!
//! ```console
//! cargo build --release -p fencelock-cli
//! cargo run --release -p fencelock-bench --bin startup -- --pairs 60
//! ```

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::Instant,
};

use fencelock_bench::{median, option};

fn milliseconds(command: &mut Command) -> f64 {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().expect("it starts");
    let spent = start.elapsed();
    assert!(status.success(), "{status}");
    spent.as_secs_f64() * 1e3
}

fn main() {
    let pairs = option("--pairs", 60);
    let folder = tempfile::tempdir().expect("a folder");
    let own = std::env::current_exe().expect("a path");
    let binary: PathBuf = own.with_file_name("fencelock");
    assert!(binary.exists(), "build it first: cargo build --release -p fencelock-cli");
    let flock = || {
        let mut command = Command::new("flock");
        command.arg(folder.path().join("x")).arg("true");
        milliseconds(&mut command)
    };
    let fencelock = || {
        let mut command = Command::new(&binary);
        command.args(["run", "x", "--", "true"]).env("XDG_STATE_HOME", folder.path());
        milliseconds(&mut command)
    };
    flock();
    fencelock();
    let (mut theirs, mut ours, mut differences) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..pairs {
        let (other, own) = (flock(), fencelock());
        theirs.push(other);
        ours.push(own);
        differences.push(own - other);
    }
    println!("medians of {pairs} interleaved pairs, whole process");
    println!("flock x true:               {:.2} ms", median(&theirs));
    println!("fencelock run x -- true:    {:.2} ms", median(&ours));
    println!("difference, pair by pair:   {:.2} ms", median(&differences));
}
