//! Being elected, and stopping to be.

use fencelock::{
    Election, ErrorKind, Inspection, Leadership, Leading, Observation, Released,
    store::{Fault, StoreErrorKind},
};

use crate::world::{World, now, secs, until};

#[test]
fn everything_can_go_to_another_thread() {
    fn send_sync<T: Send + Sync>() {}
    fn send<T: Send>(_: T) {}
    send_sync::<Election>();
    send_sync::<Leadership>();
    send_sync::<Leading>();
    fn futures(election: &Election, mut observation: Observation, leadership: Leadership) {
        send(election.campaign("info"));
        send(election.lead("info", |leading| async move {
            leading.lost().await;
            std::ops::ControlFlow::Break(())
        }));
        send(observation.next());
        send(leadership.resign());
        send(observation);
    }
    let _compiled = futures;
}

#[tokio::test]
async fn candidates_lead_one_after_the_other_in_the_order_in_which_they_came() {
    let world = World::reached().await;
    let election = world.client.election("job");
    let first = election.campaign("a").await.unwrap();
    let mut waiting = Vec::new();
    for (place, info) in ["b", "c", "d"].into_iter().enumerate() {
        // Tasks of one process, too, each have their own place at the store.
        let election = election.clone();
        waiting.push(tokio::spawn(async move { election.campaign(info).await.unwrap() }));
        until("it has its place", || world.waiting("job") as usize == place + 1).await;
    }
    let mut term = first.term().expect("there are fencing tokens");
    assert_eq!((first.info(), first.is_leader()), ("a", true));
    let mut leadership = first;
    for (task, info) in waiting.into_iter().zip(["b", "c", "d"]) {
        assert_eq!(leadership.resign().await, Released::Held);
        leadership = task.await.unwrap();
        assert_eq!(leadership.info(), info);
        assert!(leadership.term().unwrap() > term, "terms grow");
        term = leadership.term().unwrap();
        let Inspection::Held(holder) = world.client.inspect("job").await.unwrap() else {
            panic!("somebody leads");
        };
        assert_eq!(holder.metadata[Election::INFO_KEY], info);
        assert_eq!(holder.fencing_token, Some(term));
    }
}

#[tokio::test]
async fn a_leader_that_can_not_renew_stops_before_the_next_is_elected() {
    let world = World::reached().await;
    let leader = world.client.election("job").ttl(secs(9)).campaign("a").await.unwrap();
    let other = world.other().election("job");
    let next = tokio::spawn(async move { other.campaign("b").await.unwrap() });
    until("it waits", || world.waiting("job") == 1).await;
    world.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    world
        .pass_until(secs(12), "the next is elected", || {
            assert!(!(next.is_finished() && leader.is_leader()), "two lead");
            next.is_finished()
        })
        .await;
    let next = next.await.unwrap();
    assert!(!leader.is_leader() && next.is_leader());
    assert_eq!(leader.validity_left(), secs(0));
    assert!(now(leader.lost()).is_some());
    assert!(next.term() > leader.term());
}

#[tokio::test]
async fn a_campaign_that_is_dropped_leaves_neither_a_place_nor_a_term() {
    let world = World::reached().await;
    let leader = world.client.election("job").campaign("a").await.unwrap();
    let election = world.client.election("job");
    let waiting = tokio::spawn(async move { drop(election.campaign("b").await) });
    until("it waits", || world.waiting("job") == 1).await;
    waiting.abort();
    until("its place is given up", || world.waiting("job") == 0).await;
    drop(leader);
    until("nobody leads", || !world.is_held("job")).await;
}

#[tokio::test]
async fn the_wait_of_a_campaign_ends_and_names_the_leader() {
    let world = World::reached().await;
    let _leader = world.client.election("job").ttl(secs(60)).label("the first").campaign("a").await;
    let election = world.client.election("job").wait(secs(3));
    let waiting = tokio::spawn(async move { election.campaign("b").await });
    until("it waits", || world.waiting("job") == 1).await;
    world.pass_until(secs(4), "the wait ends", || waiting.is_finished()).await;
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_wait_expired(), "{error}");
    assert_eq!(error.holder().and_then(|holder| holder.label.as_deref()), Some("the first"));
}

#[tokio::test]
async fn what_is_published_has_a_limit_and_a_wrong_name_is_told() {
    let world = World::reached().await;
    let election = world.client.election("job");
    assert!(election.campaign("x".repeat(1_024)).await.unwrap_err().is_config());
    assert!(world.client.election("").campaign("a").await.unwrap_err().is_config());
    // Nothing is published for nothing.
    let leader = election.campaign("").await.unwrap();
    let Inspection::Held(holder) = world.client.inspect("job").await.unwrap() else {
        panic!("somebody leads");
    };
    assert!(holder.metadata.is_empty(), "{holder:?}");
    assert_eq!(leader.resign().await, Released::Held);
}

#[tokio::test]
async fn an_election_and_a_mutex_of_one_name_exclude_each_other() {
    let world = World::reached().await;
    let leader = world.client.election("job").campaign("a").await.unwrap();
    let attempt = world.client.mutex("job").try_lock().await.unwrap();
    assert!(attempt.granted().is_none());
    assert_eq!(leader.resign().await, Released::Held);
    let _guard = world.client.mutex("job").try_lock().await.unwrap().granted().expect("it is free");
    let error = world.client.election("job").wait(secs(0)).campaign("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WaitExpired);
}

#[tokio::test]
async fn a_leader_that_is_asked_to_step_down_is_told() {
    let world = World::reached().await;
    let leader = world.client.election("job").campaign("a").await.unwrap();
    assert!(now(leader.revoked()).is_none());
    world.other().revoke("job").await.unwrap();
    leader.revoked().await;
    assert!(leader.is_leader(), "it decides itself");
}
