//! Several names that no store can take in one step: in different slots of a cluster.
//!
//! ```text
//!   part 1 --granted--> part 2 --granted--> ... the largest fencing token is written back to every
//!      \__ an error, a wait that ends, a drop: what was taken is given back   member --> guard
//! ```
//! A part is what the store takes in one step: the names of one slot. Parts are taken in the store's
//! order, which is the same for everybody, so that two sets never wait for each other in a circle.
//! Each part is a lock of its own, with a guard, a lease and a renewal of its own; the set is lost as
//! soon as one of them is. While the set waits for a part, it holds those before it.

use std::{future::Future, sync::Arc, time::Duration};

use fencelock_core::{
    FencingToken, LeaseState, LossReason, Moment, Names, RaiseFenceRequest, Raised, Refusal,
};

use crate::{
    Attempt, Error, ErrorKind, Guard, Held, Mutex, Order, Released, Wait,
    context::{Context, loss_reason},
    run,
    taken::{Taken, first},
    telemetry::Running,
};

impl Mutex {
    /// Takes names that are in different slots of a cluster, one slot after the other; all or
    /// nothing in the end, but not in one step.
    ///
    /// What it costs against names with one hash tag, which a cluster takes in one step: a question
    /// for each slot and another to write the fencing token back; and while it waits for one slot,
    /// others find those before it busy. Whoever uses it for a set should do so everywhere.
    ///
    /// On a store that keeps all names in one place the set is taken in one step all the same.
    ///
    /// # Examples
    /// ```
    /// # async fn example() -> Result<(), fencelock::Error> {
    /// let locks = fencelock::connect("memory:").await?;
    /// let guard = locks.mutexes(["account:1", "account:2"]).across_slots().lock().await?;
    /// assert!(guard.is_valid() && guard.fencing_token().is_some());
    /// assert_eq!(guard.release().await, fencelock::Released::Held);
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn across_slots(self) -> AcrossSlots {
        AcrossSlots { mutex: self }
    }
}

/// The recipe for a set of names in different slots: see [`Mutex::across_slots`].
#[derive(Clone, Debug)]
#[must_use = "a recipe does nothing until one of its verbs is called"]
pub struct AcrossSlots {
    mutex: Mutex,
}

