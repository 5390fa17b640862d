//! What a server really executed, in its own words: the MONITOR stream, recorded.
//!
//! Uses its own two connections and no client library, so that it adds nothing to the stream but
//! its markers, which are filtered out again.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::port::random;

/// How long the stream may take to show a marker; only a dead server comes near.
const FLUSH_WITHIN: Duration = Duration::from_secs(10);

/// One executed command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// The selected database.
    pub database: u32,
    /// `ip:port`, `unix:path`, or `lua` for a command that a script ran.
    pub client: String,
    /// The command and its arguments.
    pub args: Vec<Vec<u8>>,
}

impl Seen {
    /// The command in capitals.
    #[must_use]
    pub fn name(&self) -> String {
        self.args
            .first()
            .map(|name| String::from_utf8_lossy(name).to_uppercase())
            .unwrap_or_default()
    }

    /// The arguments, the command among them, for reading.
    #[must_use]
    pub fn text(&self) -> Vec<String> {
        self.args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
    }

    /// Whether a script, not a client, ran it.
    #[must_use]
    pub fn is_from_script(&self) -> bool {
        self.client == "lua"
    }
}

/// A running recording.
///
/// New connections are seen too: `RedisServer::connect` and `cli` show as an `AUTH`, so connect
/// before a recording that counts commands.
#[derive(Debug)]
pub struct Monitor {
    tape: Arc<Tape>,
    marking: Mutex<Raw>,
}

#[derive(Debug, Default)]
struct Tape {
    state: Mutex<TapeState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TapeState {
    seen: Vec<Seen>,
    ended: bool,
}

impl Monitor {
    /// Starts to record; what is executed after this returned is seen.
    pub(crate) fn start(port: u16, user: &str, password: &str) -> Self {
        // First the marking connection: its AUTH would be seen.
        let marking = Raw::connect(port, user, password);
        let mut stream = Raw::connect(port, user, password);
        stream.call(&["MONITOR"]);
        let tape = Arc::new(Tape::default());
        let recorder = Arc::clone(&tape);
        std::thread::spawn(move || {
            while let Some(line) = stream.line() {
                let seen = parse(&line).unwrap_or_else(|| panic!("not a MONITOR line: {line}"));
                recorder.state.lock().expect("not poisoned").seen.push(seen);
                recorder.changed.notify_all();
            }
            recorder.state.lock().expect("not poisoned").ended = true;
            recorder.changed.notify_all();
        });
        Self { tape, marking: Mutex::new(marking) }
    }

    /// Everything executed since the last call.
    ///
    /// Complete: what was answered before this call is in it, because a marker sent now was seen
    /// behind it.
    ///
    /// # Panics
    ///
    /// When the server is gone: a recording does not survive a restart.
    #[must_use]
    pub fn take(&self) -> Vec<Seen> {
        let marker = format!("fencelock-testkit-marker-{:016x}", random());
        self.marking.lock().expect("not poisoned").call(&["ECHO", &marker]);
        let is_marker = |seen: &Seen| seen.args.get(1).is_some_and(|arg| *arg == marker.as_bytes());
        let state = self.tape.state.lock().expect("not poisoned");
        let (mut state, timed_out) = self
            .tape
            .changed
            .wait_timeout_while(state, FLUSH_WITHIN, |state| {
                !state.ended && !state.seen.iter().any(is_marker)
            })
            .expect("not poisoned");
        let end = state.seen.iter().position(is_marker).unwrap_or_else(|| {
            panic!(
                "the MONITOR stream {} before the marker",
                if timed_out.timed_out() { "fell silent" } else { "ended" }
            )
        });
        let rest = state.seen.split_off(end + 1);
        let mut taken = std::mem::replace(&mut state.seen, rest);
        taken.pop();
        taken
    }
}

/// A connection that can do just enough: one command, one line of reply (or one bulk string).
#[derive(Debug)]
struct Raw {
    reader: BufReader<TcpStream>,
}

impl Raw {
    fn connect(port: u16, user: &str, password: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port))
            .unwrap_or_else(|e| panic!("no server on port {port}: {e}"));
        let mut raw = Self { reader: BufReader::new(stream) };
        raw.call(&["AUTH", user, password]);
        raw
    }

    fn call(&mut self, args: &[&str]) {
        let mut request = format!("*{}\r\n", args.len());
        for arg in args {
            request.push_str(&format!("${}\r\n{arg}\r\n", arg.len()));
        }
        self.reader.get_mut().write_all(request.as_bytes()).expect("the server takes a command");
        let reply = self.line().expect("the server answers");
        assert!(!reply.starts_with('-'), "{args:?} was refused: {reply}");
        if reply.starts_with('$') {
            self.line().expect("the bulk string follows its length");
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match self.reader.read_until(b'\n', &mut line) {
            Ok(count) if count > 0 => {
                Some(String::from_utf8_lossy(&line).trim_end_matches("\r\n").to_owned())
            }
            _ => None,
        }
    }
}

/// Parses `+1700000000.000000 [0 127.0.0.1:4711] "SET" "k" "a\"b\x00"`.
fn parse(line: &str) -> Option<Seen> {
    let (_, rest) = line.strip_prefix('+')?.split_once(" [")?;
    let (database, rest) = rest.split_once(' ')?;
    let (client, rest) = rest.split_once("] ")?;
    Some(Seen {
        database: database.parse().ok()?,
        client: client.to_owned(),
        args: unquote(rest.as_bytes())?,
    })
}

/// Undoes the server's quoting: printable bytes as they are, the others as an escape.
fn unquote(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut args = Vec::new();
    let mut bytes = text.iter().copied();
    while let Some(opening) = bytes.next() {
        if opening == b' ' {
            continue;
        }
        if opening != b'"' {
            return None;
        }
        let mut arg = Vec::new();
        loop {
            match bytes.next()? {
                b'"' => break,
                b'\\' => arg.push(match bytes.next()? {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    b'x' => {
                        let digits = [bytes.next()?, bytes.next()?];
                        u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                    }
                    literal => literal,
                }),
                plain => arg.push(plain),
            }
        }
        args.push(arg);
    }
    Some(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_line_is_parsed_back_to_its_bytes() {
        let line = r#"+1700000000.123456 [3 127.0.0.1:4711] "SET" "a \"b\\" "\x00\xff\r\n""#;
        let seen = parse(line).expect("a MONITOR line");
        assert_eq!((seen.database, seen.client.as_str()), (3, "127.0.0.1:4711"));
        assert_eq!(seen.args, [&b"SET"[..], b"a \"b\\", b"\0\xff\r\n"]);
    }

    #[test]
    fn a_torn_line_is_refused() {
        assert_eq!(parse(r#"+1700000000.123456 [0 lua] "get" "k"#), None);
        assert_eq!(parse("+OK"), None);
    }
}
