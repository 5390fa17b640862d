//! Several who hold one name, on a real server: what the scripts cost, and what stands in their way.
//!
//! That they answer as the table does is shown by `differential.rs` and by the suite.

mod support;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fencelock_core::{
    AcquireRequest, Acquired, Crowd, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged,
    ForceReleaseRequest, Forced, ForeignKind, Grant, HealRequest, Healed, Inspection, LimitSet,
    ListenerId, Mode, NotHeld, PlaceRequest, Refusal, ReleaseRequest, Released, Renewed,
    RevokeRequest, Revoked, SetLimitRequest, Sharing, Token, Wakeup,
};
use fencelock_redis::{Dialect, IfUsed, RedisStore};
use fencelock_store::{Outcome, Store, StoreErrorKind};
use fencelock_testkit::{RedisServer, Replicated, Seen};
use support::{
    Ear, acquire, granted, inspect, name, release, renew, soon, store_at, take, token, ttl, waits,
};

const KEY: &str = "fencelock:k";

fn native(server: &RedisServer) -> RedisStore {
    store_at(&server.url(), Dialect::Native)
}

fn permits(permits: u32) -> Mode {
    Mode::Permits { permits, limit: 4 }
}

fn shared(mode: Mode, token: Token) -> AcquireRequest {
    let mut request = AcquireRequest::new(name("k"), token, ttl(30_000));
    request.mode = mode;
    request
}

async fn ask(store: &RedisStore, request: &AcquireRequest) -> Acquired {
    store.acquire(request, soon(store)).await.expect("the store answers").answer
}

async fn join(store: &RedisStore, mode: Mode, token: Token) -> Grant {
    granted(store.acquire(&shared(mode, token), soon(store)).await)
}

/// Takes one for each, and waits for all of them.
async fn gather(store: &RedisStore, mode: &Mode, count: usize) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(count);
    for _ in 0..count {
        let own = token();
        let _ = join(store, mode.clone(), own).await;
        tokens.push(own);
    }
    tokens
}

/// Commands that a call sent, with what they were about.
fn commands(seen: &[Seen]) -> Vec<Vec<String>> {
    let inside = seen.iter().filter(|seen| !seen.name().starts_with("EVAL"));
    inside.map(Seen::text).collect()
}

/// Goal: a renewal and a release of one of many look at no other. Method: the commands of the scripts
/// are watched.
#[tokio::test]
async fn one_of_many_is_renewed_and_given_back_without_a_look_at_the_others() {
    let server = RedisServer::start();
    let store = native(&server);
    let tokens = gather(&store, &Mode::Shared, 40).await;
    let mine = tokens[3].reveal().to_string();
    let others: Vec<String> = tokens.iter().map(|token| token.reveal().to_string()).collect();
    let monitor = server.monitor();
    let renewed = renew(&store, "k", tokens[3]).await.expect("the store answers");
    assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
    let renewal = commands(&monitor.take());
    let monitor = server.monitor();
    assert_eq!(release(&store, "k", tokens[7]).await.expect("it answers"), Released::Held);
    let given = commands(&monitor.take());
    for (words, what) in [(&renewal, 3), (&given, 7)] {
        let fields = words.iter().flatten();
        let shares = fields.filter(|word| others.iter().any(|at| **word == format!("s{at}")));
        let own = format!("s{}", others[what]);
        assert!(
            shares.clone().count() > 0 && shares.clone().all(|field| **field == own),
            "{words:?}"
        );
    }
    assert!(renewal.iter().flatten().all(|word| word != "m"), "{renewal:?}");
    assert!(renewal.iter().flatten().any(|word| *word == format!("s{mine}")), "{renewal:?}");
    assert!(renewal.len() < 12 && given.len() < 12, "{renewal:?} {given:?}");
}

#[tokio::test]
async fn a_mutex_pays_nothing_for_it() {
    let server = RedisServer::start();
    let store = native(&server);
    let (first, second) = (token(), token());
    let watched = server.monitor();
    let _ = take(&store, "k", first).await;
    let _ = renew(&store, "k", first).await.expect("the store answers");
    assert_eq!(release(&store, "k", first).await.expect("it answers"), Released::Held);
    let _ = take(&store, "k", second).await;
    let names: Vec<_> =
        commands(&watched.take()).iter().map(|words| words[0].to_uppercase()).collect();
    let cycle = ["TIME", "SET", "TIME", "MGET", "PEXPIRE", "SETRANGE", "TIME", "GET", "SET"];
    let again = ["TIME", "SET", "SET"];
    let start = names.iter().position(|name| name == "TIME").expect("a script ran");
    assert_eq!(names[start..], [&cycle[..], &again[..]].concat());
}

