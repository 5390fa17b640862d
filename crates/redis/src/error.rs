//! What went wrong, said once: every error of the client library and of the server becomes a
//! [`StoreError`] here.
//!
//! The texts of servers are cut before they are kept: `unknown command 'HELLO', with args beginning
//! with: ...` would quote a password or a token.

use std::fmt;

use fencelock_core::Renewed;
use fencelock_store::{Outcome, StoreError, StoreErrorKind};

use crate::url::RedisUrl;

/// What an error means, in a form that several callers can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: StoreErrorKind,
    pub(crate) outcome: Outcome,
    pub(crate) message: String,
    /// What the server or the system said, cut; the code of a server's error first.
    pub(crate) cause: String,
    /// The connection must not be used again: it leads to the wrong server.
    pub(crate) retire: bool,
    /// The server itself says that it is too soon: it was reached, and is worth waiting for.
    pub(crate) is_too_soon: bool,
    /// Some right is missing, and the server does not say which.
    pub(crate) names_no_right: bool,
}

impl Failure {
    /// Whether a refusal that came inside of answers to renewals leaves nothing of them: where the
    /// server could say nothing at all, it was not asked to any effect; and what it read of the other
    /// leases says nothing when it is not the primary.
    pub(crate) fn voids(&self, answers: &[Renewed]) -> bool {
        let is_extended = |answer: &Renewed| matches!(answer, Renewed::Extended { .. });
        answers.iter().all(|answer| *answer == Renewed::Unknown)
            || self.retire && !answers.iter().any(is_extended)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        let mut error = Self::new(failure.kind, failure.outcome, failure.message);
        if failure.is_too_soon {
            error = error.of_a_part();
        }
        if failure.cause.is_empty() { error } else { error.with_source(Said(failure.cause)) }
    }
}

/// What the server or the system said.
#[derive(Debug)]
struct Said(String);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Said {}

/// What an error that the server answered means: its code, and the text behind it.
///
/// Everything here is refused before anything is written: the scripts read and check first, and
/// their first write is refused as a whole. What is not known by its code may have happened.
pub(crate) fn from_server(code: &str, text: &str, at: &str) -> Failure {
    use StoreErrorKind::{Config, Denied, Full, Protocol, Unavailable};
    // Older servers wrap the error of a command in one of the script.
    let missing = MissingRight::read(code, text);
    let wrapped = |inner: &str| code == inner || (code == "ERR" && text.contains(inner));
    let (kind, says) = match code {
        "LOADING" => (Unavailable, format!("{at} is still loading its data; try again")),
        "MASTERDOWN" => (Unavailable, format!("{at} is a replica that has lost its primary")),
        "UNBLOCKED" => (Unavailable, format!("{at} is a primary no more")),
        "BUSY" => (Unavailable, format!("{at} is busy with a script that does not end")),
        "CLUSTERDOWN" => (Unavailable, format!("the cluster at {at} is down")),
        "TRYAGAIN" => (Unavailable, format!("{at} is moving the key; try again")),
        "NOREPLICAS" => (Unavailable, format!("{at} has too few replicas to take writes")),
        "MISCONF" => {
            (Unavailable, format!("{at} takes no writes because it can't save to its disk"))
        }
        "OOM" => (Full, format!("{at} is out of memory for new locks; raise maxmemory")),
        "NOAUTH" => (Denied, format!("{at} asks for a password; none was given")),
        "WRONGPASS" => (Denied, format!("{at} refused the user or the password")),
        "DENIED" => (Denied, format!("{at} is in protected mode and refuses other machines")),
        "MOVED" | "ASK" | "CROSSSLOT" => (Config, in_a_cluster(at).message),
        "NOPROTO" => (Config, no_resp3(at)),
        _ if lacks("hello", text) => (Config, no_resp3(at)),
        _ if lacks("select", text) => {
            (Config, format!("{at} has only the database 0; leave the number out of the url"))
        }
        _ if wrapped("READONLY") => {
            (Unavailable, format!("{at} is a read-only replica; the next call connects anew"))
        }
        _ if missing != MissingRight::None => (Denied, missing.says(at)),
        _ if text.contains("max number of clients") => {
            (Unavailable, format!("{at} has no connection left; raise maxclients"))
        }
        _ if text.contains("DB index is out of range") => {
            (Config, format!("{at} does not have that database"))
        }
        _ if text.contains("AUTH") && text.contains("without any password configured") => {
            (Denied, format!("{at} has no password for this user; leave it out"))
        }
        _ if text.contains("unknown command") => (
            Config,
            format!("{at} does not know a command it must have; is it redis 7.0 or newer?"),
        ),
        _ => (Protocol, format!("{at} answered with an error that fencelock does not know")),
    };
    let outcome = if kind == Protocol { Outcome::Unknown } else { Outcome::NotDone };
    // Who says so is not the primary (any more).
    let retire = wrapped("READONLY") || matches!(code, "MASTERDOWN" | "UNBLOCKED");
    Failure {
        kind,
        outcome,
        message: says,
        cause: cut(code, text),
        retire,
        is_too_soon: code == "LOADING",
        names_no_right: kind == Denied && missing == MissingRight::Unnamed,
    }
}

