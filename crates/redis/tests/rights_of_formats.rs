//! The rights that `docs/operating/acl.md` lists for the formats of other libraries are enough.

mod support;

use std::sync::Arc;

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, ExchangeRequest, ForceReleaseRequest,
    InspectRequest, ListRequest, Mode, Owner, ReleaseRequest, RenewRequest, SetLimitRequest,
    ShortenRequest,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Store as _, StoreError, WakeupSink};
use fencelock_testkit::RedisServer;
use support::{Ear, name, soon, store_at, token, ttl};

/// The row of a dialect in the page: commands, keys beside `~n`, channels.
fn row(dialect: Dialect) -> (Vec<String>, Vec<String>, Vec<String>) {
    let page = include_str!("../../../docs/operating/acl.md");
    let named = format!("`{dialect}`");
    let line = page.lines().find(|line| {
        line.starts_with("| `") && line.split('|').nth(1).is_some_and(|cell| cell.contains(&named))
    });
    let cells: Vec<&str> = line.expect("the page has the row").split('|').collect();
    let words = |cell: &str| -> Vec<String> {
        cell.replace('`', "").split_whitespace().map(|word| word.replace("NAME", "n")).collect()
    };
    (words(cells[2]), words(cells[3]), words(cells[4]))
}

/// How a name is held in a dialect: alone, or in the modes that it has besides.
fn modes(store: &RedisStore) -> Vec<Mode> {
    let owner = Owner::new("me").expect("a short owner");
    let all =
        [Mode::Exclusive, Mode::Shared, Mode::Owned(owner), Mode::Permits { permits: 2, limit: 2 }];
    let can = store.capabilities().modes;
    all.into_iter().filter(|mode| can.has(mode)).collect()
}

/// Every verb that the dialect has, on a free, a held and an ended name.
async fn everything(store: &RedisStore) -> Result<(), StoreError> {
    let (at, by) = (name("n"), soon(store));
    let _ = store.connect(by).await?;
    if store.capabilities().modes.latch_set_up {
        return latch(store).await;
    }
    for mode in modes(store) {
        let (first, second) = (token(), token());
        let ask = |token| {
            let mut request = AcquireRequest::new(at.clone(), token, ttl(30_000));
            request.mode = mode.clone();
            request
        };
        for _ in 0..2 {
            let answer = store.acquire(&ask(first), by).await?.answer;
            assert!(matches!(answer, Acquired::Granted(_)), "{mode:?}: {answer:?}");
        }
        let _ = store.inspect(&InspectRequest::new(at.clone()), by).await?;
        let _ = store.list(&ListRequest::new(""), by).await?;
        let batch = [RenewRequest::new(at.clone(), first, ttl(60_000))];
        assert!(store.renew(&batch, by).await?.answer[0].remaining().is_some(), "{mode:?}");
        let _ = store.shorten(&ShortenRequest::new(at.clone(), first, ttl(20_000)), by).await?;
        if store.capabilities().modes.exclusive {
            let exchange = ExchangeRequest::new(at.clone(), first, second, ttl(30_000));
            let _ = store.exchange_token(&exchange, by).await?;
        }
        if store.capabilities().modes.downgrade && mode.is_exclusive() {
            let _ = store.downgrade(&DowngradeRequest::new(at.clone(), second), by).await?;
        }
        let _ = store.acquire(&ask(token()), by).await?;
        for given in [second, first] {
            let _ = store.release(&ReleaseRequest::new(at.clone(), given), by).await?;
        }
        let _ = store.acquire(&ask(token()), by).await?;
        let _ = store.force_release(&ForceReleaseRequest::new(at.clone()), by).await?;
        if store.capabilities().modes.set_limit {
            let _ = store.set_limit(&SetLimitRequest::new(at.clone(), 2), by).await?;
        }
    }
    Ok(())
}