#[tokio::test]
async fn a_name_has_as_many_holders_as_a_step_can_look_at() {
    let server = RedisServer::start();
    let store = native(&server);
    let mut tokens = gather(&store, &Mode::Shared, Crowd::MAX_SHARES).await;
    let more = shared(Mode::Shared, token());
    assert_eq!(ask(&store, &more).await, Acquired::Refused(Refusal::CrowdFull));
    let mut waiting = waits("k", None);
    waiting.mode = Mode::Shared;
    let queued = ask(&store, &waiting).await;
    let Acquired::Queued(queued) = queued else { panic!("{queued:?}") };
    let sharing = queued.busy.holder.sharing.expect("it is shared");
    assert_eq!(sharing.holders as usize, Crowd::MAX_SHARES);
    let Inspection::Held(holder) = inspect(&store, "k").await else { panic!("it is held") };
    let others = holder.sharing.expect("it is shared").others;
    assert_eq!(others.len(), Sharing::MAX_OTHERS);
    // The last comes first.
    let last = tokens.pop().expect("many");
    assert_eq!(holder.proof.expect("a token").reveal(), last.to_hex());
    assert_eq!(release(&store, "k", last).await.expect("it answers"), Released::Held);
    // Its place went to who waited.
    assert_eq!(release(&store, "k", waiting.token).await.expect("it answers"), Released::Held);
    let force = ForceReleaseRequest::new(name("k"));
    let forced = store.force_release(&force, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(forced, Forced::Removed(_)), "{forced:?}");
    let renewed = renew(&store, "k", tokens[0]).await.expect("it answers");
    assert_eq!(renewed, Renewed::NotHeld(NotHeld::Expired));
    let _ = take(&store, "k", token()).await;
    assert_eq!(server.cli(&["TYPE", KEY]), redis::Value::SimpleString("string".into()));
}

/// Goal: in full memory those who hold go on and go, and nobody comes. Method: each verb with a limit
/// that is reached already.
#[tokio::test]
async fn when_memory_is_full_shares_are_renewed_and_given_back_and_none_is_granted() {
    let server = RedisServer::start();
    let store = native(&server);
    let (writer, ear) = (token(), Arc::new(Ear::default()));
    let subscription = store.listen(ear.clone(), soon(&store)).await.expect("a subscription");
    let tokens = gather(&store, &Mode::Shared, 3).await;
    let _ = join_at(&store, "s", permits(4)).await;
    let _ = take(&store, "w", writer).await;
    let mut waiting = waits("k", Some(subscription.listener));
    assert!(matches!(ask(&store, &waiting).await, Acquired::Queued(_)));
    let mut reader = waits("w", Some(subscription.listener));
    reader.mode = Mode::Shared;
    assert!(matches!(ask(&store, &reader).await, Acquired::Queued(_)));
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut other = shared(Mode::Shared, token());
    other.barging = true;
    let before = fields(&server);
    assert!(matches!(ask(&store, &other).await, Acquired::Busy(_)));
    assert!(matches!(ask(&store, &waits("k", None)).await, Acquired::Busy(_)));
    let mut first = waits("s", None);
    first.mode = permits(1);
    assert!(matches!(ask(&store, &first).await, Acquired::Busy(_)));
    assert_eq!(fields(&server), before, "a refusal changes nothing");
    let mut free = shared(Mode::Shared, token());
    free.names = name("free").into();
    let error = store.acquire(&free, soon(&store)).await.expect_err("there is no room");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Full, Outcome::NotDone));
    // A place is refreshed, a lease renewed, made shared and handed over, and given back.
    waiting.listener = Some(subscription.listener);
    assert!(matches!(ask(&store, &waiting).await, Acquired::Queued(_)));
    let renewed = renew(&store, "k", tokens[0]).await.expect("it answers");
    assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
    let down = DowngradeRequest::new(name("w"), writer);
    let down = store.downgrade(&down, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(down, Downgraded::Shared { .. }), "{down:?}");
    for token in [writer, reader.token] {
        assert_eq!(release(&store, "w", token).await.expect("it answers"), Released::Held);
    }
    for token in tokens {
        assert_eq!(release(&store, "k", token).await.expect("it answers"), Released::Held);
    }
    ear.until("the writer is told", |ear| is_told(ear, waiting.token)).await;
    assert!(is_told(&ear, reader.token));
    assert_eq!(release(&store, "k", waiting.token).await.expect("it answers"), Released::Held);
    assert_eq!(server.cli(&["EXISTS", "fencelock:free"]), redis::Value::Int(0));
}

