//! Very many leases, and what one of them can do to the others.

use std::{collections::HashMap, sync::Arc, time::Duration};

use fencelock::{
    Client, Guard, LeaseState, LossReason, Moment, Released, Renew, Store,
    store::{Fault, FaultyStore, StoreErrorKind, Verb, core::RenewRequest, rt},
};
use fencelock_testkit::RedisServer;

use crate::{
    told,
    warped::Warped,
    world::{World, millis, now, secs, take, until},
};

/// A client whose renewals are seen batch by batch.
struct Watched {
    world: World,
    warped: Warped,
    faulty: FaultyStore<Warped>,
    client: Client,
}

impl Watched {
    fn new() -> Self {
        let world = World::new();
        let warped = Warped::new(world.memory.clone());
        let faulty = FaultyStore::new(warped.clone());
        let client = Client::with_store(Arc::new(faulty.clone()) as Arc<dyn Store>);
        Self { world, warped, faulty, client }
    }

    async fn take(&self, prefix: &str, count: usize, ttl: Duration) -> Vec<Guard> {
        let mut guards = Vec::with_capacity(count);
        for number in 0..count {
            guards.push(take(self.client.mutex(format!("{prefix}:{number}")).ttl(ttl)).await);
        }
        guards
    }
}

fn all(guards: &[Guard], done: impl Fn(&Guard) -> bool) -> impl Fn() -> bool {
    move || guards.iter().all(&done)
}

/// Goal: ten thousand leases that were taken at any time are renewed in time, in batches that are
/// full and never too large, and no lease more often than planned. Method: the clock goes on in
/// small steps, and each waits until no lease is later than it may be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_leases_are_renewed_in_time_and_in_full_batches() {
    const LEASES: usize = 10_000;
    const TTL: Duration = secs(30);
    const STEP: Duration = millis(20);
    /// A third of the ttl, what is given for a spread of bursts, and a few steps.
    const LATEST: Duration = millis(10_000 + 2_500 + 100);

    let watched = Watched::new();
    let clock = &watched.world.clock;
    let validity = millis(29_698);
    let in_time = |guard: &Guard| guard.validity_left() + LATEST >= validity;
    let mut guards: Vec<Guard> = Vec::with_capacity(LEASES);
    let mut left = LEASES;
    while left > 0 {
        // From none to very many at once.
        let chance = usize::try_from(rt::chance() % 40).expect("a small number");
        for _ in 0..(chance * chance / 10).min(left) {
            let mutex = watched.client.mutex(format!("job:{left}")).ttl(TTL);
            guards.push(take(mutex).await);
            left -= 1;
        }
        clock.advance(STEP);
        until("all are renewed in time", all(&guards, in_time)).await;
    }
    let settled = clock.now().saturating_add(secs(11));
    while clock.now() < settled.saturating_add(secs(20)) {
        clock.advance(STEP);
        until("all are renewed in time", all(&guards, in_time)).await;
    }
    assert!(guards.iter().all(|guard| guard.state() == LeaseState::Held));

    let batches = watched.warped.renewals();
    let largest = batches.iter().map(|batch| batch.names.len()).max();
    assert_eq!(largest, Some(RenewRequest::MAX_BATCH));
    let mut last: HashMap<String, Moment> = HashMap::new();
    for batch in &batches {
        for names in &batch.names {
            if let Some(before) = last.insert(names.to_string(), batch.at) {
                let pause = batch.at.saturating_since(before);
                // A third, less a 30th of the ttl at the most.
                assert!(pause >= millis(9_000) - STEP, "{names} again after {pause:?}");
            }
        }
    }
    assert_eq!(last.len(), LEASES);
    let late: Vec<_> = batches.iter().filter(|batch| batch.at > settled).collect();
    let renewals: usize = late.iter().map(|batch| batch.names.len()).sum();
    let mean = renewals / late.len();
    assert!(mean > 180, "{mean} leases a batch, of {} batches", late.len());
}

/// Goal: a store that is slow gets a few batches at once, not all.
#[tokio::test]
async fn a_slow_store_gets_few_batches_at_once() {
    let watched = Watched::new();
    let long = watched.take("long", 2_000, secs(30)).await;
    let sent = || watched.faulty.calls(Verb::Renew);
    watched.faulty.plan_for_all(Some(Fault::HoldReply));
    watched.world.clock.advance(secs(10));
    until("four batches are sent", || sent() == 4).await;
    // Further time brings no more, as long as none of them has ended.
    watched.world.clock.advance(millis(900));
    tokio::time::sleep(millis(20)).await;
    assert_eq!(sent(), 4);

    watched.faulty.plan_for_all(None);
    watched.faulty.let_go();
    watched
        .world
        .pass_until(secs(3), "all are renewed", all(&long, |g| g.validity_left() > secs(26)))
        .await;
    assert_eq!(sent(), 10);
}

