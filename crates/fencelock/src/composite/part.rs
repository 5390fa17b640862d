//! One of several locks that are taken as one: before, and while it is held.

use std::fmt;

use fencelock_core::{FencingToken, LockName, Mode, Names};

use crate::{Error, Guard, Mutex, Reentrant, RwLock, Semaphore, SharedToken};

/// A lock that is to be one of several: a mutex (of one name or several), a reader or the writer of a
/// read-write lock, permits of a semaphore, a hold of a re-entrant mutex.
///
/// A latch or a barrier is none: nothing is held of them.
#[derive(Clone)]
#[must_use = "a part does nothing by itself"]
pub struct Part(Mutex);

impl Part {
    /// A reader.
    pub fn read(lock: &RwLock) -> Self {
        Self(lock.reader())
    }

    /// The writer.
    pub fn write(lock: &RwLock) -> Self {
        Self(lock.writer())
    }

    /// Permits.
    pub fn permits(semaphore: &Semaphore, permits: u32) -> Self {
        Self(semaphore.permits(permits))
    }

    /// What it was made of.
    pub(super) const fn recipe(&self) -> &Mutex {
        &self.0
    }

    /// A recipe for each of its names. A wrong name or number is told here.
    pub(super) fn recipes(&self) -> Result<Vec<Mutex>, Error> {
        let names = self.0.names.clone().map_err(Error::config)?;
        let named = |error: Error| error.with_names(&names);
        let mode = self.0.mode.clone().map_err(|what| named(Error::config(what)))?;
        let recipe = |name: &LockName| {
            // A lease that is passed on inside of this process would leave the others.
            let mut recipe = self.0.in_mode(Ok(mode.clone()));
            recipe.needs_sharing = self.0.needs_sharing;
            recipe.names = Ok(Names::one(name.clone()));
            recipe
        };
        Ok(names.iter().map(recipe).collect())
    }
}

impl From<Mutex> for Part {
    fn from(mutex: Mutex) -> Self {
        Self(mutex)
    }
}

impl From<&Mutex> for Part {
    fn from(mutex: &Mutex) -> Self {
        Self(mutex.clone())
    }
}

impl From<&Reentrant> for Part {
    fn from(mutex: &Reentrant) -> Self {
        Self(mutex.recipe())
    }
}

impl From<Reentrant> for Part {
    fn from(mutex: Reentrant) -> Self {
        Self::from(&mutex)
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("names", &self.0.names).field("mode", &self.0.mode).finish()
    }
}

/// Where in the order of all locks a recipe of one name stands.
pub(super) fn place_of(recipe: &Mutex) -> (&str, Option<&LockName>) {
    (&recipe.context().identity, recipe.names.as_ref().ok().map(Names::first))
}

/// One of several locks that are held as one.
#[derive(Debug)]
pub struct HeldPart<'a>(pub(super) &'a Guard);

impl HeldPart<'_> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &LockName {
        self.0.name()
    }

    /// Its store, as messages call it.
    #[must_use]
    pub fn store(&self) -> &str {
        &self.0.context().display
    }

    /// Its fencing token, where it is held alone (or by one owner) and the dialect has one.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        let alone = matches!(self.mode(), Mode::Exclusive | Mode::Owned(_));
        self.0.fencing_token().filter(|_| alone)
    }

    /// Its number, where it is a reader.
    #[must_use]
    pub fn shared_token(&self) -> Option<SharedToken> {
        let reads = matches!(self.mode(), Mode::Shared);
        self.0.fencing_token().filter(|_| reads).map(SharedToken::new)
    }

    /// How many permits it is; none for other kinds.
    #[must_use]
    pub fn permits(&self) -> u32 {
        match self.mode() {
            Mode::Permits { permits, .. } => *permits,
            _ => 0,
        }
    }

    /// Whether this part is held now.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    fn mode(&self) -> &Mode {
        &self.0.cell().fixed.mode
    }
}
