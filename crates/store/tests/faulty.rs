//! What the store that fails when told to does, and does not do.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use fencelock_store::{
    Clock, Fault, FaultyStore, ManualClock, MemoryStore, Outcome, Store as _, StoreErrorKind, Verb,
    WakeupSink,
    core::{
        AcquireRequest, Acquired, InspectRequest, Inspection, LockName, Moment, RevokeRequest,
        Revoked, Token, Ttl, Wakeup,
    },
    rt,
};

const SECOND: Duration = Duration::from_secs(1);

fn faulty() -> (FaultyStore<MemoryStore>, ManualClock) {
    let clock = ManualClock::new();
    (FaultyStore::new(MemoryStore::manual(clock.clone())), clock)
}

fn name() -> LockName {
    LockName::new("k").expect("a name")
}

fn request() -> AcquireRequest {
    AcquireRequest::new(name(), Token::from_bytes([1; 16]), Ttl::new(SECOND).expect("a ttl"))
}

fn in_a_second(clock: &ManualClock) -> Moment {
    clock.now().saturating_add(SECOND)
}

fn is_held(store: &FaultyStore<MemoryStore>) -> bool {
    let now = store.inner().store_now();
    let seen = store.inner().with_table(|table| table.inspect(&InspectRequest::new(name()), now));
    matches!(seen, Inspection::Held(_))
}

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Option<F::Output> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn without_a_fault_calls_go_through_and_are_counted() {
    let (store, clock) = faulty();
    let reply = rt::block_on(store.acquire(&request(), in_a_second(&clock))).expect("an answer");
    assert!(matches!(reply.answer, Acquired::Granted(_)));
    assert_eq!((store.calls(Verb::Acquire), store.calls(Verb::Release)), (1, 0));
    assert_eq!(store.clone().calls(Verb::Acquire), 1);
}

#[test]
fn a_failed_call_never_reaches_the_store_and_says_so() {
    let (store, clock) = faulty();
    store.plan(Verb::Acquire, Fault::Fail(StoreErrorKind::Full));
    let error = rt::block_on(store.acquire(&request(), in_a_second(&clock))).expect_err("planned");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Full, Outcome::NotDone));
    assert!(!is_held(&store));
}

#[test]
fn a_lost_request_and_a_lost_reply_look_the_same_and_end_at_the_last_moment() {
    for (fault, carried_out) in [(Fault::LostRequest, false), (Fault::LostReply, true)] {
        let (store, clock) = faulty();
        store.plan(Verb::Acquire, fault);
        let request = request();
        let mut call = store.acquire(&request, in_a_second(&clock));
        assert!(poll(&mut call).is_none());
        assert_eq!(is_held(&store), carried_out);
        clock.advance(SECOND - Duration::from_nanos(1));
        assert!(poll(&mut call).is_none());
        clock.advance(Duration::from_nanos(1));
        let error = poll(&mut call).expect("its moment has come").expect_err("planned");
        let seen = (error.kind(), error.outcome());
        assert_eq!(seen, (StoreErrorKind::Unavailable, Outcome::Unknown));
    }
}

#[test]
fn a_held_call_goes_on_when_it_is_let_go() {
    for (fault, before) in [(Fault::HoldRequest, false), (Fault::HoldReply, true)] {
        let (store, clock) = faulty();
        store.plan(Verb::Acquire, fault);
        let request = request();
        let mut call = store.acquire(&request, in_a_second(&clock));
        assert!(poll(&mut call).is_none());
        assert_eq!(is_held(&store), before);
        store.clone().let_go();
        let reply = poll(&mut call).expect("it was let go").expect("an answer");
        assert!(matches!(reply.answer, Acquired::Granted(_)));
        assert!(is_held(&store));
    }
}

