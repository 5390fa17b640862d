//! What a server says of itself, and whether it can be used.

use std::time::Duration;

use fencelock_core::{Incarnation, Moment};
use fencelock_store::StoreErrorKind;
use redis::Value;

use super::{Order, replica::Replica};
use crate::{
    cluster::Route,
    error::{self, Failure},
    script::{Believed, Question},
};

/// What the server said of itself when the connection was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) incarnation: Option<Incarnation>,
    /// What it is, when that is too old.
    pub(crate) too_old: Option<String>,
    /// What it says of that, when it is a replica.
    pub(crate) replica: Option<Replica>,
    /// It says that it is a primary.
    pub(super) is_primary: bool,
    /// It is a server of a cluster and was asked as one that stands alone: other servers have the
    /// other names.
    pub(super) is_misplaced: bool,
    /// How long it had been running then, cut to seconds by the server.
    pub(crate) uptime: Option<Duration>,
    /// When it was heard.
    pub(crate) heard: Moment,
    /// It does not say, and will not: the right is missing.
    pub(crate) is_denied: bool,
}

impl Greeting {
    /// `SET NX GET` and `PEXPIRE GT` exist together since this one.
    const LEAST_REDIS: u32 = 7;
    const LEAST_VALKEY: u32 = 8;

    /// Reads the lines of INFO.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let text = match value {
            Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?,
            Value::SimpleString(text) | Value::VerbatimString { text, .. } => text,
            _ => return None,
        };
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        // Valkey calls it so, unless it was told to be more like Redis.
        let mode = field("server_mode").or_else(|| field("redis_mode"));
        let major =
            |version: &str| version.split('.').next().and_then(|part| part.parse::<u32>().ok());
        let old = |name: &str, version: &str, least: u32| {
            let too_old = major(version).is_some_and(|major| major < least);
            too_old.then(|| format!("{name} {version}"))
        };
        let too_old = match (field("valkey_version"), field("redis_version")) {
            (Some(version), _) => old("valkey", version, Self::LEAST_VALKEY),
            (None, Some(version)) => old("redis", version, Self::LEAST_REDIS),
            (None, None) => None,
        };
        // One that can't be a span of time is that of a clock that was set back: nothing is known.
        let uptime = field("uptime_in_seconds").map(|text| text.parse().unwrap_or_default());
        Some(Self {
            incarnation: field("run_id").map(Incarnation::new),
            too_old,
            uptime: uptime.map(Duration::from_secs),
            heard: Moment::START,
            is_denied: false,
            replica: Replica::read(field),
            is_primary: field("role") == Some("master"),
            is_misplaced: mode == Some("cluster"),
        })
    }

    /// Whether the server can be used.
    pub(super) fn is_usable(&self) -> bool {
        self.too_old.is_none() && self.replica.is_none() && !self.is_misplaced
    }

    /// Whether an answer counts also if it is that of a replica. What was taken before a server was
    /// known to be one of a cluster may be given back to it.
    pub(super) fn is_enough_for(&self, question: &Question) -> bool {
        let gives_back = self.is_misplaced && question.order == Order::Behind;
        let is_believed = question.believed == Believed::Anybody;
        self.too_old.is_none() && (is_believed || gives_back && self.replica.is_none())
    }

    /// Whether it may say where else to ask: a replica of a cluster answers so to whatever has a key.
    pub(super) fn may_redirect(&self, question: &Question) -> bool {
        let is_of_a_slot = matches!(question.route, Route::Slot(_));
        is_of_a_slot && self.replica.is_some() && self.too_old.is_none() && !self.is_misplaced
    }

    /// What it says of that, when it is a replica whose answer counts for nothing.
    pub(super) fn unbelieved(&self, question: &Question) -> Option<&Replica> {
        let replica = self.replica.as_ref()?;
        (!self.is_misplaced && !self.is_enough_for(question)).then_some(replica)
    }

    /// The error for whoever asks a server that can't be used.
    pub(super) fn refusal(&self, at: &str) -> Option<Failure> {
        if self.is_misplaced {
            return Some(error::in_a_cluster(at));
        }
        if let Some(replica) = &self.replica {
            return Some(replica.refusal(at));
        }
        let version = self.too_old.as_ref()?;
        let message = format!("{at} is {version}; fencelock needs redis 7.0 or valkey 8, or newer");
        Some(Failure { kind: StoreErrorKind::Config, message, ..error::unreachable(at, "") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(text: &str) -> Greeting {
        Greeting::read(&Value::BulkString(text.as_bytes().to_vec())).expect("a greeting")
    }

    #[test]
    fn the_life_and_the_age_of_a_server_are_read() {
        let text = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n";
        let new = greeting(text);
        assert_eq!(new.incarnation, Some(Incarnation::new("abc")));
        assert_eq!(new.too_old, None);
        assert_eq!(greeting("redis_version:6.2.14\n").too_old.as_deref(), Some("redis 6.2.14"));
        let valkey = "redis_version:7.2.4\r\nvalkey_version:";
        assert_eq!(greeting(&format!("{valkey}8.0.1\r\n")).too_old, None);
        let old = greeting(&format!("{valkey}7.2.8\r\n"));
        assert_eq!(old.too_old.as_deref(), Some("valkey 7.2.8"));
        assert!(old.refusal("redis://h:1/0").is_some_and(|f| f.message.contains("valkey 7.2.8")));
        assert_eq!(new.uptime, None);
        let uptime = |text| greeting(text).uptime.map(|uptime| uptime.as_secs());
        assert_eq!(uptime("uptime_in_seconds:12\r\n"), Some(12));
        assert_eq!(uptime("uptime_in_seconds:-3\r\n"), Some(0));
        assert_eq!(greeting("nothing").too_old, None);
        let primary = greeting("role:master\nmaster_replid:a\n");
        assert!(primary.is_primary && primary.is_usable());
        let replica = greeting(
            "role:slave\nmaster_host:10.0.0.1\nmaster_port:7\nslave_read_only:1\nmaster_replid:a\n",
        );
        assert!(!replica.is_primary && !replica.is_usable());
        let refusal = replica.refusal("redis://h:1/0").expect("a refusal");
        assert!(refusal.message.contains("a replica of 10.0.0.1:7"), "{}", refusal.message);
        assert!(refusal.retire && replica.replica.is_some_and(|replica| replica.wrote_nothing()));
        let misplaced = greeting("redis_mode:cluster\nrole:slave\nmaster_host:h\n");
        let refusal = misplaced.refusal("redis://h:1/0").expect("a refusal");
        assert!(refusal.message.contains("redis+cluster://"), "{}", refusal.message);
        assert!(greeting("valkey_version:9.1.2\nserver_mode:cluster\n").is_misplaced);
        assert!(greeting("redis_mode:standalone\n").is_usable());
        assert!(greeting("valkey_version:9.1.2\nserver_mode:standalone\n").is_usable());
        assert_eq!(Greeting::read(&Value::Int(1)), None);
    }
}
