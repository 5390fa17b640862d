//! What users call a lock: one name, or a sorted set of names taken all or nothing.
//!
//! A name is bytes. It is not normalised: two spellings of one accented word are two locks, since
//! only the user can know whether they mean the same thing.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::{fmt, str::FromStr};

/// The name of a lock: 1 to 512 arbitrary bytes.
///
/// `Display` and `Debug` escape what moves a cursor, turns the direction of writing or takes no
/// room, so that a name can't forge a log line or differ from another by what nobody sees.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName(Arc<[u8]>);

impl LockName {
    /// The longest name, in bytes. From the protocol: enough for any path or id, and small beside
    /// the cost of a request.
    pub const MAX_BYTES: usize = 512;

    /// Makes a name of bytes.
    ///
    /// # Errors
    /// When there are no bytes, or more than [`LockName::MAX_BYTES`].
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, ParseNameError> {
        let bytes = bytes.as_ref();
        match bytes.len() {
            0 => Err(ParseNameError::Empty),
            1..=Self::MAX_BYTES => Ok(Self(Arc::from(bytes))),
            length => Err(ParseNameError::TooLong { length }),
        }
    }

    /// The bytes of the name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name as text, where it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        core::str::from_utf8(&self.0).ok()
    }
}

impl FromStr for LockName {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl TryFrom<&str> for LockName {
    type Error = ParseNameError;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl TryFrom<String> for LockName {
    type Error = ParseNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl TryFrom<&String> for LockName {
    type Error = ParseNameError;

    fn try_from(text: &String) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl TryFrom<&[u8]> for LockName {
    type Error = ParseNameError;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        Self::new(bytes)
    }
}

impl TryFrom<Vec<u8>> for LockName {
    type Error = ParseNameError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, Self::Error> {
        Self::new(bytes)
    }
}

impl From<&LockName> for LockName {
    fn from(name: &LockName) -> Self {
        name.clone()
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_str() {
            // Text stays readable in any script; what a terminal acts on or hides is escaped.
            Some(text) => {
                for character in text.chars() {
                    if is_escaped(character) {
                        write!(f, "{}", character.escape_default())?;
                    } else {
                        write!(f, "{character}")?;
                    }
                }
                Ok(())
            }
            None => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

fn is_escaped(character: char) -> bool {
    let hidden = matches!(character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    character.is_control() || character == '\\' || hidden
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockName({self})")
    }
}

/// Why bytes are not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseNameError {
    /// There are no bytes.
    Empty,
    /// There are more than [`LockName::MAX_BYTES`].
    TooLong {
        /// How many there are.
        length: usize,
    },
}

impl fmt::Display for ParseNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a lock name must not be empty"),
            Self::TooLong { length } => write!(
                f,
                "a lock name has at most {} bytes, this one has {length}",
                LockName::MAX_BYTES
            ),
        }
    }
}

impl core::error::Error for ParseNameError {}

/// One or several names that are taken together: sorted, without duplicates, never empty.
///
/// Sorting is what keeps two callers with the same names in another order from waiting for each
/// other; a duplicate would wait for itself.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Names(Arc<[LockName]>);

impl Names {
    /// The most names in one set. A set is one atomic step of the store, which must stay short.
    pub const MAX: usize = 64;
    /// The most names that are looked at, duplicates among them: some iterators never end.
    const MAX_GIVEN: usize = Self::MAX * 64;

    /// A set of one name.
    #[must_use]
    pub fn one(name: LockName) -> Self {
        Self(Arc::from([name]))
    }

    /// Sorts and de-duplicates the names.
    ///
    /// # Errors
    /// When there is none, or more than [`Names::MAX`] different ones, or more than 4 096 in all.
    pub fn new(names: impl IntoIterator<Item = LockName>) -> Result<Self, NamesError> {
        let mut names: Vec<LockName> = names.into_iter().take(Self::MAX_GIVEN + 1).collect();
        // What is beyond may be another name: a lock that was not taken must not pass for taken.
        if names.len() > Self::MAX_GIVEN {
            return Err(NamesError::TooMany { count: names.len() });
        }
        names.sort();
        names.dedup();
        match names.len() {
            0 => Err(NamesError::Empty),
            1..=Self::MAX => Ok(Self(Arc::from(names))),
            count => Err(NamesError::TooMany { count }),
        }
    }