/// Whether a server, or a proxy before it, says that it has no such command.
fn lacks(command: &str, text: &str) -> bool {
    let before = text.split(", with args").next().unwrap_or_default().to_ascii_lowercase();
    let says_no = ["unknown", "unsupported", "not allowed"];
    before.contains(command) && says_no.iter().any(|word| before.contains(word))
}

fn no_resp3(at: &str) -> String {
    format!(
        "{at} does not speak RESP3, which fencelock needs; it is older than redis 7.0, or a proxy is \
         in between: connect to the server itself"
    )
}

/// Which right is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingRight<'a> {
    /// None is.
    None,
    Channel,
    Key,
    Command(&'a str),
    /// The server does not say which.
    Unnamed,
}

impl<'a> MissingRight<'a> {
    /// Reads a refusal.
    fn read(code: &str, text: &'a str) -> Self {
        let in_a_script = text.contains("The user executing the script")
            || text.starts_with("ACL failure in script");
        // The client library's SELECT keeps the sentence and loses the code.
        let without_code = code == "ERR" && text.contains("has no permissions to run");
        if code != "NOPERM" && !in_a_script && !without_code {
            return Self::None;
        }
        if text.contains("channel") {
            return Self::Channel;
        }
        // "one of the keys used as arguments" and, of newer servers inside of scripts, "access a key".
        if text.contains("keys") || text.contains("a key") {
            return Self::Key;
        }
        match text.split('\'').nth(1) {
            // The text of a script's error names no command, but has an apostrophe in "can't".
            Some(command) if !text.contains("executing the script") => Self::Command(command),
            _ => Self::Unnamed,
        }
    }

    fn says(self, at: &str) -> String {
        match self {
            Self::Channel => {
                format!("{at} denies its user the channel of wakeups; grant the channel pattern")
            }
            Self::Key => {
                format!("{at} denies its user the key of the lock; grant the key pattern")
            }
            Self::Command(command) => {
                format!("{at} denies its user the command {command}; grant +{command}")
            }
            Self::None | Self::Unnamed => format!(
                "{at} denies its user a command that the scripts call; docs/operating/acl.md has \
                 the full list"
            ),
        }
    }
}

fn cut(code: &str, text: &str) -> String {
    const LENGTH_MAX: usize = 200;
    let text = text.split(", with args beginning with").next().unwrap_or_default();
    let short: String = text.chars().take(LENGTH_MAX).collect();
    format!("{code} {short}").trim_end().to_owned()
}

/// Whether a password was said in the greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    Given,
    None,
}

