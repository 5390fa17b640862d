//! Elections: one leader among many, for as long as it can be, and who it is for everybody else.
//!
//! ```text
//!   campaign --> [ place in the line of the name ] --> Leadership --> resign, loss, drop
//!                                                          |                  |
//!   observe ----------- looks at the record ----------> Leader(term, info)  Vacant, the next Leader
//! ```
//! A term is one grant of the lock of that name: its number is the fencing token, what the leader
//! says of itself is in the record's metadata, and whoever leads must stop acting exactly when a
//! guard must. Nothing here keeps time or state of its own.
//!
//! It relies on `strict_fifo`: each candidate has its own place at the store. A lease that goes from
//! task to task inside a process would change its leader without the store, and so without any
//! observer, knowing of it.

mod lead;
mod leadership;
mod observe;

use std::{fmt, future::Future, ops::ControlFlow, time::Duration};

#[cfg(feature = "blocking")]
pub(crate) use self::lead::Campaigns;
pub use self::{
    leadership::{Leadership, Leading},
    observe::{Leader, Observation, Observed},
};
use crate::{Client, Error, Mutex, Wait};

/// An election by name: the recipe for candidates and observers. It does no I/O; its verbs do.
///
/// The lock under it is the [`Mutex`] of the same name, so a mutex and an election of one name
/// exclude each other, and `fencelock elect NAME` on the command line takes part in it.
///
/// # What is promised
/// What a [`Guard`](crate::Guard) promises: nobody else is elected while
/// [`Leadership::is_leader`], under the assumptions of the store. Whoever must not rely on time
/// compares the [term](Leadership::term), which grows with each leader. Candidates are elected in
/// the order in which they came where the store keeps a line; on a quorum, in no order.
///
/// # Examples
/// ```
/// use std::ops::ControlFlow;
///
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let election = locks.election("scheduler");
/// // Leads whenever it can, until the work breaks.
/// let last = election
///     .lead("10.0.0.7:8080", |leading| async move {
///         // ... be the scheduler, and tell the database the term with each write
///         ControlFlow::Break(leading.term())
///     })
///     .await?;
/// assert!(last.is_some());
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "a recipe does nothing until one of its verbs is called"]
pub struct Election {
    client: Client,
    mutex: Mutex,
}

impl Election {
    /// The key of the metadata that has what a leader [says of itself](Election::campaign): other
    /// programs find it there.
    pub const INFO_KEY: &str = "info";

    pub(crate) fn new(client: Client, mutex: Mutex) -> Self {
        Self { client, mutex: mutex.strict_fifo().require_fencing() }
    }

    /// How long the store keeps a leadership that is not renewed: 10 ms to 24 h, 30 s by default. A
    /// leader that dies is followed after this at the latest.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { mutex: self.mutex.ttl(ttl), ..self }
    }

    /// How long one campaign waits for everything. For ever by default.
    pub fn wait(self, wait: impl Into<Wait>) -> Self {
        Self { mutex: self.mutex.wait(wait), ..self }
    }

    /// Says more of the leader than [`Election::INFO_KEY`]: as [`Mutex::metadata`].
    pub fn metadata(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { mutex: self.mutex.metadata(key, value), ..self }
    }

    /// What the leader calls itself, for people.
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { mutex: self.mutex.label(label), ..self }
    }

    /// Campaigns also where there are no fencing tokens (the plain dialect): [`Leadership::term`] is
    /// nothing then, and nobody can tell a leader from one that was paused and came back. Without
    /// this a campaign fails there, before anything is sent.
    pub fn allow_unfenced(mut self) -> Self {
        self.mutex.require_fencing = false;
        self
    }

    /// The lock that a campaign takes, for options that an election does not have.
    pub fn mutex(&self, info: impl Into<String>) -> Mutex {
        let info = info.into();
        // An empty one is worth no metadata, which the plain dialect does not keep.
        let mutex = self.mutex.clone();
        if info.is_empty() { mutex } else { mutex.metadata(Self::INFO_KEY, info) }
    }

    /// Waits until it is elected. `info` is published for the observers: an address, say. Together
    /// with the rest of the metadata it has at most 1 KiB when written, and it stays the same for the
    /// whole term.
    ///
    /// # Errors
    /// As [`Mutex::lock`]; `Unsupported` where there are no fencing tokens, unless that is
    /// [allowed](Election::allow_unfenced).
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`]: dropping the future gives up the place in the line, and what may have been
    /// granted.
    pub async fn campaign(&self, info: impl Into<String>) -> Result<Leadership, Error> {
        let info = info.into();
        let guard = self.mutex(info.as_str()).lock().await?;
        Ok(Leadership::new(guard, info))
    }

    /// Campaigns, does the work while it leads, resigns when the work ends, and does all that again,
    /// until the work [breaks](ControlFlow::Break): then it resigns and returns what the work says.
    ///
    /// When the leadership is lost, the work is dropped at its next await, before anybody else can
    /// be elected, and the next campaign begins. Nothing of the work is left when it resigns: the
    /// future has ended or is dropped. What it spawned is its own affair: keep tasks in something that
    /// ends them, and look at [`Leading::is_leader`] in work that blocks.
    ///
    /// `work` is called once for each term. [`ControlFlow::Continue`] resigns and campaigns again,
    /// behind all who wait by then.
    ///
    /// # Errors
    /// As [`Election::campaign`], but what [may pass](crate::RetryAdvice::Later) is waited out, with
    /// pauses that grow to ten seconds, once the store has answered at all. An end of the
    /// [wait](Election::wait) is an error. `Lost` when the leadership was lost in the very step in
    /// which the work broke, or the release found it taken.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, then resigns through the keeper.
    pub async fn lead<F, Fut, T>(&self, info: impl Into<String>, work: F) -> Result<T, Error>
    where
        F: FnMut(Leading) -> Fut,
        Fut: Future<Output = ControlFlow<T>>,
    {
        lead::lead(self, info.into(), work).await
    }

    /// Who leads, as a stream of changes: the first item is how it stands now. Anybody can observe;
    /// nothing is written. See [`Observation`].
    pub fn observe(&self) -> Observation {
        Observation::new(self.client.clone(), &self.mutex.names)
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Election").field(&self.mutex).finish()
    }
}
