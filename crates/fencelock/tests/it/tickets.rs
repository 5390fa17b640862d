//! Leaking, detaching, adopting.

use fencelock::{
    ErrorKind, Released, Ticket,
    store::{Fault, StoreErrorKind, Verb},
};

use crate::world::{World, millis, secs, take, until};

#[tokio::test]
async fn a_leaked_lock_stays_for_its_whole_ttl_and_no_longer() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(9))).await;
    world.clock.advance(secs(2));
    let ticket = guard.leak().await.unwrap();
    assert_eq!(world.left("job"), secs(9));
    assert_eq!(world.keeper(), (0, 0), "nothing renews it");
    world.clock.advance(millis(8_999));
    assert!(world.is_held("job"));
    world.clock.advance(millis(1));
    assert!(!world.is_held("job"));
    assert!(world.client.adopt(ticket).await.unwrap_err().is_lost());
}

#[tokio::test]
async fn one_adopter_gets_the_lock_and_a_larger_fencing_token() {
    let world = World::new();
    let guard = take(world.client.mutexes(["a", "b"]).ttl(secs(9))).await;
    let first = guard.fencing_token();
    let text = guard.detach().await.unwrap().to_text();
    let ticket: Ticket = text.parse().unwrap();
    let other = world.other();
    let adopted = other.adopt_renewing(ticket.clone()).await.unwrap();
    assert!(adopted.fencing_token() > first);
    assert!(adopted.is_valid());
    assert!(world.client.adopt(ticket.clone()).await.unwrap_err().is_lost());
    // The old token is worth nothing any more.
    let old = world.client.lease(ticket.names().clone(), ticket.token());
    assert_eq!(old.release().await.unwrap(), Released::Taken);
    let before = adopted.deadline();
    world.clock.advance(secs(3));
    until("it is renewed", || adopted.deadline() > before).await;
    assert_eq!(adopted.release().await, Released::Held);
}

#[tokio::test]
async fn an_adopted_lock_is_not_renewed_unless_asked() {
    let world = World::new();
    let ticket = take(world.mutex("job").ttl(secs(9))).await.detach().await.unwrap();
    let adopted = world.client.adopt(ticket).await.unwrap();
    world.clock.advance(secs(9));
    until("it is lost", || !adopted.is_valid()).await;
    assert!(adopted.fencing_token().is_some());
}

#[tokio::test]
async fn a_leak_that_fails_gives_the_lock_back() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(3_600))).await;
    world.faulty.plan(Verb::Renew, Fault::Fail(StoreErrorKind::Unavailable));
    let error = guard.leak().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    until("it is free", || !world.is_held("job")).await;

    let guard = take(world.mutex("job").ttl(secs(3_600))).await;
    world.delete("job");
    assert!(guard.leak().await.unwrap_err().is_lost());
}

#[tokio::test]
async fn an_adoption_whose_reply_was_lost_is_asked_again() {
    let world = World::reached().await;
    let ticket = take(world.mutex("job").ttl(secs(3_600))).await.detach().await.unwrap();
    world.faulty.plan(Verb::ExchangeToken, Fault::LostReply);
    let (client, adopted) = (world.client.clone(), ticket.clone());
    let task = tokio::spawn(async move { client.adopt(adopted).await });
    world.pass_until(secs(5), "it ends", || task.is_finished()).await;
    // One call may take all the time there is: then it is unknown, and given back.
    match task.await.unwrap() {
        Ok(guard) => assert_eq!(guard.release().await, Released::Held),
        Err(error) => assert!(error.is_unknown(), "{error}"),
    }
    world.pass_until(secs(5), "it is free", || !world.is_held("job")).await;
}

#[tokio::test]
async fn a_lease_known_by_its_token_is_taken_over_once_and_not_from_beside_others() {
    let world = World::reached().await;
    let guard = world.mutex("k").lock().await.unwrap();
    let ticket = guard.detach().await.unwrap();
    let lease = world.client.lease(ticket.names().clone(), ticket.token());
    let adopted = lease.adopt(secs(30)).await.unwrap();
    assert!(adopted.is_valid() && adopted.fencing_token() > ticket.fencing_token());
    assert!(lease.adopt(secs(30)).await.unwrap_err().is_lost());
    assert!(matches!(lease.release().await.unwrap(), Released::Taken));
    assert_eq!(adopted.release().await, Released::Held);

    let reader = world.client.rwlock("r").read().await.unwrap();
    let lease = reader.leak().await.unwrap();
    let error = lease.adopt(secs(30)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(lease.release().await.unwrap(), Released::Held, "it is as it was");
}
