//! One release that nobody waits for.
//!
//! ```text
//!   guard dropped:    release ... again until answered, or the lease has ended anyway
//!   acquire unknown:  release ... again until an answer proves that no copy can still arrive
//! ```
//! A task does one try. Between tries a job is a value in the keeper's [`Jobs`](super::jobs::Jobs),
//! so that however many there are, few tasks run.

use std::{future::Future, sync::Arc, time::Duration};

use fencelock_core::{Moment, Names, ReleaseRequest, Released, StoreTime};
use fencelock_store::{Reply, StoreErrorKind, rt};

use crate::{cell::LeaseCell, context::Context, policy};

pub(crate) struct Job {
    request: ReleaseRequest,
    /// Until when the lease is kept instead.
    least_end: Moment,
    /// When the lease is over without us.
    give_up: Moment,
    copies: Copies,
    /// The pause before the next try, should this one fail.
    pause: Duration,
    warned: bool,
}

/// What may still arrive at the store after a release.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Copies {
    /// Nothing: the grant was answered.
    None,
    /// So many requests for the lease whose answers were not seen.
    Some {
        /// How many.
        count: u32,
        /// After this instant of the store's clock it refuses them all; nothing where one of them
        /// went out without such a limit.
        deadline: Option<StoreTime>,
    },
}

impl Job {
    /// Gives back what is known to have been granted.
    pub(crate) fn of_lease(cell: &LeaseCell) -> Self {
        let end = cell.store_end();
        let (copies, give_up) = match cell.fixed.stray {
            None => (Copies::None, end),
            Some(stray) => (stray.copies, end.max(stray.until)),
        };
        let least_end = cell.terms.least_end();
        Self { least_end, ..Self::of_request(cell.release_request(), copies, give_up) }
    }

    /// Gives back what may have been granted, or may yet be.
    pub(crate) fn of_request(request: ReleaseRequest, copies: Copies, give_up: Moment) -> Self {
        let least_end = Moment::START;
        Self { request, least_end, give_up, copies, pause: FIRST_PAUSE, warned: false }
    }

    pub(crate) fn names(&self) -> &Names {
        &self.request.names
    }

    /// One try as a task, which ends as the keeper is told: also by a panic.
    pub(super) fn run(self, context: Arc<Context>) -> impl Future<Output = ()> + Send + 'static {
        let mut turn = Turn { context, again: None };
        async move {
            let again = self.work(&turn.context).await;
            turn.again = again;
            drop(turn);
        }
    }

    /// Tries once. Gives back the job and when to try again, unless it is done.
    async fn work(mut self, context: &Context) -> Option<(Moment, Self)> {
        let now = context.clock.now();
        let by = now.saturating_add(context.settings.request_timeout);
        let result = policy::give_back(context, &self.request, self.least_end, now, by).await;
        match &result {
            Ok(reply) if self.is_final(reply) => return None,
            Ok(_) => {}
            Err(error) if error.kind() == StoreErrorKind::Closed => return None,
            Err(error) => {
                // Also what does not pass by itself is tried on: somebody may mend it, and the
                // lock is in the way of others until then.
                if !error.is_passing() && !self.warned {
                    self.warned = true;
                    tracing::warn!(
                        lock = %self.request.names, store = %context.display, %error,
                        "a lock can't be given back yet; it ends with its ttl"
                    );
                }
            }
        }
        let now = context.clock.now();
        if now >= self.give_up {
            return None;
        }
        let jitter = self.pause.mul_f64(f64::from(rt::chance()) / f64::from(u32::MAX) / 4.0);
        let again = now.saturating_add(self.pause - jitter).min(self.give_up);
        self.pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
        Some((again, self))
    }

    /// Whether no copy of the acquire can make a lease after this answer.
    fn is_final(&self, reply: &Reply<Released>) -> bool {
        match self.copies {
            Copies::None => true,
            Copies::Some { count, deadline } => {
                // A freed lease was the only copy. Of more of them, only the deadline says that they
                // come too late: the next who is granted the lock is remembered in place of it. A
                // place says nothing: an earlier question may have left it, whose answer was seen.
                let only = reply.answer == Released::Held && count == 1;
                let refused = deadline.zip(reply.at).is_some_and(|(deadline, at)| at > deadline);
                only || refused
            }
        }
    }
}

/// Short enough that a name is free soon after the store answers again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The place of a try among those that run; given up when it ends.
struct Turn {
    context: Arc<Context>,
    again: Option<(Moment, Job)>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.context.keeper.tried(self.again.take());
    }
}

#[cfg(test)]
mod tests {
    use fencelock_core::{LockName, StoreTime};

    use super::*;

    #[test]
    fn a_place_that_was_given_up_proves_no_copy_to_be_gone() {
        let name = LockName::new("job").expect("a name");
        let request = ReleaseRequest::new(name, rt::fresh_token());
        let deadline = StoreTime::from_micros(100);
        let copies = Copies::Some { count: 1, deadline: Some(deadline) };
        let job = Job::of_request(request, copies, Moment::NEVER);
        let answered = |answer, at| Reply::new(answer).at(StoreTime::from_micros(at));
        assert!(!job.is_final(&answered(Released::Withdrawn, 100)));
        assert!(job.is_final(&answered(Released::Withdrawn, 101)));
        assert!(job.is_final(&answered(Released::Held, 100)));
        let copies = Copies::Some { count: 2, deadline: Some(deadline) };
        let job = Job { copies, ..job };
        assert!(!job.is_final(&answered(Released::Held, 100)), "the next is remembered instead");
        assert!(job.is_final(&answered(Released::Taken, 101)));
    }
}
