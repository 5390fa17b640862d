//! The wire formats by name: each is a [`Plug`], and this is the list of them.

use std::{fmt, str::FromStr};

use crate::{native::Native, plain::Plain, plug::Plug};

/// The wire format of the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Dialect {
    /// Fencelock's own: one key for each lock with fencing token, metadata and memory of released
    /// tokens.
    #[default]
    Native,
    /// A string taken by `SET NX PX` at the very name of the lock: what redislock, redsync,
    /// redlock, redis-py and others use. No fencing tokens, no metadata.
    Plain,
}

impl Dialect {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Native, Self::Plain];

    /// Its name, as in [`Capabilities::dialect`](fencelock_store::Capabilities::dialect).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Plain => "plain",
        }
    }

    /// How it is spoken.
    pub(crate) fn plug(self) -> &'static dyn Plug {
        match self {
            Self::Native => &Native,
            Self::Plain => &Plain,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, UnknownDialect> {
        Self::ALL.iter().copied().find(|dialect| dialect.name() == name).ok_or(UnknownDialect)
    }
}

/// There is no dialect of this name. Its text lists those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownDialect;

impl fmt::Display for UnknownDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the dialects are ")?;
        for (index, dialect) in Dialect::ALL.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{dialect}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownDialect {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dialect_is_found_by_its_name_and_says_it() {
        for dialect in Dialect::ALL {
            assert_eq!(dialect.name().parse(), Ok(*dialect));
            assert_eq!(dialect.plug().capabilities().dialect, dialect.name());
        }
        assert_eq!("Native".parse::<Dialect>(), Err(UnknownDialect));
    }
}
