//! Who holds a lock, as people and programs want to see it.
//!
//! All strings come from another process and are untrusted: print them through
//! [`display_safe`](crate::display_safe).

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, SystemTime},
};

use fencelock_core::{FencingToken, ForeignKind, Holder, Kind, LockName, Owner, Sharing};
use fencelock_store::rt;
use sha2::{Digest as _, Sha256};

use crate::{Position, error::rounded, metadata};

/// What is known of a holder.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HolderView {
    /// What kind of lock it holds.
    pub kind: Kind,
    /// The name of its machine, as it says.
    pub host: Option<String>,
    /// Its process id, as it says.
    pub pid: Option<u32>,
    /// How many permits of a semaphore it has, as it says; nothing for other kinds.
    pub permits: Option<u32>,
    /// What it calls itself.
    pub label: Option<String>,
    /// When it was granted the lock: read from a time-based fencing token, where there is one.
    pub since: Option<SystemTime>,
    /// What else it says of itself.
    pub metadata: BTreeMap<String, String>,
    /// A hash of its token: equal hashes are the same grant. Only in an inspection.
    pub token_hash: Option<String>,
    /// Its fencing token. Nothing for one of several that hold the name together, unless all have
    /// the same owner: such a number is no right to write.
    pub fencing_token: Option<FencingToken>,
    /// The number of its grant, which grows from grant to grant: its fencing token, or where it has
    /// none a number that tells it from others.
    pub number: Option<u64>,
    /// What the store had left of its lease; nothing when that never ends.
    pub remaining: Option<Duration>,
    /// How many wait for the lock in the store's line.
    pub waiting: u32,
    /// Somebody asked for the lock back.
    pub revoked: bool,
    /// Nobody renews the lease: it ends when what is left of it is over.
    pub unattended: bool,
    /// How it is held by several together; nothing when it is held alone. What is above is then said
    /// of the one who came last, but for `remaining` (until the last lease is over), `waiting`,
    /// `revoked` (any was asked) and `unattended` (none is renewed).
    pub sharing: Option<Box<SharingView>>,
}

/// Those who hold a name together: readers, permits, holds of one owner, steps of a latch.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SharingView {
    /// How many there are: for a re-entrant mutex, the hold count.
    pub holders: u32,
    /// How much of the limit they have: permits, or steps of a latch.
    pub used: u32,
    /// How much there is; nothing for a kind without a limit.
    pub limit: Option<u32>,
    /// The owner of all of them, where they are those of a re-entrant mutex.
    pub owner: Option<Owner>,
    /// In an inspection, the latest of the others.
    pub others: Vec<HolderView>,
}

impl SharingView {
    fn of(sharing: &Sharing) -> Self {
        let own_fence = sharing.owner.is_some();
        Self {
            holders: sharing.holders,
            used: sharing.used,
            limit: sharing.limit,
            owner: sharing.owner.clone(),
            others: sharing.others.iter().map(|other| HolderView::one(other, own_fence)).collect(),
        }
    }
}

impl HolderView {
    pub(crate) fn of(holder: &Holder) -> Self {
        // Holds of one owner have one fencing token, as one that is alone; others have numbers.
        let sharing = holder.sharing.as_ref();
        Self::one(holder, sharing.is_none_or(|sharing| sharing.owner.is_some()))
    }

    fn one(holder: &Holder, has_fence: bool) -> Self {
        let fields = metadata::read(&holder.metadata);
        Self {
            kind: holder.kind,
            host: fields.host,
            pid: fields.pid,
            permits: (holder.kind == Kind::Semaphore).then(|| fields.permits.unwrap_or(1)),
            label: fields.label,
            since: holder.fencing_token.and_then(since),
            metadata: fields.user,
            token_hash: holder.proof.as_ref().map(|proof| hash(proof.reveal())),
            fencing_token: holder.fencing_token.filter(|_| has_fence),
            number: holder.fencing_token.map(FencingToken::as_u64),
            remaining: holder.remaining,
            waiting: holder.waiting,
            revoked: holder.revoked,
            unattended: holder.unattended,
            sharing: holder.sharing.as_ref().map(|sharing| Box::new(SharingView::of(sharing))),
        }
    }

    /// What keeps a contender waiting.
    pub(crate) fn situation(&self) -> String {
        let none = SharingView::default();
        let SharingView { used, limit, .. } = self.sharing.as_deref().unwrap_or(&none);
        let limit = limit.unwrap_or_default();
        match self.kind {
            Kind::Semaphore => format!("{used} of {limit} permits are held, the last by {self}"),
            Kind::Latch => format!("{used} of {limit} steps were taken"),
            Kind::Barrier => format!("fewer than {limit} parties came"),
            _ => format!("held by {self}"),
        }
    }
}

