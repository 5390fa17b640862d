//! The restart guard on real servers that restart, with and without what they had.

mod support;

use std::time::Duration;

use fencelock_core::{
    Acquired, Drift, ExchangeRequest, ForceReleaseRequest, Forced, HealRequest, Healed, Inspection,
    NotHeld, Released, RenewRequest, Renewed, Ttl,
};
use fencelock_redis::{Dialect, IfUsed, Initialised, RedisStore, RedisStoreBuilder};
use fencelock_store::{Outcome, Store, StoreError, StoreErrorKind, rt};
use fencelock_testkit::{Persistence, Proxy, RedisServer, eventually};
use support::{
    acquire, granted, inspect, name, release, renew, soon, store_at, take, token, ttl, waits,
    within,
};

/// The longest lease of these tests; those of `support` are 30 s and renewed for 60 s.
const MAX_TTL: Duration = Duration::from_secs(60);

fn max_ttl() -> Ttl {
    Ttl::new(MAX_TTL).expect("a ttl")
}

fn builder(url: &str) -> RedisStoreBuilder {
    RedisStore::builder(url.parse().expect("a url"))
}

fn guarded(url: &str) -> RedisStore {
    builder(url).restart_guard(max_ttl()).build().expect("the settings are valid")
}

fn strict(url: &str) -> RedisStore {
    builder(url).strict_restart_guard(max_ttl()).build().expect("the settings are valid")
}

async fn initialise(store: &RedisStore, if_used: IfUsed) -> Initialised {
    let reply = store.initialise(max_ttl(), if_used, soon(store)).await;
    reply.expect("the store answers").answer
}

/// The refusal that names the way out.
fn assert_young(error: &StoreError, at: &str) {
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Unavailable, Outcome::NotDone));
    let text = error.to_string();
    let hint = format!("if it was never used before, run `fencelock init --store redis://{at}/0`");
    assert!(text.contains("restarted") && text.ends_with(&hint), "{text}");
    assert!(text.contains("and counts again in 6"), "{text}");
}

/// Moves the server's clock, and waits until it has noticed: it looks ten times a second.
async fn pass(server: &RedisServer, span: Duration) {
    let uptime = || {
        let info = server.cli(&["INFO", "server"]);
        let text: String = redis::from_redis_value(info).expect("it is text");
        let line = text.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
        line.and_then(|text| text.parse::<u64>().ok()).expect("a number")
    };
    let before = uptime();
    server.clock().advance(span);
    eventually(Duration::from_secs(10), "the server sees its clock", || {
        uptime() >= before + span.as_secs()
    });
}

#[tokio::test]
async fn a_young_server_gives_nothing_new_and_all_else_goes_on() {
    let server = RedisServer::start();
    let (open, store) = (store_at(&server.url(), Dialect::Native), guarded(&server.url()));
    let holder = token();
    let _ = take(&open, "k", holder).await;
    let other = token();
    assert_young(&acquire(&store, "free", other).await.expect_err("refused"), &server.addr());
    assert_eq!(inspect(&open, "free").await, Inspection::Free { fencing_token: None });

    let renewed = renew(&store, "k", holder).await.expect("the store answers");
    assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
    assert!(matches!(inspect(&store, "k").await, Inspection::Held(_)));
    let heal = HealRequest::new(name("healed"), other, ttl(30_000));
    let healed = store.heal(&heal, soon(&store)).await.expect("the store answers").answer;
    assert_eq!(healed, Healed::Healed);
    let next = token();
    let exchange = ExchangeRequest::new(name("k"), holder, next, ttl(30_000));
    assert!(store.exchange_token(&exchange, soon(&store)).await.is_ok());
    assert_eq!(release(&store, "k", next).await.expect("it answers"), Released::Held);
    let forced = store.force_release(&ForceReleaseRequest::new(name("healed")), soon(&store)).await;
    assert!(matches!(forced.expect("it answers").answer, Forced::Removed(_)));
}

