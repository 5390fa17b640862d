//! One process that calls a peer, as `peers/PROTOCOL.md` describes it.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use fencelock_testkit::process::spawn_tied;

use crate::peers::Peer;

/// One answer of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done; with what is told about it.
    Done(String),
    /// Somebody else holds it.
    Busy,
    /// It is not theirs any more.
    Expired,
    /// The library can't do it.
    Unsupported,
    /// It failed.
    Failed(String),
}

/// A running driver; killed when the value goes.
#[derive(Debug)]
pub struct Driver {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// The library, as it calls itself.
    pub library: String,
    /// Its version.
    pub version: String,
}

impl Driver {
    /// Starts it and waits until it is connected.
    ///
    /// # Panics
    /// When it does not start, or says nothing within the bound.
    #[must_use]
    pub fn start(peer: &Peer, url: &str) -> Self {
        Self::start_with(peer, url, &[])
    }

    /// The same with options of its own, `OPTION=VALUE`.
    ///
    /// # Panics
    /// As [`Driver::start`].
    #[must_use]
    pub fn start_with(peer: &Peer, url: &str, options: &[&str]) -> Self {
        let mut command = Command::new(peer.script("run"));
        command.args([url, peer.kind]).args(options).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn_tied(command).expect("the driver starts");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut driver =
            Self { child, input, lines, library: String::new(), version: String::new() };
        let ready = driver.line();
        let words: Vec<&str> = ready.split(' ').collect();
        let ["ready", library, version] = words[..] else { panic!("not ready, but {ready:?}") };
        (driver.library, driver.version) = (library.to_owned(), version.to_owned());
        driver
    }

    /// Asks; the answer is waited for by [`Driver::answer`].
    ///
    /// # Panics
    /// When the driver has ended.
    pub fn send(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("the driver reads");
    }

    /// The answer to the oldest command that has none.
    ///
    /// # Panics
    /// When none comes within the bound, or it is none of the protocol's.
    #[must_use]
    pub fn answer(&mut self) -> Answer {
        let line = self.line();
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("ok", rest) => Answer::Done(rest.to_owned()),
            ("busy", _) => Answer::Busy,
            ("expired", _) => Answer::Expired,
            ("error", what) if what.starts_with("unsupported") => Answer::Unsupported,
            ("error", what) => Answer::Failed(what.to_owned()),
            _ => panic!("not an answer: {line:?}"),
        }
    }

    /// Asks and waits for the answer.
    ///
    /// # Panics
    /// As [`Driver::send`] and [`Driver::answer`].
    pub fn ask(&mut self, command: &str) -> Answer {
        self.send(command);
        self.answer()
    }

    /// Kills it at once, as a machine that loses its power.
    ///
    /// # Panics
    /// When it can't be killed.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(ANSWERS_WITHIN).expect("the driver answers")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    /// Whether it was done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

/// Only a driver that hangs comes near.
const ANSWERS_WITHIN: Duration = Duration::from_secs(90);
