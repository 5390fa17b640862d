//! How long a lease is held: at least, at most, and only while its holder gets on.
//!
//! ```text
//!    grant            release                 min_hold                        max_hold
//!    |====== held ======|--- kept, un-renewed ---|                               |
//!    |================================ held, renewed ============================| lost
//! ```
//! A lease that is released before `min_hold` is over is not given back but left to the rest of it:
//! nobody renews it from then on, and the store says so.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use fencelock_core::{
    Drift, Moment, NotHeld, ReleaseRequest, Released, RenewRequest, Renewed, ShortenRequest,
    Shortened, Ttl,
};
use fencelock_store::{Reply, StoreError, StoreResult};

use crate::context::Context;

/// What the recipe of a lock says about holding it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) min_hold: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) progress_within: Option<Duration>,
    /// The store is told that nobody will renew the lease.
    pub(crate) unattended: bool,
}

/// The policy of one lease as moments, and what its holder says of its work.
#[derive(Debug)]
pub(crate) struct Terms {
    least_end: Moment,
    /// Validity never goes beyond this.
    pub(crate) limit: Moment,
    progress_within: Option<Duration>,
    unattended: bool,
    reported: AtomicU64,
    /// A renewal was due and not sent, for want of progress.
    stalled: AtomicBool,
    /// Somebody waits for it to be asked back, and the store was asked to tell.
    listens: AtomicBool,
    /// It is kept for its least time, as the policy says.
    kept: AtomicBool,
}

impl Terms {
    /// For a grant that was asked for at `since` and `answered`: the store made it in between, so the
    /// one end counts from the one and the other from the other.
    pub(crate) fn new(policy: Policy, since: Moment, answered: Moment) -> Self {
        let least_end = match policy.min_hold {
            Duration::ZERO => Moment::START,
            min_hold => answered.saturating_add(min_hold),
        };
        Self {
            least_end,
            limit: policy.max_hold.map_or(Moment::NEVER, |most| since.saturating_add(most)),
            progress_within: policy.progress_within,
            unattended: policy.unattended,
            reported: AtomicU64::new(answered.as_nanos()),
            stalled: AtomicBool::new(false),
            listens: AtomicBool::new(false),
            kept: AtomicBool::new(true),
        }
    }

    /// Until when it is kept, whenever it is released.
    pub(crate) fn least_end(&self) -> Moment {
        if self.kept.load(Ordering::Acquire) { self.least_end } else { Moment::START }
    }

    /// Whether a release leaves it to its least time, or gives it back at once.
    pub(crate) fn set_kept(&self, kept: bool) {
        self.kept.store(kept, Ordering::Release);
    }

    /// Notes that the work got on. True when the keeper had given it up and has to be woken.
    pub(crate) fn report(&self, now: Moment) -> bool {
        // Whichever of this and `check_progress` comes second sees what the other wrote.
        self.reported.fetch_max(now.as_nanos(), Ordering::SeqCst);
        self.stalled.swap(false, Ordering::SeqCst)
    }

    /// Whether a renewal that is due at `now` must not be sent.
    pub(crate) fn check_stalled(&self, now: Moment) -> bool {
        let Some(within) = self.progress_within else { return false };
        self.stalled.store(true, Ordering::SeqCst);
        let reported = Moment::from_nanos(self.reported.load(Ordering::SeqCst));
        let stalled = now >= reported.saturating_add(within);
        if !stalled {
            self.stalled.store(false, Ordering::SeqCst);
        }
        stalled
    }

    /// True for the one who asks the store to tell this process of the lease.
    pub(crate) fn begin_to_listen(&self) -> bool {
        !self.listens.swap(true, Ordering::Relaxed)
    }

    /// Whether the store is told that nobody renews the lease.
    pub(crate) fn is_unattended(&self) -> bool {
        self.unattended
    }

    /// What of a ttl is asked for in a request that is sent at `now`.
    pub(crate) fn cut(&self, ttl: Ttl, drift: Drift, now: Moment) -> Ttl {
        if self.limit == Moment::NEVER {
            return ttl;
        }
        cut(ttl, drift, self.limit.saturating_since(now))
    }
}

/// The shorter of a ttl and one whose validity is at least `most`: no more of a lease is worth asking
/// for, and a holder that dies is missed the sooner.
pub(crate) fn cut(ttl: Ttl, drift: Drift, most: Duration) -> Ttl {
    let mut long_enough = most;
    for _ in 0..APPROACHES {
        let short_by = most.saturating_sub(drift.validity(long_enough));
        if short_by.is_zero() {
            break;
        }
        long_enough = long_enough.saturating_add(short_by);
    }
    // Out of range above, it is longer than any ttl; below, the shortest there is will do.
    Ttl::new(long_enough.max(Ttl::MIN.as_duration())).map_or(ttl, |enough| enough.min(ttl))
}

/// Each of them at least halves what is missing, at the largest drift there is.
const APPROACHES: u32 = 32;

