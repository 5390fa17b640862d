//! `?replicas=1&acknowledge_within=100ms&fsync=yes`: what has to have a grant before it counts.

use std::time::Duration;

use fencelock_store::StoreError;

use super::{Query, config};
use crate::acknowledge::{Acknowledge, Acknowledgement};

/// What a URL says of acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Wanted {
    pub(crate) level: Acknowledge,
    pub(crate) within: Option<Duration>,
}

/// The settings that every URL may have.
pub(super) const SETTINGS: [&str; 3] = ["replicas", "fsync", "acknowledge_within"];

pub(super) fn read(query: &Query) -> Result<Wanted, StoreError> {
    let replicas = query.get("replicas").map(replicas).transpose()?.unwrap_or(0);
    let level = match (query.get("fsync"), replicas) {
        (None | Some("no"), 0) => Acknowledge::None,
        (None | Some("no"), replicas) => Acknowledge::Replicas(replicas),
        (Some("yes"), replicas) => Acknowledge::Disk { replicas },
        (Some(_), _) => return Err(config("fsync in the redis url is yes or no")),
    };
    let within = query.get("acknowledge_within").map(span).transpose()?;
    if query.get("replicas").or(query.get("fsync")).is_none() && within.is_some() {
        return Err(config(
            "acknowledge_within in the redis url needs replicas=N or fsync=yes beside it",
        ));
    }
    Ok(Wanted { level, within })
}

fn replicas(text: &str) -> Result<u8, StoreError> {
    text.parse().map_err(|_| config("replicas in the redis url is a number from 0 to 255"))
}

/// `250ms` or `2s`.
fn span(text: &str) -> Result<Duration, StoreError> {
    let read = |number: &str| number.parse::<u32>().ok().map(u64::from);
    let span = match text.strip_suffix("ms") {
        Some(number) => read(number).map(Duration::from_millis),
        None => text.strip_suffix('s').and_then(read).map(Duration::from_secs),
    };
    span.filter(|span| *span >= Acknowledgement::WITHIN_MIN)
        .ok_or_else(|| config("acknowledge_within in the redis url is a span like 100ms or 2s"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RedisUrl;

    #[test]
    fn each_level_is_read_behind_every_kind_of_url() {
        for start in ["redis://h/1?", "redis+unix:///s?db=1&", "redis+sentinel://a,b/m/1?"] {
            for (query, level, within) in [
                ("replicas=0", Acknowledge::None, None),
                ("fsync=no", Acknowledge::None, None),
                ("replicas=2", Acknowledge::Replicas(2), None),
                ("replicas=1&acknowledge_within=250ms", Acknowledge::Replicas(1), Some(250)),
                ("fsync=yes&acknowledge_within=2s", Acknowledge::Disk { replicas: 0 }, Some(2_000)),
                ("fsync=yes&replicas=1", Acknowledge::Disk { replicas: 1 }, None),
            ] {
                let url: RedisUrl = format!("{start}{query}").parse().expect("a url");
                let within = within.map(Duration::from_millis);
                assert_eq!(url.acknowledge, Wanted { level, within }, "{start}{query}");
                assert_eq!(url.database, 1);
            }
        }
    }

    #[test]
    fn what_can_not_be_is_refused_by_name() {
        for (query, says) in [
            ("replicas=x", "replicas"),
            ("replicas=256", "replicas"),
            ("fsync=always", "fsync"),
            ("replicas=1&acknowledge_within=1", "acknowledge_within"),
            ("replicas=1&acknowledge_within=0ms", "acknowledge_within"),
            ("acknowledge_within=1s", "replicas=N"),
            ("replica=1", "'replicas'"),
        ] {
            let error = format!("redis://h?{query}").parse::<RedisUrl>().expect_err(query);
            assert!(error.to_string().contains(says), "{query}: {error}");
        }
    }
}
