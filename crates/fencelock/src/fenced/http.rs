//! A header by which a client shows its fencing token to a service, and what the service answers.
//!
//! ```text
//!   PUT /invoice/42                      -> 204                   noted, and done
//!   Fencing-Token: 1764542000123456
//!
//!   PUT /invoice/42                      -> 412                   a larger one was seen: nothing
//!   Fencing-Token: 1764541000000000         Fencing-Token: 1764542000123456     was done
//! ```
//!
//! | the request | the answer |
//! |---|---|
//! | no token | 428 Precondition Required |
//! | something that is not one token | 400 Bad Request |
//! | a token below the highest | 412 Precondition Failed, with the highest in the header |
//! | another | what the request itself gives |
//!
//! 412 and not 409, since the token is a condition of the request, and since 409 is retried by some
//! clients. A client takes either for "stale", if the answer has the header ([`stale`]).
//!
//! The service keeps the highest token for each guarded thing, durably, and looks, notes and acts
//! in one step: in the transaction of [`sql`](super::sql), with a [`file`](mod@super::file), or by
//! [`check`](super::check) inside a critical section of its own.
//!
//! # Limits
//! - What the service tells others goes unchecked, unless it passes the header on.
//! - A request that a proxy sends twice is accepted twice. Use an idempotency key, too.
//! - A token is no secret and proves nothing: this is against mistakes, not against attackers.
//!
//! # Examples
//! ```
//! use fencelock::{FencingToken, fenced::{Checked, http}};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (old, new) = (FencingToken::new(33)?, FencingToken::new(34)?);
//! // The client:
//! assert_eq!(format!("{}: {}", http::HEADER, http::value(old)), "Fencing-Token: 33");
//! // The service, which has seen 34:
//! let token = http::token(["33"])?;
//! assert_eq!(fencelock::fenced::check(Some(new), token), Checked::Stale { highest: new });
//! assert_eq!(http::token([""; 0]).unwrap_err().status(), 428);
//! // The client again:
//! assert_eq!(http::stale(old, http::STALE, ["34"]), Some(new));
//! # Ok(()) }
//! ```

use std::{error, fmt};

use fencelock_core::FencingToken;

/// The name of the header; case does not matter in HTTP.
pub const HEADER: &str = "Fencing-Token";

/// The status of a request with a token below the highest: 412 Precondition Failed.
pub const STALE: u16 = 412;

/// The value of the header.
#[must_use]
pub fn value(token: FencingToken) -> String {
    token.to_string()
}

/// The token of a request: give it the values of *all* header lines with this name.
///
/// # Errors
/// When there is none, more than one, or one that is not a token: [`HeaderError::status`] is what to
/// answer.
pub fn token<I>(values: I) -> Result<FencingToken, HeaderError>
where
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    let mut values = values.into_iter();
    let only = values.next().ok_or(HeaderError::Missing)?;
    // Two lines, or a list in one: whichever were taken, somebody else may have taken the other.
    if values.next().is_some() {
        return Err(HeaderError::Repeated);
    }
    let text = only.as_ref().trim_ascii();
    if text.len() > FencingToken::DIGITS {
        return Err(HeaderError::Malformed);
    }
    let text = std::str::from_utf8(text).map_err(|_| HeaderError::Malformed)?;
    text.parse().map_err(|_| HeaderError::Malformed)
}

/// Whether an answer says that the token of the request is stale, and what the highest is: 412 or
/// 409 with a larger token in the header. Other answers with these numbers are about other things.
pub fn stale<I>(sent: FencingToken, status: u16, values: I) -> Option<FencingToken>
where
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    let highest = token(values).ok()?;
    (matches!(status, STALE | 409) && highest > sent).then_some(highest)
}

/// A request has no usable token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// There is none.
    Missing,
    /// There is more than one.
    Repeated,
    /// It is not a token.
    Malformed,
}

impl HeaderError {
    /// The status to answer with.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Missing => 428,
            Self::Repeated | Self::Malformed => 400,
        }
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "no Fencing-Token header: send the fencing token of the lock",
            Self::Repeated => "more than one Fencing-Token header: send one",
            Self::Malformed => {
                "the Fencing-Token header is not a fencing token: send up to 16 decimal digits"
            }
        })
    }
}

impl error::Error for HeaderError {}
