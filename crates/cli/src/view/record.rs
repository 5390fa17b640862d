//! The JSON form of a lock. Its fields are a contract: scripts depend on them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use fencelock::{HolderView, LockName};
use serde::Serialize;

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

    /// A lock that somebody holds.
    pub(crate) fn held(name: &LockName, holder: &HolderView, dialect: &str) -> Self {
        Self {
            token_hash: Some(holder.token_hash.clone()),
            fencing_token: holder.fencing_token.map(|token| token.as_u64()),
            ttl_ms: holder.remaining.map(millis),
            holder: Some(HolderRecord {
                host: holder.host.clone(),
                pid: holder.pid,
                label: holder.label.clone(),
                since: holder.since.map(rfc3339),
            }),
            meta: holder.metadata.clone(),
            queue: u64::from(holder.waiting),
            revoked: holder.revoked,
            unattended: holder.unattended,
            ..Self::new(name, dialect)
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
            "{\"name\":\"job\",\"token_hash\":\"ab\",\"fencing_token\":null,\"ttl_ms\":null,\
             \"validity_ms\":null,\"holder\":{\"host\":\"h\\u009b\",\"pid\":null,\"label\":null,\
             \"since\":\"2023-11-14T22:13:20.500Z\"},\"meta\":{},\"queue\":0,\
             \"revoked\":false,\"unattended\":false,\"dialect\":\"native\"}\n"
        );
    }

    #[test]
    fn a_name_that_is_not_text_is_given_in_digits() {
        let name = LockName::new([0xff, 0]).expect("a name");
        let line = Record::new(&name, "plain").to_line();
        assert!(line.starts_with("{\"name_hex\":\"ff00\",\"token_hash\":null,"), "{line}");
    }
}
