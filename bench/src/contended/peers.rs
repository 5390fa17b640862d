//! Who takes part, with which settings. A setting is called `default` when a user who follows the
//! peer's own documentation gets it, and `fast` when it asks as often as makes sense.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A library, or a floor that no lock can beat.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its name in the table.
    pub name: &'static str,
    /// The language of its driver.
    pub language: &'static str,
    /// Where its driver is.
    pub driver: Driver,
    /// How many times the warm-up of others it gets: what compiles while it runs needs more.
    pub warm_ups: u32,
    /// How many contenders there are in all when that is not ours to choose, one a process.
    pub fixed_contenders: Option<u32>,
    /// Its settings.
    pub settings: &'static [Setting],
}

/// What is started.
#[derive(Clone, Copy, Debug)]
pub enum Driver {
    /// A binary of this package.
    Own(&'static str),
    /// A folder of `testing/interop/peers` with the scripts `build` and `contend`.
    Folder(&'static str),
}

/// A setting of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What the driver is told.
    pub name: &'static str,
    /// What that means.
    pub what: &'static str,
}

/// Why a peer does not take part.
#[derive(Clone, Debug)]
pub struct Skipped {
    /// The peer.
    pub name: &'static str,
    /// The last line of its build.
    pub why: String,
}

/// The exit status of a `build` that lacks its tool chain.
const TOOL_CHAIN_MISSING: i32 = 77;

const fn setting(name: &'static str, what: &'static str) -> Setting {
    Setting { name, what }
}

const fn folder(name: &'static str, language: &'static str, settings: &'static [Setting]) -> Peer {
    Peer {
        name,
        language,
        driver: Driver::Folder(name),
        warm_ups: 1,
        fixed_contenders: None,
        settings,
    }
}

/// Everybody.
pub const PEERS: &[Peer] = &[
    Peer {
        name: "floor: PUBLISH",
        language: "Rust",
        driver: Driver::Own("contended_floor"),
        warm_ups: 1,
        fixed_contenders: Some(2),
        settings: &[setting(
            "publish",
            "no lock: two processes pass a token by PUBLISH and SUBSCRIBE",
        )],
    },
    Peer {
        name: "floor: BLPOP",
        language: "Rust",
        driver: Driver::Own("contended_floor"),
        warm_ups: 1,
        fixed_contenders: Some(2),
        settings: &[setting("blpop", "no lock: two processes pass a token by RPUSH and BLPOP")],
    },
    Peer {
        name: "fencelock",
        language: "Rust",
        driver: Driver::Own("contended_fencelock"),
        warm_ups: 1,
        fixed_contenders: None,
        settings: &[
            setting("default", "one client a process; nothing set but the ttl"),
            setting("strict", "strict_fifo: first come, first served among all processes"),
            setting("barging", "barging: no order"),
        ],
    },
    folder(
        "rslock",
        "Rust",
        &[
            setting("default", "sleeps 0 to 200 ms at random between tries"),
            setting("fast", "set_retry: sleeps 0 or 1 ms"),
        ],
    ),
    folder(
        "redlock",
        "Rust",
        &[
            setting(
                "default",
                "a thread each; sleeps 0 to 200 ms at random; a new connection for each command",
            ),
            setting("fast", "set_retry: sleeps 0 or 1 ms"),
        ],
    ),
    folder(
        "redis-lock",
        "Rust",
        &[
            setting(
                "default",
                "lock_across; sleeps 100 ms between tries, gives up after 10 s and is called again",
            ),
            setting("fast", "retry: 1 ms"),
        ],
    ),
    folder(
        "distributed-lock",
        "Rust",
        &[
            setting("default", "its acquire does not wait: the driver sleeps 100 ms between calls"),
            setting("fast", "the driver sleeps 1 ms between calls"),
        ],
    ),
    folder(
        "redis-py",
        "Python",
        &[
            setting("default", "a thread each; sleeps 100 ms between tries"),
            setting("fast", "sleep=0.001"),
        ],
    ),
    folder(
        "python-redis-lock",
        "Python",
        &[setting("default", "a thread each; waits by BLPOP on a signal list, nothing to set")],
    ),
    folder(
        "node-redlock",
        "Node",
        &[
            setting(
                "default",
                "sleeps 100 to 300 ms at random, gives up after 10 retries and is called again",
            ),
            setting("fast", "retryDelay 1, retryJitter 1, retryCount -1"),
        ],
    ),
    folder(
        "redislock",
        "Go",
        &[
            setting(
                "default",
                "LinearBackoff(100 ms), as its example does; without it it does not wait",
            ),
            setting("fast", "LinearBackoff(1 ms)"),
        ],
    ),
    folder(
        "redsync",
        "Go",
        &[
            setting(
                "default",
                "sleeps 50 to 250 ms at random, gives up after 32 tries and is called again",
            ),
            setting("fast", "WithRetryDelay(1 ms)"),
        ],
    ),
    Peer {
        warm_ups: 5,
        ..folder(
            "redisson",
            "Java",
            &[
                setting("default", "getLock; a thread each; waits by pub/sub, nothing to set"),
                setting("fair", "getFairLock; the same"),
            ],
        )
    },
];

impl Peer {
    /// Builds the driver where that is not done by cargo, and says why it cannot take part.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn build(&self) -> Result<(), Skipped> {
        let Driver::Folder(folder) = self.driver else { return Ok(()) };
        let output = Command::new(peers().join(folder).join("build")).output();
        let skipped = |why: String| Err(Skipped { name: self.name, why });
        match output {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr).into_owned()
                    + &String::from_utf8_lossy(&output.stdout);
                if output.status.code() == Some(TOOL_CHAIN_MISSING) {
                    return skipped(text.trim().to_owned());
                }
                eprintln!("{text}");
                skipped(format!("its driver could not be built ({})", output.status))
            }
            Err(error) => skipped(format!("its build script did not start: {error}")),
        }
    }

    /// The command that starts a driver.
    ///
    /// # Panics
    /// When this program does not know where it is.
    #[must_use]
    pub fn command(&self) -> Command {
        match self.driver {
            Driver::Own(binary) => {
                let own = std::env::current_exe().expect("a path");
                Command::new(own.with_file_name(binary))
            }
            Driver::Folder(folder) => Command::new(peers().join(folder).join("contend")),
        }
    }
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testing/interop/peers")
}
