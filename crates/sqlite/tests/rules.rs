//! Any sequence of verbs answers as `LockTable` does at the same instants.
//!
//! The sweep of the file clears lapsed places away when chance will have it; the table keeps them
//! until somebody looks. What is gone in the file is removed from the table too, after a check that
//! it might go.
#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use fencelock_core::{
    AcquireRequest, DowngradeRequest, ExchangeRequest, FencingToken, ForceReleaseRequest,
    HealRequest, InspectRequest, ListRequest, ListenerId, LockName, LockTable, Metadata, Mode,
    Moment, Names, Owner, PlaceRequest, RaiseFenceRequest, ReleaseRequest, RenewRequest, Retain,
    RevokeRequest, SetLimitRequest, ShortenRequest, StoreNow, StoreTime, Token,
};
use fencelock_sqlite::SqliteStore;
use fencelock_store::{ManualClock, Store};
use proptest::prelude::*;

/// Small alphabets, so that sequences meet themselves again.
#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Acquire {
        names: Vec<u8>,
        token: u8,
        ttl: u64,
        retain: u64,
        fence: Fences,
        deadline: i64,
        queue: Queue,
    },
    Renew(Vec<(Vec<u8>, u8, u64, u64)>, u32),
    Shorten {
        names: Vec<u8>,
        token: u8,
        ttl: u64,
        retain: u64,
    },
    Release {
        names: Vec<u8>,
        token: u8,
        retain: u64,
    },
    Exchange {
        names: Vec<u8>,
        from: u8,
        to: u8,
        ttl: u64,
        retain: u64,
        deadline: i64,
    },
    Raise {
        names: Vec<u8>,
        token: u8,
        ahead: i64,
    },
    Heal {
        names: Vec<u8>,
        token: u8,
        ttl: u64,
        retain: u64,
        ahead: Option<i64>,
        deadline: i64,
    },
    Inspect(u8),
    List {
        prefix: Vec<u8>,
        limit: usize,
    },
    Force {
        name: u8,
        retain: u64,
    },
    Revoke(u8),
    /// An acquire of one name in a mode of it.
    Join {
        name: u8,
        mode: usize,
        token: u8,
        ttl: u64,
        retain: u64,
        queue: Queue,
    },
    Downgrade(u8, u8),
    Limit(u8, u32),
    /// Another process takes over: the next steps go through another store.
    Switch,
}

/// What an acquire says of waiting.
#[derive(Clone, Debug)]
struct Queue {
    /// Milliseconds that its place and a claim last.
    place: Option<(u64, u64)>,
    reserve: u32,
    barging: bool,
    unattended: bool,
    listener: Option<u8>,
}

impl Queue {
    fn ask(&self, request: &mut AcquireRequest, hears: ListenerId) {
        request.place = self.place.map(|(live, claim)| {
            PlaceRequest::new(common::ttl(claim), Duration::from_millis(live))
        });
        (request.reserve, request.barging) = (self.reserve, self.barging);
        request.unattended = self.unattended;
        request.listener =
            self.listener.map(|which| if which == HEARS { hears } else { GONE_LISTENER });
    }
}

fn queue() -> impl Strategy<Value = Queue> {
    let place =
        (prop_oneof![Just(0u64), Just(40), Just(60_000)], prop_oneof![Just(10u64), Just(500)]);
    let listener = prop_oneof![2 => Just(None), 2 => Just(Some(HEARS)), 1 => Just(Some(GONE))];
    (
        prop::option::weighted(0.8, place),
        prop_oneof![Just(0u32), 0u32..9, Just(5_000)],
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
        listener,
    )
        .prop_map(|(place, reserve, barging, unattended, listener)| Queue {
            place,
            reserve,
            barging,
            unattended,
            listener,
        })
}

/// How many names there are.
const NAMES: u8 = 4;
/// Somebody listens there.
const HEARS: u8 = 1;
/// Nobody does.
const GONE: u8 = 2;

