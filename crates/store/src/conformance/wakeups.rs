//! What is told, and to whom.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, Acquired, HandOff, ListenerId, LockName, PlaceRequest, ReleaseRequest,
    Released, RenewRequest, Token, Wakeup,
};

use super::{
    Harness,
    support::{Ask as _, MINUTE, assert_unsupported, name, request, secs, token, ttl},
};
use crate::{Hints, Store, Subscription, WakeupSink, rt};

/// Keeps what it hears.
#[derive(Default)]
pub(super) struct Ear {
    heard: Mutex<Vec<Wakeup>>,
    broken: Mutex<bool>,
    news: rt::sync::Notify,
}

impl WakeupSink for Ear {
    fn wake(&self, wakeup: Wakeup) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(wakeup);
        self.news.notify_one();
    }

    fn broken(&self) {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.news.notify_one();
    }
}

impl Ear {
    /// The bound of what is due at once; a store that never tells anybody fails by it.
    const HEARS_WITHIN: Duration = secs(20);

    pub(super) fn heard(&self) -> Vec<Wakeup> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_broken(&self) -> bool {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first message that fits.
    pub(super) async fn hears<T>(&self, what: impl Fn(&Wakeup) -> Option<T>) -> T {
        let found = async {
            loop {
                if let Some(found) = self.heard().iter().find_map(&what) {
                    return found;
                }
                self.news.notified().await;
            }
        };
        match rt::timeout(Self::HEARS_WITHIN, found).await {
            Some(found) => found,
            None => panic!("it was not told; it heard {:?}", self.heard()),
        }
    }
}

/// A subscription; nothing where the store has none, and says so.
pub(super) async fn listening(store: &impl Store) -> Option<(Arc<Ear>, Subscription)> {
    let ear = Arc::new(Ear::default());
    let result = store.listen(Arc::clone(&ear) as Arc<dyn WakeupSink>, store.by()).await;
    if store.capabilities().wakeups {
        return Some((ear, result.expect("the store can be listened to")));
    }
    assert_unsupported(result.map(|_| "a subscription"));
    None
}

/// The same of a store that has lines. One without them has nothing to hand over: it only says when
/// it makes sense to ask.
async fn in_line(store: &impl Store) -> Option<(Arc<Ear>, Subscription)> {
    listening(store).await.filter(|_| store.capabilities().queue)
}

/// A request that waits, and is told at `listener`.
pub(super) fn waiting(at: LockName, token: Token, listener: Option<ListenerId>) -> AcquireRequest {
    let mut waits = request(at, token);
    waits.listener = listener;
    waits.place = Some(PlaceRequest::new(ttl(secs(10)), MINUTE));
    waits
}

fn granted(wakeup: &Wakeup) -> Option<HandOff> {
    match wakeup {
        Wakeup::Granted(hand_off) => Some(*hand_off),
        _ => None,
    }
}

fn next(wakeup: &Wakeup) -> Option<(Token, Duration)> {
    match wakeup {
        Wakeup::Next(token, left) => Some((*token, *left)),
        _ => None,
    }
}

fn waiting_behind(wakeup: &Wakeup) -> Option<Token> {
    match wakeup {
        Wakeup::Waiting(token) => Some(*token),
        _ => None,
    }
}

fn revoked(wakeup: &Wakeup) -> Option<Token> {
    match wakeup {
        Wakeup::Revoked(token) => Some(*token),
        _ => None,
    }
}

fn turn(wakeup: &Wakeup) -> Option<Token> {
    match wakeup {
        Wakeup::Turn(token) => Some(*token),
        _ => None,
    }
}

pub async fn a_release_hands_the_lease_to_the_next_and_tells_it(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let (first, second) = (token(), token());
    let Some((ear, subscription)) = in_line(&other).await else { return };
    let held = store.take_fenced(name("k"), first).await;
    let waits = waiting(name("k"), second, Some(subscription.listener));
    other.queue(&waits, 1).await;
    assert_eq!(store.give_back(name("k"), first).await, Released::Held);
    let hand_off = ear.hears(granted).await;
    assert_eq!(hand_off.token, second);
    assert!(hand_off.fencing_token > Some(held), "{hand_off:?} after {held}");
    assert_eq!((hand_off.claim, hand_off.waiting, hand_off.last_fence), (secs(10), 0, None));
    other.assert_held_by(&name("k"), second).await;
    // What it was told is what it finds.
    let grant = other.fetch(&waits).await;
    assert_eq!(grant.fence.token(), hand_off.fencing_token);
    assert!(grant.remaining <= hand_off.claim, "{grant:?}");
}

pub async fn a_hand_over_says_which_question_of_the_waiter_it_answers(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let Some((ear, subscription)) = in_line(&other).await else { return };
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let mut waits = waiting(name("k"), token(), Some(subscription.listener));
    waits.reserve = 7;
    other.queue(&waits, 1).await;
    other.queue(&waiting(name("k"), token(), None), 2).await;
    // The second question counts, since its answer is the last that the waiter knows.
    harness.advance(&store, secs(5)).await;
    let reply = other.acquire(&waits, other.by()).await.expect("the store answers");
    assert!(matches!(reply.answer, Acquired::Queued(_)), "{:?}", reply.answer);
    harness.advance(&store, secs(5)).await;
    let request = ReleaseRequest::new(name("k"), holder);
    let release = store.release(&request, store.by()).await.expect("the store answers");
    let hand_off = ear.hears(granted).await;
    assert_eq!(Some(hand_off.seen), reply.at, "the time of the answer to the last question");
    assert_eq!(Some(hand_off.at), release.at, "the time of the release");
    assert_eq!(hand_off.waiting, 1);
    let last = hand_off.fencing_token.and_then(|first| first.plus(7));
    assert_eq!(hand_off.last_fence, last);
}

pub async fn only_the_one_whose_turn_it_is_hears_of_a_release(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let Some((first_ear, first)) = in_line(&store).await else { return };
    let Some((second_ear, second)) = in_line(&other).await else { return };
    assert_ne!(first.listener, second.listener);
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let waits = waiting(name("k"), token(), Some(first.listener));
    let behind = waiting(name("k"), token(), Some(second.listener));
    store.queue(&waits, 1).await;
    other.queue(&behind, 2).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    assert_eq!(first_ear.hears(granted).await.token, waits.token);
    // The other is the first in line now, and learns when to look.
    assert_eq!(second_ear.hears(next).await, (behind.token, secs(10)));
    assert_eq!(store.give_back(name("k"), waits.token).await, Released::Held);
    let hand_off = second_ear.hears(granted).await;
    assert_eq!((hand_off.token, hand_off.waiting), (behind.token, 0));
    let all = second_ear.heard();
    assert_eq!(all, [Wakeup::Next(behind.token, secs(10)), Wakeup::Granted(hand_off)]);
    assert_eq!(first_ear.heard().iter().filter_map(granted).count(), 1);
}

pub async fn the_holder_is_told_once_that_somebody_waits(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let Some((ear, subscription)) = in_line(&store).await else { return };
    let mut asked = request(name("k"), token());
    asked.listener = Some(subscription.listener);
    let _ = store.take_as(&asked).await;
    let waits = waiting(name("k"), token(), None);
    other.queue(&waits, 1).await;
    assert_eq!(ear.hears(waiting_behind).await, asked.token);
    other.queue(&waits, 1).await;
    other.queue(&waiting(name("k"), token(), None), 2).await;
    // Messages of one store to one listener come in order, so that nothing is on its way still.
    let _ = other.ask_revoke(&name("k")).await;
    assert_eq!(ear.hears(revoked).await, asked.token);
    assert_eq!(ear.heard(), [Wakeup::Waiting(asked.token), Wakeup::Revoked(asked.token)]);
}

pub async fn a_renewal_says_where_the_holder_listens_from_then_on(harness: &impl Harness) {
    let store = harness.fresh().await;
    let Some((first_ear, first)) = in_line(&store).await else { return };
    let Some((second_ear, second)) = in_line(&store).await else { return };
    let mut asked = request(name("k"), token());
    asked.listener = Some(first.listener);
    let _ = store.take_as(&asked).await;
    let mut renewal = RenewRequest::new(name("k"), asked.token, ttl(MINUTE));
    // Nothing said is nothing changed.
    let _ = store.ask_renew(std::slice::from_ref(&renewal)).await;
    let _ = store.ask_revoke(&name("k")).await;
    assert_eq!(first_ear.hears(revoked).await, asked.token);
    renewal.listener = Some(second.listener);
    let _ = store.ask_renew(std::slice::from_ref(&renewal)).await;
    let _ = store.ask_revoke(&name("k")).await;
    assert_eq!(second_ear.hears(revoked).await, asked.token);
    assert_eq!(first_ear.heard().len(), 1);
}

pub async fn whoever_is_first_in_line_is_told_of_a_nearer_end(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let Some((ear, subscription)) = in_line(&other).await else { return };
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let waits = waiting(name("k"), token(), Some(subscription.listener));
    other.queue(&waits, 1).await;
    let _ = store.shorten_to(name("k"), holder, secs(7)).await;
    assert_eq!(ear.hears(next).await, (waits.token, secs(7)));
}

pub async fn a_forced_release_tells_the_next(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let Some((ear, subscription)) = in_line(&other).await else { return };
    let _ = store.take(name("k"), token()).await;
    let waits = waiting(name("k"), token(), Some(subscription.listener));
    other.queue(&waits, 1).await;
    let _ = store.force(&name("k")).await;
    assert_eq!(ear.hears(granted).await.token, waits.token);
}

pub async fn a_place_that_does_not_insist_is_told_that_it_makes_sense_to_ask(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let Some((ear, subscription)) = listening(&other).await else { return };
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let mut waits = waiting(name("k"), token(), Some(subscription.listener));
    waits.barging = true;
    // Where others give hints there is no line.
    let position = u32::from(store.capabilities().hints == Hints::None);
    other.queue(&waits, position).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    assert_eq!(ear.hears(turn).await, waits.token);
    store.assert_free(&name("k")).await;
    let _ = other.take_as(&waits).await;
}

/// As soon as the store knows; it learns it from the end of a connection, which has no answer.
pub async fn a_place_whose_listener_is_gone_is_passed_over_by_the_same_release(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let Some((_ear, gone)) = in_line(&other).await else { return };
    let listener = gone.listener;
    drop(gone);
    let passed_over = async {
        loop {
            let holder = token();
            let _ = store.take(name("k"), holder).await;
            let dead = waiting(name("k"), token(), Some(listener));
            let waits = waiting(name("k"), token(), None);
            store.queue(&dead, 1).await;
            store.queue(&waits, 2).await;
            assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
            match store.give_back(name("k"), dead.token).await {
                // It has no place any more either.
                Released::Taken => return waits,
                Released::Held => {
                    assert_eq!(store.give_back(name("k"), waits.token).await, Released::Held);
                }
                other => panic!("it had a place: {other:?}"),
            }
            rt::yield_now().await;
        }
    };
    let Some(waits) = rt::timeout(Ear::HEARS_WITHIN, passed_over).await else {
        panic!("the store never noticed that nobody listens");
    };
    assert_eq!(store.fetch(&waits).await.waiting, 0);
}

pub async fn listeners_of_one_client_hear_what_is_theirs_and_nothing_after_their_end(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    let Some((first_ear, first)) = in_line(&store).await else { return };
    let Some((second_ear, second)) = in_line(&store).await else { return };
    assert_ne!(first.listener, second.listener);
    let mut asked = request(name("a"), token());
    asked.listener = Some(first.listener);
    let _ = store.take_as(&asked).await;
    let mut other = request(name("b"), token());
    other.listener = Some(second.listener);
    let _ = store.take_as(&other).await;
    drop(first);
    let before = first_ear.heard();
    let _ = store.ask_revoke(&name("a")).await;
    let _ = store.ask_revoke(&name("b")).await;
    assert_eq!(second_ear.hears(revoked).await, other.token);
    assert_eq!(second_ear.heard().len(), 1);
    assert_eq!(first_ear.heard(), before, "its subscription had ended");
    assert!(!first_ear.is_broken(), "it was dropped, and did not break");
}