#[tokio::test]
async fn a_short_lease_does_not_wait_for_the_calls_of_long_ones() {
    let watched = Watched::new();
    let long = watched.take("long", 1_000, secs(30)).await;
    for _ in 0..4 {
        watched.faulty.plan(Verb::Renew, Fault::HoldReply);
    }
    watched.world.clock.advance(secs(10));
    until("four batches are sent", || watched.faulty.calls(Verb::Renew) == 4).await;
    let short = take(watched.client.mutex("short").ttl(millis(900))).await;
    let before = short.deadline();
    watched.world.clock.advance(millis(300));
    until("it is renewed", || short.deadline() > before).await;
    drop(long);
}

/// Goal: what is released while its renewal is on its way is renewed no more, and the others are.
#[tokio::test]
async fn leases_that_go_while_they_are_renewed_disturb_no_other() {
    told::listen();
    let watched = Watched::new();
    let mut guards = watched.take("going", 400, secs(9)).await;
    watched.faulty.plan_for_all(Some(Fault::HoldReply));
    watched.world.clock.advance(secs(3));
    until("both batches are carried out", || watched.world.left("going:399") == secs(9)).await;
    watched.faulty.plan_for_all(None);
    let others = guards.split_off(200);
    for (number, guard) in guards.into_iter().enumerate() {
        if number % 2 == 0 {
            assert_eq!(guard.release().await, Released::Held);
        } else {
            drop(guard);
        }
    }
    watched.faulty.let_go();
    until("the others are renewed", all(&others, |g| g.validity_left() > secs(8))).await;
    until("the rest is given back", || watched.world.keeper_of(&watched.client) == (200, 0)).await;
    watched.warped.renewals();
    watched.world.clock.advance(secs(3));
    until("the others are renewed", all(&others, |g| g.validity_left() > secs(8))).await;
    let renewed = watched.warped.renewals();
    let names: Vec<String> =
        renewed.iter().flat_map(|batch| &batch.names).map(ToString::to_string).collect();
    assert_eq!(names.len(), 200, "each once, and only what is held");
    for number in 0..400 {
        assert_eq!(told::losses(&format!("going:{number}")), 0);
    }
}

/// Goal: errors are ridden out for as long as leases last, and then each is told as lost, once.
/// Method: all calls fail for half of the time, then until the end.
#[tokio::test]
async fn a_storm_of_errors_is_ridden_out_and_one_that_stays_is_told_once() {
    told::listen();
    let watched = Watched::new();
    let clock = &watched.world.clock;
    let guards = watched.take("storm", 1_000, secs(30)).await;
    for kind in [StoreErrorKind::Unavailable, StoreErrorKind::Protocol] {
        watched.faulty.plan_for_all(Some(Fault::Fail(kind)));
        let calls = watched.faulty.calls(Verb::Renew);
        let start = clock.now();
        let stormy = || {
            let long = clock.now() >= start.saturating_add(secs(14));
            long && guards.iter().all(|guard| guard.state() == LeaseState::Suspect)
        };
        watched.world.pass_by(millis(100), secs(15), "all have failed", stormy).await;
        let failed = watched.faulty.calls(Verb::Renew) - calls;
        // Five seconds of tries, at least 2.25 s apart, in five batches or a few parts more.
        assert!(failed <= 5 * 3 * 2, "{failed} calls");
        watched.faulty.plan_for_all(None);
        let back = || guards.iter().all(|guard| guard.state() == LeaseState::Held);
        watched.world.pass_by(millis(100), secs(4), "all are held again", back).await;
    }
    watched.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    let lost = || guards.iter().all(|guard| now(guard.lost()).is_some());
    watched.world.pass_by(millis(200), secs(31), "all are lost", lost).await;
    for guard in &guards {
        assert_eq!(guard.state(), LeaseState::Lost(LossReason::Expired));
        let name = guard.name().to_string();
        until("it was told", || told::losses(&name) > 0).await;
    }
    watched.faulty.plan_for_all(None);
    drop(guards);
    watched
        .world
        .pass_until(secs(30), "the keeper is done", || {
            watched.world.keeper_of(&watched.client) == (0, 0)
        })
        .await;
    for number in 0..1_000 {
        assert_eq!(told::losses(&format!("storm:{number}")), 1);
    }
}