#[test]
fn a_call_that_is_held_past_its_last_moment_is_unknown() {
    for (fault, carried_out) in [(Fault::HoldRequest, false), (Fault::HoldReply, true)] {
        let (store, clock) = faulty();
        store.plan(Verb::Acquire, fault);
        let mut asked = request();
        asked.ttl = Ttl::MAX;
        let mut call = store.acquire(&asked, in_a_second(&clock));
        assert!(poll(&mut call).is_none());
        clock.advance(SECOND);
        let error = poll(&mut call).expect("its moment has come").expect_err("planned");
        assert_eq!(error.outcome(), Outcome::Unknown);
        store.let_go();
        assert_eq!(is_held(&store), carried_out);
    }
}

#[test]
fn faults_are_used_up_in_order_and_those_for_all_come_after() {
    let (store, clock) = faulty();
    store.plan_for_all(Some(Fault::Fail(StoreErrorKind::Denied)));
    store.plan(Verb::Inspect, Fault::Fail(StoreErrorKind::Full));
    store.plan(Verb::Inspect, Fault::Pass);
    let look = InspectRequest::new(name());
    let kinds: Vec<_> = (0..4)
        .map(|round| {
            if round == 3 {
                store.plan_for_all(None);
            }
            let result = rt::block_on(store.inspect(&look, in_a_second(&clock)));
            result.err().map(|error| error.kind())
        })
        .collect();
    assert_eq!(kinds, [Some(StoreErrorKind::Full), None, Some(StoreErrorKind::Denied), None]);
    let one_verb = rt::block_on(store.connect(in_a_second(&clock)));
    assert!(one_verb.is_ok(), "a plan for one verb is not for another");
}

/// Keeps what it hears.
#[derive(Default)]
struct Ear(Mutex<Vec<Wakeup>>);

impl WakeupSink for Ear {
    fn wake(&self, wakeup: Wakeup) {
        self.0.lock().expect("no test panics with it").push(wakeup);
    }

    fn broken(&self) {}
}

#[test]
fn to_listen_and_to_revoke_go_through_and_can_fail() {
    let (store, clock) = faulty();
    let by = in_a_second(&clock);
    store.plan(Verb::Listen, Fault::Fail(StoreErrorKind::Denied));
    let ear = Arc::new(Ear::default());
    let error = rt::block_on(store.listen(Arc::clone(&ear) as _, by)).expect_err("planned");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Denied, Outcome::NotDone));
    let subscription = rt::block_on(store.listen(Arc::clone(&ear) as _, by)).expect("it listens");
    let mut asked = request();
    asked.listener = Some(subscription.listener);
    let _ = rt::block_on(store.acquire(&asked, by)).expect("an answer");
    let revoke = RevokeRequest::new(name());
    let told = || ear.0.lock().expect("no test panics with it").clone();
    store.plan(Verb::Revoke, Fault::LostRequest);
    store.plan(Verb::Revoke, Fault::LostReply);
    for count in [0, 1] {
        let mut call = store.revoke(&revoke, in_a_second(&clock));
        assert!(poll(&mut call).is_none());
        assert_eq!(told(), vec![Wakeup::Revoked(asked.token); count]);
        drop(call);
    }
    let reply = rt::block_on(store.revoke(&revoke, in_a_second(&clock))).expect("an answer");
    assert!(matches!(reply.answer, Revoked::Requested(_)), "{reply:?}");
    assert_eq!((store.calls(Verb::Listen), store.calls(Verb::Revoke)), (2, 3));
    // A lost answer to a listen is a subscription that nobody has: it ends.
    store.plan(Verb::Listen, Fault::LostReply);
    let mut call = store.listen(Arc::clone(&ear) as _, in_a_second(&clock));
    assert!(poll(&mut call).is_none());
    clock.advance(SECOND);
    assert!(poll(&mut call).expect("its moment has come").is_err());
}

#[test]
fn it_is_otherwise_the_store_inside() {
    let (store, _) = faulty();
    assert_eq!(store.capabilities(), store.inner().capabilities());
    assert!(matches!(store.clock(), Clock::Manual(_)));
    assert_eq!(store.to_string(), "faulty(memory:)");
    rt::block_on(store.close());
    let error = rt::block_on(store.connect(Moment::NEVER)).expect_err("it is closed");
    assert_eq!(error.kind(), StoreErrorKind::Closed);
}