async fn join_at(store: &RedisStore, at: &str, mode: Mode) -> Token {
    let mut request = shared(mode, token());
    request.names = name(at).into();
    let _ = granted(store.acquire(&request, soon(store)).await);
    request.token
}

fn is_told(ear: &Ear, token: Token) -> bool {
    let heard = ear.heard();
    heard.iter().any(|heard| matches!(heard, Wakeup::Granted(hand_off) if hand_off.token == token))
}

/// Goal: what does not fit together is left as it is. Method: a crowd of three with somebody in its
/// line, of which a part is taken away or written over.
#[tokio::test]
async fn a_crowd_whose_parts_do_not_fit_is_foreign_and_never_touched() {
    let server = RedisServer::start();
    let store = native(&server);
    for has_line in [false, true] {
        for number in 0..9 {
            server.cli(&["FLUSHALL"]);
            let tokens = gather(&store, &permits(1), 3).await;
            if has_line {
                let mut waiting = waits("k", None);
                waiting.mode = permits(2);
                assert!(matches!(ask(&store, &waiting).await, Acquired::Queued(_)));
            }
            let share = format!("s{}", tokens[1].reveal());
            let record = field(&server, "r");
            let counted = |count: usize| format!("{}{count:08}{}", &record[..54], &record[62..]);
            let broken: Vec<&str> = match number {
                0 => vec!["HDEL", KEY, &share],
                1 => vec!["HDEL", KEY, "m"],
                2 => vec!["HSET", KEY, "odd", "1"],
                3 => vec!["HSET", KEY, &share, "not a share"],
                4 => vec!["HSET", KEY, "m", "not tokens"],
                5 => vec!["HSET", KEY, "r", counted(2).leak()],
                6 => vec!["HSET", KEY, "r", counted(99_999_999).leak()],
                7 => vec!["HSET", KEY, "r", &record[..70]],
                _ => vec!["HDEL", KEY, "r"],
            };
            server.cli(&broken);
            let seen = (fields(&server), server.cli(&["PEXPIRETIME", KEY]));
            assert_all_leave_it(&store, tokens[1], number).await;
            let after = (fields(&server), server.cli(&["PEXPIRETIME", KEY]));
            assert_eq!(seen, after, "{broken:?}");
        }
    }
}

/// What is in the hash, in an order of its own.
fn fields(server: &RedisServer) -> BTreeMap<String, Vec<u8>> {
    redis::cmd("HGETALL").arg(KEY).query(&mut server.connect()).expect("it is a hash")
}

fn field(server: &RedisServer, at: &str) -> String {
    String::from_utf8(fields(server)[at].clone()).expect("it is text")
}