/// Relative to the wall clock, in microseconds.
type Fences = (Option<i64>, Option<i64>);

fn names() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0..NAMES, 1..4)
}

fn millis() -> impl Strategy<Value = u64> {
    prop_oneof![Just(10u64), Just(50), Just(1_000), 10u64..3_000]
}

fn retain() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), Just(100), Just(600_000)]
}

fn around() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0i64), -100_000i64..100_000, Just(10_000_000), Just(10_000_001)]
}

/// Mostly in the future.
fn deadline() -> impl Strategy<Value = i64> {
    prop_oneof![Just(-1i64), Just(0), Just(1), Just(1_000_000), Just(1_000_000)]
}

fn step() -> impl Strategy<Value = Step> {
    let token = || 0u8..5;
    prop_oneof![
        3 => prop_oneof![Just(10_000u64), Just(50_000), 1u64..2_000_000].prop_map(Step::Advance),
        1 => Just(Step::Advance(700_000_000)),
        6 => (
            names(), token(), millis(), retain(),
            (prop::option::weighted(0.2, around()), prop::option::weighted(0.2, around())),
            deadline(), queue(),
        ).prop_map(|(names, token, ttl, retain, fence, deadline, queue)| {
            Step::Acquire { names, token, ttl, retain, fence, deadline, queue }
        }),
        3 => (prop::collection::vec((names(), token(), millis(), retain()), 0..4), 0u32..9)
            .prop_map(|(batch, reserve)| Step::Renew(batch, reserve)),
        2 => (names(), token(), millis(), retain()).prop_map(|(names, token, ttl, retain)| {
            Step::Shorten { names, token, ttl, retain }
        }),
        4 => (names(), token(), retain())
            .prop_map(|(names, token, retain)| Step::Release { names, token, retain }),
        2 => (names(), token(), token(), millis(), retain(), deadline()).prop_map(
            |(names, from, to, ttl, retain, deadline)| {
                Step::Exchange { names, from, to, ttl, retain, deadline }
            }
        ),
        2 => (names(), token(), around())
            .prop_map(|(names, token, ahead)| Step::Raise { names, token, ahead }),
        2 => (
            names(), token(), millis(), retain(), prop::option::of(around()), deadline(),
        ).prop_map(|(names, token, ttl, retain, ahead, deadline)| {
            Step::Heal { names, token, ttl, retain, ahead, deadline }
        }),
        2 => (0..NAMES).prop_map(Step::Inspect),
        1 => (prop_oneof![Just(vec![]), Just(b"n".to_vec()), Just(b"n1".to_vec())], 1usize..4)
            .prop_map(|(prefix, limit)| Step::List { prefix, limit }),
        1 => (0..NAMES, retain()).prop_map(|(name, retain)| Step::Force { name, retain }),
        1 => (0..NAMES).prop_map(Step::Revoke),
        1 => Just(Step::Switch),
    ]
}

const GONE_LISTENER: ListenerId = ListenerId::from_u64(7);

/// Few names, many who wait for them, and little that fails.
fn line_step() -> impl Strategy<Value = Step> {
    let token = || 0u8..6;
    let names = || {
        prop_oneof![
            5 => (0u8..2).prop_map(|name| vec![name]),
            1 => Just(vec![0, 1]),
        ]
    };
    let ttl = || prop_oneof![Just(50u64), Just(1_000), Just(60_000)];
    prop_oneof![
        3 => prop_oneof![Just(9_999u64), Just(10_000), Just(40_000), Just(500_000)]
            .prop_map(Step::Advance),
        8 => (names(), token(), ttl(), retain(), queue()).prop_map(
            |(names, token, ttl, retain, queue)| {
                let (fence, deadline) = ((None, None), 1_000_000);
                Step::Acquire { names, token, ttl, retain, fence, deadline, queue }
            }
        ),
        6 => (names(), token(), retain())
            .prop_map(|(names, token, retain)| Step::Release { names, token, retain }),
        2 => (names(), token(), ttl(), retain(), 0u32..9).prop_map(
            |(names, token, ttl, retain, reserve)| {
                Step::Renew(vec![(names, token, ttl, retain)], reserve)
            }
        ),
        1 => (names(), token(), ttl(), retain()).prop_map(|(names, token, ttl, retain)| {
            Step::Shorten { names, token, ttl, retain }
        }),
        1 => (0u8..2, retain()).prop_map(|(name, retain)| Step::Force { name, retain }),
        1 => (0u8..2).prop_map(Step::Revoke),
        1 => (0u8..2).prop_map(Step::Inspect),
        1 => Just(Step::Switch),
    ]
}

