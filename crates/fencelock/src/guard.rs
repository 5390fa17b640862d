//! A grant: whoever has the guard has the lock, until it says otherwise.

use std::{fmt, sync::Arc, time::Duration};

use fencelock_core::{
    FencingToken, LeaseState, LockName, LossReason, Mode, Moment, Names, Proof, Token,
};

use crate::{
    Error, ErrorKind, Held, Released, Ticket,
    cell::{LeaseCell, Renewal},
    context::{Context, loss_reason},
    holder,
    leave::leave,
    line::Turn,
    listening,
    plan::checked_ttl,
    release,
    shared::Tenure,
    telemetry::Meter,
};

/// A lock that is held.
///
/// It is a value: it can be moved to any task or thread. While it lives and was granted with
/// [`Renew::Auto`](crate::Renew::Auto), the keeper renews it, whatever the runtime of the user does. Dropping it hands
/// the release to the keeper and waits for nothing; [`Guard::release`] is the checked way.
///
/// A guard that was forgotten (`std::mem::forget`) is renewed for as long as the process lives.
///
/// # Validity
/// The lock is exclusive while [`Guard::is_valid`]: under the assumptions of the store about clock
/// rates, and as long as the store does not lose its records. Work whose effects outlive a check
/// needs the [fencing token](Guard::fencing_token), checked by what it changes.
///
/// # Examples
/// ```
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let guard = locks.mutex("invoice:42").lock().await?;
/// assert!(guard.is_valid());
/// assert_eq!(guard.release().await, fencelock::Released::Held);
/// # Ok(()) }
/// # example_runtime(example());
/// # fn example_runtime(f: impl Future<Output = Result<(), fencelock::Error>>) {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(f).unwrap()
/// # }
/// ```
#[must_use = "dropping the guard releases the lock"]
#[clippy::has_significant_drop]
pub struct Guard {
    context: Arc<Context>,
    cell: Arc<LeaseCell>,
    tenure: Tenure,
}

impl Guard {
    /// Puts a lease under the keeper's care. On an error the caller gives the lease back.
    pub(crate) fn new(context: Arc<Context>, cell: Arc<LeaseCell>) -> Result<Self, Error> {
        cell.shared.meter.set(context.meter);
        let first = cell.look(context.schedule()).due;
        context.keeper.register(&cell, first)?;
        context.catch_up(&cell);
        let tenure = cell.shared.tenure();
        let guard = Self { context, cell, tenure };
        if guard.context.is_closed() {
            // It was closed between the check and the registration: nobody else ends this lease.
            guard.context.lose(&guard.cell, LossReason::Closed);
        }
        Ok(guard)
    }

    /// The next hold of a lease that is kept already.
    pub(crate) fn passed(context: Arc<Context>, cell: Arc<LeaseCell>, tenure: Tenure) -> Self {
        Self { context, cell, tenure }
    }

    /// From now on the lease goes to others of this process first.
    pub(crate) fn take_turn(&self, turn: Turn) {
        turn.holds(&self.cell);
        self.cell.set_turn(turn);
    }

    /// Becomes the hold of another guard of the same lease, which ends without a release.
    pub(crate) fn take_over(&mut self, mut newer: Self) {
        // The two swap: what is dropped here is a hold that is not current any more.
        std::mem::swap(&mut self.tenure, &mut newer.tenure);
    }