async fn assert_all_leave_it(store: &RedisStore, own: Token, number: usize) {
    let by = soon(store);
    for mode in [permits(1), Mode::Exclusive] {
        let answer = ask(store, &shared(mode, token())).await;
        assert!(matches!(answer, Acquired::Foreign(_)), "{number}: {answer:?}");
    }
    assert!(matches!(inspect(store, "k").await, Inspection::Foreign(_)), "{number}");
    let released = release(store, "k", own).await.expect("it answers");
    assert_eq!(released, Released::Taken, "{number}");
    // What stands in a share of somebody else is not looked at.
    if number != 4 {
        let renewed = renew(store, "k", own).await.expect("it answers");
        let foreign = matches!(renewed, Renewed::NotHeld(NotHeld::Foreign(_)));
        assert!(foreign, "{number}: {renewed:?}");
    }
    let exchange = ExchangeRequest::new(name("k"), own, token(), ttl(1_000));
    let answer = store.exchange_token(&exchange, by).await.expect("it answers").answer;
    assert!(matches!(answer, Exchanged::NotHeld(NotHeld::Foreign(_))), "{number}: {answer:?}");
    let down = DowngradeRequest::new(name("k"), own);
    let answer = store.downgrade(&down, by).await.expect("it answers").answer;
    assert!(matches!(answer, Downgraded::NotHeld(NotHeld::Foreign(_))), "{number}: {answer:?}");
    let limit = SetLimitRequest::new(name("k"), 9);
    let answer = store.set_limit(&limit, by).await.expect("it answers").answer;
    assert!(matches!(answer, LimitSet::Foreign(_)), "{number}: {answer:?}");
    let force = ForceReleaseRequest::new(name("k"));
    let answer = store.force_release(&force, by).await.expect("it answers").answer;
    assert!(matches!(answer, Forced::Foreign(_)), "{number}: {answer:?}");
    let answer = store.revoke(&RevokeRequest::new(name("k")), by).await.expect("it answers").answer;
    assert!(matches!(answer, Revoked::Foreign(_)), "{number}: {answer:?}");
}

#[tokio::test]
async fn another_kind_is_named_by_its_word() {
    let server = RedisServer::start();
    let store = native(&server);
    let _ = join(&store, permits(1), token()).await;
    let Acquired::Foreign(foreign) = ask(&store, &shared(Mode::Shared, token())).await else {
        panic!("it is a semaphore");
    };
    assert_eq!(foreign.kind, ForeignKind::Kind("semaphore".into()));
    let error = store_at(&server.url(), Dialect::Plain);
    let error = error.acquire(&shared(Mode::Shared, token()), soon(&error)).await;
    let error = error.expect_err("it has no room for two");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Unsupported, Outcome::NotDone));
}

/// Goal: a batch is told in few messages, after it was written. Method: many readers of one process
/// wait behind a writer; the messages are counted.
#[tokio::test]
async fn readers_of_one_process_are_told_in_one_message() {
    let server = RedisServer::start();
    let store = native(&server);
    let ear = Arc::new(Ear::default());
    let subscription = store.listen(ear.clone(), soon(&store)).await.expect("a subscription");
    let writer = token();
    let _ = take(&store, "k", writer).await;
    let readers = wait_all(&store, 30, subscription.listener).await;
    let monitor = server.monitor();
    assert_eq!(release(&store, "k", writer).await.expect("it answers"), Released::Held);
    let seen = commands(&monitor.take());
    let published = seen.iter().filter(|words| words[0].eq_ignore_ascii_case("PUBLISH")).count();
    assert_eq!(published, 1, "{seen:?}");
    let written = seen.iter().rposition(|words| words[0].eq_ignore_ascii_case("HSET"));
    let told = seen.iter().position(|words| words[0].eq_ignore_ascii_case("PUBLISH"));
    assert!(written < told, "{seen:?}");
    ear.until("all are told", |ear| readers.iter().all(|token| is_told(ear, *token))).await;
    for reader in readers {
        assert_eq!(release(&store, "k", reader).await.expect("it answers"), Released::Held);
    }
    assert!(matches!(inspect(&store, "k").await, Inspection::Free { .. }));
}

async fn wait_all(store: &RedisStore, count: usize, listener: ListenerId) -> Vec<Token> {
    let mut tokens = Vec::new();
    for _ in 0..count {
        let mut reader = waits("k", Some(listener));
        reader.mode = Mode::Shared;
        assert!(matches!(ask(store, &reader).await, Acquired::Queued(_)));
        tokens.push(reader.token);
    }
    tokens
}