/// Few names, mostly of one kind each, and many who hold them together.
fn joint_step() -> impl Strategy<Value = Step> {
    let token = || 0u8..6;
    let name = || 0u8..NAMES;
    let ttl = || prop_oneof![Just(50u64), Just(1_000), Just(60_000)];
    prop_oneof![
        3 => prop_oneof![Just(9_999u64), Just(10_000), Just(40_000), Just(500_000)]
            .prop_map(Step::Advance),
        10 => (name(), 0..MODES, token(), ttl(), retain(), queue()).prop_map(
            |(name, mode, token, ttl, retain, queue)| {
                Step::Join { name, mode, token, ttl, retain, queue }
            }
        ),
        6 => (name(), token(), retain())
            .prop_map(|(name, token, retain)| Step::Release { names: vec![name], token, retain }),
        2 => (name(), token(), ttl(), retain()).prop_map(|(name, token, ttl, retain)| {
            Step::Renew(vec![(vec![name], token, ttl, retain)], 0)
        }),
        1 => (name(), token(), ttl(), retain()).prop_map(|(name, token, ttl, retain)| {
            Step::Shorten { names: vec![name], token, ttl, retain }
        }),
        1 => (name(), token(), token(), ttl(), retain()).prop_map(
            |(name, from, to, ttl, retain)| {
                let deadline = 1_000_000;
                Step::Exchange { names: vec![name], from, to, ttl, retain, deadline }
            }
        ),
        2 => (name(), token()).prop_map(|(name, token)| Step::Downgrade(name, token)),
        1 => (name(), 1u32..4).prop_map(|(name, limit)| Step::Limit(name, limit)),
        1 => (name(), retain()).prop_map(|(name, retain)| Step::Force { name, retain }),
        1 => name().prop_map(Step::Revoke),
        2 => name().prop_map(Step::Inspect),
        1 => Just(Step::List { prefix: vec![], limit: 2 }),
        1 => Just(Step::Switch),
    ]
}

/// How many choices each name has.
const MODES: usize = 8;

fn mode(name: u8, choice: usize) -> Mode {
    let owned = |by: &str| Mode::Owned(Owner::new(by).unwrap());
    match (name, choice) {
        // One of another kind now and then.
        (_, 0) => Mode::Exclusive,
        (0, 1..=3) => Mode::Shared,
        (0, 4 | 5) => owned("a"),
        (0, 6) => owned("b"),
        (0, _) => Mode::Exclusive,
        (1, 1..=4) => Mode::Permits { permits: 1, limit: 2 },
        (1, 5 | 6) => Mode::Permits { permits: 2, limit: 2 },
        (1, _) => Mode::Permits { permits: 1, limit: 3 },
        (2, 1..=4) => Mode::CountDown { count: 2 },
        (2, _) => Mode::Opening { count: 2 },
        (_, 7) => Mode::Meeting { parties: 3 },
        _ => Mode::Meeting { parties: 2 },
    }
}

fn lock(number: u8) -> LockName {
    common::name(&format!("n{number}"))
}

fn set(numbers: &[u8]) -> Names {
    Names::new(numbers.iter().map(|&number| lock(number))).unwrap()
}

