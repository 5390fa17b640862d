//! A place in the line at the store.
//!
//! It can be waited for again and again: dropping the wait keeps the place, dropping the place gives
//! it up (and what may have been granted to it).
//!
//! ```text
//!   ask --queued--> wait for news, or until `look_at` --granted by message--> guard, at once
//!    ^                  |                                  (validity: see `HandOff::left`)
//!    +------------------+--granted by answer--> guard
//! ```
//! No message is needed: the timer runs until the lease before ought to be over (the first in line
//! looks a little before the others), and never longer than the heart-beat that keeps the place.

use std::{sync::Arc, time::Duration};

use fencelock_core::{Mode, Moment, PlaceRequest, Queued, StoreTime, Ttl};
use fencelock_store::{StoreErrorKind, rt};

use super::{
    polling::{failure_pause, jitter},
    watch::Watch,
};
use crate::{
    BusyView, Error, Guard, Renew,
    attempt::{Armed, Tried},
    context::Context,
    line::Turn,
    listening::{Ear, Letters, Mail, Routed},
    plan::Plan,
};

/// A place, or the wish for one.
pub(crate) struct Place {
    context: Arc<Context>,
    plan: Plan,
    /// The token that has the place; nothing before the first question and after a refusal.
    armed: Option<Armed>,
    mail: Arc<Mail>,
    route: Option<Routed>,
    /// When the last answered question was sent, and when the store saw it.
    asked: Option<(StoreTime, Moment)>,
    /// When to ask again, should nothing be heard.
    look_at: Moment,
    /// How long the last question took: a waiter far away needs a longer claim.
    round_trip: Duration,
    failures: u32,
    position: Option<Position>,
    /// A lease that was granted for shorter than it was asked for, and how long that is.
    short: Option<(Guard, Duration)>,
}

/// Where in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// 1 is the next to be granted the lock.
    pub place: u32,
    /// How many places there are.
    pub waiting: u32,
}

/// A lease that is handed over runs so long until its waiter renews it: the price of one that died.
const SHORTEST_CLAIM: Duration = Duration::from_millis(500);
/// So many in line look when the lease before them ought to be over, one shortly after the other.
/// The rest has the heart-beat: should all of those be gone, it is this that goes on.
const LOOKERS: u32 = 16;
const LOOK_APART: Duration = Duration::from_millis(2);
/// How often the first in line looks whether the process of the holder is gone, in a store on the
/// holder's own machine: a look costs some 10 us there.
const WATCH_EVERY: Duration = Duration::from_millis(120);
/// Who does not insist on its turn asks more often: a message that is lost reserves nothing.
const BARGING_LIVE: Duration = Duration::from_secs(3);

impl Place {
    pub(crate) fn new(context: &Arc<Context>, plan: &Plan) -> Self {
        Self {
            context: Arc::clone(context),
            plan: plan.clone(),
            armed: None,
            mail: Arc::default(),
            route: None,
            asked: None,
            look_at: Moment::START,
            round_trip: Duration::ZERO,
            failures: 0,
            position: None,
            short: None,
        }
    }

    /// Whether this place does for a waiter with another plan.
    pub(crate) fn fits(&self, plan: &Plan) -> bool {
        self.plan.is_same(plan)
    }

    /// Somebody else goes on with it, perhaps in another runtime: one that does not run any more, or
    /// seldom, brings no messages.
    pub(crate) fn taken_over(&mut self) {
        let ear = self.ear();
        let hears = match (&self.route, &ear) {
            (Some(route), Some(ear)) => Arc::ptr_eq(route.ear(), ear),
            _ => false,
        };
        if !hears {
            self.look_at = Moment::START;
        }
    }

    /// Whether the store has it.
    pub(crate) fn is_placed(&self) -> bool {
        self.armed.as_ref().is_some_and(Armed::is_placed)
    }

    /// Where in the line it was at the last answer.
    pub(crate) fn position(&self) -> Option<Position> {
        self.position.filter(|_| self.is_placed())
    }

    /// Asks once, so that there is a place or a guard.
    pub(crate) async fn take(&mut self, watch: &mut Watch<'_>) -> Result<Option<Guard>, Error> {
        while !self.is_placed() {
            if let Some(guard) = self.step(watch, None).await? {
                return Ok(Some(guard));
            }
        }
        Ok(None)
    }

