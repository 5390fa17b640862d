//! How a store is made: the path, and what it keeps to.

use std::path::{Path, PathBuf};

use fencelock_store::{Clock, ManualClock, StoreError};

use crate::{SqliteStore, path, surroundings::Surroundings};

/// What a commit outlives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Durability {
    /// The end of any process, not a power cut: that can take the last commits with it.
    /// Leases bound to a process end with it anyway, and fencing tokens follow time; a lease that is
    /// bound to none can be lost.
    #[default]
    Process,
    /// Also a power cut: each commit waits for the disk.
    Power,
}

/// Makes a [`SqliteStore`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    path: PathBuf,
    options: Options,
}

/// What a store keeps to.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) durability: Durability,
    pub(crate) pages_max: Option<u32>,
    pub(crate) clock: Clock,
    pub(crate) surroundings: Option<Surroundings>,
}

impl Builder {
    pub(crate) fn new(path: impl AsRef<Path>) -> Self {
        let options = Options {
            durability: Durability::default(),
            pages_max: None,
            clock: Clock::Monotonic,
            surroundings: None,
        };
        Self { path: path.as_ref().to_owned(), options }
    }

    /// What a commit outlives; by default, the end of any process.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.options.durability = durability;
        self
    }

    /// How many pages of 1 KiB the file may have: beyond, new names are refused as on a full disk.
    /// By default there is no limit but the disk. Each process has its own limit.
    pub fn pages_max(mut self, pages: u32) -> Self {
        self.options.pages_max = Some(pages);
        self
    }

    /// For tests: lease clock and wall clock are both this clock. All stores of the file must
    /// share it.
    pub fn manual(mut self, clock: ManualClock) -> Self {
        self.options.clock = Clock::Manual(clock);
        self
    }

    /// For tests: another boot, other namespaces, other processes than the real ones.
    pub fn surroundings(mut self, surroundings: Surroundings) -> Self {
        self.options.surroundings = Some(surroundings);
        self
    }

    /// Makes the store. Nothing is opened yet.
    ///
    /// # Errors
    /// When the path can't be one of a file.
    pub fn build(self) -> Result<SqliteStore, StoreError> {
        let path = path::parse(&self.path)?;
        Ok(SqliteStore::made(path, self.options))
    }
}
