//! TLS to Sentinels and the primary that they name, and to the servers of a cluster: each connection
//! has the authorities and the certificate of the URL. Both sides show certificates here.

mod support;

use std::time::Duration;

use fencelock_core::Released;
use fencelock_redis::Dialect;
use fencelock_store::{Store, StoreErrorKind};
use fencelock_testkit::{Authority, Certificate, RedisServer, eventually};
use support::{release, renew, soon, store_at, take, token, whole};

/// A starved machine needs seconds.
const AGREED_WITHIN: Duration = Duration::from_secs(60);

/// What stands behind the question mark.
fn files(authority: &Authority, shows: &Certificate) -> String {
    let (ca, cert, key) = (authority.file(), &shows.certificate, &shows.key);
    format!("ca={}&cert={}&key={}", ca.display(), cert.display(), key.display())
}

fn tls_port(server: &RedisServer) -> String {
    let url = server.tls_url();
    url.trim_start_matches("rediss://localhost:").trim_end_matches("/0").to_owned()
}

/// A whole life of a lock on a server, all of it over TLS; and with the certificate of another
/// authority nobody is let in.
async fn a_lock_lives(at: &str, authority: &Authority, server: &RedisServer) {
    let (ours, other) = (authority.issue(), Authority::new());
    for dialect in [Dialect::Native, Dialect::Plain] {
        let store = store_at(&format!("{at}?{}", files(authority, &ours)), dialect);
        let holder = token();
        let _ = take(&store, "k", holder).await;
        assert!(renew(&store, "k", holder).await.expect("it answers").remaining().is_some());
        assert_eq!(release(&store, "k", holder).await.expect("it answers"), Released::Held);
        assert!(store.to_string().starts_with("rediss+"), "{store}");
        let clients = String::from_utf8_lossy(&list_of_clients(server)).into_owned();
        let ours: Vec<_> = clients.lines().filter(|line| line.contains("user=app")).collect();
        let port = format!("laddr=127.0.0.1:{} ", tls_port(server));
        assert!(!ours.is_empty() && ours.iter().all(|line| line.contains(&port)), "{ours:?}");
    }
    let stranger = store_at(&format!("{at}?{}", files(authority, &other.issue())), Dialect::Native);
    let error = stranger.connect(soon(&stranger)).await.map(|_| ()).expect_err("it is a stranger");
    let kinds = [StoreErrorKind::Denied, StoreErrorKind::Unavailable];
    assert!(kinds.contains(&error.kind()), "{}", whole(&error));
}

#[tokio::test]
async fn sentinels_and_the_primary_behind_them_are_reached_over_tls() {
    let authority = Authority::new();
    let shows = authority.issue();
    let tls = || {
        RedisServer::builder()
            .tls(&shows, Some(&authority))
            .acl_user("app", "on >secret ~* &* +@all")
            .config("tls-replication", "yes")
    };
    let primary = tls().start();
    let watch = format!("monitor mymaster 127.0.0.1 {} 1", tls_port(&primary));
    let sentinel = tls().sentinel().config("sentinel", &watch).start();
    eventually(AGREED_WITHIN, "the sentinel knows the primary", || {
        let says = format!("{:?}", sentinel.cli(&["SENTINEL", "MASTER", "mymaster"]));
        says.contains("run") && says.contains("role-reported") && !says.contains("s_down")
    });
    let at = format!("rediss+sentinel://app:secret@localhost:{}/mymaster", tls_port(&sentinel));
    a_lock_lives(&at, &authority, &primary).await;
}

#[tokio::test]
async fn the_servers_of_a_cluster_are_reached_over_tls() {
    let authority = Authority::new();
    let shows = authority.issue();
    let server = RedisServer::builder()
        .tls(&shows, Some(&authority))
        .acl_user("app", "on >secret ~* &* +@all")
        .config("cluster-enabled", "yes")
        .config("tls-cluster", "yes")
        .start();
    let _ = server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    eventually(AGREED_WITHIN, "all slots are served", || {
        format!("{:?}", server.cli(&["CLUSTER", "INFO"])).contains("cluster_state:ok")
    });
    let at = format!("rediss+cluster://app:secret@localhost:{}/", tls_port(&server));
    a_lock_lives(&at, &authority, &server).await;
}

fn list_of_clients(server: &RedisServer) -> Vec<u8> {
    match server.cli(&["CLIENT", "LIST", "TYPE", "normal"]) {
        redis::Value::BulkString(bytes) => bytes,
        redis::Value::VerbatimString { text, .. } => text.into_bytes(),
        other => panic!("no list: {other:?}"),
    }
}
