//! No secret is in what is traced or logged, at any level.

use fencelock::{Client, Released, Ticket, store::core::Names};
use fencelock_testkit::RedisServer;

use crate::{
    collected::{listen, text},
    world::{millis, secs, until},
};

const PASSWORD: &str = "o9f2-not-to-be-seen-4411";

/// Goal: neither the password of a store nor a whole token is in any span, event or log line, down
/// to TRACE, of this library or of what it uses. Method: all verbs on a real server, with grants,
/// contention, a loss, tickets, a wrong password and a server that goes away; then the text is
/// searched for what is secret, and for whatever is as long as a token.
#[tokio::test]
async fn no_password_and_no_whole_token_is_traced() {
    listen();
    let server = RedisServer::builder().password(PASSWORD).start();
    let locks = Client::builder(server.url()).build().unwrap();
    let mut tokens = Vec::new();

    let guard = locks.mutex("secret:job").ttl(secs(10)).lock().await.unwrap();
    tokens.push(guard.token());
    assert!(locks.mutex("secret:job").try_lock().await.unwrap().granted().is_none());
    let others = locks.mutex("secret:job").wait(secs(60));
    let waiter = tokio::spawn(async move { others.lock().await });
    guard.renew(secs(20)).await.unwrap();
    locks.inspect("secret:job").await.unwrap();
    assert_eq!(guard.release().await, Released::Held);
    let guard = waiter.await.unwrap().unwrap();
    tokens.push(guard.token());
    let ticket: Ticket = guard.detach().await.unwrap();
    tokens.push(ticket.token());
    let old = ticket.token();
    let guard = locks.adopt(ticket).await.unwrap();
    tokens.push(guard.token());
    let names = Names::one("secret:job".try_into().unwrap());
    locks.lease(names, old).renew(secs(5)).await.unwrap_err();
    drop(guard);

    let guard = locks.mutex("secret:lost").ttl(millis(900)).lock().await.unwrap();
    tokens.push(guard.token());
    locks.danger().force_release("secret:lost").await.unwrap();
    guard.lost().await;

    let wrong = server.url().replace(PASSWORD, "Wrong-but-also-secret-5150");
    let stranger = Client::builder(wrong).build().unwrap();
    stranger.mutex("secret:job").try_lock().await.unwrap_err();
    let guard = locks.mutex("secret:gone").ttl(millis(900)).lock().await.unwrap();
    tokens.push(guard.token());
    server.kill();
    guard.lost().await;
    drop(guard);
    locks.close().await;

    until("losses are told", || text().contains("secret:gone")).await;
    let text = text();
    assert!(text.contains("a lock was lost"), "it was listened to");
    for secret in [PASSWORD, "Wrong-but-also-secret-5150"] {
        assert!(!text.contains(secret), "{secret} was traced");
    }
    for token in tokens {
        let bytes = token.as_bytes();
        assert!(!text.contains(&token.reveal()), "a token was traced");
        assert!(!text.contains(&format!("{bytes:?}").replace(['[', ']'], "")), "in numbers");
    }
    // A token that this test does not know would show as so many digits in a row.
    let longest = text.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max();
    assert!(longest.unwrap_or(0) < 32, "something as long as a token was traced");
}
