//! On a terminal: who is in front, `^C`, `^Z` and `fg`.
//!
//! An interactive bash runs on a new pseudo terminal (`setsid --ctty` makes it the controlling one);
//! the test types into the other end.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use tempfile::TempDir;

use crate::support::{children_of, driver_path, eventually, is_alive, is_stopped, read_pid, until};

struct Terminal {
    shell: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
    directory: TempDir,
}

impl Terminal {
    fn start() -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let line = ioctl_tiocgptpeer(&master, flags).unwrap();
        let directory = TempDir::new().unwrap();
        let shell = Command::new("setsid")
            .args(["--ctty", "--wait", "bash", "--norc", "--noprofile", "-i"])
            .env("PS1", "")
            .env("DIR", directory.path())
            .env("RUN", driver_path())
            .env_remove("PROMPT_COMMAND")
            .stdin(line.try_clone().unwrap())
            .stdout(line.try_clone().unwrap())
            .stderr(line)
            .spawn()
            .unwrap();
        let keyboard = File::from(master);
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut from, to) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Ends with an error when the last process of the terminal is gone.
            while let Ok(length) = from.read(&mut buffer) {
                to.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
        });
        let terminal = Self { shell, keyboard, screen, directory };
        terminal.type_in("stty -echo; echo rea'dy'\n");
        terminal.shows("ready");
        terminal
    }

    fn type_in(&self, keys: &str) {
        (&self.keyboard).write_all(keys.as_bytes()).unwrap();
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        let start = Instant::now();
        while !self.screen.lock().unwrap().contains(text) {
            let late = start.elapsed() > crate::support::LIMIT;
            assert!(!late, "{text:?} never shown: {:?}", self.screen.lock().unwrap());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// Starts the driver in the foreground on a command that loops; both pids.
    ///
    /// The command is bash because dash starts its own commands by vfork: a stop that hits the new
    /// one before its exec leaves the shell waiting for it, unstoppable, with or without us.
    fn start_loop(&self, options: &str) -> (Pid, Pid) {
        let script = r#"echo $PPID > "$DIR/wrapper"; echo $$ > "$DIR/pid"
            while ! [ -e "$DIR/quit" ]; do sleep 0.02; done; exit 3"#;
        fs::write(self.file("loop.sh"), script).unwrap();
        self.type_in(&format!("$RUN {options} -- bash \"$DIR/loop.sh\"; echo code=$?.\n"));
        let command = eventually("the command", || read_pid(&self.file("pid")));
        (read_pid(&self.file("wrapper")).unwrap(), command)
    }

    /// The group in front, as the kernel reports it for a process of the session.
    fn in_front(&self, of: Pid) -> Option<i32> {
        let text = fs::read_to_string(format!("/proc/{of}/stat")).ok()?;
        text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace().nth(5)?.parse().ok()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        for shell in children_of(Pid::from_child(&self.shell)) {
            let _ = kill_process(shell, Signal::KILL);
        }
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[test]
fn the_command_is_in_front_while_it_runs_and_the_shell_is_afterwards() {
    let terminal = Terminal::start();
    let (wrapper, command) = terminal.start_loop("");
    assert_eq!(terminal.in_front(command), Some(command.as_raw_pid()));
    assert_ne!(command, wrapper);
    fs::write(terminal.file("quit"), "").unwrap();
    terminal.shows("code=3.");
    terminal.type_in("echo still-'here'\n");
    terminal.shows("still-here");
}

#[test]
fn the_command_reads_what_is_typed() {
    let terminal = Terminal::start();
    terminal.type_in("$RUN -- sh -c 'echo asks; read x; echo got-$x'\n");
    terminal.shows("asks");
    terminal.type_in("hello\n");
    terminal.shows("got-hello");
}

#[test]
fn in_a_pipeline_the_command_gets_the_terminal_when_it_wants_it() {
    let terminal = Terminal::start();
    terminal.type_in("$RUN -- sh -c 'echo asks; read x; echo got-$x' | cat; echo end'ed'\n");
    terminal.shows("asks");
    terminal.type_in("hello\n");
    terminal.shows("got-hello");
    terminal.shows("ended");
}

#[test]
fn a_typed_interrupt_ends_the_command_and_the_script_around_it() {
    let terminal = Terminal::start();
    let script = r#"echo $$ > "$DIR/script"; "$RUN" -- sh -c 'echo $$ > "$DIR/pid"; exec sleep 1000'
        echo went-on"#;
    fs::write(terminal.file("outer.sh"), script).unwrap();
    terminal.type_in("bash \"$DIR/outer.sh\"\n");
    let script = eventually("the script", || read_pid(&terminal.file("script")));
    eventually("the command", || read_pid(&terminal.file("pid")));
    terminal.type_in("\x03");
    until("the script has ended", || !is_alive(script));
    terminal.type_in("echo code=$?.\n");
    terminal.shows("code=130.");
    assert!(!terminal.screen.lock().unwrap().contains("went-on"));
}

#[test]
fn a_typed_stop_stops_both_and_fg_continues_both() {
    let terminal = Terminal::start();
    let (wrapper, command) = terminal.start_loop("--kill-at 3600000");
    for _ in 0..3 {
        terminal.type_in("\x1a");
        until("both are stopped", || is_stopped(wrapper) && is_stopped(command));
        terminal.type_in("fg\n");
        until("both run, the command in front", || {
            !is_stopped(wrapper)
                && !is_stopped(command)
                && terminal.in_front(command) == Some(command.as_raw_pid())
        });
    }
    fs::write(terminal.file("quit"), "").unwrap();
    until("both have ended", || !is_alive(wrapper) && !is_alive(command));
    terminal.type_in("echo still-'here'\n");
    terminal.shows("still-here");
}

#[test]
fn bg_continues_both_and_leaves_the_terminal_to_the_shell() {
    let terminal = Terminal::start();
    let (wrapper, command) = terminal.start_loop("");
    terminal.type_in("\x1a");
    until("both are stopped", || is_stopped(wrapper) && is_stopped(command));
    terminal.type_in("bg; echo front-$$.\n");
    until("both run", || !is_stopped(wrapper) && !is_stopped(command));
    terminal.shows("front-");
    assert_ne!(terminal.in_front(command), Some(command.as_raw_pid()));
    fs::write(terminal.file("quit"), "").unwrap();
    until("both have ended", || !is_alive(wrapper) && !is_alive(command));
}

#[test]
fn a_typed_stop_that_outlasts_the_lease_ends_in_a_kill_and_not_in_a_return() {
    let terminal = Terminal::start();
    let start = Instant::now();
    let (wrapper, command) = terminal.start_loop("--invalid-at 300");
    terminal.type_in("\x1a");
    until("both are stopped", || is_stopped(wrapper) && is_stopped(command));
    until("the lease has ended", || start.elapsed() > Duration::from_millis(900));
    assert!(is_stopped(command));
    terminal.type_in("fg; echo code=$?.\n");
    terminal.shows("code=79.");
    assert!(!is_alive(command));
}

#[test]
fn a_typed_stop_without_a_shell_to_continue_it_is_dropped() {
    let terminal = Terminal::start();
    // The wrapper leads a session of its own on the same terminal, as under `ssh -t host run ...`.
    terminal.type_in(
        "exec $RUN -- sh -c 'echo $$ > \"$DIR/pid\"; echo asks; read x; echo got-$x; read y'\n",
    );
    terminal.shows("asks");
    terminal.type_in("\x1a");
    terminal.type_in("hello\n");
    terminal.shows("got-hello");
}

/// There the kernel answers 0 to the question for the session and for the group.
#[test]
fn the_first_process_of_a_container_runs_its_command_and_drops_a_typed_stop() {
    let namespace = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child"];
    if !Command::new("unshare").args(namespace).arg("true").status().is_ok_and(|s| s.success()) {
        eprintln!("skipped: no right to make a pid namespace");
        return;
    }
    let terminal = Terminal::start();
    terminal.type_in(&format!(
        "exec unshare {} $RUN -- sh -c 'echo asks; read x; echo got-$x; read y'\n",
        namespace.join(" ")
    ));
    terminal.shows("asks");
    terminal.type_in("\x1a");
    terminal.type_in("hello\n");
    terminal.shows("got-hello");
}
