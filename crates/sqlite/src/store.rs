//! The store: verbs become attempts, attempts are repeated while the file is busy.
//!
//! ```text
//!   call -> turn in this runtime -> attempt ------------------> answer
//!                                    |  ^
//!                            busy:   v  | at once, then after 0.1 ms ... 5 ms, until `by`
//!                                   pause
//! ```
//!
//! An attempt never waits inside SQLite. The mutex around the connection is only ever tried, and
//! never held across an await.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, Acquired, Binding, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged,
    ForceReleaseRequest, Forced, HealRequest, Healed, InspectRequest, Inspection, LimitSet,
    ListRequest, Moment, Page, RaiseFenceRequest, Raised, ReleaseRequest, Released, RenewRequest,
    Renewed, RevokeRequest, Revoked, Rules, SetLimitRequest, ShortenRequest, Shortened, StoreNow,
};
use fencelock_store::{
    BoxFuture, Capabilities, Clock, Modes, Outcome, Reply, Store, StoreError, StoreErrorKind,
    StoreResult, Subscription, WakeupSink, rt,
};

use crate::{
    Builder,
    builder::Options,
    checkpoint::Checkpointer,
    connection::{Access, Connection, Done, store_now},
    ear,
    failure::Failure,
    mail::{self, Letter},
    pause::Pause,
    row::MAX_PROCESSES,
    transaction::Transaction,
    turns::Turns,
    wake_folder::Seat,
};

/// Locks in one file, shared by the processes of one machine. Clones share a connection.
///
/// Leases count on the monotonic clock of the machine, which stands still during suspend for
/// holder and contenders alike. A restart ends no lease early: a lease of an earlier boot counts
/// until its end on the wall clock. A power cut may lose the last commits, and with them a lease that
/// was bound to no process, unless the store is built with [`Durability::Power`](crate::Durability).
#[derive(Clone, Debug)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    options: Options,
    rules: Rules,
    connection: Mutex<Option<Connection>>,
    turns: Turns,
    checkpointer: Checkpointer,
    closed: AtomicBool,
}

