//! A release that somebody waits for.

use std::{sync::Arc, time::Duration};

use fencelock_core::{LossReason, Moment, ReleaseRequest};
use fencelock_store::{Outcome, StoreError, rt};

use crate::{
    Guard,
    cell::{Ending, LeaseCell},
    context::Context,
    keeper::Job,
    line, policy,
};

/// What a release found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The lock was ours until now; it is free, or kept for the rest of its
    /// [`min_hold`](crate::Mutex::min_hold).
    Held,
    /// It had ended before, or was lost in another way; nobody else was seen to have it.
    Expired,
    /// Somebody else was granted it before the release.
    Taken,
    /// The store did not answer, or could not tell any more. The lock is free at the latest when
    /// its ttl is over; the keeper goes on trying until then.
    Unknown,
}

impl Released {
    /// What a release of several found.
    pub(crate) fn or_worse(self, other: Self) -> Self {
        let rank = |released: Self| match released {
            Self::Held => 0,
            Self::Unknown => 1,
            Self::Expired => 2,
            Self::Taken => 3,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

/// A release is tried for so long before it is handed to the keeper.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Gives back the lease of a guard: to the next who waits for it in this process, if it may go on
/// there, else to the store. Validity ends before anything is sent.
pub(crate) async fn release(mut guard: Guard) -> Released {
    if guard.cell().is_forked() {
        // The lease is the parent's.
        return Released::Unknown;
    }
    if line::pass_on(&mut guard) {
        return Released::Held;
    }
    let (context, cell) = (guard.context(), guard.cell());
    let turn = cell.end_turn();
    let ending = cell.releasing();
    context.keeper.remove(cell);
    let lost = match ending {
        Ending::Expired(reason) => {
            context.report_loss(cell, reason);
            Some(reason)
        }
        Ending::WasLost(reason) => Some(reason),
        Ending::WasHeld | Ending::WasReleased => None,
    };
    if cell.fixed.names.len() == 1 {
        match lost {
            Some(LossReason::Taken | LossReason::Foreign) => return Released::Taken,
            Some(LossReason::Disappeared | LossReason::ExpiredAtStore) => return Released::Expired,
            _ => {}
        }
    }
    let mut unfinished = Unfinished { context, cell, is_over: false };
    let request = cell.release_request();
    let released = {
        let sending = send(context, &request, cell.terms.least_end());
        rt::pin!(sending);
        // The next of this process asks after this release was sent, and does not wait for its
        // answer.
        let early = rt::once(sending.as_mut()).await;
        drop(turn);
        match early {
            Some(released) => released,
            None => sending.await,
        }
    };
    // The token is remembered until the next grant at most, which may have been the very next thing:
    // a late copy of the acquire would be granted again, or take a place.
    let stray = cell.fixed.stray.is_some();
    if (released != Released::Unknown && !stray) || context.is_closed() {
        unfinished.is_over = true;
    }
    match (released, lost) {
        // It was lost before: that the store still had it changes nothing for the holder.
        (Released::Held, Some(_)) => Released::Expired,
        (Released::Expired, Some(LossReason::Taken | LossReason::Foreign)) => Released::Taken,
        (released, _) => released,
    }
}

/// Sends a release until it is answered, for at most two seconds. Before `least_end` the lease is
/// left to the rest of that time instead.
pub(crate) async fn send(
    context: &Context,
    request: &ReleaseRequest,
    least_end: Moment,
) -> Released {
    match try_send(context, request, least_end).await {
        Ok(released) => released,
        Err(error) => {
            tracing::warn!(
                lock = %request.names, store = %context.display, %error,
                "a lock could not be given back; it ends with its ttl"
            );
            Released::Unknown
        }
    }
}

/// The same; what the store would not do, or left open until the end, is an error.
pub(crate) async fn try_send(
    context: &Context,
    request: &ReleaseRequest,
    least_end: Moment,
) -> Result<Released, StoreError> {
    let mut now = context.clock.now();
    let end = now.saturating_add(RELEASE_LIMIT);
    let mut unsure = false;
    let mut pause = FIRST_PAUSE;
    loop {
        let by = context.call_limit_from(now, end);
        let error = match policy::give_back(context, request, least_end, now, by).await {
            Ok(reply) => return Ok(answer(reply.answer, unsure)),
            Err(error) => error,
        };
        unsure |= error.outcome() == Outcome::Unknown;
        let next = context.clock.now().saturating_add(pause);
        if !error.is_passing() || next >= end {
            return Err(error);
        }
        context.clock.sleep_until(next).await;
        now = context.clock.now();
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

/// What an answer means, when an earlier copy of the request may have been carried out: then
/// "taken" and "expired" may be its own trace. A store remembers the token that was released last,
/// and of a name that several held the last few: but others may have held it since.
fn answer(answer: fencelock_core::Released, unsure: bool) -> Released {
    match answer {
        fencelock_core::Released::Held => Released::Held,
        fencelock_core::Released::Expired | fencelock_core::Released::Taken if unsure => {
            Released::Unknown
        }
        fencelock_core::Released::Expired => Released::Expired,
        fencelock_core::Released::Taken => Released::Taken,
        _ => Released::Unknown,
    }
}

/// Hands the release to the keeper, when the caller's future is dropped before it is answered.
struct Unfinished<'a> {
    context: &'a Arc<Context>,
    cell: &'a LeaseCell,
    is_over: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.context.keeper.push(Job::of_lease(self.cell));
        }
    }
}

/// The release of a guard that was dropped: the keeper's work, unless the lease goes on here.
pub(crate) fn release_in_background(guard: &mut Guard) {
    // Nearly always: it was released. Whoever ended a lease has taken it from the keeper, too.
    if guard.cell().is_over() || guard.cell().is_forked() || line::pass_on(guard) {
        return;
    }
    let (context, cell) = (guard.context(), guard.cell());
    let ending = cell.releasing();
    context.keeper.remove(cell);
    if let Ending::Expired(reason) = ending {
        context.report_loss(cell, reason);
    }
    if matches!(ending, Ending::WasHeld | Ending::Expired(_)) {
        context.keeper.push(Job::of_lease(cell));
    }
}

#[cfg(test)]
mod tests {
    use fencelock_core::{
        AcquireRequest, Acquired, InspectRequest, Inspection, Names, Retain, Ttl,
    };
    use fencelock_store::{Fault, FaultyStore, ManualClock, MemoryStore, Store, Verb};

    use super::*;
    use crate::{Client, context::Settings};

    /// Goal: where released tokens are forgotten, a copy of the acquire that arrives after the
    /// release leaves no orphan. Method: the reply of the first copy is lost, the second is
    /// granted; after the release the first is carried out once more.
    #[tokio::test]
    async fn a_copy_that_arrives_after_the_release_is_given_back_where_tokens_are_forgotten() {
        let clock = ManualClock::new();
        let memory = MemoryStore::manual(clock.clone());
        let faulty = FaultyStore::new(memory.clone());
        let settings = Settings { retain: Retain::NOTHING, ..Settings::default() };
        let store: Arc<dyn Store> = Arc::new(faulty.clone());
        let client = Client::assemble(store, settings, None);
        // Nothing was answered before: the first copy has no limit on the store's clock.
        faulty.plan(Verb::Acquire, Fault::LostReply);
        let mutex = client.mutex("job").ttl(Duration::from_secs(3_600));
        let waiter = tokio::spawn(async move { mutex.wait(Duration::from_secs(9)).lock().await });
        while !waiter.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            clock.advance(Duration::from_millis(20));
        }
        let guard = waiter.await.expect("it ends").expect("the second copy is granted");
        let (names, token) = (guard.names().clone(), guard.token());
        assert_eq!(guard.release().await, Released::Held);

        clock.advance(Duration::from_millis(1));
        let mut late = AcquireRequest::new(names, token, Ttl::MAX);
        late.retain = Retain::NOTHING;
        let now = memory.store_now();
        let answer = memory.with_table(|table| table.acquire(&late, now));
        assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
        let request = InspectRequest::new(Names::first(&late.names).clone());
        for _ in 0..5_000 {
            let now = memory.store_now();
            let seen = memory.with_table(|table| table.inspect(&request, now));
            if matches!(seen, Inspection::Free { .. }) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            clock.advance(Duration::from_millis(100));
        }
        panic!("the late copy was not given back");
    }
}
