//! What the tests of this crate share.

// Each test file uses its own part of it.
#![allow(dead_code)]

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, ExchangeRequest, ForceReleaseRequest, Grant,
    InspectRequest, Inspection, ListenerId, LockName, Mode, Moment, Names, PlaceRequest,
    ReleaseRequest, Released, RenewRequest, Renewed, RevokeRequest, SetLimitRequest,
    ShortenRequest, Token, Ttl, Wakeup,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Store, StoreError, StoreResult, WakeupSink, rt};
use fencelock_testkit::RedisServer;

/// Both dialects.
pub(crate) const DIALECTS: [Dialect; 2] = [Dialect::Native, Dialect::Plain];

/// A store for a URL.
pub(crate) fn store_at(url: &str, dialect: Dialect) -> RedisStore {
    let url = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
    RedisStore::builder(url).dialect(dialect).build().expect("the settings are valid")
}

/// Where the lock of a name is, for names with nothing to encode.
pub(crate) fn key_of(dialect: Dialect, name: &LockName) -> Vec<u8> {
    let mut key = match dialect {
        Dialect::Native => b"fencelock:".to_vec(),
        _ => Vec::new(),
    };
    key.extend_from_slice(name.as_bytes());
    key
}

/// The commands of the line in the page for a dialect.
pub(crate) fn documented_rights(dialect: Dialect) -> Vec<String> {
    let page = include_str!("../../../../docs/operating/acl.md");
    let keys = if dialect == Dialect::Native { "~fencelock:* " } else { "~app:* " };
    let line = page.lines().find(|line| line.starts_with("user ") && line.contains(keys));
    let line = line.expect("the page has the line");
    line.split(' ').filter(|word| word.starts_with('+')).map(str::to_owned).collect()
}

/// A server with a user `app` of those rights, whose names begin with `app:` in the plain dialect.
pub(crate) fn server_with_rights(dialect: Dialect, commands: &[String]) -> RedisServer {
    let keys = match dialect {
        Dialect::Native => "fencelock:* &fencelock:!wake:*",
        _ => "app:*",
    };
    let rules = format!("on >p resetchannels ~{keys} -@all {}", commands.join(" "));
    RedisServer::builder().acl_user("app", &rules).start()
}

pub(crate) fn name(text: impl AsRef<[u8]>) -> LockName {
    LockName::new(text).expect("a name")
}

pub(crate) fn names(texts: &[&str]) -> Names {
    Names::new(texts.iter().map(name)).expect("names")
}

pub(crate) fn ttl(millis: u64) -> Ttl {
    Ttl::from_millis(millis).expect("a ttl")
}

pub(crate) fn token() -> Token {
    rt::fresh_token()
}

/// So much time from now.
pub(crate) fn within(store: &impl Store, millis: u64) -> Moment {
    store.clock().now().saturating_add(Duration::from_millis(millis))
}

/// Time enough for any answer on a starved machine.
pub(crate) fn soon(store: &impl Store) -> Moment {
    within(store, 10_000)
}

pub(crate) async fn acquire(store: &RedisStore, at: &str, token: Token) -> StoreResult<Acquired> {
    let request = AcquireRequest::new(name(at), token, ttl(30_000));
    store.acquire(&request, soon(store)).await
}

pub(crate) fn granted(result: StoreResult<Acquired>) -> Grant {
    match result.expect("the store answers").answer {
        Acquired::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

pub(crate) async fn take(store: &RedisStore, at: &str, token: Token) -> Grant {
    granted(acquire(store, at, token).await)
}

pub(crate) async fn release(
    store: &RedisStore,
    at: &str,
    token: Token,
) -> Result<Released, StoreError> {
    let request = ReleaseRequest::new(name(at), token);
    store.release(&request, soon(store)).await.map(|reply| reply.answer)
}

pub(crate) async fn renew(
    store: &RedisStore,
    at: &str,
    token: Token,
) -> Result<Renewed, StoreError> {
    let batch = [RenewRequest::new(name(at), token, ttl(60_000))];
    store.renew(&batch, soon(store)).await.map(|reply| reply.answer[0].clone())
}

pub(crate) async fn inspect(store: &RedisStore, at: &str) -> Inspection {
    let request = InspectRequest::new(name(at));
    store.inspect(&request, soon(store)).await.expect("the store answers").answer
}

/// An error with all of its causes, as a user may see it.
pub(crate) fn whole(error: &StoreError) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(" | {cause} {cause:?}"));
        source = cause.source();
    }
    text
}