impl SqliteStore {
    /// A store in the file at a path. Nothing is opened until the first call.
    ///
    /// # Errors
    /// When the path can't be one of a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::builder(path).build()
    }

    /// Makes a store with other settings than the default ones.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path)
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// What the clocks of the store show now.
    #[must_use]
    pub fn store_now(&self) -> StoreNow {
        store_now(&self.inner.options.clock)
    }

    pub(crate) fn made(path: PathBuf, options: Options) -> Self {
        let inner = Inner {
            path,
            options,
            rules: Rules::default(),
            connection: Mutex::new(None),
            turns: Turns::default(),
            checkpointer: Checkpointer::default(),
            closed: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    fn step<'a, A: Send + 'a>(
        &'a self,
        access: Access,
        by: Moment,
        step: impl Fn(&Transaction<'_>, Rules) -> rusqlite::Result<A> + Send + Sync + 'a,
    ) -> BoxFuture<'a, StoreResult<A>> {
        Box::pin(async move {
            let inner = &self.inner;
            let clock = &inner.options.clock;
            inner.check(by)?;
            if rt::runtime_id().is_none() {
                let message = format!("{self} was asked outside of a tokio runtime");
                return Err(StoreError::new(StoreErrorKind::Config, Outcome::NotDone, message));
            }
            let Some(_turn) = inner.turns.wait(clock, by).await else {
                return Err(inner.fail(Failure::Busy));
            };
            let step = |transaction: &Transaction<'_>| step(transaction, inner.rules);
            let mut pause = Pause::of(access);
            loop {
                inner.check(by)?;
                let failure = match inner.attempt(access, &step) {
                    Ok(done) => {
                        self.deliver(done.mail);
                        let reply = Reply::new(done.answer).at(done.now.lease);
                        return Ok(reply.of(Some(done.incarnation)));
                    }
                    Err(Failure::NotOpen) => match self.reopen(by).await {
                        Ok(()) => continue,
                        Err(failure) => failure,
                    },
                    Err(failure) => failure,
                };
                if !matches!(failure, Failure::Busy) {
                    return Err(inner.fail(failure));
                }
                pause.wait(clock, by).await;
                if clock.now() >= by {
                    return Err(inner.fail(Failure::Busy));
                }
            }
        })
    }

    /// Tells what a step has to tell, after its commit. What was handed to waiters that are gone
    /// is passed on here and now, so that it needs nobody who goes on polling; when others are in
    /// the file, a task of the caller's runtime does it. If that ends too, the lease ends by
    /// itself.
    fn deliver(&self, mail: Vec<Letter>) {
        let mut dead = mail::send(mail);
        for _ in 0..PASSED_ON_AT_ONCE {
            let Some(request) = dead.pop() else { return };
            let step =
                |transaction: &Transaction<'_>| transaction.release(self.inner.rules, &request);
            match self.inner.attempt(Access::Write, &step) {
                Ok(done) => dead.extend(mail::send(done.mail)),
                Err(_) => {
                    dead.push(request);
                    break;
                }
            }
        }
        if dead.is_empty() {
            return;
        }
        let store = self.clone();
        rt::try_spawn(async move {
            let by = store.clock().now().saturating_add(PASSED_ON_WITHIN);
            for request in dead {
                // This comes here again for whoever is next.
                let _ = store.release(&request, by).await;
            }
        });
    }

    /// Opens the file: one that is there and has nothing to be restored at once, as a transaction
    /// would read it; else on a thread that may block. A short-lived process would spend more on
    /// that thread than on the file.
    async fn reopen(&self, by: Moment) -> Result<(), Failure> {
        if Connection::opens_at_once(&self.inner.path) {
            match self.inner.open() {
                // It went in this very moment.
                Err(Failure::NotOpen) => {}
                other => return other,
            }
        }
        let inner = Arc::clone(&self.inner);
        let opening = rt::blocking(move || inner.open());
        match self.inner.options.clock.until(by, opening).await {
            Some(Some(result)) => result,
            Some(None) => Err(StoreError::unavailable("the runtime is shutting down").into()),
            None => Err(Failure::Busy),
        }
    }
}

impl Inner {
    fn check(&self, by: Moment) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            let message = format!("sqlite:{}: the store was closed", self.path.display());
            return Err(StoreError::new(StoreErrorKind::Closed, Outcome::NotDone, message));
        }
        if self.options.clock.now() >= by {
            return Err(StoreError::unavailable(format!(
                "sqlite:{}: no time was left to ask",
                self.path.display()
            )));
        }
        Ok(())
    }

    fn fail(&self, failure: Failure) -> StoreError {
        failure.into_store_error(&self.path)
    }

    /// The connection, unless another thread is in it.
    fn try_connection(&self) -> Option<MutexGuard<'_, Option<Connection>>> {
        match self.connection.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => {
                // Whoever panicked may have left a transaction open: closing undoes it.
                let mut guard = poisoned.into_inner();
                *guard = None;
                self.connection.clear_poison();
                Some(guard)
            }
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn attempt<A>(
        &self,
        access: Access,
        step: &impl Fn(&Transaction<'_>) -> rusqlite::Result<A>,
    ) -> Result<Done<A>, Failure> {
        let Some(mut guard) = self.try_connection() else { return Err(Failure::Busy) };
        // Closing comes first, then the connection is taken out: see `close`.
        if self.closed.load(Ordering::Acquire) {
            return Err(Failure::NotOpen);
        }
        let connection = match guard.as_ref() {
            Some(connection) if connection.is_usable(&self.path) => connection,
            Some(_) => {
                // The file was replaced, or this is a child that was forked off. Then closing
                // touches nothing but the child's own descriptors, since no transaction is open.
                *guard = None;
                return Err(Failure::NotOpen);
            }
            None => return Err(Failure::NotOpen),
        };
        let result = connection.attempt(access, &self.options.clock, step);
        match &result {
            Ok(_) if access != Access::Read => {
                let frames = connection.take_log_frames();
                if frames > 0 {
                    self.checkpointer.after_commit(frames, &self.path, &self.options);
                }
            }
            Err(failure) if failure.breaks_connection() => *guard = None,
            _ => {}
        }
        result
    }

    fn open(&self) -> Result<(), Failure> {
        let Some(mut guard) = self.try_connection() else { return Err(Failure::Busy) };
        if guard.is_none() && !self.closed.load(Ordering::Acquire) {
            *guard = Some(Connection::open(&self.path, &self.options)?);
        }
        Ok(())
    }
}