#[tokio::test]
async fn a_server_counts_when_the_longest_lease_is_over() {
    let server = RedisServer::builder().clock().start();
    pass(&server, MAX_TTL - Duration::from_secs(5)).await;
    let error = acquire(&guarded(&server.url()), "k", token()).await.expect_err("too young");
    assert!(error.to_string().contains("s ago and counts again in "), "{error}");
    pass(&server, Duration::from_secs(6)).await;
    let _ = take(&guarded(&server.url()), "k", token()).await;
}

/// Goal: whoever allows for more drift waits longer. Method: the same young server, twice as long.
#[tokio::test]
async fn a_guard_counts_with_the_drift_that_it_is_given() {
    let server = RedisServer::start();
    let drift = Drift::DEFAULT.rate_ppm(1_000_000);
    let guard = builder(&server.url()).restart_guard(max_ttl()).drift(drift);
    let store = guard.build().expect("the settings are valid");
    let error = acquire(&store, "k", token()).await.expect_err("too young").to_string();
    let left = error.split_once("counts again in ").and_then(|(_, rest)| rest.split_once(" s;"));
    let left: u64 = left.and_then(|(left, _)| left.parse().ok()).expect("it says when");
    // With the usual one it is 62 at most; with this one less only after half a minute.
    assert!(left > 62, "{error}");
}

#[tokio::test]
async fn a_young_server_counts_again_on_the_connection_that_found_it_young() {
    let server = RedisServer::start();
    let span = Ttl::from_millis(10).expect("a ttl");
    let store = builder(&server.url()).restart_guard(span).build().expect("valid");
    let ask = fencelock_core::AcquireRequest::new(name("k"), token(), span);
    let error = store.acquire(&ask, soon(&store)).await.expect_err("a second, whatever the ttl");
    assert!(error.to_string().contains("restarted 0 s ago and counts again in"), "{error}");
    // Only the clock of this machine can show it: 1.02 s at most.
    let start = std::time::Instant::now();
    while store.acquire(&ask, soon(&store)).await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(20), "it stays young");
        rt::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_restart_without_persistence_gives_nothing_until_the_old_leases_are_over() {
    let server = RedisServer::builder().clock().start();
    let store = guarded(&server.url());
    assert_eq!(initialise(&store, IfUsed::Refuse).await, Initialised::Written { max_ttl: MAX_TTL });
    let holder = token();
    let _ = take(&store, "k", holder).await;
    server.kill();
    server.restart();
    // The marker went with the lease.
    let error = acquire(&guarded(&server.url()), "k", token()).await.expect_err("young");
    assert_young(&error, &server.addr());
    assert!(acquire(&store, "k", token()).await.is_err(), "whoever knew it before sees it, too");
    let renewed = renew(&store, "k", holder).await.expect("the store answers");
    assert!(matches!(renewed, Renewed::NotHeld(NotHeld::Absent)), "{renewed:?}");
    pass(&server, MAX_TTL + Duration::from_secs(1)).await;
    let _ = take(&guarded(&server.url()), "k", token()).await;
}

#[tokio::test]
async fn a_look_writes_no_marker_and_says_what_there_is() {
    let server = RedisServer::builder().persistence(Persistence::Aof).start();
    let store = guarded(&server.url());
    assert_eq!(initialise(&store, IfUsed::Look).await, Initialised::Blank);
    assert_eq!(initialise(&store, IfUsed::Look).await, Initialised::Blank, "nothing was written");
    assert_eq!(initialise(&store, IfUsed::Refuse).await, Initialised::Written { max_ttl: MAX_TTL });
    assert_eq!(initialise(&store, IfUsed::Look).await, Initialised::Already { max_ttl: MAX_TTL });
    server.restart();
    let restarted = initialise(&guarded(&server.url()), IfUsed::Look).await;
    assert!(matches!(restarted, Initialised::Restarted { .. }), "{restarted:?}");
}

