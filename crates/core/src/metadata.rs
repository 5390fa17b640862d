//! What a holder says of itself, kept beside its lease.

use alloc::vec::Vec;
use core::fmt;

/// At most 1 KiB of bytes that describe the holder. Stores keep them and never read them.
///
/// They come from another process: whoever prints them treats them as untrusted.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Metadata(Vec<u8>);

impl Metadata {
    /// The most bytes.
    pub const MAX_BYTES: usize = 1024;

    /// Takes the bytes.
    ///
    /// # Errors
    /// When there are more than [`Metadata::MAX_BYTES`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, MetadataError> {
        let bytes = bytes.into();
        match bytes.len() {
            0..=Self::MAX_BYTES => Ok(Self(bytes)),
            length => Err(MetadataError { length }),
        }
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metadata({})", self.0.escape_ascii())
    }
}

/// There are too many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataError {
    length: usize,
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the metadata of a lock has at most {} bytes when written, this has {}",
            Metadata::MAX_BYTES,
            self.length
        )
    }
}

impl core::error::Error for MetadataError {}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    #[test]
    fn the_limit_is_at_the_byte() {
        assert!(Metadata::new(vec![0; 1024]).is_ok());
        assert!(Metadata::new(vec![0; 1025]).is_err());
    }
}
