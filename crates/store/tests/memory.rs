//! The in-memory store: its wakeups, its clients, its clocks.

use std::{
    task::{Context, Poll, Waker},
    time::Duration,
};

use fencelock_store::{
    ManualClock, MemoryStore, Store, StoreError, StoreErrorKind, Wakeups,
    core::{
        AcquireRequest, Acquired, ForceReleaseRequest, LockName, Moment, Names, ReleaseRequest,
        Token, Ttl,
    },
    rt,
};

fn name(text: &str) -> LockName {
    LockName::new(text).expect("a name")
}

fn names(list: &[&str]) -> Names {
    Names::new(list.iter().map(|text| name(text))).expect("a set")
}

fn store() -> MemoryStore {
    MemoryStore::manual(ManualClock::new())
}

fn take(store: &MemoryStore, list: &[&str]) -> Token {
    let token = rt::fresh_token();
    let ttl = Ttl::new(Duration::from_secs(60)).expect("a ttl");
    let request = AcquireRequest::new(names(list), token, ttl);
    let reply = rt::block_on(store.acquire(&request, Moment::NEVER)).expect("an answer");
    assert!(matches!(reply.answer, Acquired::Granted(_)), "{reply:?}");
    token
}

fn give_back(store: &MemoryStore, list: &[&str], token: Token) {
    let request = ReleaseRequest::new(names(list), token);
    let _ = rt::block_on(store.release(&request, Moment::NEVER)).expect("an answer");
}

fn subscribed(store: &MemoryStore, list: &[&str]) -> Wakeups {
    rt::block_on(store.wakeups(&names(list), Moment::NEVER)).expect("a subscription")
}

fn poll(wakeups: &mut Wakeups) -> Option<Result<LockName, StoreError>> {
    let mut next = wakeups.next();
    match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(woken) => Some(woken),
        Poll::Pending => None,
    }
}

fn woken(wakeups: &mut Wakeups) -> Option<LockName> {
    poll(wakeups).map(|woken| woken.expect("the subscription lives"))
}

#[test]
fn a_release_wakes_for_each_of_its_names_that_was_asked_for() {
    let store = store();
    let mut wakeups = subscribed(&store, &["a", "c"]);
    let token = take(&store, &["a", "b", "c"]);
    assert_eq!(woken(&mut wakeups), None, "a grant wakes nobody");
    give_back(&store, &["a", "b", "c"], token);
    assert_eq!(woken(&mut wakeups), Some(name("a")));
    assert_eq!(woken(&mut wakeups), Some(name("c")));
    assert_eq!(woken(&mut wakeups), None);
}

#[test]
fn a_forced_release_wakes_too() {
    let store = store();
    let mut wakeups = subscribed(&store.another_client(), &["a"]);
    take(&store, &["a"]);
    let request = ForceReleaseRequest::new(name("a"));
    let _ = rt::block_on(store.force_release(&request, Moment::NEVER)).expect("an answer");
    assert_eq!(woken(&mut wakeups), Some(name("a")));
}

#[test]
fn a_wakeup_before_the_first_wait_is_kept_and_a_dropped_wait_loses_none() {
    let store = store();
    let mut wakeups = subscribed(&store, &["a"]);
    assert_eq!(woken(&mut wakeups), None);
    for _ in 0..3 {
        let token = take(&store, &["a"]);
        give_back(&store, &["a"], token);
    }
    for _ in 0..3 {
        assert_eq!(woken(&mut wakeups), Some(name("a")));
    }
}

#[test]
fn a_subscriber_that_was_left_behind_is_told_so() {
    let store = store();
    let mut wakeups = subscribed(&store, &["a"]);
    let token = take(&store, &["a"]);
    for _ in 0..1_100 {
        give_back(&store, &["a"], token);
    }
    let error = poll(&mut wakeups).expect("at once").expect_err("some were missed");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
}

#[test]
fn two_memory_stores_are_two_worlds_and_two_clients_one() {
    let (one, other) = (store(), store());
    take(&one, &["a"]);
    take(&other, &["a"]);
    let reply = rt::block_on(async {
        let ttl = Ttl::new(Duration::from_secs(1)).expect("a ttl");
        let request = AcquireRequest::new(name("a"), rt::fresh_token(), ttl);
        one.another_client().acquire(&request, Moment::NEVER).await
    });
    assert!(matches!(reply.expect("an answer").answer, Acquired::Busy(_)));
}

#[test]
fn on_the_clock_of_the_system_leases_and_fencing_tokens_have_clocks_of_their_own() {
    let store = MemoryStore::new();
    let token = rt::fresh_token();
    let request = AcquireRequest::new(name("a"), token, Ttl::MAX);
    let reply = rt::block_on(store.acquire(&request, Moment::NEVER)).expect("an answer");
    let Acquired::Granted(grant) = reply.answer else { panic!("it was free") };
    let wall = rt::wall_now().as_micros();
    let number = grant.fence.token().expect("it is fenced").as_u64();
    assert!(number <= wall && wall - number < 60_000_000, "{number} is not near {wall}");
    let lease = rt::monotonic_now().as_nanos() / 1_000;
    let at = reply.at.expect("it says its time").as_micros();
    assert!(at <= lease && lease - at < 60_000_000, "{at} is not near {lease}");
}

#[test]
fn a_store_is_an_object_and_can_be_sent_and_shared() {
    fn is_a_store(_: &(dyn Store + Send + Sync)) {}
    is_a_store(&store());
}
