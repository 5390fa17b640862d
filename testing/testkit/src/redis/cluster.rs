//! A real cluster of servers of a test's own, whose slots the test moves.
//!
//! Every server has its own port and bus port; the cluster is up when each of them says
//! `cluster_state:ok` and knows all others. A slot is moved as `redis-cli --cluster reshard` does
//! it, in steps, so that a test can stop in the middle.

use std::time::Duration;

use redis::Value;

use super::{RedisServer, RedisServerBuilder};
use crate::port::ReservedPort;
use crate::process::eventually;

/// The bound of what the servers have to agree on; a starved machine needs seconds.
const AGREED_WITHIN: Duration = Duration::from_secs(60);

const SLOTS: usize = 16_384;

/// A server takes no writes for so long after its start, and its clock can be moved past that.
const WRITABLE_AFTER: Duration = Duration::from_secs(3);

/// Settings of a cluster to start.
#[derive(Debug)]
#[must_use = "nothing runs until `start`"]
pub struct RedisClusterBuilder {
    primaries: usize,
    replicas: usize,
    movable_clock: bool,
    node_timeout: Duration,
    password: Option<String>,
    lines: Vec<(String, String)>,
}

impl RedisClusterBuilder {
    /// How many primaries share the slots.
    pub fn primaries(mut self, count: usize) -> Self {
        self.primaries = count;
        self
    }

    /// How many replicas the first primary has.
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = count;
        self
    }

    /// Gives the servers wall clocks that the test can move, all together with
    /// [`RedisCluster::advance`].
    pub fn clock(mut self) -> Self {
        self.movable_clock = true;
        self
    }

    /// After how long a silent server is taken for dead. Very long unless said otherwise: a test
    /// that does not want a failover must not get one on a starved machine.
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.node_timeout = node_timeout;
        self
    }

    /// The password of the default user, on every server.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Appends one line to the configuration file of every server.
    pub fn config(mut self, key: &str, value: &str) -> Self {
        self.lines.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Starts the servers and waits until they are one cluster.
    ///
    /// # Panics
    ///
    /// When a server does not start, or they do not find together.
    pub fn start(self) -> RedisCluster {
        let mut members = Vec::new();
        for _ in 0..self.primaries + self.replicas {
            let bus = ReservedPort::draw();
            let mut builder = RedisServerBuilder::default()
                .config("cluster-enabled", "yes")
                .config("cluster-config-file", "nodes.conf")
                .config("cluster-port", &bus.port().to_string())
                .config("cluster-node-timeout", &self.node_timeout.as_millis().to_string())
                .config("cluster-allow-replica-migration", "no");
            if self.movable_clock {
                builder = builder.clock();
            }
            if let Some(password) = &self.password {
                builder = builder.password(password).config("masterauth", password);
            }
            for (key, value) in &self.lines {
                builder = builder.config(key, value);
            }
            members.push((builder.start(), bus));
        }
        let (servers, buses): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let cluster = RedisCluster { servers, buses, password: self.password };
        cluster.join(self.primaries);
        if self.movable_clock {
            cluster.advance(WRITABLE_AFTER);
        }
        cluster.wait_until_agreed();
        cluster
    }
}

/// A running cluster.
#[derive(Debug)]
pub struct RedisCluster {
    servers: Vec<RedisServer>,
    /// Kept so that nobody else is given them.
    buses: Vec<ReservedPort>,
    password: Option<String>,
}

impl RedisCluster {
    /// Three primaries.
    ///
    /// # Panics
    ///
    /// As [`RedisClusterBuilder::start`].
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Settings for another kind of cluster.
    pub fn builder() -> RedisClusterBuilder {
        RedisClusterBuilder {
            primaries: 3,
            replicas: 0,
            movable_clock: false,
            node_timeout: Duration::from_secs(24 * 60 * 60),
            password: None,
            lines: Vec::new(),
        }
    }

