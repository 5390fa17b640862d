//! The candidates: which scripts, with which arguments, and in what they differ from the chosen ones.
//!
//! A variant is the chosen script with one passage exchanged, so that what is measured is that passage.

use std::error::Error;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, cmd};

/// The lease every measured acquire asks for.
const TTL_MS: u64 = 30_000;
/// How long a retained fencing token is kept.
const RETAIN_MS: u64 = 600_000;
/// A deadline in server time that never passes, as a client sends it whose offset is known.
const DEADLINE_US: &str = "9000000000000000";
const FLOOR: &str = "0000000000000000";
const AHEAD_US: &str = "10000000";

const COMPARE_AND_DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('DEL', KEYS[1]) else return 0 end";
const COMPARE_AND_EXPIRE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";

/// How the arguments of the native scripts are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `SET NX PX`, with `GET` if asked for, and compare-and-delete.
    Plain {
        /// Whether the SET also says what was there.
        get: bool,
    },
    /// One argument for each value, all of them always sent.
    Listed,
    /// Arguments as they are stored, what is seldom needed last or absent.
    Joined {
        /// Whether the caller says that a retained record is to be expected.
        expect: bool,
    },
    /// As `Joined`, with the nonce as 16 bytes in place of 32 digits.
    RawNonce,
}

/// What is kept after a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retain {
    /// Nothing, unless the fencing token is ahead of the clock.
    Nothing,
    /// Fencing token and nonce, for ten minutes.
    Token,
}

/// One way to lay out a lock, ready to be sent.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// What the table calls it.
    pub name: &'static str,
    /// What is kept after a release.
    pub retain: Retain,
    shape: Shape,
    acquire: String,
    release: String,
    renew: String,
    metadata: String,
}

/// The sources of one candidate, before they are loaded.
#[derive(Debug, Clone)]
struct Sources {
    name: &'static str,
    shape: Shape,
    acquire: String,
    release: String,
    renew: String,
    metadata_bytes: usize,
}

impl Candidate {
    async fn load(
        sources: &Sources,
        retain: Retain,
        connection: &mut MultiplexedConnection,
    ) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            name: sources.name,
            retain,
            shape: sources.shape,
            acquire: load(&sources.acquire, connection).await?,
            release: load(&sources.release, connection).await?,
            renew: load(&sources.renew, connection).await?,
            metadata: "m".repeat(sources.metadata_bytes),
        })
    }

    /// The request that takes `keys` for `nonce`.
    #[must_use]
    pub fn acquire(&self, keys: &[String], nonce: u128) -> Cmd {
        if let Shape::Plain { get } = self.shape {
            let mut set = cmd("SET");
            set.arg(&keys[0]).arg(hex(nonce)).arg("NX").arg("PX").arg(TTL_MS);
            if get {
                set.arg("GET");
            }
            return set;
        }
        let (life, pad) = match self.retain {
            Retain::Nothing => (TTL_MS, 0),
            Retain::Token => (TTL_MS.max(RETAIN_MS), RETAIN_MS - TTL_MS),
        };
        let mut eval = evalsha(&self.acquire, keys);
        match self.shape {
            Shape::Listed => {
                eval.arg(hex(nonce)).arg(format!("{TTL_MS:08}")).arg(life);
                eval.arg(DEADLINE_US).arg(FLOOR).arg(AHEAD_US).arg(&self.metadata);
                eval.arg(format!("{pad:08}"));
            }
            Shape::Joined { expect } => {
                eval.arg(hex(nonce)).arg(life).arg(format!("{TTL_MS:08}{}", self.metadata));
                eval.arg(DEADLINE_US);
                if expect && self.retain == Retain::Token {
                    eval.arg("1");
                }
            }
            Shape::RawNonce => {
                eval.arg(&nonce.to_be_bytes()[..]).arg(life);
                eval.arg(format!("{TTL_MS:08}{}", self.metadata)).arg(DEADLINE_US);
                if self.retain == Retain::Token {
                    eval.arg("1");
                }
            }
            Shape::Plain { .. } => {}
        }
        eval
    }

    /// The request that gives `keys` back.
    #[must_use]
    pub fn release(&self, keys: &[String], nonce: u128) -> Cmd {
        let mut eval = evalsha(&self.release, keys);
        match self.shape {
            Shape::RawNonce => eval.arg(&nonce.to_be_bytes()[..]),
            Shape::Plain { .. } | Shape::Listed | Shape::Joined { .. } => eval.arg(hex(nonce)),
        };
        match (self.shape, self.retain) {
            (Shape::Plain { .. }, _) => {}
            (_, Retain::Token) => {
                eval.arg(RETAIN_MS);
            }
            (Shape::Listed, Retain::Nothing) => {
                eval.arg(0);
            }
            (Shape::Joined { .. } | Shape::RawNonce, Retain::Nothing) => {}
        }
        eval
    }

    /// The request that prolongs the lease of `keys`.
    #[must_use]
    pub fn renew(&self, keys: &[String], nonce: u128) -> Cmd {
        let mut eval = evalsha(&self.renew, keys);
        eval.arg(hex(nonce));
        if matches!(self.shape, Shape::Plain { .. }) {
            eval.arg(TTL_MS);
        } else {
            eval.arg(format!("{TTL_MS:08}")).arg(match self.retain {
                Retain::Nothing => TTL_MS,
                Retain::Token => TTL_MS.max(RETAIN_MS),
            });
        }
        eval
    }
}

