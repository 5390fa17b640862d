//! A value in Redis or Valkey that refuses the writes of a holder from before: four scripts, to
//! be run with any client.
//!
//! The value is a hash. The scripts keep the highest fencing token in its field
//! [`FIELD`]; all other fields are yours. Each call is given one key, so it works on a cluster,
//! wherever the lock is kept. The value need not be on the server of the lock.
//!
//! | script | extra arguments | does, if no larger token was seen | reply |
//! |---|---|---|---|
//! | [`WRITE`] | field, value, ... | sets the fields | `[highest]` |
//! | [`READ`] | | notes the token, reads all fields | `[highest, field, value, ...]` |
//! | [`READ_SHARED`] | | reads all fields, for a reader beside others; notes nothing | `[number, field, value, ...]` |
//! | [`REMOVE`] | fields; none for all | removes them, and keeps the token | `[highest]` |
//!
//! `highest` is the call's own token when it was accepted; [`checked`] and [`fields`] read that.
//!
//! # Limits
//! - Only who comes by these scripts is checked. Give other users no right to write the key; `DEL`
//!   and an expiry set by hand forget the token.
//! - The server has to keep it. Without persistence, with an evicting `maxmemory-policy`, or over a
//!   failover that loses writes, a token may be forgotten, and the holder before is let in once.
//! - The rights that they need: `+eval +evalsha +type +hget +hset +hgetall +hkeys +hdel +time
//!   +persist +expire`, and `+script|load` for clients that load scripts with it, as redis-rs does.
//!
//! # Examples
//! With redis-rs:
//! ```no_run
//! # async fn example(token: fencelock::FencingToken) -> Result<(), Box<dyn std::error::Error>> {
//! use fencelock::fenced::{self, Checked, redis::Keep};
//!
//! let client = redis::Client::open("redis://127.0.0.1/")?;
//! let mut connection = client.get_multiplexed_async_connection().await?;
//! let script = redis::Script::new(fenced::redis::WRITE);
//! let mut call = script.key("invoice:42");
//! for argument in fenced::redis::arguments(token, Keep::Forever, ["state", "paid"]) {
//!     call.arg(argument);
//! }
//! let reply: Vec<Vec<u8>> = call.invoke_async(&mut connection).await?;
//! match fenced::redis::checked(token, &reply)? {
//!     Checked::Accepted(()) => println!("written"),
//!     Checked::Stale { highest } => println!("too late: {highest} was here"),
//! }
//! # Ok(()) }
//! ```

use std::{error, fmt, time::Duration};

use fencelock_core::FencingToken;

use super::{Checked, check, digits, from_digits};
use crate::SharedToken;

/// Writes fields. Without any, it only notes the token.
pub const WRITE: &str = concat!(include_str!("check.lua"), "\n", include_str!("write.lua"));

/// Notes the token and reads all fields in one step: what a new holder begins with.
pub const READ: &str = concat!(include_str!("check.lua"), "\n", include_str!("read.lua"));

/// Reads all fields for a reader beside others: refused below the token of the last writer, and noted
/// nowhere. Its `ARGV` is of [`shared_arguments`], its reply is read by [`shared_fields`].
pub const READ_SHARED: &str =
    concat!(include_str!("check.lua"), "\n", include_str!("read_shared.lua"));

/// Removes fields, and keeps the token.
pub const REMOVE: &str = concat!(include_str!("check.lua"), "\n", include_str!("remove.lua"));

/// The field of the hash that belongs to the scripts.
pub const FIELD: &str = "fencing_token";

/// For calls without extra arguments.
pub const NOTHING: [&str; 0] = [];

/// How long a key is kept after its last use, and with it the highest token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// For ever: no assumption about time. An expiry that the key has is taken away.
    Forever,
    /// At least so long, and at least a second. The value expires with the key.
    ///
    /// A key that is gone refuses tokens older than this, so the holder before is not let in
    /// either: tokens of Redis, Valkey and the embedded file are the time of their grant. That
    /// takes clocks of the two servers that differ by less than 45 seconds, and the same span in
    /// all calls for one key. A holder that has the lock for longer than this must use the key at
    /// least as often, or it is refused, too.
    AtLeast(Duration),
}