#[tokio::test]
async fn a_key_that_several_hold_ends_when_the_last_of_them_may_be_forgotten() {
    let server = RedisServer::builder().clock().start();
    let store = native(&server);
    let (short, long) = (token(), token());
    let mut request = shared(permits(1), short);
    request.retain = fencelock_core::Retain::NOTHING;
    let _ = granted(store.acquire(&request, soon(&store)).await);
    (request.token, request.ttl) = (long, ttl(60_000));
    let _ = granted(store.acquire(&request, soon(&store)).await);
    let mut given = ReleaseRequest::new(name("k"), short);
    given.retain = fencelock_core::Retain::NOTHING;
    assert_eq!(
        store.release(&given, soon(&store)).await.expect("it answers").answer,
        Released::Held
    );
    server.clock().advance(Duration::from_secs(40));
    assert!(matches!(inspect(&store, "k").await, Inspection::Held(_)));
    server.clock().advance(Duration::from_secs(25));
    assert_eq!(server.cli(&["EXISTS", KEY]), redis::Value::Int(0));
    // Without a memory of it there is no limit.
    let other = Mode::Permits { permits: 1, limit: 9 };
    let _ = granted(store.acquire(&shared(other, token()), soon(&store)).await);
    assert!(matches!(
        acquire(&store, "k", token()).await.expect("it answers").answer,
        Acquired::Foreign(_)
    ));
}

/// A server that may have forgotten leases lets nobody in, neither who asks nor who waits; those who
/// hold a name go on and go.
#[tokio::test]
async fn a_server_that_rests_grants_no_share() {
    let server = RedisServer::start();
    let url = server.url().parse().expect("a url");
    let max_ttl = ttl(60_000);
    let store = RedisStore::builder(url).strict_restart_guard(max_ttl).build().expect("valid");
    let by = soon(&store);
    let _ = store.initialise(max_ttl, IfUsed::Refuse, by).await.expect("the store answers");
    let writer = token();
    let _ = take(&store, "k", writer).await;
    let mut reader = waits("k", None);
    reader.mode = Mode::Shared;
    assert!(matches!(ask(&store, &reader).await, Acquired::Queued(_)));
    server.cli(&["DEL", "fencelock:!boot"]);
    for (at, mode) in [("k", Mode::Shared), ("l", permits(1))] {
        let mut request = shared(mode, token());
        request.names = name(at).into();
        let error = store.acquire(&request, soon(&store)).await.expect_err("it rests");
        let what = (error.kind(), error.outcome());
        assert_eq!(what, (StoreErrorKind::Unavailable, Outcome::NotDone), "{error}");
    }
    let down = DowngradeRequest::new(name("k"), writer);
    let down = store.downgrade(&down, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(down, Downgraded::Shared { .. }), "{down:?}");
    let Inspection::Held(holder) = inspect(&store, "k").await else { panic!("it is held") };
    let holders = holder.sharing.map(|sharing| sharing.holders);
    assert_eq!((holders, holder.waiting), (Some(1), 1), "the reader was not let in");
    let renewed = renew(&store, "k", writer).await.expect("it answers");
    assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
    assert_eq!(release(&store, "k", writer).await.expect("it answers"), Released::Held);
    let Inspection::Free { .. } = inspect(&store, "k").await else { panic!("nobody has it") };
}

/// Goal: a share, and a lease that becomes one, count when a replica has them. Method: the server has
/// one, and then not as many as are asked for.
#[tokio::test]
async fn a_share_is_acknowledged_like_any_grant() {
    let service = Replicated::without_sentinels(1);
    let primary = &service.servers()[0];
    let wants = |replicas: usize, within: &str| {
        let wish = format!("?replicas={replicas}&acknowledge_within={within}");
        store_at(&format!("{}{wish}", primary.url()), Dialect::Native)
    };
    let (enough, too_few) = (wants(1, "60s"), wants(2, "50ms"));
    let writer = token();
    let _ = take(&enough, "k", writer).await;
    let down = DowngradeRequest::new(name("k"), writer);
    let error = too_few.downgrade(&down, soon(&too_few)).await.expect_err("too few");
    let unknown = (StoreErrorKind::NotAcknowledged, Outcome::Unknown);
    assert_eq!((error.kind(), error.outcome()), unknown, "{error}");
    let again = enough.downgrade(&down, soon(&enough)).await.expect("it answers").answer;
    assert!(matches!(again, Downgraded::Shared { .. }), "{again:?}");
    let reader = shared(Mode::Shared, token());
    let error = too_few.acquire(&reader, soon(&too_few)).await.expect_err("too few");
    let taken_back = (StoreErrorKind::NotAcknowledged, Outcome::NotDone);
    assert_eq!((error.kind(), error.outcome()), taken_back, "{error}");
    let _ = join(&enough, Mode::Shared, token()).await;
    let Inspection::Held(holder) = inspect(&enough, "k").await else { panic!("it is held") };
    assert_eq!(holder.sharing.map(|sharing| sharing.holders), Some(2));
}

