//! TLS with a real server and certificates made here: what is believed, what is refused, and that
//! each refusal says which it was and what to try.

mod support;

use std::{fs, path::Path, sync::Arc};

use fencelock_core::Released;
use fencelock_redis::{Dialect, RedisStore, RedisStoreBuilder};
use fencelock_store::{Outcome, Store, StoreError, StoreErrorKind, WakeupSink};
use fencelock_testkit::{Authority, Certificate, RedisServer};
use support::{DIALECTS, Ear, release, renew, soon, store_at, take, token, waits, whole, within};

/// A password that must not show.
const SECRET: &str = "hunter2";

/// A store over TLS that trusts an authority, as a user with a password.
fn trusting(server: &RedisServer, authority: &Authority) -> RedisStoreBuilder {
    let url = server.tls_url().replace("rediss://", &format!("rediss://app:{SECRET}@"));
    let url = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
    RedisStore::builder(url).certificate_authority(authority.file())
}

fn server_with(shows: &Certificate, clients_of: Option<&Authority>) -> RedisServer {
    let user = format!("on >{SECRET} ~* &* +@all");
    RedisServer::builder().acl_user("app", &user).tls(shows, clients_of).start()
}

/// What connecting comes to: an error that was certainly not done, without the password.
async fn refusal(store: RedisStoreBuilder) -> (StoreErrorKind, String) {
    let store = store.build().expect("the settings are valid");
    let error = store.connect(soon(&store)).await.map(|_| ()).expect_err("it must not connect");
    assert_eq!(error.outcome(), Outcome::NotDone, "{error}");
    assert!(!whole(&error).contains(SECRET), "{error:?}");
    (error.kind(), whole(&error))
}

fn not_built(store: RedisStoreBuilder) -> StoreError {
    let error = store.build().map(|store| store.to_string()).expect_err("it must not be built");
    assert_eq!(error.kind(), StoreErrorKind::Config, "{error}");
    error
}

#[tokio::test]
async fn a_lock_lives_over_tls_as_it_does_without() {
    let authority = Authority::new();
    let server = server_with(&authority.issue(), None);
    for dialect in DIALECTS {
        let store = trusting(&server, &authority).dialect(dialect).build().expect("valid");
        let holder = token();
        let _ = take(&store, "k", holder).await;
        assert!(renew(&store, "k", holder).await.expect("it answers").remaining().is_some());
        assert_eq!(release(&store, "k", holder).await.expect("it answers"), Released::Held);
        assert!(store.to_string().starts_with("rediss://app@localhost:"), "{store}");
        // Nothing went past TLS.
        let clients = server.cli(&["CLIENT", "LIST", "TYPE", "normal"]);
        let clients = format!("{clients:?}");
        let port = server.tls_url();
        let port = port.trim_start_matches("rediss://localhost:").trim_end_matches("/0");
        assert!(clients.contains(&format!("laddr=127.0.0.1:{port}")), "{clients}");
    }
}

#[tokio::test]
async fn messages_are_heard_over_tls() {
    let authority = Authority::new();
    let server = server_with(&authority.issue(), None);
    let store = trusting(&server, &authority).build().expect("valid");
    let ear = Arc::new(Ear::default());
    let subscription =
        store.listen(Arc::clone(&ear) as Arc<dyn WakeupSink>, soon(&store)).await.expect("it may");
    let holder = token();
    let _ = take(&store, "k", holder).await;
    let waiter = waits("k", Some(subscription.listener));
    let _ = store.acquire(&waiter, soon(&store)).await.expect("it answers");
    assert_eq!(release(&store, "k", holder).await.expect("it answers"), Released::Held);
    assert!(ear.heard().iter().any(|wakeup| wakeup.token() == waiter.token), "{:?}", ear.heard());
}

#[tokio::test]
async fn both_sides_show_a_certificate_where_the_server_asks() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = server_with(&authority.issue(), Some(&authority));
    let (ours, theirs) = (authority.issue(), other.issue());
    let shows = |certificate: &Certificate| {
        trusting(&server, &authority).client_certificate(&certificate.certificate, &certificate.key)
    };
    let store = shows(&ours).build().expect("valid");
    let _ = take(&store, "k", token()).await;
    // The same said in the URL alone.
    let url = format!(
        "{}?ca={}&cert={}&key={}",
        server.tls_url(),
        authority.file().display(),
        ours.certificate.display(),
        ours.key.display()
    );
    let store = store_at(&url, Dialect::Native);
    let _ = take(&store, "l", token()).await;

    let (kind, says) = refusal(trusting(&server, &authority)).await;
    assert_eq!(kind, StoreErrorKind::Denied, "{says}");
    assert!(says.contains("name one with ?cert=/path&key=/path"), "{says}");
    let (kind, says) = refusal(shows(&theirs)).await;
    assert_eq!(kind, StoreErrorKind::Denied, "{says}");
    assert!(says.contains("may not accept the certificate in ?cert=/path"), "{says}");
}