impl Keep {
    /// Seconds, 10 digits; all 0 for ever.
    fn digits(self) -> String {
        let seconds = match self {
            Self::Forever => 0,
            Self::AtLeast(span) => span
                .as_secs()
                .saturating_add(u64::from(span.subsec_nanos() > 0))
                .clamp(1, LONGEST_S),
        };
        format!("{seconds:010}")
    }
}

/// Thirty years, so that the time of the server less this is a time.
const LONGEST_S: u64 = 30 * 365 * 24 * 3600;

/// The `ARGV` of a call: the token, how long to keep the key, and what the script wants besides.
///
/// # Examples
/// ```
/// use fencelock::{FencingToken, fenced::redis::{Keep, arguments}};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let argv = arguments(FencingToken::new(33)?, Keep::Forever, ["state", "paid"]);
/// assert_eq!(argv, [&b"0000000000000033"[..], b"0000000000", b"state", b"paid"]);
/// # Ok(()) }
/// ```
#[must_use]
pub fn arguments<I>(token: FencingToken, keep: Keep, extra: I) -> Vec<Vec<u8>>
where
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    let extra = extra.into_iter().map(|word| word.as_ref().to_vec());
    [digits(token), keep.digits()].into_iter().map(String::into_bytes).chain(extra).collect()
}

/// The `ARGV` of [`READ_SHARED`].
#[must_use]
pub fn shared_arguments(token: SharedToken, keep: Keep) -> Vec<Vec<u8>> {
    arguments(token.number(), keep, NOTHING)
}

/// What a reply of [`READ_SHARED`] says: the fields, in no order.
///
/// # Errors
/// When it is no reply of that script.
pub fn shared_fields<B: AsRef<[u8]>>(
    token: SharedToken,
    reply: &[B],
) -> Result<Checked<Vec<Field>>, ReplyError> {
    fields(token.number(), reply)
}

/// What a reply says: whether the call was accepted.
///
/// # Errors
/// When it is no reply of these scripts.
pub fn checked<B: AsRef<[u8]>>(token: FencingToken, reply: &[B]) -> Result<Checked, ReplyError> {
    let wrong = || ReplyError { token };
    let highest = from_digits(reply.first().ok_or_else(wrong)?.as_ref()).ok_or_else(wrong)?;
    // An accepted call replies its own token, so a smaller one is of another call.
    if highest < token { Err(wrong()) } else { Ok(check(Some(highest), token)) }
}

/// What a reply of [`READ`] says: the fields, in no order.
///
/// # Errors
/// When it is no reply of these scripts.
pub fn fields<B: AsRef<[u8]>>(
    token: FencingToken,
    reply: &[B],
) -> Result<Checked<Vec<Field>>, ReplyError> {
    Ok(match checked(token, reply)? {
        Checked::Stale { highest } => Checked::Stale { highest },
        Checked::Accepted(()) => {
            let (pairs, rest) = reply[1..].as_chunks::<2>();
            if !rest.is_empty() {
                return Err(ReplyError { token });
            }
            let field = |[name, value]: &[B; 2]| Field {
                name: name.as_ref().to_vec(),
                value: value.as_ref().to_vec(),
            };
            Checked::Accepted(pairs.iter().map(field).collect())
        }
    })
}

/// A field of the guarded value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field {
    /// Its name.
    pub name: Vec<u8>,
    /// What is in it.
    pub value: Vec<u8>,
}

/// A reply that none of the scripts gives to this token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyError {
    token: FencingToken,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token;
        write!(
            f,
            "not a reply of a fenced script to fencing token {token}: whether the write was "
        )?;
        write!(f, "done is unknown; run the scripts of this version, and decode lists of bytes")
    }
}

impl error::Error for ReplyError {}
