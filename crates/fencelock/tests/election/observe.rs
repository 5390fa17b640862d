//! Who leads, as anybody sees it.

use std::{future::poll_fn, pin::Pin};

use fencelock::{
    ErrorKind, Inspection, Observation, Observed,
    store::{
        Fault, StoreErrorKind, Verb,
        core::{ForeignKind, Moment},
    },
};
use tokio::task::JoinHandle;

use crate::world::{World, millis, name, secs};

/// The next item, while the clock goes on; the observation comes back with it.
async fn next(world: &World, observation: Observation) -> (Observation, Item) {
    let task: JoinHandle<(Observation, Item)> = tokio::spawn(async move {
        let mut observation = observation;
        let item = observation.next().await;
        (observation, item)
    });
    world.pass_until(secs(15), "there is news", || task.is_finished()).await;
    task.await.unwrap()
}

type Item = Option<Result<Observed, fencelock::Error>>;

fn info(item: &Item) -> &str {
    match item {
        Some(Ok(Observed::Leader(leader))) => &leader.info,
        Some(Ok(Observed::Vacant)) => "nobody",
        other => panic!("no leader: {other:?}"),
    }
}

fn failure(item: &Item) -> ErrorKind {
    match item {
        Some(Err(error)) => error.kind(),
        other => panic!("no error: {other:?}"),
    }
}

#[tokio::test]
async fn an_observer_sees_each_leader_and_the_vacancy_between_them() {
    let world = World::reached().await;
    let election = world.client.election("job").label("machine 7").metadata("zone", "b");
    let observation = world.other().election("job").observe();
    let (observation, item) = next(&world, observation).await;
    assert_eq!(info(&item), "nobody");
    let mut observation = observation;
    for who in ["a", "b", "c"] {
        let leadership = election.campaign(who).await.unwrap();
        let (back, item) = next(&world, observation).await;
        let Some(Ok(Observed::Leader(leader))) = item else { panic!("somebody leads: {item:?}") };
        assert_eq!(leader.info, who);
        assert_eq!(leader.term, leadership.term());
        assert_eq!(leader.since, leader.holder.since);
        assert_eq!(leader.holder.label.as_deref(), Some("machine 7"));
        assert_eq!(leader.holder.metadata["zone"], "b");
        leadership.resign().await;
        let (back, item) = next(&world, back).await;
        assert_eq!(info(&item), "nobody");
        observation = back;
    }
}

#[tokio::test]
async fn those_who_hold_the_name_together_lead_nobody_and_have_no_fencing_token() {
    let world = World::reached().await;
    let other = world.other();
    let reader = other.rwlock("job").read().await.unwrap();
    let (_, item) = next(&world, world.client.election("job").observe()).await;
    assert_eq!(info(&item), "nobody");
    let Inspection::Held(holder) = world.client.inspect("job").await.unwrap() else {
        panic!("a reader holds it")
    };
    assert_eq!(holder.fencing_token, None);
    assert_eq!(holder.number, reader.shared_token().map(|token| token.as_u64()));
    drop(reader);
    let owned = other.reentrant("mine", "me").lock().await.unwrap();
    let Inspection::Held(holder) = world.client.inspect("mine").await.unwrap() else {
        panic!("its owner holds it")
    };
    assert_eq!(holder.fencing_token, owned.fencing_token());
    assert_eq!(holder.number, owned.fencing_token().map(|token| token.as_u64()));
}

#[tokio::test]
async fn a_leader_that_stays_is_told_once_and_looked_at_once_in_a_beat() {
    let world = World::reached().await;
    let election = world.client.election("job").ttl(secs(3_600));
    let leadership = election.campaign("a").await.unwrap();
    let (mut observation, item) = next(&world, election.observe()).await;
    assert_eq!(info(&item), "a");
    // A renewal is no news.
    leadership.guard().renew(secs(7_200)).await.unwrap();
    let before = world.faulty.calls(Verb::Inspect);
    let task = tokio::spawn(async move { observation.next().await });
    let end = world.clock.now().saturating_add(secs(60));
    let renewed = || {
        assert!(!task.is_finished(), "there is no news");
        world.clock.now() >= end
    };
    world.pass_by(millis(250), secs(61), "a minute passes", renewed).await;
    let looks = world.faulty.calls(Verb::Inspect) - before;
    // One a second, less up to an eighth, as the steps of this clock allow.
    assert!((50..=70).contains(&looks), "{looks} looks in a minute");
    task.abort();
}

