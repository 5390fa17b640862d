//! A primary, its replicas, and the sentinels that watch them.
//!
//! ```text
//!   sentinels --watch--> primary --replicates--> replicas
//!       `-- name the primary to whoever asks; promote a replica when a majority sees none
//! ```
//! The sentinels keep the periods of real ones, or ask ten times as often (`SENTINEL DEBUG`), which
//! makes a fail-over a matter of a second and brings an old primary to heel at once, not after ten
//! seconds.

use std::collections::HashMap;
use std::time::Duration;

use super::{RedisServer, RedisServerBuilder};
use crate::process::eventually;

/// How the sentinels call the service.
const SERVICE: &str = "fencelock";

/// How long the primary must be silent before the first sentinel says that it is down, and how much
/// longer for each further one. Were they alike, all would stand for the election at once, and
/// again.
const DOWN_AFTER_MS: usize = 500;
const DOWN_AFTER_STEP_MS: usize = 400;

/// One is enough to begin a fail-over; a majority must elect it in any case.
const QUORUM: usize = 1;

/// A fail-over that did not come to an end is tried again after twice this.
const FAILOVER_TIMEOUT_MS: usize = 2_000;

/// The bound of everything here; a starved machine needs long.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// How much of each log is shown when a test fails.
const LOG_LINES: usize = 40;

/// The periods of quick sentinels, in milliseconds. Not that of pings: what is known of a replica
/// counts for five of them, and is asked once a second while the primary is down, so with shorter
/// ones the replica is often found to be no good.
const QUICK: [&str; 6] = ["info-period", "200", "publish-period", "200", "ask-period", "100"];

/// A replicated service.
#[derive(Debug)]
#[must_use = "everything ends with the value"]
pub struct Replicated {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl Replicated {
    /// One primary and some replicas, without sentinels: the first server is the primary.
    ///
    /// # Panics
    ///
    /// When a server does not start, or the replicas do not follow.
    pub fn without_sentinels(replicas: usize) -> Self {
        Self::start_with(replicas, 0, false, |builder| builder)
    }

    /// One primary, some replicas and three sentinels that are quick.
    ///
    /// # Panics
    ///
    /// When a server does not start, or they do not find one another.
    pub fn start(replicas: usize) -> Self {
        Self::start_with(replicas, 3, true, |builder| builder)
    }

    /// The same in all detail: how many sentinels, whether they are quick, and what all data
    /// servers have in their configuration.
    ///
    /// # Panics
    ///
    /// When a server does not start, or they do not find one another.
    pub fn start_with(
        replicas: usize,
        sentinels: usize,
        quick: bool,
        settings: impl Fn(RedisServerBuilder) -> RedisServerBuilder,
    ) -> Self {
        let server = || settings(RedisServer::builder().config("repl-diskless-sync-delay", "0"));
        let primary = server().start();
        let port = primary.port().to_string();
        let replica = |_| server().config("replicaof", &format!("127.0.0.1 {port}")).start();
        let mut servers: Vec<RedisServer> = (0..replicas).map(replica).collect();
        servers.insert(0, primary);
        let sentinel = |number: usize| {
            let watch = |what: &str, value: &str| format!("{what} {SERVICE} {value}");
            let down_after = DOWN_AFTER_MS + number * DOWN_AFTER_STEP_MS;
            RedisServer::builder()
                .sentinel()
                .config("sentinel", &watch("monitor", &format!("127.0.0.1 {port} {QUORUM}")))
                .config("sentinel", &watch("down-after-milliseconds", &down_after.to_string()))
                .config("sentinel", &watch("failover-timeout", &FAILOVER_TIMEOUT_MS.to_string()))
                .start()
        };
        let service = Self { servers, sentinels: (0..sentinels).map(sentinel).collect() };
        if quick {
            for sentinel in &service.sentinels {
                sentinel.cli(&[&["SENTINEL", "DEBUG"], &QUICK[..]].concat());
            }
        }
        service.settle();
        service
    }