    /// The names in order.
    #[must_use]
    pub fn as_slice(&self) -> &[LockName] {
        &self.0
    }

    /// The first name in order: what messages call the set by.
    #[must_use]
    pub fn first(&self) -> &LockName {
        &self.0[0]
    }

    /// The names in order.
    pub fn iter(&self) -> core::slice::Iter<'_, LockName> {
        self.0.iter()
    }

    /// How many names there are: at least one.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // A set is never empty.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<'a> IntoIterator for &'a Names {
    type Item = &'a LockName;
    type IntoIter = core::slice::Iter<'a, LockName>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<LockName> for Names {
    fn from(name: LockName) -> Self {
        Self::one(name)
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.iter().enumerate() {
            if index > 0 {
                write!(f, ", ")?;
            }
            write!(f, "{name}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Names({self})")
    }
}

/// Why names are not a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamesError {
    /// There is no name.
    Empty,
    /// There are more than [`Names::MAX`] different names.
    TooMany {
        /// How many there are.
        count: usize,
    },
}

impl fmt::Display for NamesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a set of locks needs at least one name"),
            Self::TooMany { count } => {
                write!(f, "a set has at most {} names, this one has {count}", Names::MAX)
            }
        }
    }
}

impl core::error::Error for NamesError {}

#[cfg(test)]
mod tests {
    use std::{format, string::ToString, vec};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits_are_refused_at_the_byte() {
        assert_eq!(LockName::new([]), Err(ParseNameError::Empty));
        assert!(LockName::new([0]).is_ok());
        assert!(LockName::new(vec![7; 512]).is_ok());
        assert_eq!(LockName::new(vec![7; 513]), Err(ParseNameError::TooLong { length: 513 }));
    }

    #[test]
    fn a_name_cannot_forge_a_line() {
        let name = LockName::new("a\n\x1b[31mb").expect("a name");
        assert_eq!(name.to_string(), "a\\n\\u{1b}[31mb");
        assert_eq!(LockName::new([0xff, b'a', 0]).expect("a name").to_string(), "\\xffa\\x00");
        assert_eq!(LockName::new("naïve 🔒").expect("a name").to_string(), "naïve 🔒");
        let unseen = LockName::new("a\u{202e}b\u{200b}").expect("a name");
        assert_eq!(unseen.to_string(), "a\\u{202e}b\\u{200b}");
    }

    #[test]
    fn a_set_has_limits() {
        assert_eq!(Names::new([]), Err(NamesError::Empty));
        let many = (0..65).map(|n| LockName::new(format!("{n}")).expect("a name"));
        assert_eq!(Names::new(many), Err(NamesError::TooMany { count: 65 }));
    }

    #[test]
    fn no_name_is_left_out_however_many_duplicates_come_before_it() {
        let name = |text: &str| LockName::new(text).expect("a name");
        let set =
            |duplicates| Names::new(core::iter::repeat_n(name("a"), duplicates).chain([name("b")]));
        assert_eq!(set(4_095).map(|names| names.len()), Ok(2));
        assert_eq!(set(4_096), Err(NamesError::TooMany { count: 4_097 }));
        assert!(Names::new(core::iter::repeat(name("a"))).is_err());
    }

    proptest! {
        #[test]
        fn a_set_is_sorted_unique_and_complete(
            names in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..4), 1..40)
        ) {
            let set = Names::new(names.iter().map(|n| LockName::new(n).expect("a name")))
                .expect("a set");
            prop_assert!(set.as_slice().windows(2).all(|pair| pair[0] < pair[1]));
            for name in &names {
                prop_assert!(set.iter().any(|member| member.as_bytes() == name.as_slice()));
            }
            prop_assert!(set.iter().all(|member| names.iter().any(|n| n == member.as_bytes())));
        }
    }
}