#[tokio::test]
async fn a_marker_counts_for_the_life_that_it_names_and_is_seen_at_once() {
    let server = RedisServer::builder().persistence(Persistence::Aof).clock().start();
    let store = guarded(&server.url());
    assert!(acquire(&store, "k", token()).await.is_err(), "no marker yet");
    assert_eq!(initialise(&store, IfUsed::Refuse).await, Initialised::Written { max_ttl: MAX_TTL });
    let holder = token();
    let _ = take(&store, "k", holder).await;
    assert_eq!(initialise(&store, IfUsed::Refuse).await, Initialised::Already { max_ttl: MAX_TTL });

    server.restart();
    // The log kept marker and lease, and says so of another life.
    let store = guarded(&server.url());
    assert_young(&acquire(&store, "free", token()).await.expect_err("young"), &server.addr());
    let renewed = renew(&store, "k", holder).await.expect("the store answers");
    assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
    let refused = initialise(&store, IfUsed::Refuse).await;
    let Initialised::Restarted { counts_in } = refused else { panic!("{refused:?}") };
    assert!(counts_in > MAX_TTL - Duration::from_secs(20), "{counts_in:?}");
    assert!(acquire(&store, "free", token()).await.is_err(), "nothing was written");
    assert_eq!(initialise(&store, IfUsed::Accept).await, Initialised::Written { max_ttl: MAX_TTL });
    let _ = take(&store, "free", token()).await;

    server.restart();
    pass(&server, MAX_TTL + Duration::from_secs(1)).await;
    let counts = Initialised::Restarted { counts_in: Duration::ZERO };
    assert_eq!(initialise(&store, IfUsed::Refuse).await, counts);
}

#[tokio::test]
async fn a_marker_that_counts_only_later_does_not_count_for_the_other_form_either() {
    let server = RedisServer::start();
    let error = acquire(&strict(&server.url()), "k", token()).await.expect_err("no marker");
    assert_young(&error, &server.addr());
    let store = guarded(&server.url());
    assert_young(&acquire(&store, "k", token()).await.expect_err("rests"), &server.addr());
    assert_eq!(initialise(&store, IfUsed::Refuse).await, Initialised::Written { max_ttl: MAX_TTL });
    let _ = take(&store, "k", token()).await;
    let _ = take(&strict(&server.url()), "l", token()).await;
}

#[tokio::test]
async fn a_durable_server_counts_at_once_and_still_limits_the_ttl() {
    let server = RedisServer::start();
    let store = builder(&server.url()).strict_restart_guard(max_ttl()).durable().build();
    let store = store.expect("valid");
    let holder = token();
    let _ = take(&store, "k", holder).await;
    let long = fencelock_core::AcquireRequest::new(name("l"), token(), ttl(60_001));
    let error = store.acquire(&long, soon(&store)).await.expect_err("too long");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Unsupported, Outcome::NotDone));
    assert!(error.to_string().contains("60.001s is more than the 60s"), "{error}");
}

#[tokio::test]
async fn one_renewal_that_asks_for_too_much_does_not_cost_the_others_theirs() {
    let server = RedisServer::start();
    let store = guarded(&server.url());
    let _ = initialise(&store, IfUsed::Refuse).await;
    let (first, second) = (token(), token());
    let _ = take(&store, "a", first).await;
    let _ = take(&store, "b", second).await;
    let long = RenewRequest::new(name("a"), first, ttl(60_001));
    let batch = [long.clone(), RenewRequest::new(name("b"), second, ttl(60_000)), long.clone()];
    let answers = store.renew(&batch, soon(&store)).await.expect("the store answers").answer;
    assert!(
        matches!(answers[..], [Renewed::Unknown, Renewed::Extended { .. }, Renewed::Unknown]),
        "{answers:?}"
    );
    let error = store.renew(&[long], soon(&store)).await.expect_err("nothing was asked");
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
}

