//! The checking half of fencing tokens: what the guarded resource does with them.
//!
//! A holder can be paused (a garbage collector, a suspended machine, a slow disk) between the look
//! at [`Guard::is_valid`](crate::Guard::is_valid) and the write that follows. When it goes on, its
//! lease may be over and somebody else at work. No lock can prevent that write; the resource can:
//!
//! ```text
//!   holder A, token 33   acquire .. check .. (paused) ........................ write 33 -> refused
//!   holder B, token 34                          acquire .. write 34 -> accepted
//!   resource, highest    33                                34                 34
//! ```
//!
//! **The rule** ([`check`]): the resource keeps the highest token that it has seen, refuses a
//! smaller one, and accepts an equal or larger one, in the same step as the write. An equal one,
//! since all writes of one grant carry the same token.
//!
//! The modules say how: [`redis`] scripts for a value in Redis, [`sql`] statements for SQLite and
//! PostgreSQL, [`file`](mod@file) for a file, [`object`] for a store with conditional writes, and [`http`] for
//! a service behind a header. They hold texts, pure functions and, for files, code: which client
//! you use is yours to say. Each has an example, `crates/fencelock/examples/fenced_*.rs`, in which
//! a paused holder is refused.
//!
//! # The first thing a new holder does
//! It gives its token to the resource *before it reads* (called "fence first" elsewhere; here
//! `READ`, `RAISE` or `read`). Otherwise a late write of the holder before it can land between its
//! read and its first write, and what it writes then is made of what it read too early.
//!
//! # Readers beside a writer
//! The resource keeps the highest token of a writer. A reader of a
//! [read-write lock](crate::RwLock) has a [`SharedToken`], which no write helper takes: it is refused
//! below that and never raises it ([`check_read`], [`redis::READ_SHARED`], [`sql::MAY_READ`]). A
//! permit of a semaphore has nothing that could be checked.
//!
//! # What this relies on
//! - The resource keeps the highest token as *durably* as the data. One that forgets it lets
//!   everybody in, once.
//! - Every write goes through the check. One that does not is neither refused nor noticed.
//! - All tokens that one resource sees are of *one name in one store*. Those of two names can't be
//!   compared; when a store is replaced, give the new one what the resource has seen, with
//!   [`Mutex::floor`](crate::Mutex::floor).
//! - The lock has tokens at all: [`Mutex::require_fencing`](crate::Mutex::require_fencing).
//!
//! # What it does not protect
//! - Effects elsewhere: a mail that was sent, a second resource that does not check.
//! - A late write that nobody followed: as long as no larger token was seen, the resource can't
//!   know that the lease is over, and accepts it. Nothing is overwritten then.
//! - A write that is sent twice: both carry the same token, and both are accepted. That is what
//!   idempotency keys are for (or [`sql::RAISE_ONCE`]).
//! - Reads, unless they give the token too.

use fencelock_core::FencingToken;

use crate::SharedToken;

pub mod file;
pub mod http;
pub mod object;
pub mod redis;
pub mod sql;

/// What the guarded resource says to a fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a write may have been refused"]
pub enum Checked<T = ()> {
    /// It is the highest that was seen: what was asked for was done.
    Accepted(T),
    /// A larger one was seen: nothing was done, and whoever holds this one has lost the lock.
    Stale {
        /// The largest that was seen. A lock whose store forgot can be told, with
        /// [`Mutex::floor`](crate::Mutex::floor).
        highest: FencingToken,
    },
}

impl<T> Checked<T> {
    /// What was asked for, if it was done.
    #[must_use]
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accepted(value) => Some(value),
            Self::Stale { .. } => None,
        }
    }

    /// Whether a larger token was seen.
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. })
    }
}

/// The rule: whether a token may write where `highest` is the largest one that was seen.
///
/// For resources of your own. Look, note the token and write in *one* step (a transaction, a
/// critical section of the server): between a look and a write somebody else could be.
///
/// # Examples
/// ```
/// use fencelock::{FencingToken, fenced::{Checked, check}};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (old, new) = (FencingToken::new(33)?, FencingToken::new(34)?);
/// assert_eq!(check(None, old), Checked::Accepted(()));
/// assert_eq!(check(Some(old), new), Checked::Accepted(()));
/// assert_eq!(check(Some(new), new), Checked::Accepted(()));
/// assert_eq!(check(Some(new), old), Checked::Stale { highest: new });
/// # Ok(()) }
/// ```
pub fn check(highest: Option<FencingToken>, token: FencingToken) -> Checked {
    match highest {
        Some(highest) if highest > token => Checked::Stale { highest },
        _ => Checked::Accepted(()),
    }
}

/// The rule for a reader beside others: whether it may read where `highest` is the largest token of a
/// *writer* that was seen. It is not noted: a reader never raises it.
///
/// Refused is a reader from before the last writer: what it reads is not what it was granted. This
/// does not keep a writer from before it from writing after the look; only a writer that came later,
/// and gave its token first, does that.
///
/// # Examples
/// ```
/// use fencelock::fenced::{Checked, check_read};
///
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let lock = locks.rwlock("catalogue");
/// let early = lock.read().await?;
/// let before = early.shared_token().expect("a number");
/// drop(early);
/// let writer = lock.write().await?;
/// let highest = writer.fencing_token();
/// let late = writer.downgrade().await?;
/// assert!(check_read(highest, before).is_stale());
/// assert_eq!(check_read(highest, late.shared_token().expect("a number")), Checked::Accepted(()));
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn check_read(highest: Option<FencingToken>, token: SharedToken) -> Checked {
    check(highest, token.number())
}

/// The form in which a token is kept where text is compared: 16 digits, so that the order of the
/// texts is the order of the numbers, and no language makes a float of it.
///
/// # Examples
/// ```
/// use fencelock::{FencingToken, fenced::{digits, from_digits}};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let token = FencingToken::new(1_764_542_000_123_456)?;
/// assert_eq!(digits(token), "1764542000123456");
/// assert_eq!(digits(FencingToken::new(7)?), "0000000000000007");
/// assert_eq!(from_digits(b"0000000000000007"), Some(FencingToken::new(7)?));
/// assert_eq!(from_digits(b"7"), None);
/// # Ok(()) }
/// ```
#[must_use]
pub fn digits(token: FencingToken) -> String {
    format!("{:0width$}", token.as_u64(), width = FencingToken::DIGITS)
}

/// Reads what [`digits`] wrote, and nothing else.
#[must_use]
pub fn from_digits(text: &[u8]) -> Option<FencingToken> {
    if text.len() != FencingToken::DIGITS {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}