#[tokio::test]
async fn a_certificate_that_proves_nothing_is_refused_and_says_why() {
    let (authority, other) = (Authority::new(), Authority::new());
    let good = server_with(&authority.issue(), None);
    let expired = server_with(&authority.issue_expired(), None);
    let elsewhere = server_with(&authority.issue_for_another_host(), None);
    let url = good.tls_url().parse().expect("a url");
    let table = [
        (trusting(&good, &other), "not in the file of ?ca=/path"),
        (RedisStore::builder(url), "this system does not trust; name its file with ?ca=/path"),
        (trusting(&expired, &authority), "has expired; renew it"),
        (trusting(&elsewhere, &authority), "for another host than localhost"),
    ];
    for (store, part) in table {
        let (kind, says) = refusal(store).await;
        assert_eq!(kind, StoreErrorKind::Config, "{says}");
        assert!(says.contains(part), "{says}");
    }
    // Each of them is believed by whoever wants to believe anything.
    for server in [good, expired, elsewhere] {
        let store = trusting(&server, &other).danger_accept_invalid_certificates();
        let store = store.build().expect("valid");
        let _ = take(&store, "k", token()).await;
        let url = format!("{}?danger_accept_invalid_certificates=true", server.tls_url());
        let _ = take(&store_at(&url, Dialect::Native), "l", token()).await;
    }
}

#[tokio::test]
async fn tls_on_one_side_only_is_said_to_be_so() {
    let authority = Authority::new();
    let server = server_with(&authority.issue(), None);
    let in_the_clear = server.tls_url().replace("rediss:", "redis:");
    let (kind, says) = refusal(RedisStore::builder(in_the_clear.parse().expect("a url"))).await;
    assert_eq!(kind, StoreErrorKind::Unavailable, "{says}");
    assert!(says.contains("use rediss://"), "{says}");
    // The server takes what it hears for the beginning of a command, and waits for its end.
    let over_tls = server.url().replace("redis:", "rediss:");
    let store = store_at(&over_tls, Dialect::Native);
    let error = store.connect(within(&store, 500)).await.map(|_| ()).expect_err("it waits");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert_eq!(error.outcome(), Outcome::NotDone, "{error}");
    assert!(error.to_string().contains("does it speak TLS there?"), "{error}");
    let (kind, says) = refusal(RedisStore::builder(over_tls.parse().expect("a url"))).await;
    assert_eq!(kind, StoreErrorKind::Unavailable, "{says}");
    assert!(says.contains("does it speak TLS there?"), "{says}");
    // A server that is down is down, whatever it would speak.
    let url = server.tls_url();
    server.kill();
    let (_, says) = refusal(RedisStore::builder(url.parse().expect("a url"))).await;
    assert!(says.contains("can't be reached"), "{says}");
}

#[tokio::test]
async fn a_file_that_was_renewed_is_read_for_the_next_connection() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = server_with(&authority.issue(), None);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    fs::copy(other.file(), &file).expect("a copy");
    let store = trusting(&server, &authority).certificate_authority(&file).build().expect("valid");
    let error = store.connect(soon(&store)).await.map(|_| ()).expect_err("it is not trusted");
    assert_eq!(error.kind(), StoreErrorKind::Config, "{error}");
    fs::copy(authority.file(), &file).expect("a copy");
    let _ = take(&store, "k", token()).await;
    // What goes away is said, and the connection that is there goes on.
    fs::remove_file(&file).expect("it was there");
    let _ = take(&store, "l", token()).await;
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    let error = store.connect(soon(&store)).await.map(|_| ()).expect_err("nothing to trust");
    assert!(error.to_string().contains(&format!("the file {}", file.display())), "{error}");
}

#[test]
fn a_file_that_can_not_be_used_is_named_before_anything_is_sent() {
    let authority = Authority::new();
    let server = server_with(&authority.issue(), None);
    let (ours, expired) = (authority.issue(), authority.issue_expired());
    let nothing = Path::new("/nowhere/at-all.pem");
    let shows = |certificate: &Path, key: &Path| {
        trusting(&server, &authority).client_certificate(certificate, key)
    };
    let table = [
        (trusting(&server, &authority).certificate_authority(nothing), "can't be read"),
        (trusting(&server, &authority).certificate_authority(&ours.key), "no certificate"),
        (shows(nothing, &ours.key), "can't be read"),
        (shows(&ours.certificate, &ours.certificate), "no private key"),
        (shows(&ours.certificate, &expired.key), "another key"),
    ];
    for (store, part) in table {
        let error = not_built(store);
        assert!(error.to_string().contains(part), "{error}");
        assert!(!whole(&error).contains(SECRET), "{error:?}");
    }
    let plain = RedisStore::builder(server.url().parse().expect("a url"));
    let error = not_built(plain.certificate_authority(authority.file()));
    assert!(error.to_string().contains("rediss://"), "{error}");
}
