//! The in-memory store: its clients, its clocks.

use std::time::Duration;

use fencelock_store::{
    ManualClock, MemoryStore, Store,
    core::{AcquireRequest, Acquired, LockName, Moment, Names, Token, Ttl},
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