    /// The servers: primaries first, as they were at the start.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The URL of the cluster, with the password if there is one.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.servers.iter().map(RedisServer::addr).collect();
        match &self.password {
            Some(password) => format!("redis+cluster://:{password}@{}/", hosts.join(",")),
            None => format!("redis+cluster://{}/", hosts.join(",")),
        }
    }

    /// The slot of a key, as the servers say.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    #[must_use]
    pub fn slot(&self, key: &[u8]) -> u16 {
        let mut connection = self.servers[0].connect();
        let asked = redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut connection);
        asked.expect("the server tells the slot of a key")
    }

    /// The index of the server that says of itself that it serves a slot.
    ///
    /// # Panics
    ///
    /// When none does.
    #[must_use]
    pub fn primary(&self, slot: u16) -> usize {
        let index = (0..self.servers.len()).find(|index| self.serves(*index, slot));
        index.unwrap_or_else(|| panic!("no server says that it serves slot {slot}"))
    }

    /// Whether a server says of itself that it is the primary of a slot.
    #[must_use]
    pub fn serves(&self, index: usize, slot: u16) -> bool {
        let Ok(mut connection) = self.servers[index].try_connect() else { return false };
        let Ok(lines) = redis::cmd("CLUSTER").arg("NODES").query::<String>(&mut connection) else {
            return false;
        };
        let own = lines.lines().find(|line| line.contains("myself")).unwrap_or_default();
        let ranges = own.split(' ').skip(8).filter(|word| !word.starts_with('['));
        own.contains("master")
            && ranges.filter_map(range).any(|(first, last)| (first..=last).contains(&slot))
    }

    /// Moves the clocks of all servers.
    ///
    /// # Panics
    ///
    /// When the cluster was started without [`RedisClusterBuilder::clock`].
    pub fn advance(&self, by: Duration) {
        for server in &self.servers {
            server.clock().advance(by);
        }
    }

    /// Empties all primaries.
    pub fn flush(&self) {
        for server in &self.servers {
            // A replica refuses, and follows its primary.
            let _ = server.try_cli(&["FLUSHALL"]);
        }
    }

    /// Begins to move a slot: from now on its server answers `ASK` for keys that it does not have.
    pub fn begin_move(&self, slot: u16, to: usize) {
        let from = self.primary(slot);
        let slot = slot.to_string();
        let source = self.id(from);
        let target = self.id(to);
        self.servers[to].cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]);
        self.servers[from].cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]);
    }

    /// Moves the keys that a slot on the move still has at its old server.
    ///
    /// # Panics
    ///
    /// When a key can't be moved.
    pub fn migrate_keys(&self, slot: u16, to: usize) {
        let from = self.primary(slot);
        let mut connection = self.servers[from].connect();
        let keys: Vec<Vec<u8>> = redis::cmd("CLUSTER")
            .arg("GETKEYSINSLOT")
            .arg(slot)
            .arg(1_000)
            .query(&mut connection)
            .expect("the server tells the keys of a slot");
        if keys.is_empty() {
            return;
        }
        let mut command = redis::cmd("MIGRATE");
        command.arg("127.0.0.1").arg(self.servers[to].port()).arg("").arg(0).arg(10_000);
        if let Some(password) = &self.password {
            command.arg("AUTH").arg(password);
        }
        let moved: Value = command
            .arg("KEYS")
            .arg(keys)
            .query(&mut connection)
            .unwrap_or_else(|error| panic!("the keys of slot {slot} can't be moved: {error}"));
        // `NOKEY` when they ended meanwhile.
        assert!(matches!(moved, Value::Okay | Value::SimpleString(_)), "{moved:?}");
    }

    /// Ends a move: the slot is the other server's, and all are told.
    pub fn end_move(&self, slot: u16, to: usize) {
        let slot = slot.to_string();
        let target = self.id(to);
        // The new one first: else the old one answers MOVED to a server that knows nothing of it.
        self.servers[to].cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &target]);
        for (index, server) in self.servers.iter().enumerate() {
            if index != to {
                // A replica refuses, and hears of it from its primary.
                let _ = server.try_cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &target]);
            }
        }
    }

    /// Moves a slot with all of its keys.
    pub fn move_slot(&self, slot: u16, to: usize) {
        self.begin_move(slot, to);
        // What is created meanwhile is created at the new server; what was is moved now.
        self.migrate_keys(slot, to);
        self.end_move(slot, to);
    }

    /// Waits until all servers that run say that the cluster is well, and know all slots.
    ///
    /// # Panics
    ///
    /// When that does not come.
    pub fn wait_until_agreed(&self) {
        let count = self.servers.len();
        eventually(
            AGREED_WITHIN,
            "every server says cluster_state:ok and knows the others",
            || {
                self.servers.iter().all(|server| {
                    let Ok(mut connection) = server.try_connect() else { return true };
                    let info = redis::cmd("CLUSTER").arg("INFO").query::<String>(&mut connection);
                    info.is_ok_and(|info| {
                        let says = |line: &str| info.lines().any(|said| said.trim() == line);
                        says("cluster_state:ok")
                            && says(&format!("cluster_known_nodes:{count}"))
                            && says(&format!("cluster_slots_ok:{SLOTS}"))
                    })
                })
            },
        );
    }

    fn join(&self, primaries: usize) {
        for (index, server) in self.servers.iter().enumerate() {
            server.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
            if index < primaries {
                let first = index * SLOTS / primaries;
                let last = (index + 1) * SLOTS / primaries - 1;
                let (first, last) = (first.to_string(), last.to_string());
                server.cli(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            }
        }
        for (server, bus) in self.servers.iter().zip(&self.buses).skip(1) {
            let (port, bus) = (server.port().to_string(), bus.port().to_string());
            self.servers[0].cli(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let primary = self.id(0);
        for replica in &self.servers[primaries..] {
            eventually(AGREED_WITHIN, "a replica knows its primary", || {
                replica.try_cli(&["CLUSTER", "REPLICATE", &primary]).is_ok()
            });
            eventually(AGREED_WITHIN, "a replica has its primary's data", || {
                let mut connection = replica.connect();
                let info = redis::cmd("INFO").arg("replication").query::<String>(&mut connection);
                info.is_ok_and(|info| info.contains("master_link_status:up"))
            });
        }
    }

    fn id(&self, index: usize) -> String {
        match self.servers[index].cli(&["CLUSTER", "MYID"]) {
            Value::BulkString(id) => String::from_utf8_lossy(&id).into_owned(),
            other => panic!("no id: {other:?}"),
        }
    }
}

/// `5` or `5-9`.
fn range(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}