    /// Prolongs the lease: it runs for at least `ttl` from now, and later renewals ask for as much.
    ///
    /// It never shortens what is left, and never brings a lost lock back.
    ///
    /// # Errors
    /// `Config` for a ttl out of range (nothing is sent); `Lost` when the lock is not held any
    /// more; `Unavailable` or `Unknown` when the store did not answer: the guard stays valid until
    /// its deadline.
    ///
    /// # Cancel safety
    /// Safe. A renewal that was sent may be carried out; the guard then does not count on it.
    pub async fn renew(&self, ttl: Duration) -> Result<(), Error> {
        let named = |error: Error| {
            error.with_names(&self.cell.fixed.names).with_store(&self.context.display)
        };
        let ttl = checked_ttl(&self.context, ttl).map_err(named)?;
        self.check_live()?;
        let mut request = self.cell.renew_request();
        request.ttl = self.cell.cut(ttl);
        let batch = [request];
        let by = self.context.call_limit(self.cell.deadline());
        if !self.cell.renewal_sent(ttl, by) {
            return self.check_live();
        }
        let asked = self.context.ask(self.context.store.renew(&batch, by)).await;
        let answer = match asked.result {
            Ok(reply) => reply.answer.into_iter().next(),
            Err(error) => {
                self.cell.renewal_failed(self.context.clock.now());
                self.check_live()?;
                return Err(named(Error::from_store(error)));
            }
        };
        match answer {
            Some(fencelock_core::Renewed::Extended { remaining, revoked, waiting, .. }) => {
                self.cell.learn(waiting, revoked);
                match self.cell.renewed(remaining, asked.sent, self.context.clock.now()) {
                    Renewal::Done => {
                        self.cell.set_ttl(ttl);
                        self.context.keeper.reschedule(&self.cell);
                        return Ok(());
                    }
                    Renewal::Late => self.context.lose(&self.cell, LossReason::Expired),
                    Renewal::Over => {}
                }
                self.check_live()
            }
            Some(fencelock_core::Renewed::NotHeld(why)) => {
                self.context.lose(&self.cell, loss_reason(&why));
                self.check_live()
            }
            _ => {
                self.cell.renewal_failed(self.context.clock.now());
                let what = "the store could not say whether the lease was renewed";
                Err(named(Error::new(ErrorKind::Unknown, what)))
            }
        }
    }

    /// An error when the lock is lost.
    pub(crate) fn check_live(&self) -> Result<(), Error> {
        match self.cell.state() {
            LeaseState::Lost(reason) => Err(Error::lost(reason, Some(self.cell.age()))
                .with_names(&self.cell.fixed.names)
                .with_store(&self.context.display)),
            _ => Ok(()),
        }
    }

    /// Gives the lock back and says what the store found.
    ///
    /// Validity ends before anything is sent. A store that does not answer is asked again for up to
    /// two seconds; after that the keeper goes on until the ttl is over.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the keeper finishes the release.
    pub async fn release(self) -> Released {
        release::release(self).await
    }

    /// As [`Guard::release`], and at once also where the lock was taken with
    /// [`min_hold`](crate::Mutex::min_hold): for work that was not done after all.
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn release_now(self) -> Released {
        self.cell.terms.set_kept(false);
        release::release(self).await
    }

    /// Leaves the lock held for its ttl, without anybody renewing it, and independent of this
    /// process. The ticket has what is needed to renew or release it. The store says that nobody
    /// renews it; [`max_hold`](crate::Mutex::max_hold) cuts what it is left for, and
    /// [`min_hold`](crate::Mutex::min_hold) ends with the guard.
    ///
    /// # Errors
    /// `Lost`, or that the store did not answer; the lock is given back then.
    ///
    /// # Cancel safety
    /// When the future is dropped the lock is given back.
    pub async fn leak(self) -> Result<Ticket, Error> {
        leave(&self.context, &self.cell).await
    }

    /// Ends this guard without giving the lock back, so that another process can
    /// [adopt](crate::Client::adopt) it before its ttl is over.
    ///
    /// # Errors
    /// As [`Guard::leak`].
    ///
    /// # Cancel safety
    /// As [`Guard::leak`].
    pub async fn detach(self) -> Result<Ticket, Error> {
        leave(&self.context, &self.cell).await
    }

    /// The name; the first in order, of several.
    #[must_use]
    pub fn name(&self) -> &LockName {
        self.cell.fixed.names.first()
    }

