//! An object in a store with conditional writes (S3 and its like) that refuses the writes of a
//! holder from before.
//!
//! Such a store has no place to check, but it can write *only if the object is still what was read*.
//! So the token is the first line of the object, and each write is a loop:
//!
//! ```text
//!   GET object                     -> bytes and their ETag, or 404
//!   open(bytes), put(seen, token)  -> Stale: end here
//!   PUT seal(token, content)          If-Match: ETag, or If-None-Match: * where there was none
//!     200: written     412, 409: somebody was faster, from the top     lost answer: from the top
//! ```
//!
//! A new holder does this once with the content that it reads: its token then stands in the object,
//! and every late write of the holder before it finds another `ETag`, or a larger token.
//!
//! **The token is in the content, not in the metadata.** The `ETag` of S3 is a digest of the content
//! alone: the same bytes with other metadata have the same `ETag`, and a late `If-Match` would hit.
//! (Azure's `ETag` and the generations of Google's store change with every write.)
//!
//! # Limits
//! - It takes a store whose conditional writes are atomic; ask its manual for `If-Match`.
//! - Readers see the first line, too, and cut it off with [`open`].
//! - Deleting forgets the token: write an empty content instead.
//!
//! # Examples
//! ```
//! use fencelock::{FencingToken, fenced::object::{self, Put}};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (old, new) = (FencingToken::new(33)?, FencingToken::new(34)?);
//! let bytes = object::seal(new, b"paid");
//! assert_eq!(bytes, b"0000000000000034\npaid");
//! let opened = object::open(&bytes)?;
//! assert_eq!(opened.content, b"paid");
//! assert_eq!(object::put(Some(opened.token), new), Put::IfMatch);
//! assert_eq!(object::put(Some(opened.token), old), Put::Stale { highest: new });
//! assert_eq!(object::put(None, old), Put::IfNoneMatch);
//! # Ok(()) }
//! ```

use std::{error, fmt};

use fencelock_core::FencingToken;

use super::{Checked, check, digits, from_digits};

/// How the next `PUT` goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a write may have to be left out"]
#[non_exhaustive]
pub enum Put {
    /// With `If-Match` and the `ETag` of what was read.
    IfMatch,
    /// With `If-None-Match: *`, since there was no object.
    IfNoneMatch,
    /// Not at all: a larger token was seen.
    Stale {
        /// The token that stands in the object.
        highest: FencingToken,
    },
}

/// Decides by the token of the object that was read; nothing where there is no object.
pub fn put(seen: Option<FencingToken>, token: FencingToken) -> Put {
    match (seen, check(seen, token)) {
        (_, Checked::Stale { highest }) => Put::Stale { highest },
        (Some(_), Checked::Accepted(())) => Put::IfMatch,
        (None, Checked::Accepted(())) => Put::IfNoneMatch,
    }
}

/// The bytes of the object: a line with the token, then the content.
#[must_use]
pub fn seal(token: FencingToken, content: &[u8]) -> Vec<u8> {
    let mut bytes = digits(token).into_bytes();
    bytes.push(b'\n');
    bytes.extend_from_slice(content);
    bytes
}

/// Parts the bytes of an object.
///
/// # Errors
/// When it does not begin with a token: it was not written like this.
pub fn open(bytes: &[u8]) -> Result<Opened<'_>, OpenError> {
    let (head, rest) = bytes.split_at_checked(FencingToken::DIGITS).ok_or(OpenError)?;
    let token = from_digits(head).ok_or(OpenError)?;
    let content = rest.strip_prefix(b"\n").ok_or(OpenError)?;
    Ok(Opened { token, content })
}

/// What an object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opened<'a> {
    /// The token of the last write.
    pub token: FencingToken,
    /// What was written.
    pub content: &'a [u8],
}

/// An object does not begin with a fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenError;

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the object does not begin with a line that has a fencing token: it was written \
             otherwise; seal it once, while nobody else writes",
        )
    }
}

impl error::Error for OpenError {}