    /// Waits until the lock is granted.
    ///
    /// # Cancel safety
    /// The place is kept until it is dropped itself.
    pub(crate) async fn granted(&mut self, watch: &mut Watch<'_>) -> Result<Guard, Error> {
        self.granted_in(watch, None).await
    }

    pub(super) async fn granted_in(
        &mut self,
        watch: &mut Watch<'_>,
        turn: Option<&Turn>,
    ) -> Result<Guard, Error> {
        loop {
            if let Some(guard) = self.step(watch, turn).await? {
                return Ok(guard);
            }
        }
    }

    /// One step: what was heard, else a wait, else a question.
    async fn step(
        &mut self,
        watch: &mut Watch<'_>,
        turn: Option<&Turn>,
    ) -> Result<Option<Guard>, Error> {
        self.context.check_open()?;
        if self.short.is_some() {
            return self.whole().await;
        }
        if let Some(guard) = self.read_mail().await? {
            return Ok(Some(guard));
        }
        if self.look_at > self.context.clock.now() {
            if watch.is_over() {
                return Err(watch.expired());
            }
            let until = self.look_at.min(watch.end);
            rt::first(self.mail.news(), self.context.clock.sleep_until(until)).await;
            return Ok(None);
        }
        if watch.is_over() && self.asked.is_some() {
            return Err(watch.expired());
        }
        self.ask(watch, turn).await
    }

    /// Takes what was heard. A guard, if it is enough to begin at once.
    async fn read_mail(&mut self) -> Result<Option<Guard>, Error> {
        let Letters { granted, ask, next, .. } = self.mail.take();
        if let Some(next) = next {
            self.look_at = self.look_at.min(next.saturating_add(LOOK_APART + jitter(LOOK_APART)));
        }
        if ask {
            self.look_at = Moment::START;
        }
        let Some((hand_off, heard)) = granted else { return Ok(None) };
        // Whatever comes of it, the store can be asked: it tells the same.
        self.look_at = Moment::START;
        let (Some((seen, sent)), Some(armed)) = (self.asked, &mut self.armed) else {
            return Ok(None);
        };
        // What was for a token that is used up came too late to be taken with it.
        if hand_off.token != armed.request().token {
            return Ok(None);
        }
        let drift = self.context.settings.drift;
        let Some(left) = hand_off.left(seen, sent, heard, drift) else { return Ok(None) };
        let Some(guard) = armed.handed(&hand_off, left, sent, heard)? else { return Ok(None) };
        self.finish();
        self.short = Some((guard, hand_off.claim));
        self.whole().await
    }

    /// A lease that nobody renews is prolonged to its whole ttl before anybody gets it. Until then it
    /// stays here, so that a dropped wait loses nothing.
    async fn whole(&mut self) -> Result<Option<Guard>, Error> {
        let ttl = self.plan.ttl().as_duration();
        let Some((guard, left)) = &self.short else { return Ok(None) };
        if self.plan.manner.renewal == Renew::Manual && *left < ttl {
            // Nobody has it before that is answered, so there is nothing to keep it for.
            guard.cell().terms.set_kept(false);
            if let Err(error) = guard.renew(ttl).await {
                self.short = None;
                self.look_at = Moment::START;
                // A claim that was not taken up in time: there is another turn.
                return if error.is_lost() { Ok(None) } else { Err(error) };
            }
            guard.cell().terms.set_kept(true);
        }
        Ok(self.short.take().map(|(guard, _)| guard))
    }

    fn finish(&mut self) {
        self.armed = None;
        self.route = None;
        self.position = None;
    }

    /// How long a waiter needs to take something up.
    fn pace(&self) -> Ttl {
        let pace = SHORTEST_CLAIM.max(self.round_trip.saturating_mul(4));
        Ttl::new(pace).unwrap_or(Ttl::MAX).min(self.plan.ttl())
    }

    /// For how long the lease is handed over.
    fn claim(&self) -> Ttl {
        match self.plan.mode() {
            // A party that hears too late of its meeting would wait for the next one: this is longer
            // than the heart-beat, and nobody waits for it to be over.
            Mode::Meeting { .. } => {
                Ttl::new(self.plan.ttl().as_duration() / 2).unwrap_or(self.plan.ttl())
            }
            _ => self.pace(),
        }
    }