/// Gives a lease back or, before `least_end`, leaves it to the rest of that time. It is `now`.
pub(crate) async fn give_back(
    context: &Context,
    request: &ReleaseRequest,
    least_end: Moment,
    now: Moment,
    by: Moment,
) -> StoreResult<Released> {
    match rest(least_end, now) {
        None => context.ask_at(now, context.store.release(request, by)).await.result,
        Some(rest) => keep(context, request, rest, least_end, by).await,
    }
}

/// What is left of the time for which a lease is kept.
fn rest(least_end: Moment, now: Moment) -> Option<Ttl> {
    let rest = least_end.saturating_since(now);
    let in_range = rest.clamp(Ttl::MIN.as_duration(), Ttl::MAX.as_duration());
    Ttl::new(in_range).ok().filter(|_| !rest.is_zero())
}

/// Makes the lease end when `rest` is over, without anybody renewing it. Harmless twice.
async fn keep(
    context: &Context,
    request: &ReleaseRequest,
    ttl: Ttl,
    least_end: Moment,
    by: Moment,
) -> StoreResult<Released> {
    // A renewal first: the lease may have less to run, and the store shall say that it is the last.
    let mut last = RenewRequest::new(request.names.clone(), request.token, ttl);
    last.retain = request.retain;
    last.unattended = true;
    let batch = [last];
    let reply = context.ask(context.store.renew(&batch, by)).await.result?;
    let answered = |answer| Reply::new(answer).of(reply.incarnation.clone());
    let answered = |answer| match reply.at {
        Some(at) => answered(answer).at(at),
        None => answered(answer),
    };
    let remaining = match reply.answer.into_iter().next() {
        Some(Renewed::Extended { remaining, .. }) => remaining,
        Some(Renewed::NotHeld(why)) => return Ok(answered(ended(&why))),
        _ => return Err(StoreError::unknown("the store could not say whether it keeps the lease")),
    };
    if remaining <= ttl.as_duration() {
        return Ok(answered(Released::Held));
    }
    let ttl = rest(least_end, context.clock.now()).unwrap_or(Ttl::MIN);
    let mut shorter = ShortenRequest::new(request.names.clone(), request.token, ttl);
    shorter.retain = request.retain;
    let shortened = context.ask(context.store.shorten(&shorter, by)).await.result?;
    Ok(shortened.map(|answer| match answer {
        Shortened::NotHeld(why) => ended(&why),
        _ => Released::Held,
    }))
}

fn ended(why: &NotHeld) -> Released {
    match why {
        NotHeld::Taken | NotHeld::Foreign(_) => Released::Taken,
        _ => Released::Expired,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_least_counts_from_the_answer_and_the_most_from_the_sending() {
        let policy =
            Policy { min_hold: millis(50), max_hold: Some(millis(90)), ..Policy::default() };
        let terms = Terms::new(policy, at(100), at(107));
        assert_eq!((terms.least_end(), terms.limit), (at(157), at(190)));
        terms.set_kept(false);
        assert_eq!(terms.least_end(), Moment::START);
        let terms = Terms::new(Policy::default(), at(100), at(107));
        assert_eq!((terms.least_end(), terms.limit), (Moment::START, Moment::NEVER));
    }

    #[test]
    fn a_rest_is_over_at_its_very_end() {
        assert_eq!(rest(at(100), at(100)), None);
        assert_eq!(rest(at(100), at(99)), Some(Ttl::MIN));
        assert_eq!(rest(at(100), at(80)).map(Ttl::as_duration), Some(millis(20)));
    }

    #[test]
    fn want_of_progress_stops_renewals_from_its_very_instant_until_a_report() {
        let policy = Policy { progress_within: Some(millis(50)), ..Policy::default() };
        let terms = Terms::new(policy, at(0), at(10));
        assert!(!terms.check_stalled(at(59)));
        assert!(!terms.report(at(20)), "nobody has to be woken");
        assert!(!terms.check_stalled(at(69)));
        assert!(terms.check_stalled(at(70)));
        assert!(terms.report(at(75)));
        assert!(!terms.check_stalled(at(76)));
        // A report of a thread that was slow to write it down takes nothing back.
        terms.report(at(30));
        assert!(!terms.check_stalled(at(124)));
    }

    proptest! {
        #[test]
        fn a_ttl_is_cut_to_what_reaches_the_limit_and_to_little_more(
            ttl in 10u64..100_000,
            most in 10u64..200_000,
            rate in 0u32..=1_000_000,
        ) {
            let drift = Drift::DEFAULT.rate_ppm(rate);
            let ttl = Ttl::from_millis(ttl).expect("a ttl");
            let cut = cut(ttl, drift, millis(most));
            prop_assert!(cut <= ttl);
            let enough = drift.validity(cut.as_duration()) >= millis(most);
            prop_assert!(enough || cut == ttl, "{cut} of {ttl}");
            let shorter = cut.as_duration().saturating_sub(millis(2));
            let worth_more = drift.validity(shorter) >= millis(most);
            prop_assert!(!worth_more || cut == Ttl::MIN, "{cut}");
        }
    }
}