/// The baseline: `SET k v NX PX` and a compare-and-delete.
///
/// # Errors
/// If the server refuses the scripts.
pub async fn baseline(connection: &mut MultiplexedConnection) -> Result<Candidate, Box<dyn Error>> {
    let sources = plain("baseline", false);
    Candidate::load(&sources, Retain::Nothing, connection).await
}

/// Everything that is compared with the baseline.
///
/// # Errors
/// If the server refuses a script, or a variant does not find the passage it exchanges.
pub async fn all(connection: &mut MultiplexedConnection) -> Result<Vec<Candidate>, Box<dyn Error>> {
    let mut loaded = Vec::new();
    for sources in
        [plain("plain, the baseline again", false), plain("plain with SET ... GET", true)]
    {
        loaded.push(Candidate::load(&sources, Retain::Nothing, connection).await?);
    }
    let native = native()?;
    for retain in [Retain::Nothing, Retain::Token] {
        for sources in &native {
            loaded.push(Candidate::load(sources, retain, connection).await?);
        }
    }
    Ok(loaded)
}

fn plain(name: &'static str, get: bool) -> Sources {
    Sources {
        name,
        shape: Shape::Plain { get },
        acquire: COMPARE_AND_DELETE.to_owned(),
        release: COMPARE_AND_DELETE.to_owned(),
        renew: COMPARE_AND_EXPIRE.to_owned(),
        metadata_bytes: 0,
    }
}

fn native() -> Result<Vec<Sources>, Box<dyn Error>> {
    let chosen = Sources {
        name: "D chosen: string, stamp + ttl",
        shape: Shape::Joined { expect: true },
        acquire: include_str!("../scripts/acquire.lua").to_owned(),
        release: include_str!("../scripts/release.lua").to_owned(),
        renew: include_str!("../scripts/renew.lua").to_owned(),
        metadata_bytes: 64,
    };
    let layout = |name, acquire: &str, release: &str, renew: &str| Sources {
        name,
        shape: Shape::Listed,
        acquire: acquire.to_owned(),
        release: release.to_owned(),
        renew: renew.to_owned(),
        ..chosen.clone()
    };
    let mut list = vec![
        chosen.clone(),
        layout(
            "A string, end in the record",
            include_str!("../scripts/tried/end_acquire.lua"),
            include_str!("../scripts/tried/end_release.lua"),
            include_str!("../scripts/tried/end_renew.lua"),
        ),
        layout(
            "B string, end from the expiry",
            include_str!("../scripts/tried/expiry_acquire.lua"),
            include_str!("../scripts/tried/expiry_release.lua"),
            include_str!("../scripts/tried/expiry_renew.lua"),
        ),
        layout(
            "D in the form of A to C",
            include_str!("../scripts/tried/listed_acquire.lua"),
            include_str!("../scripts/tried/listed_release.lua"),
            include_str!("../scripts/renew.lua"),
        ),
        layout(
            "C hash",
            include_str!("../scripts/tried/hash_acquire.lua"),
            include_str!("../scripts/tried/hash_release.lua"),
            include_str!("../scripts/tried/hash_renew.lua"),
        ),
    ];
    list.extend(variants(&chosen)?);
    Ok(list)
}

