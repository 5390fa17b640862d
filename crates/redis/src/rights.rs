//! Which right is missing, where the server does not say.
//!
//! Redis 7.0 refuses a command inside of a script without naming it. So a script that was denied is
//! followed by another, once, that asks for the right to each command of the first and does nothing:
//! see `rights.lua`. Newer servers name the command, and are not asked.

use std::{fmt::Write as _, sync::LazyLock};

use fencelock_core::Moment;
use fencelock_store::StoreError;
use redis::Value;

use crate::{
    connection::{Again, Order},
    error::Failure,
    script::{Question, Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!("scripts/rights.lua");

/// How each command of the scripts is asked for: with words that it takes, `@` for the key.
const ASKED: &[(&str, &[&str])] = &[
    ("DECRBY", &["@", "0"]),
    ("DEL", &["@"]),
    ("EXISTS", &["@"]),
    ("GET", &["@"]),
    ("HDEL", &["@", "r"]),
    ("HEXISTS", &["@", "r"]),
    ("HGET", &["@", "r"]),
    ("HGETALL", &["@"]),
    ("HINCRBY", &["@", "r", "0"]),
    ("HKEYS", &["@"]),
    ("HLEN", &["@"]),
    ("HMGET", &["@", "r"]),
    ("HSCAN", &["@", "0"]),
    ("HSET", &["@", "r", ""]),
    ("INCRBY", &["@", "0"]),
    ("LINDEX", &["@", "0"]),
    ("LPOP", &["@", "0"]),
    ("LPUSH", &["@", ""]),
    ("LRANGE", &["@", "0", "0"]),
    ("LREM", &["@", "0", ""]),
    ("MGET", &["@"]),
    ("PEXPIRE", &["@", "1", "GT"]),
    ("PEXPIREAT", &["@", "1"]),
    ("PEXPIRETIME", &["@"]),
    ("PTTL", &["@"]),
    ("RPUSH", &["@", ""]),
    ("SET", &["@", ""]),
    ("SETRANGE", &["@", "0", ""]),
    ("TIME", &[]),
    ("TYPE", &["@"]),
    ("ZADD", &["@", "XX", "0", "r"]),
    ("ZCARD", &["@"]),
    ("ZCOUNT", &["@", "0", "0"]),
    ("ZINCRBY", &["@", "0", "r"]),
    ("ZRANGE", &["@", "0", "0"]),
    ("ZRANGEBYSCORE", &["@", "0", "0"]),
    ("ZREM", &["@", "r"]),
    ("ZREMRANGEBYSCORE", &["@", "0", "0"]),
    ("ZSCORE", &["@", "r"]),
];

/// Those without which every script still does what it should, if not as well. `PUBLISH` and
/// `SPUBLISH` are of that kind, and are called by a variable.
#[cfg(test)]
const SPARED: &[&str] = &["PUBSUB"];

/// The question which of the commands of a script are denied; nothing where it is known already.
/// `key` is the first of the script.
pub(crate) fn question(failure: &Failure, script: &str, key: Option<&[u8]>) -> Option<Question> {
    if !failure.names_no_right {
        return None;
    }
    let mut question = Question::script(&SCRIPT, usize::from(key.is_some()), (32, 256))
        .again(Again::Never)
        .order(Order::Any);
    if let Some(key) = key {
        question.arg(key);
    }
    for (command, words) in ASKED {
        if script.contains(&format!("'{command}'")) && (key.is_some() || words.is_empty()) {
            question.arg(command.as_bytes()).arg(words.len().to_string().as_bytes());
            for word in *words {
                question.arg(word.as_bytes());
            }
        }
    }
    Some(question)
}

/// The same failure with what the answer says. Whatever else the server answers changes nothing.
pub(crate) fn named(failure: Failure, answer: &Value, at: &str) -> Failure {
    let Value::Array(denied) = answer else { return failure };
    let (mut names, mut rights) = (String::new(), String::new());
    for command in denied {
        let Value::BulkString(command) = command else { return failure };
        let command = String::from_utf8_lossy(command).to_ascii_lowercase();
        let _ = write!(names, " {command}");
        let _ = write!(rights, " +{command}");
    }
    if names.is_empty() {
        return failure;
    }
    let message = format!("{at} denies its user{names}; grant{rights}");
    Failure { message, names_no_right: false, ..failure }
}

/// The error for a refusal that came inside of an answer to `asked`, with the right that is missing.
pub(crate) async fn refused_inside(
    wire: &Wire,
    asked: &Question,
    says: &str,
    by: Moment,
) -> StoreError {
    let failure = wire.refused_inside(says);
    let Some(mut question) = asked.about_rights(&failure) else { return failure.into() };
    match wire.ask(&mut question, by).await {
        Ok(answer) => named(failure, &answer.value, wire.connections.at()).into(),
        Err(_) => failure.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;
    use crate::error;

    /// The commands in the text of a script.
    fn commands(text: &str) -> BTreeSet<String> {
        let calls = text.match_indices("call(").map(|(at, call)| &text[at + call.len()..]);
        let named = calls.filter_map(|rest| rest.strip_prefix('\'')?.split_once('\''));
        named.map(|(command, _)| command.to_owned()).collect()
    }

    #[test]
    fn every_command_of_the_scripts_can_be_asked_for() {
        // What only tells what is in the way may fail, and is not among a format's rights.
        const SPARES: [&str; 3] = ["confirm.lua", "looks.lua", "rights.lua"];
        let mut found = BTreeSet::new();
        let mut left = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts")];
        while let Some(path) = left.pop() {
            if path.is_dir() {
                let inside = fs::read_dir(path).expect("the folder is there");
                left.extend(inside.map(|file| file.expect("a file").path()));
            } else if !SPARES.iter().any(|spared| path.ends_with(spared)) {
                found.extend(commands(&fs::read_to_string(path).expect("it is text")));
            }
        }
        let known: BTreeSet<_> = ASKED
            .iter()
            .map(|(name, _)| name)
            .chain(SPARED)
            .map(|name| (*name).to_owned())
            .collect();
        assert_eq!(found, known);
    }

    #[test]
    fn what_is_denied_is_named_and_anything_else_changes_nothing() {
        let failure =
            error::from_server("ERR", "The user executing the script can't run this", "x");
        assert!(question(&failure, "call('TIME')", None).is_some());
        let denied = ["SET", "HLEN"].map(|name| Value::BulkString(name.as_bytes().to_vec()));
        let said = named(failure.clone(), &Value::Array(denied.to_vec()), "x");
        assert_eq!(said.message, "x denies its user set hlen; grant +set +hlen");
        for odd in [Value::Nil, Value::Array(vec![]), Value::Array(vec![Value::Int(1)])] {
            assert_eq!(named(failure.clone(), &odd, "x"), failure, "{odd:?}");
        }
        assert!(question(&said, "call('TIME')", None).is_none(), "it is known");
    }
}
