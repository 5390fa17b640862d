//! Waiting where no line is kept, but somebody says when it makes sense to ask: on a quorum.
//!
//! ```text
//!   ballot --lost--> asleep --told by a node, or the timer--> a pause of chance --> next ballot
//!     |               (a place at each node that was busy)                          (a fresh token;
//!     +--won--> guard                                                        the old places go)
//! ```
//! A node tells the first of its places when the lock is free there, and grants nothing: who gets
//! it comes out of ballots among those who were told, and whoever comes along. Messages are hints.
//! The timer runs until the lease in the way ought to be over, and never longer than the heart-beat
//! that keeps the places. Who can't listen polls.

use std::{sync::Arc, time::Duration};

use fencelock_core::{Acquired, Busy, Moment, PlaceRequest};
use fencelock_store::rt;

use super::{
    polling::{Pace, jitter},
    watch::Watch,
};
use crate::{
    Error, Guard,
    attempt::{Armed, Tried},
    listening::{Letters, Mail, Routed},
};

/// How long a place outlives the last ballot of its waiter: one that died unnoticed is in the way
/// of the hints of a node for so long.
const LIVE: Duration = Duration::from_secs(15);
/// Who heard nothing for so long looks: the price of a hint that went to a process that stands
/// still.
const BEAT: Duration = Duration::from_secs(5);
/// When a lease is over that nobody gave back, all its waiters look, within so long.
const AFTER_LEASE_END: Duration = Duration::from_millis(10);
const ONE_TICK: Duration = Duration::from_millis(1);
/// A turn is told once by the first node, and once more when a majority has told it: then nobody
/// else is told by one.
const TOLD_BY_MAJORITY: u32 = 2;
/// A window of 16 round trips has room for a turn of each of so many as are ever told at once.
const MOST_DOUBLINGS: u32 = 3;
/// Of the pauses that keep ballots apart: as for contenders that nobody tells.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Tries, and sleeps until it makes sense to try again, until the lock is granted or the wait is
/// over.
pub(super) async fn lock(watch: &mut Watch<'_>) -> Result<Guard, Error> {
    let context = watch.context;
    let mut pace = Pace::new(context, &context.settings.retry, watch.end);
    let mut ballots = Ballots::default();
    if let Some(round_trip) = context.contested.wanted(watch.plan.names()) {
        ballots.round_trip = Some(round_trip);
        let (window, now) = (ballots.window(), context.clock.now());
        // Whoever has little time keeps most of it.
        let most = watch.end.saturating_since(now) / 4;
        let begin = now.saturating_add((window + jitter(window)).min(most));
        context.clock.sleep_until(begin).await;
    }
    loop {
        let tried_at = context.clock.now();
        watch.acquiring.asks();
        let error = match ballots.next(watch).await? {
            Tried::Granted(guard) => {
                context.contested.note(watch.plan.names(), ballots.wanted());
                return Ok(guard);
            }
            Tried::Queued(queued, _) => {
                watch.busy(&queued.busy);
                if !ballots.sleep(watch, &queued.busy).await {
                    return Err(watch.expired());
                }
                continue;
            }
            Tried::Busy(busy) => {
                watch.busy(&busy);
                // Nobody has been asked to tell: that is only worth it for whoever has to wait.
                let was_unasked = !std::mem::replace(&mut ballots.listens, true);
                if !was_unasked && !pace.sleep(busy.holder.remaining).await {
                    return Err(watch.expired());
                }
                continue;
            }
            Tried::Failed(error) | Tried::UsedUp(error) => error,
        };
        let error = watch.failed(error, tried_at)?;
        if !pace.sleep_after_failure(watch.patience(&error)).await {
            return Err(error);
        }
    }
}

/// The ballots of one wait.
#[derive(Default)]
struct Ballots {
    /// It had to wait, so it subscribes.
    listens: bool,
    /// What the last one left.
    places: Option<Places>,
    /// How long the quickest took.
    round_trip: Option<Duration>,
    /// How many of those that followed each other did not tell who is alone.
    lost: u32,
    /// How many wait behind the one that was won.
    waiting: u32,
    /// The first was not won.
    had_to_wait: bool,
}

/// The places of a ballot that was lost, at the nodes that were busy. They go with it.
struct Places {
    armed: Armed,
    mail: Arc<Mail>,
    _route: Option<Routed>,
}

