//! A scripted stand-in for a server: answers what a test tells it to.
//!
//! Only for replies that no installable server gives on demand: `NOSCRIPT` for ever, `LOADING`
//! for exactly three requests, a reply of the wrong type. It knows nothing of keys, expiry or
//! scripts. Whatever a real server can be brought to say must be tested on a [`RedisServer`],
//! else the test proves only what its author believes.
//!
//! [`RedisServer`]: crate::RedisServer

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use crate::acceptor::Acceptor;
use crate::port::ReservedPort;
use crate::resp::{self, Splitter};

/// An answer; written in the form of the protocol (RESP2 or RESP3) that the client has chosen.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// `-NOSCRIPT no matching script`, given without the dash.
    Error(String),
    /// `+OK`, given without the plus.
    Simple(String),
    /// A string.
    Bulk(Vec<u8>),
    /// A number.
    Int(i64),
    /// Nothing there.
    Null,
    /// A boolean; 1 or 0 in RESP2.
    Bool(bool),
    /// A floating point number; a string in RESP2.
    Double(f64),
    /// A list.
    Array(Vec<Reply>),
    /// Pairs; a flat list in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// An out-of-band message; a list in RESP2.
    Push(Vec<Reply>),
    /// Bytes as they are, well formed or not.
    Raw(Vec<u8>),
    /// Several of them, one after the other: a push before a reply.
    Sequence(Vec<Reply>),
    /// No answer.
    Silence,
    /// The connection is closed without an answer.
    Close,
    /// What a server without data answers: to HELLO, AUTH, SELECT, CLIENT, PING; an error to all
    /// others.
    Usual,
}

impl Reply {
    /// An error; the first word is its code.
    pub fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    /// A status.
    pub fn simple(text: impl Into<String>) -> Self {
        Self::Simple(text.into())
    }

    /// `+OK`.
    #[must_use]
    pub fn ok() -> Self {
        Self::simple("OK")
    }

