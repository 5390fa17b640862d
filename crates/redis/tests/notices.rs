//! What is said once in the life of a process. Each test has a store of its own, since what was said
//! of one is not said of it again.

mod support;

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use fencelock_core::{Acquired, Released};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Store, StoreErrorKind};
use fencelock_testkit::{Authority, RedisServer};
use support::{Ear, release, soon, store_at, take, token, waits};
use tracing::{Event, Metadata, Subscriber, field, span, subscriber::set_default};

/// Keeps everything that is traced in this thread.
#[derive(Clone, Default)]
struct Traced(Arc<Mutex<Vec<String>>>);

impl Traced {
    fn of(&self, part: &str) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|text| text.contains(part)).cloned().collect()
    }
}

struct Text(String);

impl field::Visit for Text {
    fn record_debug(&mut self, field: &field::Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Traced {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(format!("{} {} ", event.metadata().level(), event.metadata().target()));
        event.record(&mut text);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.0);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn a_password_that_leaves_the_machine_in_the_clear_is_warned_of_once() {
    let traced = Traced::default();
    let _guard = set_default(traced.clone());
    let build = |url: &str| {
        let url = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
        RedisStore::builder(url).build().expect("the settings are valid")
    };
    for _ in 0..3 {
        let _store = build("redis://app:hunter2@redis.example.com/0");
    }
    let said = traced.of("redis.example.com");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("in the clear") && said[0].contains("rediss://"), "{said:?}");
    assert!(said[0].starts_with("WARN fencelock_redis::notice "), "{said:?}");
    assert!(!said[0].contains("hunter2"), "{said:?}");
    for silent in [
        "redis://app:hunter2@127.0.0.1:7/0",
        "redis://app@other.example.com/0",
        "rediss://app:hunter2@third.example.com/0",
        "unix:///s?user=app&pass=hunter2",
    ] {
        let _store = build(silent);
    }
    assert_eq!(traced.of("").len(), 1, "{:?}", traced.of(""));
}

#[tokio::test]
async fn messages_that_are_denied_are_warned_of_once_and_waiters_are_served_as_they_ask() {
    let traced = Traced::default();
    let _guard = set_default(traced.clone());
    let rules = "on >p resetchannels ~* +@all";
    let server = RedisServer::builder().acl_user("app", rules).start();
    let store = store_at(&server.url_as("app", "p"), Dialect::Native);
    for _ in 0..3 {
        let result = store.listen(Arc::new(Ear::default()), soon(&store)).await;
        let error = result.map(|_| ()).expect_err("it may not");
        assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}");
    }
    let said = traced.of("channels of wakeups");
    assert_eq!(said.len(), 1, "{said:?}");
    let (holder, waiter) = (token(), waits("k", None));
    let _ = take(&store, "k", holder).await;
    let answer = store.acquire(&waiter, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(answer, Acquired::Queued(_)), "{answer:?}");
    assert_eq!(release(&store, "k", holder).await.expect("it answers"), Released::Held);
    let _ = support::granted(store.acquire(&waiter, soon(&store)).await);
}

#[tokio::test]
async fn no_password_is_traced_whatever_happens_to_its_connection() {
    const SECRET: &str = "hunter2";
    let traced = Traced::default();
    let _guard = set_default(traced.clone());
    let authority = Authority::new();
    let server = RedisServer::builder()
        .acl_user("app", &format!("on >{SECRET} resetchannels ~* +@all"))
        .tls(&authority.issue(), None)
        .start();
    let over_tls = |password: &str| {
        let user = format!("rediss://app:{password}@");
        let url = server.tls_url().replace("rediss://", &user);
        format!("{url}?ca={}", authority.file().display())
    };
    let wrong = format!("{SECRET}-no-more");
    for url in [
        server.url_as("app", SECRET),
        server.url_as("app", &wrong),
        over_tls(SECRET),
        over_tls(&wrong),
        over_tls(SECRET).replace(&authority.file().display().to_string(), "/dev/null"),
    ] {
        let Ok(store) = RedisStore::builder(url.parse().expect("a url")).build() else { continue };
        for _ in 0..2 {
            let _ = store.connect(soon(&store)).await;
            let _ = store.listen(Arc::new(Ear::default()), soon(&store)).await;
            server.cli(&["CLIENT", "KILL", "USER", "app"]);
        }
        let _ = store.connect(soon(&store)).await;
    }
    assert!(!traced.of("").is_empty(), "a connection that broke is traced");
    assert_eq!(traced.of(SECRET), Vec::<String>::new());
}