fn token(number: u8) -> Token {
    Token::from_bytes([number; 16])
}

fn kept(millis: u64) -> Retain {
    Retain::new(Duration::from_millis(millis))
}

fn shifted(now: StoreTime, by: i64) -> u64 {
    now.as_micros().saturating_add_signed(by)
}

fn fence(now: StoreTime, by: i64) -> FencingToken {
    FencingToken::new(shifted(now, by)).unwrap()
}

fn until(now: StoreTime, by: i64) -> Option<StoreTime> {
    Some(StoreTime::from_micros(shifted(now, by)))
}

/// One step on both; the answers are the same, and so is the instant.
async fn both(store: &SqliteStore, table: &mut LockTable, hears: ListenerId, step: Step) {
    let now = store.store_now();
    let never = Moment::NEVER;
    macro_rules! same {
        ($verb:ident, $request:expr) => {{
            let request = $request;
            let reply = store.$verb(&request, never).await.unwrap();
            assert_eq!(reply.at, Some(now.lease));
            assert_eq!(reply.answer, table.$verb(&request, now), "{request:?}");
        }};
    }
    match step {
        Step::Advance(_) | Step::Switch => unreachable!("no verb"),
        Step::Join { name, mode: choice, token: by, ttl, retain, queue } => {
            let mut request = AcquireRequest::new(lock(name), token(by), common::ttl(ttl));
            request.retain = kept(retain);
            request.metadata = Metadata::new(vec![by; usize::from(by) * 100]).unwrap();
            request.mode = mode(name, choice);
            let reserve = queue.reserve;
            queue.ask(&mut request, hears);
            request.reserve = if request.mode.is_exclusive() { reserve } else { 0 };
            same!(acquire, request);
        }
        Step::Downgrade(name, by) => same!(downgrade, DowngradeRequest::new(lock(name), token(by))),
        Step::Limit(name, limit) => same!(set_limit, SetLimitRequest::new(lock(name), limit)),
        Step::Acquire {
            names,
            token: by,
            ttl,
            retain,
            fence: (floor, proposed),
            deadline,
            queue,
        } => {
            let mut request = AcquireRequest::new(set(&names), token(by), common::ttl(ttl));
            request.retain = kept(retain);
            request.metadata = Metadata::new(vec![by; usize::from(by) * 100]).unwrap();
            request.floor = floor.map(|by| fence(now.wall, by));
            request.proposed = proposed.map(|by| fence(now.wall, by));
            request.deadline = until(now.lease, deadline);
            queue.ask(&mut request, hears);
            same!(acquire, request);
        }
        Step::Renew(batch, reserve) => {
            let batch: Vec<_> = batch
                .into_iter()
                .map(|(names, by, ttl, retain)| {
                    let mut request = RenewRequest::new(set(&names), token(by), common::ttl(ttl));
                    request.retain = kept(retain);
                    request.reserve = reserve;
                    request
                })
                .collect();
            same!(renew, batch);
        }
        Step::Shorten { names, token: by, ttl, retain } => {
            let mut request = ShortenRequest::new(set(&names), token(by), common::ttl(ttl));
            request.retain = kept(retain);
            same!(shorten, request);
        }
        Step::Release { names, token: by, retain } => {
            let mut request = ReleaseRequest::new(set(&names), token(by));
            request.retain = kept(retain);
            same!(release, request);
        }
        Step::Exchange { names, from, to, ttl, retain, deadline } => {
            let mut request =
                ExchangeRequest::new(set(&names), token(from), token(to), common::ttl(ttl));
            request.retain = kept(retain);
            request.deadline = until(now.lease, deadline);
            same!(exchange_token, request);
        }
        Step::Raise { names, token: by, ahead } => {
            same!(
                raise_fence,
                RaiseFenceRequest::new(set(&names), token(by), fence(now.wall, ahead))
            );
        }
        Step::Heal { names, token: by, ttl, retain, ahead, deadline } => {
            let mut request = HealRequest::new(set(&names), token(by), common::ttl(ttl));
            request.retain = kept(retain);
            request.fencing_token = ahead.map(|by| fence(now.wall, by));
            request.deadline = until(now.lease, deadline);
            same!(heal, request);
        }
        Step::Inspect(name) => same!(inspect, InspectRequest::new(lock(name))),
        Step::List { prefix, limit } => {
            let mut request = ListRequest::new(prefix);
            request.limit = limit;
            loop {
                let reply = store.list(&request, never).await.unwrap();
                let expected = table.list(&request, now);
                assert_eq!(reply.answer.locks, expected.locks);
                assert_eq!(reply.answer.next.is_some(), expected.next.is_some());
                let Some(next) = reply.answer.next else { break };
                request.cursor = Some(next);
            }
        }
        Step::Revoke(name) => same!(revoke, RevokeRequest::new(lock(name))),
        Step::Force { name, retain } => {
            let mut request = ForceReleaseRequest::new(lock(name));
            request.retain = kept(retain);
            same!(force_release, request);
        }
    }
}