/// A request of a fresh token that waits.
pub(crate) fn waits(at: &str, listener: Option<ListenerId>) -> AcquireRequest {
    let mut request = AcquireRequest::new(name(at), token(), ttl(30_000));
    request.listener = listener;
    request.place = Some(PlaceRequest::new(ttl(10_000), Duration::from_secs(60)));
    request
}

/// Every verb once on names that several hold; `before` is called before each.
pub(crate) async fn together(store: &RedisStore, before: impl Fn()) -> Result<(), StoreError> {
    let (at, by) = (name("t"), soon(store));
    let ask = |mode: Mode| {
        let mut request = AcquireRequest::new(at.clone(), token(), ttl(30_000));
        request.mode = mode;
        request
    };
    let first = AcquireRequest::new(at.clone(), token(), ttl(30_000));
    before();
    let _ = store.acquire(&first, by).await?;
    before();
    let down = DowngradeRequest::new(at.clone(), first.token);
    let _ = store.downgrade(&down, by).await?;
    let second = ask(Mode::Shared);
    for _ in 0..2 {
        before();
        let _ = store.acquire(&second, by).await?;
    }
    let mut writer = waits("t", None);
    before();
    let _ = store.acquire(&writer, by).await?;
    writer.mode = Mode::Permits { permits: 1, limit: 2 };
    before();
    let _ = store.acquire(&writer, by).await?;
    before();
    let renewal = RenewRequest::new(at.clone(), second.token, ttl(60_000));
    let _ = store.renew(&[renewal], by).await?;
    before();
    let exchange = ExchangeRequest::new(at.clone(), second.token, token(), ttl(30_000));
    let _ = store.exchange_token(&exchange, by).await?;
    before();
    let _ = store.shorten(&ShortenRequest::new(at.clone(), exchange.to, ttl(20_000)), by).await?;
    before();
    let _ = store.revoke(&RevokeRequest::new(at.clone()), by).await?;
    for given in [exchange.to, first.token, writer.token] {
        before();
        let _ = store.release(&ReleaseRequest::new(at.clone(), given), by).await?;
    }
    before();
    let _ = store.set_limit(&SetLimitRequest::new(at.clone(), 2), by).await?;
    for _ in 0..2 {
        before();
        let _ = store.acquire(&ask(Mode::Permits { permits: 1, limit: 2 }), by).await?;
    }
    before();
    let _ = store.force_release(&ForceReleaseRequest::new(at), by).await?;
    Ok(())
}

/// Keeps what it hears. What a process tells itself comes before the answer to what it asked.
#[derive(Default)]
pub(crate) struct Ear {
    heard: Mutex<Vec<Wakeup>>,
    broken: Mutex<u32>,
    news: rt::sync::Notify,
}

impl Ear {
    pub(crate) fn heard(&self) -> Vec<Wakeup> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn broken(&self) -> u32 {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something holds, with a limit.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !holds(self) {
                self.news.notified().await;
            }
        };
        let result = rt::timeout(Duration::from_secs(20), waiting).await;
        assert!(result.is_some(), "{what}; it heard {:?}", self.heard());
    }
}

impl WakeupSink for Ear {
    fn wake(&self, wakeup: Wakeup) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(wakeup);
        self.news.notify_one();
    }

    fn broken(&self) {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.news.notify_one();
    }
}