impl Credentials {
    pub(crate) const fn by(url: &RedisUrl) -> Self {
        if url.password.is_some() { Self::Given } else { Self::None }
    }
}

/// No connection could be made.
pub(crate) fn from_connect(error: &redis::RedisError, at: &str, given: Credentials) -> Failure {
    let text = error.detail().unwrap_or_default();
    let mut failure = match error.code() {
        // Whoever knows the greeting looks at the password that is in it.
        Some("NOAUTH") if given == Credentials::Given => from_server("NOPROTO", "", at),
        Some(code) => from_server(code, text, at),
        None => match error.kind() {
            redis::ErrorKind::AuthenticationFailed => {
                // The library keeps of the server's words only what is behind the code.
                from_server("WRONGPASS", text, at)
            }
            redis::ErrorKind::RESP3NotSupported => from_server("NOPROTO", "", at),
            redis::ErrorKind::Io => unreachable(at, &error.to_string()),
            redis::ErrorKind::InvalidClientConfig => Failure {
                kind: StoreErrorKind::Unavailable,
                ..unreachable(at, "the host name has no address")
            },
            // A wrong address rather than a fault of ours: there is no lock server.
            _ => Failure {
                message: format!("{at} does not answer like a redis server"),
                ..unreachable(at, "")
            },
        },
    };
    // Nothing but the greeting was sent.
    failure.outcome = Outcome::NotDone;
    failure
}

pub(crate) fn unreachable(at: &str, cause: &str) -> Failure {
    Failure {
        kind: StoreErrorKind::Unavailable,
        outcome: Outcome::NotDone,
        message: format!("{at} can't be reached; is the server running and the address right?"),
        cause: cause.to_owned(),
        retire: false,
        is_too_soon: false,
        names_no_right: false,
    }
}

/// The time of a call ended while its slot went from one server to another.
pub(crate) fn on_the_move(failure: Failure, at: &str) -> Failure {
    match failure.kind {
        StoreErrorKind::Config => Failure {
            kind: StoreErrorKind::Unavailable,
            message: format!("the key is on the move inside of the cluster at {at}; try again"),
            ..failure
        },
        _ => failure,
    }
}

/// A server of a cluster was taken for one that stands alone: others have the other names.
pub(crate) fn in_a_cluster(at: &str) -> Failure {
    Failure {
        kind: StoreErrorKind::Config,
        message: format!("{at} is a server of a cluster; reach it by redis+cluster://"),
        ..unreachable(at, "")
    }
}

/// This client has closed the store.
pub(crate) fn closed(at: &str) -> Failure {
    Failure {
        kind: StoreErrorKind::Closed,
        message: format!("the store {at} was closed"),
        ..unreachable(at, "")
    }
}

/// A server that stands alone was taken for one of a cluster.
pub(crate) fn no_cluster(at: &str) -> Failure {
    Failure {
        kind: StoreErrorKind::Config,
        message: format!("{at} is no server of a cluster; reach it by redis://"),
        ..unreachable(at, "")
    }
}

/// The connection broke, or what came over it could not be read.
pub(crate) fn from_transport(error: &redis::RedisError, at: &str) -> Failure {
    if error.kind() == redis::ErrorKind::Parse {
        return Failure { retire: true, ..odd(at, "bytes that are not the protocol of redis") };
    }
    Failure {
        kind: StoreErrorKind::Unavailable,
        outcome: Outcome::Unknown,
        message: format!("the connection to {at} broke before the answer came"),
        cause: error.to_string(),
        retire: true,
        is_too_soon: false,
        names_no_right: false,
    }
}

/// The server answered something that makes no sense.
pub(crate) fn odd(at: &str, what: &str) -> Failure {
    Failure {
        kind: StoreErrorKind::Protocol,
        outcome: Outcome::Unknown,
        message: format!("{at} answered {what}"),
        cause: String::new(),
        retire: false,
        is_too_soon: false,
        names_no_right: false,
    }
}