    async fn ask(
        &mut self,
        watch: &mut Watch<'_>,
        turn: Option<&Turn>,
    ) -> Result<Option<Guard>, Error> {
        self.context.keeper.start()?;
        let (claim, pace) = (self.claim(), self.pace());
        let ear = self.ear();
        let reserve = turn.map_or(0, Turn::reserve);
        let (context, plan) = (Arc::clone(&self.context), &self.plan);
        let armed = self
            .armed
            .get_or_insert_with(|| Armed::new(&context, plan.fresh_request(), plan.manner));
        if let Some(ear) = &ear
            && self.route.as_ref().is_none_or(|route| !Arc::ptr_eq(route.ear(), ear))
        {
            // Before the question can leave: what answers it may come by message.
            self.route = Some(ear.expect(armed.request().token, &self.mail));
        }
        armed.hear_with(ear);
        // It may have broken just now, before it knew of this route.
        let hears = armed.request().listener.is_some();
        let live = live(hears, plan.is_barging(), pace);
        armed.wish(PlaceRequest::new(claim, live), reserve);
        let tried_at = context.clock.now();
        watch.acquiring.asks();
        let asked = armed.send(tried_at, context.call_limit_from(tried_at, watch.limit())).await;
        let sent = asked.sent;
        let tried = match asked.result {
            Ok(reply) => {
                let received = asked.received.unwrap_or_else(|| context.clock.now());
                self.round_trip = received.saturating_since(sent);
                armed.answered(reply, sent, received)?
            }
            // The store took its grant back, and with it the token.
            Err(error) if error.kind() == StoreErrorKind::NotAcknowledged => {
                Tried::UsedUp(armed.failed(error)?)
            }
            Err(error) => Tried::Failed(armed.failed(error)?),
        };
        let error = match tried {
            Tried::Granted(guard) => {
                self.finish();
                let left = guard.cell().remaining_at_grant();
                self.short = Some((guard, left));
                return self.whole().await;
            }
            Tried::Queued(queued, at) => {
                self.asked = at.map(|at| (at, sent));
                self.failures = 0;
                let view = watch.queued(&queued);
                see(turn, view);
                self.queued(&queued, hears, pace, live);
                if !hears {
                    self.open_ear(watch).await;
                }
                return Ok(None);
            }
            Tried::Busy(busy) => {
                // No place was to be had: as without a line.
                see(turn, watch.busy(&busy));
                self.look_at = context.clock.now().saturating_add(pace.as_duration() / 2);
                return Ok(None);
            }
            Tried::Failed(error) => error,
            Tried::UsedUp(error) => {
                self.finish();
                error
            }
        };
        let error = watch.failed(error, tried_at)?;
        let pause = failure_pause(self.failures);
        self.failures += 1;
        let patience = watch.patience(&error);
        let again = context.clock.now().saturating_add(pause);
        context.clock.sleep_until(again.min(patience)).await;
        if context.clock.now() >= patience { Err(error) } else { Ok(None) }
    }

    /// The ear, if this runtime has one.
    fn ear(&self) -> Option<Arc<Ear>> {
        self.context.ears.live()
    }

    /// Subscribes; with success, the store is asked at once, so that it knows.
    async fn open_ear(&mut self, watch: &Watch<'_>) {
        if watch.open_ear().await.is_some() {
            self.look_at = Moment::START;
        }
    }

    fn queued(&mut self, queued: &Queued, hears: bool, pace: Ttl, live: Duration) {
        let (place, waiting) = (queued.position, queued.busy.holder.waiting);
        self.position = Some(Position { place, waiting });
        let beat = if hears { live / 3 } else { pace.as_duration() / 2 };
        // Where a lease ends with its process, only a look finds that out: the first in line looks.
        let watches = place == 1 && self.context.store.capabilities().binding;
        let beat = if watches { beat.min(WATCH_EVERY) } else { beat };
        let beat = beat - jitter(beat / 8);
        let look = match queued.busy.holder.remaining {
            Some(left) if place <= LOOKERS => {
                left.saturating_add(LOOK_APART * place + jitter(LOOK_APART)).min(beat)
            }
            _ => beat,
        };
        self.look_at = self.context.clock.now().saturating_add(look);
    }
}

/// Who is told asks seldom; who is not, often, so that its place is not kept for long.
fn live(hears: bool, is_barging: bool, pace: Ttl) -> Duration {
    match (hears, is_barging) {
        (true, false) => PlaceRequest::LIVE,
        (true, true) => BARGING_LIVE,
        (false, _) => pace.as_duration().saturating_mul(2).max(Duration::from_secs(1)),
    }
}

fn see(turn: Option<&Turn>, view: &BusyView) {
    if let Some(turn) = turn {
        turn.has_seen(view);
    }
}