    /// All names.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.cell.fixed.names
    }

    /// The number that grows with each grant of the name, for the guarded resource to check.
    /// Nothing where the dialect has none.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.tenure.fencing_token
    }

    /// The token of this lease: a secret, with which anybody can renew and release it.
    ///
    /// Whoever asks for it gets a lease that is not passed on inside this process any more.
    #[must_use]
    pub fn token(&self) -> Token {
        self.cell.shared.set_private();
        self.cell.fixed.token
    }

    /// 16 hexadecimal digits that tell this grant from others, and give nothing away.
    #[must_use]
    pub fn token_hash(&self) -> String {
        holder::hash(Proof::from(self.cell.fixed.token).reveal())
    }

    /// How long the holder may still act, unless the lease is renewed; zero when it is lost.
    #[must_use]
    pub fn validity_left(&self) -> Duration {
        self.cell.validity_left()
    }

    /// Whether the holder may act now. Cheap: it asks the clock, not the store.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.cell.is_valid()
    }

    /// Where the lease stands.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        self.cell.state()
    }

    /// When validity ends, on the [clock of the client](crate::Client::clock);
    /// [`Moment::START`] once it is lost.
    #[must_use]
    pub fn deadline(&self) -> Moment {
        self.cell.deadline()
    }

    /// Waits until the deadline is not the one that was `seen`: it was renewed, shortened or lost.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn deadline_changed(&self, seen: Moment) -> Moment {
        self.cell.deadline_changed(seen).await
    }

    /// Waits until the lock is lost, and says why. The keeper's timer ends this at the deadline,
    /// whether or not the store can be reached.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LossReason {
        self.cell.lost().await
    }

    /// When the lock is lost at the latest, on the [clock of the client](crate::Client::clock),
    /// because of [`max_hold`](crate::Mutex::max_hold); nothing without it.
    #[must_use]
    pub fn hold_limit(&self) -> Option<Moment> {
        Some(self.cell.terms.limit).filter(|&limit| limit != Moment::NEVER)
    }

    /// Until when the lock stays held, though it be released before, on the
    /// [clock of the client](crate::Client::clock): its [`min_hold`](crate::Mutex::min_hold); nothing
    /// without it.
    #[must_use]
    pub fn kept_until(&self) -> Option<Moment> {
        Some(self.cell.terms.least_end()).filter(|&until| until != Moment::START)
    }

    /// Says that the work gets on, for [`Mutex::progress_within`](crate::Mutex::progress_within).
    /// Cheap: it asks the clock and not the store.
    pub fn report_progress(&self) {
        if self.cell.report_progress() {
            self.context.keeper.reschedule(&self.cell);
        }
    }

    /// Whether somebody [asked](crate::Client::revoke) for the lock back. It stays held for as long
    /// as the guard lives.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.cell.shared.is_revoked()
    }

    /// Waits until somebody [asks](crate::Client::revoke) for the lock back; for ever, when nobody
    /// does, or the lock is lost or given back first. The request is told by the store at once where
    /// it can, and with each renewal.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # async fn next_page() {}
    /// # async fn example() -> Result<(), fencelock::Error> {
    /// let locks = fencelock::connect("memory:").await?;
    /// let guard = locks.mutex("reindex").lock().await?;
    /// locks.revoke("reindex").await?;
    /// while !guard.is_revoked() {
    ///     tokio::select! {
    ///         () = next_page() => {}
    ///         () = guard.revoked() => {}
    ///     }
    /// #   guard.renew(std::time::Duration::from_secs(30)).await?;
    /// }
    /// guard.release().await;
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn revoked(&self) {
        listening::revoked(&self.context, &self.cell).await;
    }

    /// Ends the guard, and sends nothing: what was granted holds nothing, or is to stay.
    pub(crate) fn let_go(self) {
        self.context.keeper.remove(&self.cell);
        // The drop finds that it is over.
        let _ending = self.cell.releasing();
    }

    /// The number of the grant where it is a right to write: that of a reader or a permit is none.
    pub(crate) fn own_fence(&self) -> Option<FencingToken> {
        let alone = matches!(self.cell().fixed.mode, Mode::Exclusive | Mode::Owned(_));
        self.fencing_token().filter(|_| alone)
    }

    pub(crate) fn held(&self) -> Held {
        Held::new(Arc::clone(&self.context), Arc::clone(&self.cell), self.tenure)
    }

    pub(crate) fn cell(&self) -> &Arc<LeaseCell> {
        &self.cell
    }

    pub(crate) fn age(&self) -> Duration {
        self.cell.age()
    }

    /// Whose hold this is, and how long it has been.
    pub(crate) fn measured(&self) -> (Meter, Duration) {
        let held = self.context.clock.now().saturating_since(self.tenure.since);
        (self.cell.shared.meter.get(), held)
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // A hold that was passed on is over.
        if self.cell.is_current(&self.tenure) {
            release::release_in_background(self);
            // After the release is on its way: the next of this process asks.
            drop(self.cell.end_turn());
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("lease", &self.cell)
            .field("store", &self.context.display)
            .finish()
    }
}