    /// A string.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bulk(bytes.as_ref().to_vec())
    }

    fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let resp3 = version == Version::Resp3;
        let mut line = |text: String| out.extend_from_slice(format!("{text}\r\n").as_bytes());
        match self {
            Self::Error(text) => line(format!("-{text}")),
            Self::Simple(text) => line(format!("+{text}")),
            Self::Int(number) => line(format!(":{number}")),
            Self::Null => line(if resp3 { "_" } else { "$-1" }.to_owned()),
            Self::Bool(value) if resp3 => line(format!("#{}", if *value { 't' } else { 'f' })),
            Self::Bool(value) => line(format!(":{}", i32::from(*value))),
            Self::Double(value) if resp3 => line(format!(",{value}")),
            Self::Double(value) => Self::bulk(value.to_string()).encode(version, out),
            Self::Bulk(bytes) => {
                line(format!("${}", bytes.len()));
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Self::Map(pairs) => {
                line(if resp3 {
                    format!("%{}", pairs.len())
                } else {
                    format!("*{}", 2 * pairs.len())
                });
                for (key, value) in pairs {
                    key.encode(version, out);
                    value.encode(version, out);
                }
            }
            Self::Array(elements) | Self::Push(elements) => {
                let push = resp3 && matches!(self, Self::Push(_));
                line(format!("{}{}", if push { '>' } else { '*' }, elements.len()));
                elements.iter().for_each(|element| element.encode(version, out));
            }
            Self::Raw(bytes) => out.extend_from_slice(bytes),
            Self::Sequence(replies) => replies.iter().for_each(|reply| reply.encode(version, out)),
            // Dealt with before anything is written.
            Self::Silence | Self::Close | Self::Usual => {}
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Resp2,
    Resp3,
}

type Script = dyn Fn(&[Vec<u8>]) -> Reply + Send + Sync;

/// A running stand-in.
#[derive(Debug)]
pub struct FakeServer {
    port: ReservedPort,
    shared: Arc<Shared>,
    _acceptor: Acceptor,
}

struct Shared {
    script: Box<Script>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Vec<Vec<u8>>>,
    streams: Vec<TcpStream>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

impl FakeServer {
    /// Answers by `script`, which is given the command and its arguments; HELLO, AUTH, SELECT and
    /// CLIENT are answered as usual without asking it.
    ///
    /// # Panics
    ///
    /// When no port can be had.
    pub fn start(script: impl Fn(&[Vec<u8>]) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_unassisted(move |args| match name(args).as_str() {
            "HELLO" | "AUTH" | "SELECT" | "CLIENT" => Reply::Usual,
            _ => script(args),
        })
    }

    /// Answers everything by `script`, the set-up of connections too; see [`Reply::Usual`].
    ///
    /// # Panics
    ///
    /// When no port can be had.
    pub fn start_unassisted(script: impl Fn(&[Vec<u8>]) -> Reply + Send + Sync + 'static) -> Self {
        let port = ReservedPort::draw();
        let shared = Arc::new(Shared { script: Box::new(script), state: Mutex::default() });
        let serving = Arc::clone(&shared);
        let acceptor = Acceptor::start(port.port(), move |stream| {
            let shared = Arc::clone(&serving);
            if let Ok(handle) = stream.try_clone() {
                shared.state.lock().expect("not poisoned").streams.push(handle);
                std::thread::spawn(move || serve(&shared, stream));
            }
        });
        Self { port, shared, _acceptor: acceptor }
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.addr())
    }

    /// `127.0.0.1:port`.
    #[must_use]
    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port.port())
    }

    /// The requests since the last call, the set-up of connections among them.
    ///
    /// # Panics
    ///
    /// When a connection's thread has panicked.
    #[must_use]
    pub fn take_requests(&self) -> Vec<Vec<Vec<u8>>> {
        std::mem::take(&mut self.shared.state.lock().expect("not poisoned").requests)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        if let Ok(state) = self.shared.state.lock() {
            for stream in &state.streams {
                // It may be closed already.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

fn serve(shared: &Shared, mut stream: TcpStream) {
    let mut version = Version::Resp2;
    let mut splitter = Splitter::default();
    let mut chunk = [0; 4096];
    while let Ok(count) = stream.read(&mut chunk)
        && count > 0
    {
        splitter.push(&chunk[..count]);
        while let Ok(Some(frame)) = splitter.next(resp::request_len) {
            let args = resp::request_args(&frame).unwrap_or_default();
            shared.state.lock().expect("not poisoned").requests.push(args.clone());
            let reply = match (shared.script)(&args) {
                Reply::Usual => usual(&args, &mut version),
                reply => reply,
            };
            let mut bytes = Vec::new();
            reply.encode(version, &mut bytes);
            if reply == Reply::Close || stream.write_all(&bytes).is_err() {
                // Also closes the handle that is kept for `drop`.
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn usual(args: &[Vec<u8>], version: &mut Version) -> Reply {
    match name(args).as_str() {
        "HELLO" => {
            match args.get(1).map(Vec::as_slice) {
                Some(b"3") => *version = Version::Resp3,
                Some(b"2") => *version = Version::Resp2,
                Some(_) => return Reply::error("NOPROTO unsupported protocol version"),
                None => {}
            }
            let proto = if *version == Version::Resp3 { 3 } else { 2 };
            Reply::Map(vec![
                (Reply::bulk("server"), Reply::bulk("redis")),
                (Reply::bulk("version"), Reply::bulk("7.0.15")),
                (Reply::bulk("proto"), Reply::Int(proto)),
                (Reply::bulk("id"), Reply::Int(1)),
                (Reply::bulk("mode"), Reply::bulk("standalone")),
                (Reply::bulk("role"), Reply::bulk("master")),
                (Reply::bulk("modules"), Reply::Array(Vec::new())),
            ])
        }
        "AUTH" | "SELECT" | "CLIENT" => Reply::ok(),
        "PING" => Reply::simple("PONG"),
        other => Reply::error(format!("ERR unknown command '{other}'")),
    }
}

fn name(args: &[Vec<u8>]) -> String {
    args.first().map(|name| String::from_utf8_lossy(name).to_uppercase()).unwrap_or_default()
}
