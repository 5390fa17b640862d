//! What a value looks like that is none of a format: which library keeps it there, and who holds by it.
//!
//! Asked once when something foreign was found, by a script that only reads a small part of it. What is not
//! recognised, or may not be read, stays what its type says.

use std::sync::{Arc, LazyLock};

use fencelock_core::{Acquired, Foreign, ForeignKind, LockName, Moment};
use fencelock_store::{Reply, StoreResult};
use redis::Value;

use crate::{
    connection::{Again, Order},
    reply::{bytes, list, number},
    script::{Question, Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!("scripts/looks.lua");

/// A part of what is at a key.
#[derive(Debug, Default)]
struct Sample {
    kind: String,
    length: i64,
    parts: Vec<Vec<u8>>,
}

/// An answer about one name with the words for what is there, if that is foreign.
pub(crate) async fn of<A>(
    wire: &Wire,
    name: &LockName,
    mut seen: Reply<A>,
    foreign: fn(&mut A) -> Option<&mut ForeignKind>,
    by: Moment,
) -> StoreResult<A> {
    if let Some(kind) = foreign(&mut seen.answer) {
        *kind = named(wire, name, kind, by).await;
    }
    Ok(seen)
}

/// What an answer says of a foreign value.
macro_rules! foreign_in {
    ($answer:ident) => {
        |answer: &mut $answer| match answer {
            $answer::Foreign(kind) => Some(kind),
            _ => None,
        }
    };
}

pub(crate) use foreign_in;

/// An answer to an acquire with the words for what is in the way.
pub(crate) async fn of_acquire(
    wire: &Wire,
    answer: Reply<Acquired>,
    by: Moment,
) -> StoreResult<Acquired> {
    let Acquired::Foreign(Foreign { name, kind, .. }) = &answer.answer else { return Ok(answer) };
    let foreign = Foreign::new(name.clone(), Box::pin(named(wire, name, kind, by)).await);
    Ok(answer.map(|_| Acquired::Foreign(foreign)))
}

async fn named(wire: &Wire, name: &LockName, kind: &ForeignKind, by: Moment) -> ForeignKind {
    // What is said of a string is that it is no record: it may be anything, under a key of ours.
    if !matches!(kind, ForeignKind::Type(_)) {
        return kind.clone();
    }
    let key = wire.key(name);
    let mut question =
        Question::script(&SCRIPT, 1, (1, key.len())).again(Again::Harmless).order(Order::Any);
    question.arg(&key);
    question.route = wire.route(name);
    // It is only to say it better: whatever fails, what is known is said.
    let sample = wire.ask(&mut question, by).await.ok().and_then(|answer| read(&answer.value));
    let words = sample.and_then(|sample| words(&sample));
    words.map_or_else(|| kind.clone(), |words| ForeignKind::Looks(Arc::from(words)))
}

fn read(value: &Value) -> Option<Sample> {
    let [kind, length, parts @ ..] = list(value).ok()? else { return None };
    Some(Sample {
        kind: String::from_utf8_lossy(bytes(kind).ok()?).into_owned(),
        length: number(length).ok()?,
        parts: parts.iter().filter_map(|part| bytes(part).ok()).map(<[u8]>::to_vec).collect(),
    })
}

/// What it looks like; nothing for what is not recognised.
fn words(sample: &Sample) -> Option<String> {
    match sample.kind.as_str() {
        "hash" => hash(sample),
        "zset" => sorted_set(sample),
        "string" => string(sample.parts.first()?),
        _ => None,
    }
}

fn hash(sample: &Sample) -> Option<String> {
    let pairs = || sample.parts.chunks_exact(2).map(|pair| (&pair[0][..], &pair[1][..]));
    let mode = pairs().find(|(field, _)| *field == b"mode").map(|(_, mode)| mode);
    let owners = || pairs().filter(|(field, _)| is_thread(field));
    let (field, holds) = owners().next()?;
    let owner = String::from_utf8_lossy(field);
    match mode {
        Some(b"read") => {
            let readers = sample.length.saturating_sub(1);
            Some(format!("a read lock of Redisson, held by {owner} ({readers} in all)"))
        }
        Some(b"write") => {
            let owner = owner.strip_suffix(":write").unwrap_or(&owner);
            Some(format!("a write lock of Redisson, held by {owner}"))
        }
        None if sample.length == 1 => {
            let holds = String::from_utf8_lossy(holds);
            Some(format!("a lock of Redisson, held by {owner} ({holds} times)"))
        }
        _ => None,
    }
}

/// `uuid:number`, and with `:write` behind it.
fn is_thread(field: &[u8]) -> bool {
    let field = field.strip_suffix(b":write").unwrap_or(field);
    field.split_at_checked(36).is_some_and(|(uuid, number)| {
        let number = number.strip_prefix(b":").unwrap_or_default();
        is_uuid(uuid) && !number.is_empty() && number.iter().all(u8::is_ascii_digit)
    })
}

fn is_uuid(text: &[u8]) -> bool {
    let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text.iter().enumerate().all(|(at, byte)| match dash(at) {
            true => *byte == b'-',
            false => byte.is_ascii_hexdigit(),
        })
}

fn sorted_set(sample: &Sample) -> Option<String> {
    let count = sample.length;
    let all = |is: fn(&[u8]) -> bool| {
        !sample.parts.is_empty() && sample.parts.iter().all(|member| is(member))
    };
    if sample.parts.iter().any(|member| member == b"__write__") {
        return Some("a lock of Symfony (5.2 or newer), held by its writer".to_owned());
    }
    if all(|member| member.len() == 44 && member.ends_with(b"=")) {
        return Some(format!("a lock of Symfony (5.2 or newer), held by {count} readers"));
    }
    if all(is_uuid) {
        return Some(format!("a semaphore, as redis-semaphore keeps it, held by {count}"));
    }
    if all(|member| member.len() == 16) {
        return Some(format!("{count} permits of Redisson"));
    }
    None
}

fn string(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok();
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let base64 = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte))
    };
    let says = match text {
        Some("") => "an empty string, as redis-objects locks by it",
        Some(text) if text.starts_with("fl2") || text.starts_with("fl1") => {
            "a record of Fencelock's own format"
        }
        Some(text) if text.starts_with("ADDED:") => "a lock of ShedLock",
        Some(text) if text.starts_with("REACTIVE_LOCK_CONTEXT:") => "a lock of reactive-lock",
        Some(text) if text.starts_with('"') && text.ends_with('"') => {
            "a quoted string, as JSON serializers write tokens"
        }
        Some(text) if text.contains('.') && text.parse::<f64>().is_ok() => {
            "a time, as redis-mutex locks until then"
        }
        Some(text) if text.parse::<i64>().is_ok() => {
            "a number, as semaphores and latches of Redisson are"
        }
        Some(text) if text.len() == 32 && hex(text) => {
            "a token of 32 digits, as redis-py and node-redlock write it"
        }
        Some(text) if is_uuid(text.as_bytes()) => {
            "a UUID, as Spring and pottery write their owners"
        }
        Some(text) if text.len() == 24 && base64(text) => {
            "a token of base64, as redsync and python-redis-lock write it"
        }
        Some(text) if text.len() >= 22 && text.get(..22).is_some_and(base64) => {
            "a token of base64, as redislock writes it"
        }
        None if value.len() == 20 => "20 bytes, as rslock and redlock write tokens",
        _ => return None,
    };
    Some(says.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const THREAD: &str = "852f3e2f-104b-4219-9d90-e04a2b71bdeb:7";

    fn sample(kind: &str, length: i64, parts: &[&str]) -> Sample {
        let parts = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
        Sample { kind: kind.to_owned(), length, parts }
    }

    fn says(kind: &str, length: i64, parts: &[&str]) -> String {
        words(&sample(kind, length, parts)).unwrap_or_default()
    }

    #[test]
    fn what_libraries_keep_is_recognised() {
        assert_eq!(
            says("hash", 1, &[THREAD, "2"]),
            format!("a lock of Redisson, held by {THREAD} (2 times)")
        );
        assert_eq!(
            says("hash", 3, &["mode", "read", THREAD, "1"]),
            format!("a read lock of Redisson, held by {THREAD} (2 in all)")
        );
        assert_eq!(
            says("hash", 2, &["mode", "write", &format!("{THREAD}:write"), "1"]),
            format!("a write lock of Redisson, held by {THREAD}")
        );
        assert!(says("zset", 2, &["__write__", "x"]).contains("Symfony"));
        assert!(says("string", 0, &[""]).contains("empty"));
        assert!(says("string", 36, &[&THREAD[..36]]).contains("Spring"));
        assert!(says("string", 18, &["1796126661.1234567"]).contains("redis-mutex"));
        assert!(says("string", 1, &["4"]).contains("number"));
        for other in
            [says("hash", 1, &["owner", "1"]), says("string", 6, &["flower"]), says("list", 3, &[])]
        {
            assert_eq!(other, "");
        }
    }

    proptest! {
        #[test]
        fn anything_is_recognised_or_not(
            kind in "(hash|zset|string|none)",
            length in any::<i64>(),
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..8),
        ) {
            let _ = words(&Sample { kind, length, parts });
        }
    }
}
