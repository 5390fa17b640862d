//! What a client of a quorum can be told, and what it refuses.

use std::time::Duration;

use fencelock::{Client, ErrorKind};

const THREE: [&str; 3] = ["memory:", "memory:", "memory:"];

#[tokio::test]
async fn a_quorum_of_memory_stores_works_out_of_the_box() {
    let locks = fencelock::connect_quorum(THREE).await.unwrap();
    assert_eq!(locks.store_display(), "quorum(3: memory:, memory:, memory:)");
    let guard = locks.mutex("job").lock().await.unwrap();
    assert!(guard.fencing_token().is_some() && guard.is_valid());
    let listed = locks.list("").await.unwrap();
    assert_eq!(listed.len(), 1, "a name is listed once: {listed:?}");
    assert_eq!(guard.release().await, fencelock::Released::Held);
    let set = locks.mutexes(["b", "a"]).lock().await.unwrap();
    assert!(set.fencing_token().is_some());
    drop(set);
    locks.close().await;
}

#[test]
fn settings_that_cannot_work_are_refused_with_the_reason() {
    let cases: [(fencelock::QuorumBuilder, &str); 8] = [
        (Client::quorum_builder([""; 0]), "at least one"),
        (Client::quorum_builder(THREE).quorum(1), "between 2 and 3"),
        (Client::quorum_builder(THREE).quorum(4), "between 2 and 3"),
        (Client::quorum_builder(THREE).node_timeout(Duration::ZERO), "1ms"),
        (Client::quorum_builder(THREE).max_ttl(Duration::ZERO), "max_ttl"),
        (Client::quorum_builder(THREE).quarantine(Duration::from_secs(59)), "ends before"),
        (Client::quorum_builder(["memory:", "sqlite:"]), "names a file"),
        (Client::quorum_builder(vec!["memory:"; 16]), "at most 15"),
    ];
    for (builder, part) in cases {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[cfg(feature = "redis")]
#[test]
fn a_server_that_is_named_twice_is_one_vote() {
    let twice = ["redis://:one@h/", "redis://:two@h:6379/0", "redis://other/"];
    let error = Client::quorum_builder(twice).build().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("twice") && !text.contains("one@") && !text.contains("two@"), "{text}");
}

/// Goal: a fail-over of a node is seen by clients that were not there. Its uptime says nothing of
/// it, so a guard by uptime is refused behind sentinels: what is taken by default is another.
#[cfg(feature = "redis")]
#[test]
fn a_node_behind_sentinels_has_the_strict_guard() {
    use fencelock::RestartGuard;

    let nodes = ["redis+sentinel://h1/a", "REDIS+sentinel://h2/b", "redis://h3/"];
    let usual = Client::quorum_builder(nodes);
    assert!(usual.clone().build().is_ok());
    let by_uptime = usual.restart_guard(RestartGuard::Uptime(Duration::from_secs(60)));
    let error = by_uptime.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("strict"), "{error}");
}

#[tokio::test]
async fn a_ttl_above_the_limit_is_refused_before_anything_is_sent() {
    let locks = fencelock::connect_quorum(THREE).await.unwrap();
    let error = locks.mutex("job").ttl(Duration::from_secs(61)).try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("60s"), "{error}");
    let longer = Client::quorum_builder(THREE).max_ttl(Duration::from_secs(120)).build().unwrap();
    let attempt = longer.mutex("job").ttl(Duration::from_secs(61)).try_lock().await.unwrap();
    assert!(attempt.granted().is_some());
}
