//! The JSON form of a lock. Its fields are a contract: scripts depend on them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use fencelock::{HolderView, Kind, LockName};
use serde::Serialize;

use super::crowd::{self, Each};
use crate::hold::Manner;
use crate::names::to_hex;

/// One lock, as one line.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Record {
    /// The name, where it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Its bytes, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name_hex: Option<String>,
    /// The secret; only from `acquire`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// Tells grants apart; wherever the token itself is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_hash: Option<Option<String>>,
    /// The fencing token.
    pub(crate) fencing_token: Option<u64>,
    /// The number of the grant, which grows from one to the next, as an inspection tells it: also of
    /// one of several, whose number is no fencing token.
    pub(crate) number: Option<u64>,
    /// What the store keeps of the lease; nothing when it never ends, or there is none.
    pub(crate) ttl_ms: Option<u64>,
    /// How long the holder may rely on it; only the holder knows.
    pub(crate) validity_ms: Option<u64>,
    /// Who holds it; nothing when nobody does.
    pub(crate) holder: Option<HolderRecord>,
    /// What the holder says besides.
    pub(crate) meta: BTreeMap<String, String>,
    /// How many wait in the store's queue.
    pub(crate) queue: u64,
    /// Somebody asked for the lock back.
    pub(crate) revoked: bool,
    /// Nobody renews the lease.
    pub(crate) unattended: bool,
    /// The wire format.
    pub(crate) dialect: String,
    /// What kind of lock it is while anybody holds it: lock, semaphore, latch or barrier.
    pub(crate) kind: Option<&'static str>,
    /// It is held so that others can hold it too.
    pub(crate) shared: bool,
    /// How many hold it; nothing when that is not known.
    pub(crate) holder_count: Option<u32>,
    /// Each of them, as far as the store tells; nothing when it was not asked.
    pub(crate) holders: Option<Vec<EachRecord>>,
    /// How much of the limit is taken.
    pub(crate) used: Option<u32>,
    /// How many permits there are, or steps of a latch.
    pub(crate) limit: Option<u32>,
    /// Who holds a re-entrant lock, where it is UTF-8.
    pub(crate) owner: Option<String>,
}

/// Who holds a lock, as the holder says.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct HolderRecord {
    /// The machine.
    pub(crate) host: Option<String>,
    /// The process.
    pub(crate) pid: Option<u32>,
    /// What it calls itself.
    pub(crate) label: Option<String>,
    /// When it was granted the lock: RFC 3339, UTC.
    pub(crate) since: Option<String>,
}

/// One of those who hold a lock. What the store tells only of all together is null.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct EachRecord {
    #[serde(flatten)]
    holder: HolderRecord,
    /// How many permits it has.
    permits: Option<u32>,
    token_hash: Option<String>,
    fencing_token: Option<u64>,
    number: Option<u64>,
    ttl_ms: Option<u64>,
    meta: BTreeMap<String, String>,
    revoked: Option<bool>,
    unattended: Option<bool>,
}

impl HolderRecord {
    fn of(view: &HolderView) -> Self {
        Self {
            host: view.host.clone(),
            pid: view.pid,
            label: view.label.clone(),
            since: view.since.map(rfc3339),
        }
    }
}

impl EachRecord {
    fn of(each: &Each<'_>) -> Self {
        Self {
            holder: HolderRecord::of(each.view),
            permits: each.view.permits,
            token_hash: each.view.token_hash.clone(),
            fencing_token: each.view.fencing_token.map(|token| token.as_u64()),
            number: each.view.number,
            ttl_ms: each.left.map(millis),
            meta: each.view.metadata.clone(),
            revoked: each.revoked,
            unattended: each.unattended,
        }
    }
}

impl Record {
    /// A lock of which nothing but the name is known.
    pub(crate) fn new(name: &LockName, dialect: &str) -> Self {
        let text = name.as_str().map(str::to_owned);
        Self {
            name_hex: text.is_none().then(|| to_hex(name.as_bytes())),
            name: text,
            token_hash: Some(None),
            dialect: dialect.to_owned(),
            ..Self::default()
        }
    }

    /// A lock that nobody holds.
    pub(crate) fn free(name: &LockName, dialect: &str) -> Self {
        Self { holder_count: Some(0), holders: Some(Vec::new()), ..Self::new(name, dialect) }
    }