#[tokio::test]
async fn a_server_that_may_not_say_its_age_is_refused_with_the_right_that_is_missing() {
    let rules = "on >p ~fencelock:* &fencelock:* +@all -info";
    let server = RedisServer::builder().acl_user("app", rules).start();
    for store in [guarded(&server.url_as("app", "p")), strict(&server.url_as("app", "p"))] {
        let holder = token();
        let error = acquire(&store, "k", holder).await.expect_err("unknown age");
        assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Denied, Outcome::NotDone));
        assert!(error.to_string().ends_with("grant +info"), "{error}");
        assert_eq!(release(&store, "k", holder).await.expect("it goes on"), Released::Expired);
    }
}

#[tokio::test]
async fn the_documented_rights_are_enough_for_both_forms() {
    let page = include_str!("../../../docs/operating/acl.md");
    let line =
        page.lines().find(|line| line.starts_with("user fencelock on >secret resetchannels"));
    let rules = line.expect("it is there").split_once(" on ").expect("rules").1;
    let server = RedisServer::builder().acl_user("fencelock", &format!("on {rules}")).start();
    for store in [guarded, strict].map(|form| form(&server.url_as("fencelock", "secret"))) {
        server.cli(&["FLUSHALL"]);
        assert!(acquire(&store, "k", token()).await.is_err(), "it is new");
        assert_eq!(
            initialise(&store, IfUsed::Refuse).await,
            Initialised::Written { max_ttl: MAX_TTL }
        );
        let holder = token();
        let _ = take(&store, "k", holder).await;
        assert_eq!(release(&store, "k", holder).await.expect("it answers"), Released::Held);
    }
}

#[tokio::test]
async fn a_server_that_can_not_say_its_age_just_now_is_asked_again() {
    let server = RedisServer::builder().config("lua-time-limit", "1").start();
    let _ = initialise(&guarded(&server.url()), IfUsed::Refuse).await;
    let mut busy = server.connect();
    let endless = std::thread::spawn(move || {
        let endless = redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut busy);
        assert!(endless.is_err(), "it was killed");
    });
    eventually(Duration::from_secs(10), "it is busy", || {
        server.try_cli(&["GET", "x"]).is_err_and(|error| error.code() == Some("BUSY"))
    });
    let stores = [guarded(&server.url()), strict(&server.url())];
    for store in &stores {
        let error = acquire(store, "k", token()).await.expect_err("it runs something else");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert_eq!(error.outcome(), Outcome::NotDone, "{error}");
    }
    server.cli(&["SCRIPT", "KILL"]);
    endless.join().expect("no panic");
    for (store, at) in stores.iter().zip(["k", "l"]) {
        let _ = take(store, at, token()).await;
    }
}

/// A copy that the guard refuses says nothing of the one before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_refused_leaves_the_first_one_unknown() {
    for form in [guarded, strict] {
        let server = RedisServer::start();
        let proxy = Proxy::before(&server);
        let store = form(&proxy.url());
        let _ = initialise(&store, IfUsed::Refuse).await;
        let _ = take(&store, "warm", token()).await;
        proxy.hold_replies();
        let asks = tokio::spawn(async move { acquire(&store, "k", token()).await });
        proxy.wait_for_held_replies(1);
        server.cli(&["DEL", "fencelock:!boot"]);
        proxy.cut();
        proxy.heal();
        let error = asks.await.expect("no panic").expect_err("the copy is refused");
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        assert!(error.to_string().contains("restarted"), "{error}");
        let there = inspect(&store_at(&server.url(), Dialect::Native), "k").await;
        assert!(matches!(there, Inspection::Held(_)), "the first was carried out: {there:?}");
    }
}