/// How many leases in turn one step passes on by itself: more are for a task.
const PASSED_ON_AT_ONCE: u32 = 16;
/// After that, the lease has ended by itself: this is a long claim.
const PASSED_ON_WITHIN: Duration = Duration::from_secs(5);

fn check_binding(binding: &Binding) -> Result<(), StoreError> {
    match binding {
        Binding::Processes(processes) if processes.len() > MAX_PROCESSES => {
            Err(StoreError::unsupported(format!(
                "a lease is bound to at most {MAX_PROCESSES} processes, not {}",
                processes.len()
            )))
        }
        _ => Ok(()),
    }
}

impl fmt::Display for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sqlite:{}", self.inner.path.display())
    }
}

impl Store for SqliteStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::full("native");
        capabilities.binding = true;
        capabilities.queue = true;
        capabilities.modes = Modes::ALL;
        capabilities.revoke = true;
        capabilities.wakeups = true;
        capabilities
    }

    fn clock(&self) -> Clock {
        self.inner.options.clock.clone()
    }

    fn connect(&self, by: Moment) -> BoxFuture<'_, StoreResult<()>> {
        self.step(Access::Read, by, |_, _| Ok(()))
    }

    fn acquire<'a>(
        &'a self,
        request: &'a AcquireRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Acquired>> {
        if let Err(error) = check_binding(&request.binding) {
            return Box::pin(async { Err(error) });
        }
        self.step(Access::Write, by, |transaction, rules| transaction.acquire(rules, request))
    }

    fn renew<'a>(
        &'a self,
        batch: &'a [RenewRequest],
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Vec<Renewed>>> {
        if batch.len() > RenewRequest::MAX_BATCH {
            return Box::pin(async { Err(StoreError::unsupported("a batch of too many leases")) });
        }
        self.step(Access::Renew, by, |transaction, rules| transaction.renew(rules, batch))
    }

    fn shorten<'a>(
        &'a self,
        request: &'a ShortenRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Shortened>> {
        self.step(Access::Write, by, |transaction, rules| transaction.shorten(rules, request))
    }

    fn release<'a>(
        &'a self,
        request: &'a ReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Released>> {
        self.step(Access::Write, by, |transaction, rules| transaction.release(rules, request))
    }

    fn exchange_token<'a>(
        &'a self,
        request: &'a ExchangeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Exchanged>> {
        if let Err(error) = check_binding(&request.binding) {
            return Box::pin(async { Err(error) });
        }
        self.step(Access::Write, by, |transaction, rules| transaction.exchange(rules, request))
    }

    fn downgrade<'a>(
        &'a self,
        request: &'a DowngradeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Downgraded>> {
        self.step(Access::Write, by, |transaction, rules| transaction.downgrade(rules, request))
    }

    fn set_limit<'a>(
        &'a self,
        request: &'a SetLimitRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<LimitSet>> {
        self.step(Access::Write, by, |transaction, rules| transaction.set_limit(rules, request))
    }

    fn raise_fence<'a>(
        &'a self,
        request: &'a RaiseFenceRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Raised>> {
        self.step(Access::Write, by, |transaction, rules| transaction.raise(rules, request))
    }

    fn heal<'a>(
        &'a self,
        request: &'a HealRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Healed>> {
        self.step(Access::Write, by, |transaction, rules| transaction.heal(rules, request))
    }

    fn inspect<'a>(
        &'a self,
        request: &'a InspectRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Inspection>> {
        self.step(Access::Read, by, |transaction, rules| transaction.inspect(rules, request))
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Page>> {
        self.step(Access::Read, by, |transaction, rules| transaction.list(rules, request))
    }

    fn force_release<'a>(
        &'a self,
        request: &'a ForceReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Forced>> {
        self.step(Access::Write, by, |transaction, rules| transaction.force(rules, request))
    }

    fn revoke<'a>(
        &'a self,
        request: &'a RevokeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Revoked>> {
        self.step(Access::Write, by, |transaction, rules| transaction.revoke(rules, request))
    }

    fn listen(
        &self,
        sink: Arc<dyn WakeupSink>,
        by: Moment,
    ) -> BoxFuture<'_, Result<Subscription, StoreError>> {
        Box::pin(async move {
            // Opens the file, and makes it first where there is none.
            let _ = self.connect(by).await?;
            let path = self.inner.path.clone();
            let taking = rt::blocking(move || Seat::take(&path));
            match self.inner.options.clock.until(by, taking).await {
                Some(Some(taken)) => {
                    let (seat, socket) = taken?;
                    ear::listen(seat, socket, sink)
                }
                Some(None) => Err(StoreError::unavailable("the runtime is shutting down")),
                None => Err(self.inner.fail(Failure::Busy)),
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.closed.store(true, Ordering::Release);
        Box::pin(async move {
            // A step that runs on another thread ends soon; none begins any more.
            for _ in 0..CLOSE_LOOKS {
                // Taken out in a statement of its own: the lock is not held across the await.
                let taken = self.inner.try_connection().map(|mut guard| guard.take());
                if let Some(connection) = taken {
                    if let Some(connection) = connection {
                        self.inner.checkpointer.close(connection).await;
                    }
                    break;
                }
                rt::sleep(Pause::SHORTEST).await;
            }
            for _ in 0..CHECKPOINT_LOOKS {
                if !self.inner.checkpointer.is_needed() {
                    return;
                }
                rt::sleep(Pause::SHORTEST).await;
            }
        })
    }
}

/// About a second. After that, the connection closes when the last clone of the store is dropped.
const CLOSE_LOOKS: u32 = 1_000;
/// About a quarter of a second.
const CHECKPOINT_LOOKS: u32 = 250;

#[cfg(test)]
mod tests {
    use fencelock_core::{ListenerId, LockName, PlaceRequest, Token, Ttl, Wakeup};

    use super::*;

    struct Deaf;

    impl WakeupSink for Deaf {
        fn wake(&self, _: Wakeup) {}
        fn broken(&self) {}
    }

    fn names() -> LockName {
        LockName::new("x").expect("a name")
    }

    async fn ask(store: &SqliteStore, listener: Option<ListenerId>) -> (Token, Acquired) {
        let ttl = Ttl::from_millis(60_000).expect("a ttl");
        let token = rt::fresh_token();
        let mut request = AcquireRequest::new(names(), token, ttl);
        request.place = Some(PlaceRequest::new(ttl, PlaceRequest::LIVE));
        request.listener = listener;
        (token, store.acquire(&request, Moment::NEVER).await.expect("it answers").answer)
    }

    async fn holder(store: &SqliteStore) -> Option<Token> {
        let look = InspectRequest::new(names());
        match store.inspect(&look, Moment::NEVER).await.expect("it answers").answer {
            Inspection::Held(holder) => {
                let hex = holder.proof.expect("it has a token");
                Token::from_hex(hex.reveal()).ok()
            }
            _ => None,
        }
    }

    /// Goal: a waiter that dies between the step which hands it the lease and the message costs no
    /// delay. Method: the step is made by hand, two of three waiters leave, then it is told; and
    /// the same while somebody else is in the file.
    #[test]
    fn what_was_handed_to_waiters_that_died_in_that_moment_is_passed_on() {
        for in_use in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("locks.db");
            rt::block_on(async {
                let store = SqliteStore::open(&path).expect("a path");
                let (first, _) = ask(&store, None).await;
                let mut tokens = Vec::new();
                let mut ears = Vec::new();
                for _ in 0..3 {
                    let ear = store.listen(Arc::new(Deaf), Moment::NEVER).await.expect("an ear");
                    let (token, answer) = ask(&store, Some(ear.listener)).await;
                    assert!(matches!(answer, Acquired::Queued(_)), "{answer:?}");
                    tokens.push(token);
                    ears.push(ear);
                }
                let release = ReleaseRequest::new(names(), first);
                let step = |transaction: &Transaction<'_>| {
                    transaction.release(store.inner.rules, &release)
                };
                let done = store.inner.attempt(Access::Write, &step).expect("nobody is in it");
                assert_eq!(holder(&store).await, Some(tokens[0]));
                ears.drain(..2);
                let other = rusqlite::Connection::open(&path).expect("it opens");
                if in_use {
                    other.execute_batch("BEGIN IMMEDIATE").expect("it begins");
                }
                store.deliver(done.mail);
                if in_use {
                    assert_eq!(holder(&store).await, Some(tokens[0]));
                    other.execute_batch("COMMIT").expect("it ends");
                    while holder(&store).await != Some(tokens[2]) {
                        rt::yield_now().await;
                    }
                }
                assert_eq!(holder(&store).await, Some(tokens[2]));
            });
        }
    }
}