impl AcrossSlots {
    /// Waits for all names and takes them. The wait of the recipe is for all of it.
    ///
    /// # Errors
    /// As [`Mutex::lock`]; `Lost` when a part was lost while the others were waited for.
    ///
    /// # Cancel safety
    /// Dropping the future gives back every part, as [`Mutex::lock`] does for one.
    pub async fn lock(&self) -> Result<AcrossGuard, Error> {
        let end = match self.mutex.wait.span() {
            Some(span) if !span.is_zero() => {
                Some(self.mutex.context().clock.now().saturating_add(span))
            }
            _ => None,
        };
        let mut taken = Taken::default();
        for mut part in self.parts()? {
            if let Some(end) = end {
                let left = end.saturating_since(part.context().clock.now());
                // A wait that is over is one try, as any other wait of no time.
                part = part.wait(Wait::For(left));
            }
            match part.lock().await {
                Ok(guard) => taken.push(guard),
                Err(error) if error.is_wait_expired() => {
                    taken.roll_back().await;
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        self.joined(taken, end.unwrap_or(Moment::NEVER)).await
    }

    /// Tries to take all names, once.
    ///
    /// # Errors
    /// As [`Mutex::try_lock`], and as [`AcrossSlots::lock`].
    ///
    /// # Cancel safety
    /// As [`AcrossSlots::lock`].
    pub async fn try_lock(&self) -> Result<Attempt<AcrossGuard>, Error> {
        let mut taken = Taken::default();
        for part in self.parts()? {
            match part.try_lock().await? {
                Attempt::Granted(guard) => taken.push(guard),
                Attempt::Busy(busy) => {
                    taken.roll_back().await;
                    return Ok(Attempt::Busy(busy));
                }
            }
        }
        // One question to each part, as it was one try to take it.
        self.joined(taken, Moment::START).await.map(Attempt::Granted)
    }

    /// Waits for all names, does the work, and gives them back: see [`Mutex::run`]. The work sees
    /// the fencing token and the validity of the set.
    ///
    /// # Errors
    /// As [`Mutex::run`].
    ///
    /// # Cancel safety
    /// As [`Mutex::run`].
    pub async fn run<F, Fut, T>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce(AcrossHeld) -> Fut,
        Fut: Future<Output = T>,
    {
        let running = Running::begin(&self.mutex);
        let result = running.span().within(self.run_held(&running, work)).await;
        running.ended(result)
    }

    async fn run_held<F, Fut, T>(&self, running: &Running, work: F) -> Result<T, Error>
    where
        F: FnOnce(AcrossHeld) -> Fut,
        Fut: Future<Output = T>,
    {
        let context = self.context();
        let guard = self.lock().await?;
        running.granted(guard.fencing_token);
        let held = guard.held();
        let work = || work(held.clone());
        let done = run::scoped(context, &held.names, work, || held.loss(), held.lost()).await;
        match done {
            Ok(output) => guard.finish(output).await,
            Err(reason) => Err(held.error(reason, guard.age())),
        }
    }

    #[cfg(feature = "blocking")]
    pub(crate) const fn recipe(&self) -> &Mutex {
        &self.mutex
    }

    fn context(&self) -> &Arc<Context> {
        self.mutex.context()
    }

    /// A recipe for each part, in the order in which they are taken.
    fn parts(&self) -> Result<Vec<Mutex>, Error> {
        let context = self.context();
        let names = self.mutex.names.clone().map_err(Error::config)?;
        context.check_open()?;
        run::check_nesting(context, &names)?;
        let part = |names: Names| {
            let mut part = self.mutex.clone();
            part.names = Ok(names);
            // A lease that is passed on inside of this process would leave its set.
            if part.order == Order::Turns {
                part.order = Order::Strict;
            }
            part
        };
        let parts: Vec<_> = context.store.parts(&names).into_iter().map(part).collect();
        let can = context.store.capabilities();
        if parts.len() > 1 && can.fencing && !can.writes_fences {
            let what = "the fencing tokens of this dialect can't be one for names in several slots";
            return Err(Error::new(ErrorKind::Unsupported, what)
                .with_names(&names)
                .with_store(&context.display));
        }
        Ok(parts)
    }

    /// Makes one grant of several. On an error the guards go, and give back what they have.
    async fn joined(&self, taken: Taken, end: Moment) -> Result<AcrossGuard, Error> {
        let names = self.mutex.names.clone().map_err(Error::config)?;
        let store = Arc::clone(&self.context().display);
        let mut set = AcrossGuard { names, store, taken, fencing_token: None };
        set.fencing_token = set.guards().iter().filter_map(Guard::fencing_token).max();
        if let Some(largest) = set.fencing_token.filter(|_| set.guards().len() > 1) {
            set.fencing_token = Some(raise_all(set.guards(), largest, end).await?);
        }
        set.taken.check_whole()?;
        Ok(set)
    }
}

/// Writes a fencing token to every part that has not granted it itself. Says which it came to.
async fn raise_all(
    guards: &[Guard],
    mut largest: FencingToken,
    end: Moment,
) -> Result<FencingToken, Error> {
    /// A record is ahead of its own grant only by what this process wrote; each round learns it.
    const ROUNDS_MAX: usize = 4;
    for _ in 0..ROUNDS_MAX {
        let mut ahead = None;
        for guard in guards.iter().filter(|guard| guard.fencing_token() != Some(largest)) {
            ahead = ahead.max(raise(guard, largest, end).await?);
        }
        match ahead {
            None => return Ok(largest),
            Some(behind) => {
                // One above, so that it is above that record, too.
                let above = FencingToken::new(behind.as_u64() + 1);
                let exhausted = |_| Error::new(ErrorKind::FenceAhead, "no fencing token is left");
                largest = above.map_err(exhausted)?;
            }
        }
    }
    let what = "the fencing tokens of the set do not come together";
    Err(Error::new(ErrorKind::Internal, what))
}

/// Writes a fencing token to one part. Says which the record has, where that is larger.
async fn raise(
    guard: &Guard,
    to: FencingToken,
    end: Moment,
) -> Result<Option<FencingToken>, Error> {
    const FIRST_PAUSE: Duration = Duration::from_millis(5);
    const LONGEST_PAUSE: Duration = Duration::from_millis(100);
    let context: &Arc<Context> = guard.context();
    let named = |error: Error| error.with_names(guard.names()).with_store(&context.display);
    let request = RaiseFenceRequest::new(guard.names().clone(), guard.cell().fixed.token, to);
    let mut pause = FIRST_PAUSE;
    loop {
        guard.check_live()?;
        let by = context.call_limit(guard.deadline());
        let asked = context.ask(context.store.raise_fence(&request, by)).await;
        match asked.result.map(|reply| reply.answer) {
            Ok(Raised::Raised) => return Ok(None),
            Ok(Raised::Behind(record)) => return Ok(Some(record)),
            Ok(Raised::NotHeld(why)) => {
                context.lose(guard.cell(), loss_reason(&why));
                guard.check_live()?;
                return Err(named(Error::lost(loss_reason(&why), None)));
            }
            Ok(Raised::Refused(refusal)) => {
                let kind = match refusal {
                    Refusal::FenceAhead => ErrorKind::FenceAhead,
                    _ => ErrorKind::Internal,
                };
                return Err(named(Error::new(kind, refusal.to_string())));
            }
            Ok(_) => {
                let what = "an answer of an unknown kind";
                return Err(named(Error::new(ErrorKind::Internal, what)));
            }
            // A copy does no harm: what this token wrote is accepted again.
            Err(error) if error.is_passing() => {
                let next = context.clock.now().saturating_add(pause);
                // Renewal moves the deadline on; the wait of the caller ends all the same.
                if next >= guard.deadline().min(end) {
                    return Err(named(Error::from_store(error)));
                }
                context.clock.sleep_until(next).await;
                pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            }
            Err(error) => return Err(named(Error::from_store(error))),
        }
    }
}

/// A set of names in different slots, held. Dropping it gives all of them back.
///
/// The lock is exclusive while [`AcrossGuard::is_valid`], which is while every part is.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
#[clippy::has_significant_drop]
pub struct AcrossGuard {
    names: Names,
    store: Arc<str>,
    taken: Taken,
    fencing_token: Option<FencingToken>,
}

impl AcrossGuard {
    fn guards(&self) -> &[Guard] {
        self.taken.guards()
    }

    pub(crate) fn held(&self) -> AcrossHeld {
        let parts = self.guards().iter().map(Guard::held).collect();
        AcrossHeld {
            names: self.names.clone(),
            store: Arc::clone(&self.store),
            parts,
            fencing_token: self.fencing_token,
        }
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn around(&self) -> Vec<run::Around> {
        let around = |guard: &Guard| {
            run::Around::of(guard.context(), guard.names(), &guard.cell().fixed.mode)
        };
        self.guards().iter().map(around).collect()
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn check_live(&self) -> Result<(), Error> {
        match self.held().loss() {
            None => Ok(()),
            Some(reason) => Err(self.held().error(reason, self.age())),
        }
    }

    /// Gives all names back after scoped work.
    pub(crate) async fn finish<T>(self, output: T) -> Result<T, Error> {
        let (held, age) = (self.held(), self.age());
        if let Some(reason) = held.loss() {
            return Err(held.error(reason, age));
        }
        match self.release().await {
            Released::Taken => Err(held.error(LossReason::Taken, age)),
            Released::Expired => Err(held.error(LossReason::ExpiredAtStore, age)),
            Released::Held | Released::Unknown => Ok(output),
        }
    }

    fn age(&self) -> Duration {
        self.guards().iter().map(Guard::age).min().unwrap_or_default()
    }

    /// All names.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// One number for the set, larger than every earlier one of each of its names; the next grant
    /// of each name is larger. Nothing where the dialect has none.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing_token
    }

    /// Whether the holder may act now.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.guards().iter().all(Guard::is_valid)
    }

    /// How long the holder may still act, unless the leases are renewed; zero when one is lost.
    #[must_use]
    pub fn validity_left(&self) -> Duration {
        self.guards().iter().map(Guard::validity_left).min().unwrap_or_default()
    }

    /// When validity ends, on the [clock of the client](crate::Client::clock);
    /// [`Moment::START`] once it is lost.
    #[must_use]
    pub fn deadline(&self) -> Moment {
        self.guards().iter().map(Guard::deadline).min().unwrap_or(Moment::START)
    }

    /// Waits until the first name is lost, and says why.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LossReason {
        first(self.guards().iter().map(Guard::lost)).await
    }

    /// Prolongs all leases: see [`Guard::renew`].
    ///
    /// # Errors
    /// As [`Guard::renew`], the first of the parts that has one.
    ///
    /// # Cancel safety
    /// As [`Guard::renew`].
    pub async fn renew(&self, ttl: Duration) -> Result<(), Error> {
        for guard in self.guards() {
            guard.renew(ttl).await?;
        }
        Ok(())
    }

    /// Whether somebody [asked](crate::Client::revoke) for one of the names back.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.guards().iter().any(Guard::is_revoked)
    }

    /// Waits until somebody [asks](crate::Client::revoke) for one of the names back.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn revoked(&self) {
        first(self.guards().iter().map(Guard::revoked)).await;
    }