/// Removes from the table what the sweep has cleared away.
fn sweep_too(file: &rusqlite::Connection, table: &mut LockTable, now: StoreNow) {
    for name in (0..NAMES).map(lock) {
        let mut select = file.prepare_cached(LINE).unwrap();
        let kept = select.query_map([name.as_bytes()], |row| row.get(0)).unwrap();
        let kept: Vec<[u8; Token::BYTES]> = kept.collect::<Result<_, _>>().unwrap();
        while table.line(&name).count() > kept.len() {
            let forgotten = table.record(&name).is_none_or(|record| record.is_forgotten(now));
            let place = table.remove_first(&name).unwrap();
            assert!(forgotten && place.is_lapsed(now.lease), "{name:?} lost {place:?}");
        }
        let line: Vec<_> = table.line(&name).map(|place| *place.token.as_bytes()).collect();
        assert_eq!(kept, line, "{name:?}");
    }
}

const LINE: &str = "SELECT token FROM place WHERE name = ?1 ORDER BY number";

fn cases() -> u32 {
    match std::env::var("FENCELOCK_SOAK") {
        Ok(_) => 5_000,
        Err(_) => 60,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn every_verb_answers_as_the_table_does(steps in prop::collection::vec(step(), 1..60)) {
        run(steps);
    }

    #[test]
    fn lines_move_as_those_of_the_table_do(steps in prop::collection::vec(line_step(), 20..120)) {
        run(steps);
    }

    #[test]
    fn names_are_held_together_as_in_the_table(
        steps in prop::collection::vec(joint_step(), 20..120)
    ) {
        run(steps);
    }
}

/// Asks a store and the table the same.
fn run(steps: Vec<Step>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let clock = ManualClock::new();
    let stores = [common::manual(&path, &clock), common::manual(&path, &clock)];
    let mut table = LockTable::default();
    table.set_gone(GONE_LISTENER);
    let file = common::bare(&path);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut at = 0;
        let ear = Arc::new(common::Ear::default());
        let subscription = stores[0].listen(ear.clone(), Moment::NEVER).await.unwrap();
        let hears = subscription.listener;
        let mut told = Vec::new();
        for step in steps {
            match step {
                Step::Advance(micros) => clock.advance(Duration::from_micros(micros)),
                Step::Switch => at = 1 - at,
                step => {
                    both(&stores[at], &mut table, hears, step).await;
                    sweep_too(&file, &mut table, stores[at].store_now());
                }
            }
            // What the table tells whom, the ear hears, in the same order. At once: the queue
            // of a socket is short.
            let mail = table.take_mail().into_iter();
            told.extend(mail.filter(|(to, _)| *to == hears).map(|(_, wakeup)| wakeup));
            ear.hears_all(&told).await;
        }
    });
    let intact: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(intact, "ok");
}