#[tokio::test]
async fn a_server_that_falls_silent_before_it_said_its_age_costs_no_more_than_the_limit() {
    let server = RedisServer::start();
    let _ = initialise(&guarded(&server.url()), IfUsed::Refuse).await;
    let proxy = Proxy::before(&server);
    let store = guarded(&proxy.url());
    proxy.drop_replies();
    for _ in 0..3 {
        let ask = fencelock_core::AcquireRequest::new(name("k"), token(), ttl(30_000));
        let error = store.acquire(&ask, within(&store, 300)).await.expect_err("silence");
        assert_eq!(error.outcome(), Outcome::NotDone, "{error}");
    }
    proxy.heal();
    let start = std::time::Instant::now();
    while acquire(&store, "k", token()).await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(20), "it does not come back");
    }
}

#[tokio::test]
async fn nobody_listens_to_a_young_server() {
    let server = RedisServer::start();
    let store = guarded(&server.url());
    let sink = std::sync::Arc::new(support::Ear::default());
    let error = store.listen(sink.clone(), soon(&store)).await.expect_err("it may hand over");
    assert_young(&error, &server.addr());
    let _ = initialise(&store, IfUsed::Refuse).await;
    let _ = store.listen(sink, soon(&store)).await.expect("it counts");
}

#[tokio::test]
async fn strict_scripts_rest_after_a_restart_a_flush_and_a_change_of_servers() {
    let server = RedisServer::builder().clock().start();
    let mut store = strict(&server.url());
    let counts_again = Duration::from_secs(1) + MAX_TTL;
    for loss in ["at first", "flush", "restart"] {
        match loss {
            "flush" => drop(server.cli(&["FLUSHALL"])),
            "restart" => {
                server.restart();
                store = strict(&server.url());
            }
            _ => {}
        }
        assert_young(&acquire(&store, "k", token()).await.expect_err(loss), &server.addr());
        server.clock().advance(counts_again - Duration::from_secs(2));
        let error = acquire(&store, "k", token()).await.expect_err(loss);
        assert!(error.to_string().contains("counts again in "), "{error}");
        server.clock().advance(Duration::from_secs(2));
        let _ = take(&store, "k", token()).await;
    }
    // A server with the marker of another: a dump that was loaded, or a name that leads elsewhere.
    server.cli(&["SET", "fencelock:!boot", "other|0000000000000001|00060000|i"]);
    assert_young(&acquire(&store, "l", token()).await.expect_err("other"), &server.addr());
    // It was in use before: not one to be initialised without a word.
    assert!(matches!(initialise(&store, IfUsed::Refuse).await, Initialised::Restarted { .. }));
}

#[tokio::test]
async fn strict_scripts_hand_nothing_over_while_they_rest() {
    let server = RedisServer::builder().clock().start();
    let (open, store) = (store_at(&server.url(), Dialect::Native), strict(&server.url()));
    let (holder, waiter) = (token(), waits("k", None));
    for forced in [false, true] {
        server.cli(&["FLUSHALL"]);
        let _ = take(&open, "k", holder).await;
        let queued = open.acquire(&waiter, soon(&open)).await.expect("it answers").answer;
        assert!(matches!(queued, Acquired::Queued(_)), "{queued:?}");
        if forced {
            let force = ForceReleaseRequest::new(name("k"));
            let forced = store.force_release(&force, soon(&store)).await.expect("it answers");
            assert!(matches!(forced.answer, Forced::Removed(_)), "{forced:?}");
        } else {
            let released = release(&store, "k", holder).await;
            assert_eq!(released.expect("it answers"), Released::Held);
        }
        assert!(!matches!(inspect(&open, "k").await, Inspection::Held(_)), "forced: {forced}");
        assert!(store.acquire(&waiter, soon(&store)).await.is_err(), "it rests");
        // The place is still there, and the first in line when the server counts.
        let _ = initialise(&store, IfUsed::Accept).await;
        let busy = acquire(&store, "k", token()).await.expect("it answers").answer;
        assert!(matches!(busy, Acquired::Busy(_)), "handed over to the place: {busy:?}");
        let _ = granted(store.acquire(&waiter, soon(&store)).await);
        assert_eq!(release(&store, "k", waiter.token).await.expect("it answers"), Released::Held);
    }
}