    /// A lock that was taken just now; who else holds it was not asked.
    pub(crate) fn taken(name: &LockName, manner: Option<Manner>, dialect: &str) -> Self {
        let (kind, limit) = match manner {
            None | Some(Manner::Shared) => (Kind::Lock, None),
            Some(Manner::Permits { limit, .. }) => (Kind::Semaphore, Some(limit)),
        };
        let shared = manner.is_some();
        Self { kind: Some(kind.as_str()), shared, limit, ..Self::new(name, dialect) }
    }

    /// A lock that somebody holds.
    pub(crate) fn held(name: &LockName, holder: &HolderView, dialect: &str) -> Self {
        let sharing = holder.sharing.as_deref();
        let limit = sharing.and_then(|sharing| sharing.limit);
        let owner = sharing.and_then(|sharing| sharing.owner.as_ref());
        Self {
            kind: Some(holder.kind.as_str()),
            shared: sharing.is_some(),
            holder_count: Some(crowd::count(holder)),
            holders: Some(crowd::each(holder).iter().map(EachRecord::of).collect()),
            used: limit.and(sharing).map(|sharing| sharing.used),
            limit,
            owner: owner.and_then(|owner| String::from_utf8(owner.as_bytes().to_vec()).ok()),
            token_hash: Some(holder.token_hash.clone()),
            fencing_token: holder.fencing_token.map(|token| token.as_u64()),
            number: holder.number,
            ttl_ms: holder.remaining.map(millis),
            holder: Some(HolderRecord::of(holder)),
            meta: holder.metadata.clone(),
            queue: u64::from(holder.waiting),
            revoked: holder.revoked,
            unattended: holder.unattended,
            ..Self::new(name, dialect)
        }
    }

    /// The same lock, with what is said of one of those who hold it.
    pub(crate) fn said_of(self, each: &Each<'_>) -> Self {
        Self {
            token_hash: Some(each.view.token_hash.clone()),
            fencing_token: each.view.fencing_token.map(|token| token.as_u64()),
            number: each.view.number,
            ttl_ms: each.left.map(millis),
            holder: Some(HolderRecord::of(each.view)),
            meta: each.view.metadata.clone(),
            revoked: each.revoked.unwrap_or(self.revoked),
            unattended: each.unattended.unwrap_or(self.unattended),
            ..self
        }
    }

    /// The line, with its end.
    pub(crate) fn to_line(&self) -> String {
        // A record holds text, numbers and maps with text keys: nothing that JSON does not have.
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{}\n", escape_invisible(&json))
    }
}

/// JSON lets most control characters beyond ASCII stand as they are; a terminal acts on them.
pub(crate) fn escape_invisible(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\u{7f}'..='\u{9f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out
}

/// Whole milliseconds.
pub(crate) fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A time for machines and people: RFC 3339, UTC, whole milliseconds.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    match jiff::Timestamp::try_from(time) {
        Ok(time) => format!("{time:.3}"),
        // Beyond the year 9999 nobody holds a lock.
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_fields_are_those_of_the_contract_and_no_others() {
        let name = LockName::new("job").expect("a name");
        let mut holder = HolderView::default();
        holder.host = Some("h\u{9b}".to_owned());
        holder.since = Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_500));
        holder.token_hash = Some("ab".to_owned());
        let line = Record::held(&name, &holder, "native").to_line();
        assert_eq!(
            line,
            "{\"name\":\"job\",\"token_hash\":\"ab\",\"fencing_token\":null,\"number\":null,\"ttl_ms\":null,\
             \"validity_ms\":null,\"holder\":{\"host\":\"h\\u009b\",\"pid\":null,\"label\":null,\
             \"since\":\"2023-11-14T22:13:20.500Z\"},\"meta\":{},\"queue\":0,\
             \"revoked\":false,\"unattended\":false,\"dialect\":\"native\",\
             \"kind\":\"lock\",\"shared\":false,\"holder_count\":1,\"holders\":[{\
             \"host\":\"h\\u009b\",\"pid\":null,\"label\":null,\
             \"since\":\"2023-11-14T22:13:20.500Z\",\"permits\":null,\"token_hash\":\"ab\",\
             \"fencing_token\":null,\"number\":null,\"ttl_ms\":null,\"meta\":{},\"revoked\":false,\
             \"unattended\":false}],\"used\":null,\"limit\":null,\"owner\":null}\n"
        );
    }

    #[test]
    fn a_name_that_is_not_text_is_given_in_digits() {
        let name = LockName::new([0xff, 0]).expect("a name");
        let line = Record::new(&name, "plain").to_line();
        assert!(line.starts_with("{\"name_hex\":\"ff00\",\"token_hash\":null,"), "{line}");
    }
}