/// The time in a fencing token, where it can be one: not before 2020. It is the store's time, and
/// a little later where grants came faster than one a microsecond or a floor was given.
fn since(token: FencingToken) -> Option<SystemTime> {
    const YEAR_2020_MICROS: u64 = 1_577_836_800_000_000;
    let micros = token.as_u64();
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(micros))?;
    (micros >= YEAR_2020_MICROS).then_some(time)
}

/// The first 8 bytes of the SHA-256 of what proves a hold, in hexadecimal digits: tells grants
/// apart without giving the secret away.
pub(crate) fn hash(proof: &[u8]) -> String {
    Sha256::digest(proof).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for HolderView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.kind.is_held() {
            return f.write_str(&self.situation());
        }
        match (&self.label, &self.host, self.pid) {
            (Some(label), ..) => write!(f, "{}", display_safe(label))?,
            (None, None, None) => write!(f, "somebody")?,
            _ => {}
        }
        let space = if self.label.is_some() { " " } else { "" };
        match (&self.host, self.pid) {
            (Some(host), Some(pid)) => write!(f, "{space}process {pid} on {}", display_safe(host))?,
            (Some(host), None) => write!(f, "{space}host {}", display_safe(host))?,
            (None, Some(pid)) => write!(f, "{space}process {pid}")?,
            (None, None) => {}
        }
        match self.sharing.as_ref().map_or(1, |sharing| sharing.holders) {
            0 | 1 => {}
            holders => write!(f, " (and {} more)", holders - 1)?,
        }
        let now = SystemTime::UNIX_EPOCH + Duration::from_micros(rt::wall_now().as_micros());
        if let Some(age) = self.since.and_then(|since| now.duration_since(since).ok()) {
            write!(f, " for {}", rounded(age))?;
        }
        match self.remaining {
            Some(left) => write!(f, ", {} left of its lease", rounded(left)),
            None => write!(f, ", by a key that never expires"),
        }
    }
}

/// Somebody holds the lock: the answer of a try.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BusyView {
    /// Our place in the store's line, where there is one.
    pub position: Option<Position>,
    /// Which of the names.
    pub name: LockName,
    /// Who.
    pub holder: HolderView,
}

impl BusyView {
    pub(crate) fn of(busy: &fencelock_core::Busy) -> Self {
        Self { position: None, name: busy.name.clone(), holder: HolderView::of(&busy.holder) }
    }
}

/// What a store says of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inspection {
    /// Nobody holds it.
    Free {
        /// The highest fencing token that the store still remembers for it.
        fencing_token: Option<FencingToken>,
    },
    /// Somebody holds it.
    Held(HolderView),
    /// Something that is not a lock of this format sits at the key.
    Foreign(ForeignKind),
}

impl Inspection {
    pub(crate) fn of(seen: fencelock_core::Inspection) -> Option<Self> {
        match seen {
            fencelock_core::Inspection::Free { fencing_token } => {
                Some(Self::Free { fencing_token })
            }
            fencelock_core::Inspection::Held(holder) => Some(Self::Held(HolderView::of(&holder))),
            fencelock_core::Inspection::Foreign(kind) => Some(Self::Foreign(kind)),
            _ => None,
        }
    }
}

/// Text of another process without what could steer a terminal: control characters, and those
/// that turn the direction of writing or take no room, become `\u{fffd}`.
#[must_use]
pub fn display_safe(text: &str) -> String {
    text.chars().map(|c| if is_safe(c) { c } else { '\u{fffd}' }).collect()
}

fn is_safe(character: char) -> bool {
    let hidden = matches!(character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !character.is_control() && !hidden
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_is_replaced() {
        let text = display_safe("a\u{1b}[2Jb\u{202e}c\r\nü\u{200b}");
        assert_eq!(text, "a\u{fffd}[2Jb\u{fffd}c\u{fffd}\u{fffd}ü\u{fffd}");
    }

    #[test]
    fn a_counter_is_not_taken_for_a_time() {
        let token = |n| FencingToken::new(n).expect("a fencing token");
        assert_eq!(since(token(17)), None);
        assert!(since(token(1_754_000_000_000_000)).is_some());
    }

    #[test]
    fn a_holder_without_end_is_called_so() {
        let view = HolderView { label: Some("a\nb".into()), ..HolderView::default() };
        assert_eq!(view.to_string(), "a\u{fffd}b, by a key that never expires");
    }
}