    /// Gives all names back at once, the last taken first, and says the worst that was found. A store
    /// that does not answer is asked again for up to two seconds.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the keeper finishes the release.
    pub async fn release(self) -> Released {
        self.taken.release().await
    }
}

/// What the work of [`AcrossSlots::run`] sees of its set. Clones see the same; none of them keeps
/// the lock.
#[derive(Clone, Debug)]
pub struct AcrossHeld {
    names: Names,
    store: Arc<str>,
    parts: Arc<[Held]>,
    fencing_token: Option<FencingToken>,
}

impl AcrossHeld {
    /// All names.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// As [`AcrossGuard::fencing_token`].
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing_token
    }

    /// Whether the work may go on: see [`Held::is_valid`].
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.parts.iter().all(Held::is_valid)
    }

    /// How long the work may still act, unless the leases are renewed.
    #[must_use]
    pub fn validity_left(&self) -> Duration {
        self.parts.iter().map(Held::validity_left).min().unwrap_or_default()
    }

    /// Waits until the first name is lost; for ever, when all are released instead.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LossReason {
        first(self.parts.iter().map(Held::lost)).await
    }

    fn error(&self, reason: LossReason, age: Duration) -> Error {
        Error::lost(reason, Some(age)).with_names(&self.names).with_store(&self.store)
    }

    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.parts.iter().find_map(|part| match part.state() {
            LeaseState::Lost(reason) => Some(reason),
            _ => None,
        })
    }
}
