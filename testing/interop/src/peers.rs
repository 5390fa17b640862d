//! The table of peers: one row for each kind of lock of each library.
//!
//! A new one is a row here and a folder with the scripts that `peers/PROTOCOL.md` describes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, OnceLock},
};

use crate::checks::Check;

/// One kind of lock of one library.
#[derive(Debug)]
pub struct Peer {
    /// As the README shows it; also the folder's name with its kind, where that is clear.
    pub name: &'static str,
    /// The folder in `peers`.
    pub folder: &'static str,
    /// What its driver is told to be.
    pub kind: &'static str,
    /// What its driver is written in.
    pub language: &'static str,
    /// The dialect of our side.
    pub dialect: &'static str,
    /// The key prefix of our side, where it needs one.
    pub prefix: Option<&'static str>,
    /// The key of a lock called `NAME`, as the README shows it.
    pub key: &'static str,
    /// How long one of its acquires waits, in milliseconds; a busy one is asked again.
    pub wait_ms: u64,
    /// Whether the small matrix has it: one for each family of languages.
    pub in_small: bool,
    /// What is not checked, and why.
    pub not_checked: &'static [(Check, &'static str)],
}

const fn peer(
    name: &'static str,
    folder: &'static str,
    kind: &'static str,
    language: &'static str,
    dialect: &'static str,
) -> Peer {
    Peer {
        name,
        folder,
        kind,
        language,
        dialect,
        prefix: None,
        key: "NAME",
        wait_ms: 20_000,
        in_small: false,
        not_checked: &[],
    }
}

/// All of them.
pub const PEERS: &[Peer] = &[
    Peer { in_small: true, ..peer("redis-py", "python", "redis-py", "Python", "redis-py") },
    peer("redis-py, asyncio", "python", "redis-py-asyncio", "Python", "redis-py"),
    Peer {
        key: "lock:NAME",
        // Its waiter hears only the signal, which a dead holder does not give: it tries again when its
        // wait is over.
        wait_ms: 1000,
        in_small: true,
        ..peer("python-redis-lock", "python", "python-redis-lock", "Python", "python-redis-lock")
    },
    Peer { key: "redlock:NAME", ..peer("pottery", "python", "pottery", "Python", "pottery") },
    peer("node-redlock 4", "node", "redlock4", "Node", "redlock"),
    Peer { in_small: true, ..peer("node-redlock 5", "node", "redlock5", "Node", "redlock") },
    peer("sesamecare redlock", "node", "sesamecare", "Node", "redlock"),
    peer("redlock-universal", "node", "redlock-universal", "Node", "redlock"),
    Peer {
        key: "mutex:NAME",
        ..peer("redis-semaphore", "node", "redis-semaphore", "Node", "redis-semaphore")
    },
    Peer { in_small: true, ..peer("redislock", "go", "redislock", "Go", "redislock") },
    peer("redsync", "go", "redsync", "Go", "redsync"),
    Peer {
        prefix: Some("registry"),
        key: "registry:NAME",
        // Its waiter hears only what is published, and a dead holder publishes nothing.
        wait_ms: 1000,
        ..peer("Spring, PUB_SUB_LOCK", "spring", "pubsub", "Java", "spring")
    },
    Peer {
        prefix: Some("registry"),
        key: "registry:NAME",
        // Its waiter hears only what is published, and a dead holder publishes nothing.
        wait_ms: 1000,
        ..peer("Spring, PUB_SUB_LOCK of the old channel", "spring", "pubsub-6.4", "Java", "spring")
    },
    Peer {
        prefix: Some("registry"),
        key: "registry:NAME",
        in_small: true,
        ..peer("Spring, SPIN_LOCK", "spring", "spin", "Java", "spring")
    },
    Peer { in_small: true, ..peer("Redisson, lock", "redisson", "lock", "Java", "redisson") },
    peer("Redisson, fenced lock", "redisson", "fenced", "Java", "redisson-fenced"),
    peer("Redisson, spin lock", "redisson", "spin", "Java", "redisson-spin"),
    peer("Redisson, fair lock", "redisson", "fair", "Java", "redisson-fair"),
    peer("Redisson, write lock", "redisson", "write", "Java", "redisson-rw"),
    Peer { in_small: true, ..peer("Symfony Lock", "php", "write", "PHP", "symfony") },
    peer("rslock", "rslock", "lock", "Rust", "redlock"),
    peer("redlock", "redlock", "lock", "Rust", "redlock"),
];

/// What a build script gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Built {
    /// Its driver can be started.
    Ready,
    /// Its tool chain is missing, in words.
    Skipped(String),
}

impl Peer {
    /// Builds the driver, once for each folder in this process.
    ///
    /// # Panics
    /// When the build fails for another reason than a missing tool chain.
    #[must_use]
    pub fn build(&self) -> Built {
        static BUILT: OnceLock<Mutex<BTreeMap<&'static str, Built>>> = OnceLock::new();
        let mut built = BUILT.get_or_init(Mutex::default).lock().expect("no build panicked");
        built.entry(self.folder).or_insert_with(|| self.build_now()).clone()
    }

    fn build_now(&self) -> Built {
        let output = Command::new(self.script("build")).output().expect("a build script");
        let said = String::from_utf8_lossy(&output.stdout);
        match output.status.code() {
            Some(0) => Built::Ready,
            Some(SKIPPED | SKIPPED_BEFORE) => {
                let required =
                    std::env::var_os("FENCELOCK_REQUIRE_PEERS").is_some_and(|one| one == "1");
                assert!(!required, "{} is required, and skipped: {said}", self.folder);
                Built::Skipped(said.trim().trim_start_matches("SKIPPED: ").to_owned())
            }
            _ => panic!(
                "{} could not be built ({}): {said}{}",
                self.folder,
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ),
        }
    }

    /// The path of one of its scripts.
    #[must_use]
    pub fn script(&self, script: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(self.folder).join(script)
    }

    /// Why a check is not made, if it is not.
    #[must_use]
    pub fn why_not(&self, check: Check) -> Option<&'static str> {
        self.not_checked.iter().find(|(not, _)| *not == check).map(|(_, why)| *why)
    }
}

/// The exit status of a build script whose tool chain is missing.
const SKIPPED: i32 = 3;

/// The same, of the scripts that are older than the protocol.
const SKIPPED_BEFORE: i32 = 77;