/// A token that was released, sent again in every way.
async fn assert_retired(store: &RedisStore, own: Token) {
    let retired = Acquired::Refused(Refusal::TokenRetired);
    assert_eq!(ask(store, &shared(Mode::Shared, own)).await, retired);
    let heal = HealRequest::new(name("k"), own, ttl(1_000));
    let healed = store.heal(&heal, soon(store)).await.expect("it answers").answer;
    assert_eq!(healed, Healed::Refused(Refusal::TokenRetired));
    assert_eq!(release(store, "k", own).await.expect("it answers"), Released::Held);
}

/// Goal: as many released tokens are known as the rules say, which random sequences do not reach.
#[tokio::test]
async fn the_last_released_tokens_are_known_and_no_more() {
    let server = RedisServer::start();
    let store = native(&server);
    let tokens = gather(&store, &Mode::Shared, Crowd::MAX_SPENT + 3).await;
    let (last, others) = tokens.split_last().expect("some");
    for token in others {
        assert_eq!(release(&store, "k", *token).await.expect("it answers"), Released::Held);
    }
    for token in &others[2..] {
        assert_retired(&store, *token).await;
    }
    assert_eq!(release(&store, "k", others[1]).await.expect("it answers"), Released::Expired);
    assert_eq!(release(&store, "k", *last).await.expect("it answers"), Released::Held);
    assert_eq!(server.cli(&["TYPE", KEY]), redis::Value::SimpleString("string".into()));
    for token in &tokens[3..] {
        assert_retired(&store, *token).await;
    }
    assert_eq!(release(&store, "k", others[2]).await.expect("it answers"), Released::Expired);
}

#[tokio::test]
async fn a_step_prolongs_the_whole_latch_also_when_memory_is_full() {
    let server = RedisServer::start();
    let store = native(&server);
    let steps = gather(&store, &Mode::CountDown { count: 3 }, 3).await;
    let ends = |token: &Token| field(&server, &format!("s{}", token.reveal()))[..16].to_owned();
    let before = ends(&steps[0]);
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let renewed = renew(&store, "k", steps[1]).await.expect("it answers");
    assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
    let after = ends(&steps[0]);
    assert!(after > before, "{after} {before}");
    assert!(steps.iter().all(|token| ends(token) == after));
    assert_eq!(field(&server, "r")[72..88], after);
}

/// Goal: whoever is handed the name by a question for another kind keeps it. Method: the lease
/// is over, and the place of the first in line has lapsed, so nothing says what the name is.
#[tokio::test]
async fn who_is_granted_it_by_a_question_for_another_kind_keeps_it() {
    let server = RedisServer::builder().clock().start();
    let store = native(&server);
    for question in 0..3 {
        let _ = server.cli(&["FLUSHALL"]);
        let _ = take(&store, "k", token()).await;
        let mut short = waits("k", None);
        short.place = Some(PlaceRequest::new(ttl(10_000), Duration::from_secs(1)));
        let second = waits("k", None);
        assert!(matches!(ask(&store, &short).await, Acquired::Queued(_)));
        assert!(matches!(ask(&store, &second).await, Acquired::Queued(_)));
        // The lease is over, and so is the place of the first, but not that of the second.
        server.clock().advance(Duration::from_secs(35));
        let mode = [Mode::Meeting { parties: 2 }, Mode::Opening { count: 1 }];
        if let Some(mode) = mode.get(question) {
            let answer = ask(&store, &shared(mode.clone(), token())).await;
            assert!(matches!(answer, Acquired::Foreign(_)), "{answer:?}");
        } else {
            let request = SetLimitRequest::new(name("k"), 3);
            let answer = store.set_limit(&request, soon(&store)).await.expect("it answers").answer;
            assert!(matches!(answer, LimitSet::Foreign(_)), "{answer:?}");
        }
        let renewed = renew(&store, "k", second.token).await.expect("it answers");
        assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
    }
}