    /// The URL of the service, by its sentinels.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.sentinels.iter().map(RedisServer::addr).collect();
        format!("redis+sentinel://{}/{SERVICE}", hosts.join(","))
    }

    /// All data servers, in the order of their start.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The data server that the first living sentinel names; without sentinels the first one.
    ///
    /// # Panics
    ///
    /// When no sentinel answers.
    #[must_use]
    pub fn primary(&self) -> &RedisServer {
        if self.sentinels.is_empty() {
            return &self.servers[0];
        }
        let named = self.sentinels.iter().find_map(Self::named_by).expect("a sentinel answers");
        self.servers.iter().find(|server| server.port() == named).expect("it is one of ours")
    }

    /// The data servers that are not the primary.
    #[must_use]
    pub fn replicas(&self) -> Vec<&RedisServer> {
        let primary = self.primary().port();
        self.servers.iter().filter(|server| server.port() != primary).collect()
    }

    /// Waits until all sentinels that answer name another primary than this one.
    ///
    /// # Panics
    ///
    /// When they do not within a minute.
    pub fn await_failover_from(&self, port: u16) {
        eventually(SETTLED_WITHIN, "the sentinels promote a replica", || {
            let mut named = self.sentinels.iter().filter_map(Self::named_by).peekable();
            named.peek().is_some() && named.all(|named| named != port)
        });
    }

    /// Waits until all sentinels agree, and each replica follows the primary and is known to them.
    ///
    /// # Panics
    ///
    /// When they do not within a minute.
    pub fn settle(&self) {
        let count = self.servers.len() - 1;
        eventually(SETTLED_WITHIN, "the replicas follow the primary", || {
            let primary = self.primary();
            let text: String = info(primary);
            text.matches("state=online").count() == count
        });
        eventually(SETTLED_WITHIN, "the sentinels know everybody", || {
            let primary = self.primary().port();
            self.sentinels.iter().all(|sentinel| {
                let replicas = known(sentinel, "REPLICAS");
                let follows = |replica: &HashMap<String, String>| {
                    let says = |field: &str| replica.get(field).map(String::as_str);
                    says("flags") == Some("slave")
                        && says("master-link-status") == Some("ok")
                        && says("master-port") == Some(&primary.to_string())
                };
                Self::named_by(sentinel) == Some(primary)
                    && known(sentinel, "SENTINELS").len() == self.sentinels.len() - 1
                    && replicas.len() == count
                    && replicas.iter().all(follows)
            })
        });
    }

    fn named_by(sentinel: &RedisServer) -> Option<u16> {
        let answer = sentinel.try_cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]).ok()?;
        let (_, port): (String, String) = redis::from_redis_value(answer).ok()?;
        port.parse().ok()
    }
}

/// What a sentinel knows of others, each as its fields.
fn known(sentinel: &RedisServer, what: &str) -> Vec<HashMap<String, String>> {
    let answer = sentinel.try_cli(&["SENTINEL", what, SERVICE]);
    answer.ok().and_then(|value| redis::from_redis_value(value).ok()).unwrap_or_default()
}

/// A bench that did not do what a test waits for says why in the logs of its sentinels.
impl Drop for Replicated {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for sentinel in &self.sentinels {
            let log = std::fs::read_to_string(sentinel.directory().join("redis.log"));
            let log = log.unwrap_or_default();
            let skip = log.lines().count().saturating_sub(LOG_LINES);
            let tail: Vec<&str> = log.lines().skip(skip).collect();
            eprintln!("the sentinel at {}:\n{}", sentinel.addr(), tail.join("\n"));
        }
    }
}

fn info(server: &RedisServer) -> String {
    let answer = server.try_cli(&["INFO", "replication"]);
    answer.ok().and_then(|value| redis::from_redis_value(value).ok()).unwrap_or_default()
}
