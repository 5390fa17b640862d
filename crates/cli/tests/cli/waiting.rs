//! What a person at a terminal sees while waiting.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use fencelock_testkit::{eventually, process};

use crate::support::{Bench, LIMIT};

/// Opens a terminal and reads all that is shown on it.
fn terminal() -> (OwnedFd, Arc<Mutex<String>>) {
    use rustix::pty;

    let master = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).unwrap();
    pty::grantpt(&master).unwrap();
    pty::unlockpt(&master).unwrap();
    let name = pty::ptsname(&master, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let slave = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty()).unwrap();
    let shown = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&shown);
    std::thread::spawn(move || {
        let mut master = std::fs::File::from(master);
        let mut chunk = [0; 4096];
        // Ends with EIO when nobody has the terminal any more.
        while let Ok(count @ 1..) = master.read(&mut chunk) {
            sink.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
    });
    (slave, shown)
}

#[test]
fn on_a_terminal_one_line_follows_the_holder_and_goes_away() {
    let bench = Bench::new();
    let holder = bench.hold(&["job"]);
    let (slave, shown) = terminal();
    let mut command = bench.command(["run", "job", "--", "true"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(slave));
    let mut waiter = process::spawn_tied(command).unwrap();
    let text = || shown.lock().unwrap().clone();
    eventually(LIMIT, "the wait is shown", || text().contains("waiting for lock `job`"));
    assert!(text().contains(&format!("process {}", holder.pid())), "{}", text());
    eventually(LIMIT, "the line is shown again in place", || {
        text().matches("\r\u{1b}[K").count() >= 1
    });
    bench.let_go();
    assert!(waiter.wait().unwrap().success());
    eventually(LIMIT, "the line is taken away", || text().ends_with("\r\u{1b}[K"));
    assert!(!text().contains('\n'), "{:?}", text());
}

#[test]
fn the_place_in_the_line_is_shown() {
    let bench = Bench::new();
    let _holder = bench.hold(&["job"]);
    let mut first = bench.command(["run", "job", "--", "true"]);
    first.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut first = process::spawn_tied(first).unwrap();
    eventually(LIMIT, "one waits", || {
        bench.run(["show", "job", "--json"]).objects()[0]["queue"] == 1
    });
    let (slave, shown) = terminal();
    let mut second = bench.command(["run", "job", "--", "true"]);
    second.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(slave));
    let mut second = process::spawn_tied(second).unwrap();
    let text = || shown.lock().unwrap().clone();
    eventually(LIMIT, "its place is shown", || text().contains(", place 2 of 2"));
    bench.let_go();
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
}