const TIME_BY_CONCATENATION: &str = "#seconds == 10 and #micros == 6 and seconds .. micros\n  or ";
const GRANTED: &str = "return now .. 'g' .. token";

fn variants(chosen: &Sources) -> Result<Vec<Sources>, Box<dyn Error>> {
    let variant = |name| Sources { name, ..chosen.clone() };
    let mut get_first = variant("D, always GET first");
    exchange(&mut get_first.acquire, "ARGV[5] ~= '1'", "false")?;

    let set_first =
        Sources { shape: Shape::Joined { expect: false }, ..variant("D, always SET NX GET first") };

    let mut format = variant("D, time by string.format");
    exchange(&mut format.acquire, TIME_BY_CONCATENATION, "")?;
    exchange(&mut format.release, TIME_BY_CONCATENATION, "")?;

    let mut array = variant("D, reply as an array");
    exchange(&mut array.acquire, GRANTED, "return {'g', now, token}")?;
    exchange(&mut array.release, "return reply", "return {reply, now}")?;

    let mut no_time = variant("D, release without TIME (breaks a rule)");
    exchange(
        &mut no_time.release,
        "redis.call('TIME')",
        "{sub(records[1] or '', 55, 64), '999999'}",
    )?;

    let mut judged = variant("D, release judges expiry itself");
    exchange(
        &mut judged.release,
        "reply = reply .. 'r' .. lease",
        "reply = reply .. (sub(lease, 17, 32) + sub(lease, 33) * 1000 > tonumber(now) and 'r' or 'x')",
    )?;

    let raw = Sources {
        shape: Shape::RawNonce,
        acquire: with_raw_nonce(&chosen.acquire),
        release: with_raw_nonce(&chosen.release),
        ..variant("D, nonce as 16 bytes")
    };
    let bare = Sources { metadata_bytes: 0, ..variant("D, no metadata") };
    let full = Sources { metadata_bytes: 1024, ..variant("D, 1 KiB of metadata") };
    Ok(vec![get_first, set_first, format, array, no_time, judged, raw, bare, full])
}

fn exchange(script: &mut String, from: &str, to: &str) -> Result<(), Box<dyn Error>> {
    if !script.contains(from) {
        return Err(format!("the passage {from:?} is not in the script any more").into());
    }
    *script = script.replace(from, to);
    Ok(())
}

/// Moves every position behind the nonce 16 bytes to the front.
fn with_raw_nonce(script: &str) -> String {
    let mut moved = String::new();
    let mut digits = String::new();
    for letter in script.chars().chain(['\n']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        match digits.parse::<u32>() {
            Ok(position @ 32..=79) => moved.push_str(&(position - 16).to_string()),
            _ => moved.push_str(&digits),
        }
        digits.clear();
        moved.push(letter);
    }
    moved
}

async fn load(
    source: &str,
    connection: &mut MultiplexedConnection,
) -> Result<String, Box<dyn Error>> {
    Ok(cmd("SCRIPT").arg("LOAD").arg(source).query_async(connection).await?)
}

fn evalsha(sha: &str, keys: &[String]) -> Cmd {
    let mut eval = cmd("EVALSHA");
    eval.arg(sha).arg(keys.len()).arg(keys);
    eval
}

fn hex(nonce: u128) -> String {
    format!("{nonce:032x}")
}