#[tokio::test]
async fn an_observer_that_nobody_polls_asks_nothing_and_then_tells_how_it_stands() {
    let world = World::reached().await;
    let election = world.client.election("job");
    let (observation, item) = next(&world, election.observe()).await;
    assert_eq!(info(&item), "nobody");
    let looks = world.faulty.calls(Verb::Inspect);
    for who in ["a", "b"] {
        let leadership = election.campaign(who).await.unwrap();
        world.clock.advance(secs(5));
        leadership.resign().await;
    }
    let _leadership = election.campaign("c").await.unwrap();
    assert_eq!(world.faulty.calls(Verb::Inspect), looks);
    let (_, item) = next(&world, observation).await;
    assert_eq!(info(&item), "c");
}

#[tokio::test]
async fn the_end_of_a_dead_leaders_lease_is_not_slept_through() {
    let world = World::reached().await;
    let leadership = world.client.election("job").ttl(secs(5)).campaign("a").await.unwrap();
    let observer = world.other();
    let (observation, item) =
        next(&world, observer.election("job").observe().every(secs(3_600))).await;
    assert_eq!(info(&item), "a");
    world.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    // The next beat is an hour away.
    let (_, item) = next(&world, observation).await;
    assert_eq!(info(&item), "nobody");
    assert!(!leadership.is_leader());
}

#[tokio::test]
async fn an_outage_is_told_once_as_what_it_is_and_so_is_its_end() {
    let world = World::reached().await;
    let leadership = world.other().election("job").ttl(secs(600)).campaign("a").await.unwrap();
    let (observation, item) = next(&world, world.client.election("job").observe()).await;
    assert_eq!(info(&item), "a");
    world.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    let (mut observation, item) = next(&world, observation).await;
    assert_eq!(failure(&item), ErrorKind::Unavailable);
    let before = world.faulty.calls(Verb::Inspect);
    let task = tokio::spawn(async move {
        let item = observation.next().await;
        (observation, item)
    });
    let end = world.clock.now().saturating_add(secs(60));
    let quiet = || {
        assert!(!task.is_finished(), "it is the same outage");
        world.clock.now() >= end
    };
    world.pass_by(millis(250), secs(61), "a minute passes", quiet).await;
    let looks = world.faulty.calls(Verb::Inspect) - before;
    assert!((4..=12).contains(&looks), "{looks} looks in the minute of an outage");
    world.faulty.plan_for_all(None);
    world.pass_until(secs(15), "it is over", || task.is_finished()).await;
    let (observation, item) = task.await.unwrap();
    assert_eq!(info(&item), "a", "also when nothing has changed meanwhile");
    leadership.resign().await;
    let (_, item) = next(&world, observation).await;
    assert_eq!(info(&item), "nobody");
}

#[tokio::test]
async fn a_foreign_value_is_told_and_may_be_mended() {
    let world = World::reached().await;
    world.memory.with_table(|table| table.plant_foreign(name("job"), ForeignKind::String));
    let (observation, item) = next(&world, world.client.election("job").observe()).await;
    assert_eq!(failure(&item), ErrorKind::ForeignValue);
    world.delete("job");
    let (_, item) = next(&world, observation).await;
    assert_eq!(info(&item), "nobody");
}

#[tokio::test]
async fn the_stream_ends_after_what_no_look_can_mend() {
    let world = World::reached().await;
    let mut wrong = world.client.election("").observe();
    assert_eq!(failure(&wrong.next().await), ErrorKind::Config);
    assert!(wrong.next().await.is_none() && wrong.next().await.is_none());
    let (observation, item) = next(&world, world.client.election("job").observe()).await;
    assert_eq!(info(&item), "nobody");
    world.client.clone().close().await;
    let (mut observation, item) = next(&world, observation).await;
    assert_eq!(failure(&item), ErrorKind::Closed);
    assert!(observation.next().await.is_none());
}

#[tokio::test]
async fn a_call_that_is_dropped_loses_nothing_and_the_stream_is_one() {
    use futures_core::Stream;

    let world = World::reached().await;
    let mut observation = world.client.election("job").observe().every(millis(1));
    world.faulty.plan(Verb::Inspect, Fault::HoldReply);
    {
        let mut first = std::pin::pin!(observation.next());
        tokio::select! {
            biased;
            _ = &mut first => panic!("its answer is held"),
            () = tokio::task::yield_now() => {}
        }
    }
    let looks = world.faulty.calls(Verb::Inspect);
    assert_eq!(looks, 1);
    world.faulty.let_go();
    let item = poll_fn(|cx| Pin::new(&mut observation).poll_next(cx)).await;
    assert_eq!(info(&item), "nobody");
    assert_eq!(world.faulty.calls(Verb::Inspect), looks, "it was the look that had begun");
    assert!(world.clock.now() > Moment::START);
}