#[tokio::test]
async fn leases_without_an_answer_are_tried_again_and_the_others_are_not() {
    let watched = Watched::new();
    let guards = watched.take("job", 100, secs(30)).await;
    watched.warped.answer_only(40);
    watched.world.clock.advance(secs(10));
    // Three seconds after the first answers, and twenty after the grant.
    let renewed = |guard: &&Guard| guard.validity_left() > secs(22);
    let count = || guards.iter().filter(renewed).count();
    until("some are renewed", || count() == 40).await;
    until("the others are in doubt", || {
        guards.iter().filter(|guard| guard.state() == LeaseState::Suspect).count() == 60
    })
    .await;
    watched.world.pass_by(millis(100), secs(4), "the others follow", || count() == 100).await;
    let sizes: Vec<_> = watched.warped.renewals().iter().map(|batch| batch.names.len()).collect();
    assert_eq!(sizes, [100, 60]);
}

/// Goal: a batch has no more than 200 keys, also where leases have many each.
#[tokio::test]
async fn sets_of_names_share_the_keys_of_a_batch() {
    let watched = Watched::new();
    let mut guards = Vec::new();
    for set in 0..10 {
        let names: Vec<String> = (0..60).map(|name| format!("{set}:{name}")).collect();
        guards.push(take(watched.client.mutexes(names).ttl(secs(30))).await);
    }
    watched.world.clock.advance(secs(10));
    watched
        .world
        .pass_until(secs(2), "all are renewed", all(&guards, |g| g.validity_left() > secs(27)))
        .await;
    for batch in watched.warped.renewals() {
        let keys: usize = batch.names.iter().map(|names| names.len()).sum();
        assert!(keys <= 200, "{keys}");
    }
}

/// Goal: the end of a lease that nobody renews is told at that very moment, however many there are.
#[tokio::test]
async fn the_ends_of_many_leases_are_told_at_their_moments() {
    let watched = Watched::new();
    let clock = &watched.world.clock;
    let mut guards = Vec::new();
    for number in 0..100 {
        let mutex = watched.client.mutex(format!("job:{number}")).ttl(secs(30));
        guards.push(take(mutex.renewal(Renew::Manual)).await);
        clock.advance(millis(1));
    }
    for number in 0..guards.len() {
        let left = guards[number].validity_left();
        clock.advance(left - Duration::from_nanos(1));
        assert!(guards[number].is_valid());
        clock.advance(Duration::from_nanos(1));
        assert_eq!(guards[number].lost().await, LossReason::Expired);
        assert!(guards[number + 1..].iter().all(|guard| now(guard.lost()).is_none()));
    }
}

/// Goal: on a real server, what is wrong with one key is the matter of its lease alone. Method: one
/// batch, in which one key is of another type, one is gone, and one record is very large.
#[tokio::test]
async fn a_broken_key_does_not_spoil_its_batch() {
    let server = RedisServer::start();
    let client = Client::builder(server.url()).build().unwrap();
    let mut guards = Vec::new();
    for number in 0..200 {
        guards.push(take(client.mutex(format!("job:{number}")).ttl(secs(6))).await);
    }
    server.cli(&["DEL", "fencelock:job:3", "fencelock:job:50"]);
    server.cli(&["RPUSH", "fencelock:job:3", "x"]);
    let large = "x".repeat(1 << 20);
    server.cli(&["SET", "fencelock:job:100", &large]);
    let healthy = |number: usize| ![3, 50, 100].contains(&number);
    let first: Vec<Moment> = guards.iter().map(Guard::deadline).collect();
    until("all have their answer", || {
        let mut each = guards.iter().zip(&first).enumerate();
        each.all(
            |(number, (guard, first))| {
                if healthy(number) { guard.deadline() > *first } else { !guard.is_valid() }
            },
        )
    })
    .await;
    for (number, guard) in guards.iter().enumerate() {
        let state = match number {
            3 | 100 => LeaseState::Lost(LossReason::Foreign),
            50 => LeaseState::Lost(LossReason::Disappeared),
            _ => LeaseState::Held,
        };
        assert_eq!(guard.state(), state, "{number}");
    }
}