/// The moment came before the answer.
pub(crate) fn overdue(at: &str, was_sent: bool) -> StoreError {
    if was_sent {
        StoreError::unknown(format!("{at} did not answer in time"))
    } else {
        StoreError::unavailable(format!("{at} could not be reached in time"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_the_server_has_its_kind_and_nothing_was_done() {
        use StoreErrorKind::{Config, Denied, Full, Unavailable};
        let table = [
            ("LOADING", "Redis is loading the dataset in memory", Unavailable),
            ("MASTERDOWN", "Link with MASTER is down", Unavailable),
            ("BUSY", "Redis is busy running a script", Unavailable),
            ("CLUSTERDOWN", "The cluster is down", Unavailable),
            ("TRYAGAIN", "Multiple keys request during rehashing", Unavailable),
            ("READONLY", "You can't write against a read only replica.", Unavailable),
            (
                "ERR",
                "Error running script (call to f_x): @user_script:1: -READONLY You",
                Unavailable,
            ),
            ("NOREPLICAS", "Not enough good replicas to write.", Unavailable),
            ("MISCONF", "Redis is configured to save RDB snapshots", Unavailable),
            ("ERR", "max number of clients reached", Unavailable),
            ("OOM", "command not allowed when used memory > 'maxmemory'.", Full),
            ("NOAUTH", "Authentication required.", Denied),
            ("WRONGPASS", "invalid username-password pair", Denied),
            ("NOPERM", "this user has no permissions to run the 'evalsha' command", Denied),
            ("ERR", "The user executing the script can't run this command or subcommand", Denied),
            ("ERR", "this user has no permissions to run the 'select' command", Denied),
            ("MOVED", "3999 127.0.0.1:6381", Config),
            ("ERR", "DB index is out of range", Config),
            ("ERR", "SELECT is not allowed in cluster mode", Config),
            ("ERR", "unknown command 'HELLO', with args beginning with: '3' ", Config),
            ("ERR", "unsupported command 'hello'", Config),
        ];
        for (code, text, kind) in table {
            let failure = from_server(code, text, "redis://h:1/0");
            assert_eq!(failure.kind, kind, "{code} {text}");
            assert_eq!(failure.outcome, Outcome::NotDone, "{code} {text}");
            let elsewhere = ["READONLY", "MASTERDOWN"].contains(&code);
            assert_eq!(failure.retire, elsewhere || text.contains("READONLY"));
            assert!(failure.message.contains("redis://h:1/0"), "{}", failure.message);
        }
    }

    #[test]
    fn an_unknown_error_leaves_the_outcome_open() {
        let failure = from_server("ERR", "Protocol error: too big", "redis://h:1/0");
        assert_eq!((failure.kind, failure.outcome), (StoreErrorKind::Protocol, Outcome::Unknown));
    }

    #[test]
    fn the_missing_right_is_named() {
        let says = |text| from_server("NOPERM", text, "x").message;
        assert!(says("User app has no permissions to run the 'eval' command").contains("+eval"));
        assert!(says("No permissions to access a key").contains("key pattern"));
        // Since Redis 7.2 the errors of scripts say more.
        let says = |text| from_server("ERR", text, "x");
        let key = says("ACL failure in script: No permissions to access a key script: on @f:1.");
        assert!(key.message.contains("key pattern"), "{}", key.message);
        let set = "ACL failure in script: User app has no permissions to run the 'set' command";
        assert!(says(set).message.contains("+set") && !says(set).names_no_right);
        assert_eq!(says(set).kind, StoreErrorKind::Denied);
    }

    #[test]
    fn arguments_are_never_quoted() {
        let text = "unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' 'hunter2' ";
        let error = StoreError::from(from_server("ERR", text, "x"));
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(source.as_deref(), Some("ERR unknown command 'HELLO'"));
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}