#[tokio::test]
async fn strict_scripts_refuse_what_is_longer_than_the_marker_allows() {
    let server = RedisServer::start();
    let short = Ttl::from_millis(20_000).expect("a ttl");
    let store = strict(&server.url());
    let reply = store.initialise(short, IfUsed::Refuse, soon(&store)).await.expect("it answers");
    assert_eq!(reply.answer, Initialised::Written { max_ttl: short.as_duration() });
    let error = acquire(&store, "k", token()).await.expect_err("30 s");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Unsupported, Outcome::NotDone));
    assert!(error.to_string().contains("the 20s that"), "{error}");
    assert_eq!(initialise(&store, IfUsed::Refuse).await, Initialised::Written { max_ttl: MAX_TTL });
    let _ = take(&store, "k", token()).await;
    // It only grows: leases of then may still run.
    let reply = store.initialise(short, IfUsed::Refuse, soon(&store)).await.expect("it answers");
    assert_eq!(reply.answer, Initialised::Already { max_ttl: MAX_TTL });
}

#[tokio::test]
async fn a_marker_is_no_lock_and_the_plain_dialect_has_none() {
    let server = RedisServer::start();
    let store = guarded(&server.url());
    let _ = initialise(&store, IfUsed::Refuse).await;
    let page = store.list(&fencelock_core::ListRequest::new(""), soon(&store)).await;
    assert!(page.expect("it answers").answer.locks.is_empty());
    let plain = builder(&server.url()).dialect(Dialect::Plain);
    let error = plain.clone().restart_guard(max_ttl()).build().expect_err("no marker");
    assert_eq!(error.kind(), StoreErrorKind::Config);
    let plain = plain.build().expect("valid");
    let error =
        plain.initialise(max_ttl(), IfUsed::Refuse, soon(&plain)).await.expect_err("no marker");
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
}

/// Goal: a marker counts for leases as long as it says, in both forms. Method: one for leases of ten
/// seconds, and a guard for those of a minute, some of which may have been forgotten.
#[tokio::test]
async fn a_marker_for_shorter_leases_does_not_count() {
    let server = RedisServer::start();
    let store = guarded(&server.url());
    let _ = store.initialise(ttl(10_000), IfUsed::Refuse, soon(&store)).await.expect("written");
    let error = acquire(&store, "k", token()).await.expect_err("it is young");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Unavailable, Outcome::NotDone));
    let _ = initialise(&store, IfUsed::Refuse).await;
    let _ = take(&store, "k", token()).await;
}

/// What a guard costs a server that counts: nothing, after the first request of a connection.
#[tokio::test]
async fn the_guard_of_a_server_that_counts_sends_nothing_more() {
    let server = RedisServer::start();
    let stores = [store_at(&server.url(), Dialect::Native), guarded(&server.url())];
    let _ = initialise(&stores[1], IfUsed::Refuse).await;
    let mut seen = Vec::new();
    for store in stores {
        let holder = token();
        let _ = take(&store, "k", holder).await;
        let _ = release(&store, "k", holder).await;
        let monitor = server.monitor();
        let holder = token();
        let _ = take(&store, "k", holder).await;
        let _ = release(&store, "k", holder).await;
        let commands = monitor.take();
        seen.push(commands.iter().map(fencelock_testkit::Seen::name).collect::<Vec<_>>());
    }
    assert_eq!(seen[0], seen[1]);
}

/// A fail-over loses what was not replicated, and who is promoted has been running for long: only
/// the marker tells, since it names another life.
#[test]
fn a_guard_by_uptime_is_refused_behind_sentinels() {
    let sentinels = || builder("redis+sentinel://127.0.0.1:1/main");
    let error = sentinels().restart_guard(max_ttl()).build().expect_err("it would see nothing");
    assert_eq!(error.kind(), StoreErrorKind::Config);
    assert!(error.to_string().contains("strict"), "{error}");
    let strict = sentinels().strict_restart_guard(max_ttl()).build();
    assert!(strict.is_ok(), "{strict:?}");
}