/// A latch, from its set-up to its end by force.
async fn latch(store: &RedisStore) -> Result<(), StoreError> {
    let (at, by) = (name("n"), soon(store));
    for _ in 0..2 {
        let _ = store.set_limit(&SetLimitRequest::new(at.clone(), 2), by).await?;
        let mut request = AcquireRequest::new(at.clone(), token(), ttl(30_000));
        for mode in [Mode::CountDown { count: 2 }, Mode::Opening { count: 2 }] {
            request.mode = mode;
            let _ = store.acquire(&request, by).await?;
        }
        let _ = store.inspect(&InspectRequest::new(at.clone()), by).await?;
        let _ = store.list(&ListRequest::new(""), by).await?;
        let _ = store.force_release(&ForceReleaseRequest::new(at.clone()), by).await?;
    }
    Ok(())
}

/// Who waits in the queue of a fair lock, and who gives up.
async fn waits(store: &RedisStore) -> Result<(), StoreError> {
    if !store.capabilities().wakeups || !store.capabilities().modes.exclusive {
        return Ok(());
    }
    let by = soon(store);
    let listening = store.listen(Arc::new(Ear::default()) as Arc<dyn WakeupSink>, by).await?;
    let holder = token();
    let _ = store.acquire(&AcquireRequest::new(name("n"), holder, ttl(30_000)), by).await?;
    let waiters = [(); 3].map(|()| support::waits("n", Some(listening.listener)));
    for waiter in &waiters {
        let answer = store.acquire(waiter, by).await?.answer;
        assert!(matches!(answer, Acquired::Queued(_)), "{answer:?}");
    }
    for given in [waiters[2].token, holder] {
        let _ = store.release(&ReleaseRequest::new(name("n"), given), by).await?;
    }
    for waiter in &waiters[..2] {
        let _ = store.acquire(waiter, by).await?;
        let _ = store.release(&ReleaseRequest::new(name("n"), waiter.token), by).await?;
    }
    Ok(())
}

const FORMATS: [Dialect; 9] = [
    Dialect::RedissonLatch,
    Dialect::PythonRedisLock,
    Dialect::RedislockFenced,
    Dialect::Redisson,
    Dialect::RedissonFenced,
    Dialect::RedissonFair,
    Dialect::RedissonRw,
    Dialect::RedissonPermits,
    Dialect::Symfony,
];

#[tokio::test]
async fn the_documented_rights_are_enough() {
    for dialect in FORMATS {
        let (commands, keys, channels) = row(dialect);
        let channels = match &channels[..] {
            [the, same] if (&the[..], &same[..]) == ("the", "same") => row(Dialect::Redisson).2,
            _ => channels,
        };
        let rules = format!(
            "on >p resetchannels ~n {} {} -@all +eval +evalsha +scan +info +publish +subscribe \
             +unsubscribe +blmove +exists +type +{}",
            keys.join(" "),
            channels.join(" "),
            commands.join(" +"),
        );
        let server = RedisServer::builder().acl_user("app", &rules).start();
        let store = store_at(&server.url_as("app", "p"), dialect);
        everything(&store).await.unwrap_or_else(|error| panic!("{dialect}: {error}"));
        waits(&store).await.unwrap_or_else(|error| panic!("{dialect}: {error}"));
    }
}

/// Method: each command taken away in turn; some verb then fails, and says that a right is missing.
#[tokio::test]
async fn none_of_the_documented_commands_is_too_much() {
    let mut spared: Vec<String> = Vec::new();
    for dialect in FORMATS {
        for denied in row(dialect).0 {
            let rules = format!("on >p ~* &* +@all -{denied}");
            let server = RedisServer::builder().acl_user("app", &rules).start();
            let store = store_at(&server.url_as("app", "p"), dialect);
            let error = match everything(&store).await {
                Ok(()) => waits(&store).await.err(),
                Err(error) => Some(error),
            };
            let Some(error) = error else {
                spared.push(format!("{dialect} does without {denied}"));
                continue;
            };
            let kind = error.kind();
            assert_eq!(
                kind,
                fencelock_store::StoreErrorKind::Denied,
                "{dialect}, {denied}: {error}"
            );
        }
    }
    assert!(spared.is_empty(), "{spared:#?}");
}
