//! A server of its own for one peer, our client on it, and how each side is asked.

use std::time::Duration;

use fencelock::{Attempt, BusyView, Renew, blocking};
use fencelock_testkit::{Monitor, RedisServer, eventually};

use crate::{
    driver::{Answer, Driver},
    peers::Peer,
};

/// Where one peer and we meet.
#[derive(Debug)]
pub struct Stage {
    /// Who it is for.
    pub peer: &'static Peer,
    server: RedisServer,
    monitor: Monitor,
    locks: blocking::Client,
}

impl Stage {
    /// Starts the server and connects our side.
    ///
    /// # Panics
    /// When there is no server to start.
    #[must_use]
    pub fn set(peer: &'static Peer) -> Self {
        let server = RedisServer::start();
        let mut builder = fencelock::Client::builder(server.url()).dialect(peer.dialect);
        if let Some(prefix) = peer.prefix {
            builder = builder.key_prefix(prefix);
        }
        let locks = builder.build_blocking().expect("a client");
        Self { peer, monitor: server.monitor(), server, locks }
    }

    /// The server's name and version.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    pub fn server_version(&self) -> String {
        let info = format!("{:?}", self.server.cli(&["INFO", "server"]));
        let field = |name: &str| {
            let (_, rest) = info.split_once(&format!("{name}:"))?;
            Some(rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>())
        };
        match (field("valkey_version"), field("redis_version")) {
            (Some(version), _) => format!("Valkey {version}"),
            (None, version) => format!("Redis {}", version.unwrap_or_default()),
        }
    }

    /// Another process of the peer.
    #[must_use]
    pub fn driver(&self) -> Driver {
        Driver::start(self.peer, &self.server.url())
    }

    /// How many connections listen to a channel.
    ///
    /// # Panics
    /// When the server does not answer.
    #[must_use]
    pub fn subscribers(&self, channel: &str) -> u64 {
        let answer = format!("{:?}", self.server.cli(&["PUBSUB", "NUMSUB", channel]));
        let digits = |c: &char| c.is_ascii_digit();
        let number = answer.rsplit("int(").next().unwrap_or_default();
        number.chars().take_while(digits).collect::<String>().parse().unwrap_or_default()
    }

    /// Our side.
    #[must_use]
    pub fn locks(&self) -> &blocking::Client {
        &self.locks
    }

    /// Our side of a lock: it waits for a minute and is renewed by nobody.
    pub fn mutex(&self, name: &str, ttl: Duration) -> blocking::Mutex {
        self.locks.mutex(name).ttl(ttl).wait(Duration::from_secs(60)).renewal(Renew::Manual)
    }

    /// Who holds it, seen by one try of ours.
    ///
    /// # Panics
    /// When nobody does.
    #[track_caller]
    #[must_use]
    pub fn refused(&self, name: &str) -> BusyView {
        match self.mutex(name, LONG).try_lock().expect("the server answers") {
            Attempt::Busy(busy) => busy,
            other => panic!("{name} is held, and we got {other:?}"),
        }
    }

    /// The peer takes a lock that is free, in one try.
    ///
    /// # Panics
    /// When it does not get it.
    #[track_caller]
    pub fn takes(&self, driver: &mut Driver, name: &str, ttl: Duration) {
        let answer = driver.ask(&format!("acquire {name} {} 0", ttl.as_millis()));
        assert!(answer.is_done(), "{name} is free, and the peer was answered {answer:?}");
    }

    /// The peer begins to wait for a lock that we hold: its first try was refused.
    ///
    /// # Panics
    /// When it does not try.
    #[track_caller]
    pub fn begins_to_wait(&self, driver: &mut Driver, name: &str, ttl: Duration) {
        let _ = self.monitor.take();
        driver.send(&self.acquire(name, ttl));
        let within = Duration::from_secs(60);
        eventually(within, "the peer asks for the lock", || {
            self.monitor.take().iter().any(|seen| {
                seen.args
                    .iter()
                    .any(|arg| arg.windows(name.len()).any(|part| part == name.as_bytes()))
            })
        });
    }

    /// The peer has waited, by what [`Stage::begins_to_wait`] sent or afresh, until it is granted.
    ///
    /// # Panics
    /// When it is refused again and again, or fails.
    #[track_caller]
    pub fn is_granted(&self, driver: &mut Driver, name: &str, ttl: Duration) {
        for _ in 0..WAITS {
            match driver.answer() {
                Answer::Done(_) => return,
                Answer::Busy => driver.send(&self.acquire(name, ttl)),
                other => panic!("the peer waits for {name} and was answered {other:?}"),
            }
        }
        panic!("the peer never got {name}");
    }

    /// The peer waits for a lock until it has it.
    ///
    /// # Panics
    /// As [`Stage::is_granted`].
    #[track_caller]
    pub fn waits(&self, driver: &mut Driver, name: &str, ttl: Duration) {
        driver.send(&self.acquire(name, ttl));
        self.is_granted(driver, name, ttl);
    }

    fn acquire(&self, name: &str, ttl: Duration) -> String {
        format!("acquire {name} {} {}", ttl.as_millis(), self.peer.wait_ms)
    }
}

/// A lease that no check outlives.
pub const LONG: Duration = Duration::from_secs(300);

/// How often a peer whose wait ended is asked again.
const WAITS: u32 = 60;