impl Ballots {
    async fn next(&mut self, watch: &Watch<'_>) -> Result<Tried, Error> {
        let (context, plan) = (watch.context, watch.plan);
        context.check_open()?;
        context.keeper.start()?;
        let ear = match context.ears.live() {
            None if self.listens => context.ears.open(context, context.call_limit(watch.end)).await,
            live => live,
        };
        let mut request = plan.fresh_request();
        request.barging = true;
        let mail = Arc::<Mail>::default();
        // Before the question can leave: what it leaves may be told of at once.
        let route = ear.as_ref().map(|ear| ear.expect(request.token, &mail));
        let mut armed = Armed::new(context, request, plan.manner);
        armed.hear_with(ear);
        if armed.request().listener.is_some() {
            armed.wish(PlaceRequest::new(plan.ttl(), LIVE), 0);
        }
        let now = context.clock.now();
        let asked = armed.send(now, context.call_limit_from(now, watch.limit())).await;
        let tried = match asked.result {
            Ok(reply) => {
                let received = asked.received.unwrap_or_else(|| context.clock.now());
                let took = received.saturating_since(asked.sent);
                match &reply.answer {
                    Acquired::Granted(grant) => self.waiting = grant.waiting,
                    _ => self.had_to_wait = true,
                }
                self.round_trip = Some(self.round_trip.map_or(took, |quickest| quickest.min(took)));
                armed.answered(reply, asked.sent, received)?
            }
            Err(error) => Tried::Failed(armed.failed(error)?),
        };
        // Behind the question: until then a hint for the old places is one for us. What they are
        // told while they go, a node tells the next.
        let old = match &tried {
            Tried::Queued(..) => self.places.replace(Places { armed, mail, _route: route }),
            _ => self.places.take(),
        };
        if let Some(old) = old {
            old.armed.leave();
        }
        Ok(tried)
    }

    /// Sleeps until it makes sense to ask again; false when the wait is over.
    async fn sleep(&mut self, watch: &Watch<'_>, busy: &Busy) -> bool {
        let Some(places) = &self.places else { return true };
        let clock = &watch.context.clock;
        let beat = BEAT - jitter(BEAT / 4);
        let lease_end = busy.holder.remaining.map(|left| left.saturating_add(ONE_TICK));
        let look_at = clock.now().saturating_add(beat.min(lease_end.unwrap_or(beat)));
        let mut told = places.heard(watch, look_at).await;
        if told < TOLD_BY_MAJORITY {
            // Others were told, too, or have the same timer.
            let window = self.window().max(if told > 0 { Duration::ZERO } else { AFTER_LEASE_END });
            let begin = clock.now().saturating_add(jitter(window));
            told += places.heard(watch, begin).await;
        }
        self.lost = if told < TOLD_BY_MAJORITY { self.lost.saturating_add(1) } else { 0 };
        !watch.is_over()
    }

    /// Whether others want the lock that was granted: how long a ballot takes, if they do.
    fn wanted(&self) -> Option<Duration> {
        self.round_trip.filter(|_| self.had_to_wait || self.waiting > 0)
    }

    /// Within how long the ballots of those that were told begin: so that one of them is through
    /// before the next, mostly; and twice as long each time that this was not enough.
    fn window(&self) -> Duration {
        let round_trip = self.round_trip.unwrap_or(ONE_TICK);
        let factor = 2 << self.lost.min(MOST_DOUBLINGS);
        round_trip.saturating_mul(factor).clamp(ONE_TICK, LONGEST_PAUSE)
    }
}

impl Places {
    /// Waits until we are told to ask, and says how often we were; until a moment at the latest.
    async fn heard(&self, watch: &Watch<'_>, until: Moment) -> u32 {
        let clock = &watch.context.clock;
        let mut look_at = until.min(watch.end);
        loop {
            let Letters { ask, turns, next, .. } = self.mail.take();
            if ask || clock.now() >= look_at {
                // A connection that broke tells us to ask, too: once.
                return turns.max(u32::from(ask));
            }
            let next = next.map_or(Moment::NEVER, |next| next.saturating_add(ONE_TICK));
            look_at = look_at.min(next);
            rt::first(self.mail.news(), clock.sleep_until(look_at)).await;
        }
    }
}
