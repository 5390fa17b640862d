//! The scripts say what `LockTable` says.
//!
//! Goal: equal answers to random sequences of all verbs on one and several names, with repeated
//! requests and steps of the clock. Method: each request goes to a real server whose clock the test
//! moves; its reply tells the time `at` which it was executed, and the table is asked at that time.
//!
//! One thing is excluded, and exactly that: the server forgets a record with its key, whose expiry
//! is kept in whole milliseconds (from an instant shortly before `at`) and up to 3 ms late on
//! purpose, while the table forgets to the microsecond. So no request is sent within `GRAY` of the
//! instant at which a record is forgotten, and a sequence in which one was executed there all the
//! same (the machine was busy) ends before its answer is compared, as does one in which the server
//! was held up for longer between its look at the clock and its write. After each step the records
//! themselves are compared too, byte for byte: not every field shows in the next answer.

mod support;

use std::time::Duration;

use fencelock_core::{
    AcquireRequest, ExchangeRequest, FencingToken, ForceReleaseRequest, HealRequest,
    InspectRequest, LockName, LockTable, Metadata, Names, RaiseFenceRequest, Record, RecordState,
    ReleaseRequest, RenewRequest, Retain, ShortenRequest, StoreNow, StoreTime, Token, Ttl,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Reply, Store, rt};
use fencelock_testkit::RedisServer;
use proptest::{prelude::*, test_runner::TestRunner};
use support::{name, names, soon, store_at};

/// How near to the end of a record no request is sent.
const GRAY: Duration = Duration::from_millis(20);
const TOKENS: u8 = 4;

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Acquire { who: Who, fence: Fences, deadline: Option<i64> },
    Renew(Vec<Who>),
    Shorten(Who),
    Release(Who),
    Exchange { who: Who, to: u8, fence: Fences, deadline: Option<i64> },
    Raise { who: Who, fence: i64 },
    Heal { who: Who, fence: Option<i64>, deadline: Option<i64> },
    Inspect(u8),
    ForceRelease { at: u8, retain: u64 },
}

#[derive(Clone, Debug)]
struct Who {
    /// Bits: which of the names.
    names: u8,
    token: u8,
    ttl: u64,
    retain: u64,
    metadata: u8,
}

/// Offsets to the present, in microseconds.
#[derive(Clone, Debug)]
struct Fences {
    floor: Option<i64>,
    proposed: Option<i64>,
}

fn who() -> impl Strategy<Value = Who> {
    let names = prop_oneof![3 => prop::sample::select(vec![1u8, 2, 4]), 1 => 1u8..8];
    let ttl = prop::sample::select(vec![10u64, 500, 2_000, 5_000, 60_000]);
    let retain = prop::sample::select(vec![0u64, 1, 3_000, 600_000]);
    (names, 0..TOKENS, ttl, retain, 0u8..3).prop_map(|(names, token, ttl, retain, metadata)| Who {
        names,
        token,
        ttl,
        retain,
        metadata,
    })
}

/// Around the present, around the limit of ten seconds, and ahead of the clock.
fn offset() -> impl Strategy<Value = i64> {
    prop::sample::select(vec![-1_000_000, -1, 0, 50_000, 3_000_000, 9_900_000, 10_500_000])
}

fn fences() -> impl Strategy<Value = Fences> {
    (prop::option::weighted(0.2, offset()), prop::option::weighted(0.3, offset()))
        .prop_map(|(floor, proposed)| Fences { floor, proposed })
}

fn deadline() -> impl Strategy<Value = Option<i64>> {
    prop::option::weighted(0.2, prop::sample::select(vec![-1_000_000, 5_000_000]))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::sample::select(vec![1u64, 9, 300, 2_000, 4_000, 60_000, 700_000]).prop_map(Step::Advance),
        5 => (who(), fences(), deadline())
            .prop_map(|(who, fence, deadline)| Step::Acquire { who, fence, deadline }),
        2 => prop::collection::vec(who(), 1..4).prop_map(Step::Renew),
        1 => who().prop_map(Step::Shorten),
        3 => who().prop_map(Step::Release),
        2 => (who(), 0..TOKENS, fences(), deadline())
            .prop_map(|(who, to, fence, deadline)| Step::Exchange { who, to, fence, deadline }),
        2 => (who(), offset()).prop_map(|(who, fence)| Step::Raise { who, fence }),
        2 => (who(), prop::option::of(offset()), deadline())
            .prop_map(|(who, fence, deadline)| Step::Heal { who, fence, deadline }),
        1 => (0u8..3).prop_map(Step::Inspect),
        1 => (0u8..3, prop::sample::select(vec![0u64, 3_000]))
            .prop_map(|(at, retain)| Step::ForceRelease { at, retain }),
    ]
}

/// The server, its store, and the table that is compared with them.
struct Pair<'s> {
    server: &'s RedisServer,
    store: RedisStore,
    table: LockTable,
    /// The offset of the server's clock from ours.
    offset: Duration,
    tokens: Vec<Token>,
    connection: redis::Connection,
}

/// What became of a step.
#[derive(Debug, PartialEq)]
enum Seen {
    Equal,
    /// It was executed where the two may rightly differ.
    Gray,
}

impl Pair<'_> {
    fn now(&self) -> StoreTime {
        rt::wall_now().saturating_add(self.offset)
    }

    fn advance(&mut self, by: Duration) {
        self.server.clock().advance(by);
        self.offset += by;
    }

    /// Whether a record is forgotten about then.
    fn is_gray(&self, at: StoreTime) -> bool {
        NAMES.iter().filter_map(|at| self.table.record(&name(at))).any(|record| {
            let end = record.forget_at;
            let after = at.saturating_since(end);
            let before = end.saturating_since(at);
            (after.is_zero() && before < GRAY) || (before.is_zero() && after < GRAY)
        })
    }

    fn leave_the_gray(&mut self) {
        while self.is_gray(self.now()) {
            self.advance(2 * GRAY);
        }
    }

    fn compare<A: PartialEq + std::fmt::Debug>(
        &mut self,
        step: &Step,
        reply: Result<Reply<A>, fencelock_store::StoreError>,
        ask: impl FnOnce(&mut LockTable, StoreNow) -> A,
    ) -> Seen {
        let reply = reply.unwrap_or_else(|error| panic!("{step:?}: {error:?}"));
        let at = reply.at.expect("native replies tell the time");
        if self.is_gray(at) {
            return Seen::Gray;
        }
        let expected = ask(&mut self.table, StoreNow::same(at));
        assert_eq!(reply.answer, expected, "{step:?} at {at}: the server, then the table");
        let late =
            NAMES.map(|at_name| self.compare_record(step, &name(at_name), StoreNow::same(at)));
        if late.into_iter().any(|late| late > GRAY / 2) { Seen::Gray } else { Seen::Equal }
    }

    /// What is at the key says what the table remembers. Returns how late the key goes: by more
    /// than some ms if the server was held up between its look at the clock and its write.
    fn compare_record(&mut self, step: &Step, at: &LockName, now: StoreNow) -> Duration {
        let key = KEYS[NAMES.iter().position(|known| name(known) == *at).expect("one of ours")];
        let raw: Option<Vec<u8>> =
            redis::cmd("GET").arg(key).query(&mut self.connection).expect("the server answers");
        // What the table forgets in the next microsecond, the server may delete in this one.
        let kept = |record: &&Record| record.is_live(now) || record.forget_at > now.wall;
        let Some(record) = self.table.record(at).filter(kept) else {
            return Duration::ZERO;
        };
        // A key set to expire at a millisecond is there until that has passed.
        let expiry: i64 = redis::cmd("PEXPIRETIME")
            .arg(key)
            .query(&mut self.connection)
            .expect("the server answers");
        let (Some(raw), Ok(expiry)) = (raw, u64::try_from(expiry)) else {
            let now = rt::wall_now().saturating_add(self.offset);
            assert_ne!(expiry, -1, "{step:?}: {key} never expires");
            assert!(now > record.forget_at, "{step:?}: {key} is gone at {now}, {record:?}");
            return Duration::ZERO;
        };
        let gone = StoreTime::from_micros((expiry + 1) * 1_000);
        let late = gone.saturating_since(record.forget_at);
        assert!(
            gone > record.forget_at,
            "{step:?}: {key} expires too early, at {gone}, {record:?}"
        );
        let token = record.token.map(|token| token.reveal()).expect("the rules always write one");
        let fence = record.fencing_token.map_or(0, FencingToken::as_u64);
        let held = record.state == RecordState::Held;
        let head = format!(
            "fl1m{}{token}{}{fence:016}",
            if held { 'h' } else { 'f' },
            u8::from(record.fence_by_token)
        );
        let shown = raw.escape_ascii();
        assert!(raw.starts_with(head.as_bytes()), "{step:?}: {shown} at {key}, {record:?}");
        if !held {
            assert_eq!(raw.len(), head.len(), "{step:?}: {shown} at {key}, {record:?}");
            return late;
        }
        let number = |range: std::ops::Range<usize>| -> u64 {
            std::str::from_utf8(&raw[range]).expect("digits").parse().expect("a number")
        };
        let end = number(54..70) + 1_000 * number(70..78);
        assert_eq!(end, record.end.as_micros(), "{step:?}: {shown} at {key}, {record:?}");
        assert_eq!(&raw[78..], record.metadata.as_bytes(), "{step:?}: {shown} at {key}");
        late
    }

    fn token(&self, index: u8) -> Token {
        self.tokens[usize::from(index)]
    }

    fn at(&self, offset: i64) -> StoreTime {
        let now = self.now().as_micros();
        StoreTime::from_micros(now.checked_add_signed(offset).expect("a time after 1970"))
    }

    fn fence(&self, offset: i64) -> FencingToken {
        FencingToken::new(self.at(offset).as_micros()).expect("before the year 2255")
    }

    async fn run(&mut self, step: &Step) -> Seen {
        self.leave_the_gray();
        let store = self.store.clone();
        let by = soon(&store);
        match step {
            Step::Advance(millis) => {
                self.advance(Duration::from_millis(*millis));
                Seen::Equal
            }
            Step::Acquire { who, fence, deadline } => {
                let mut request =
                    AcquireRequest::new(who.names(), self.token(who.token), who.ttl());
                request.retain = who.retain();
                request.metadata = who.metadata();
                request.floor = fence.floor.map(|offset| self.fence(offset));
                request.proposed = fence.proposed.map(|offset| self.fence(offset));
                request.deadline = deadline.map(|offset| self.at(offset));
                let reply = store.acquire(&request, by).await;
                self.compare(step, reply, |table, now| table.acquire(&request, now))
            }
            Step::Renew(batch) => {
                let batch: Vec<RenewRequest> = batch
                    .iter()
                    .map(|who| {
                        let token = self.token(who.token);
                        let mut request = RenewRequest::new(who.names(), token, who.ttl());
                        request.retain = who.retain();
                        request
                    })
                    .collect();
                let reply = store.renew(&batch, by).await;
                self.compare(step, reply, |table, now| table.renew(&batch, now))
            }
            Step::Shorten(who) => {
                let mut request =
                    ShortenRequest::new(who.names(), self.token(who.token), who.ttl());
                request.retain = who.retain();
                let reply = store.shorten(&request, by).await;
                self.compare(step, reply, |table, now| table.shorten(&request, now))
            }
            Step::Release(who) => {
                let mut request = ReleaseRequest::new(who.names(), self.token(who.token));
                request.retain = who.retain();
                let reply = store.release(&request, by).await;
                self.compare(step, reply, |table, now| table.release(&request, now))
            }
            Step::Exchange { who, to, fence, deadline } => {
                let (from, to) = (self.token(who.token), self.token(*to));
                let mut request = ExchangeRequest::new(who.names(), from, to, who.ttl());
                request.retain = who.retain();
                request.metadata = who.metadata();
                request.floor = fence.floor.map(|offset| self.fence(offset));
                request.deadline = deadline.map(|offset| self.at(offset));
                let reply = store.exchange_token(&request, by).await;
                self.compare(step, reply, |table, now| table.exchange_token(&request, now))
            }
            Step::Raise { who, fence } => {
                let fence = self.fence(*fence);
                let request = RaiseFenceRequest::new(who.names(), self.token(who.token), fence);
                let reply = store.raise_fence(&request, by).await;
                self.compare(step, reply, |table, now| table.raise_fence(&request, now))
            }
            Step::Heal { who, fence, deadline } => {
                let mut request = HealRequest::new(who.names(), self.token(who.token), who.ttl());
                request.retain = who.retain();
                request.metadata = who.metadata();
                request.fencing_token = fence.map(|offset| self.fence(offset));
                request.deadline = deadline.map(|offset| self.at(offset));
                let reply = store.heal(&request, by).await;
                self.compare(step, reply, |table, now| table.heal(&request, now))
            }
            Step::Inspect(at) => {
                let request = InspectRequest::new(name(NAMES[usize::from(*at)]));
                let reply = store.inspect(&request, by).await;
                self.compare(step, reply, |table, now| table.inspect(&request, now))
            }
            Step::ForceRelease { at, retain } => {
                let mut request = ForceReleaseRequest::new(name(NAMES[usize::from(*at)]));
                request.retain = Retain::new(Duration::from_millis(*retain));
                let reply = store.force_release(&request, by).await;
                self.compare(step, reply, |table, now| table.force_release(&request, now))
            }
        }
    }
}

const NAMES: [&str; 3] = ["a", "b%", "c\n"];
const KEYS: [&str; 3] = ["fencelock:a", "fencelock:b%25", "fencelock:c%0A"];

impl Who {
    fn names(&self) -> Names {
        let chosen: Vec<&str> =
            (0..3).filter(|bit| self.names & (1 << bit) != 0).map(|bit| NAMES[bit]).collect();
        names(&chosen)
    }

    fn ttl(&self) -> Ttl {
        support::ttl(self.ttl)
    }

    fn retain(&self) -> Retain {
        Retain::new(Duration::from_millis(self.retain))
    }

    fn metadata(&self) -> Metadata {
        Metadata::new(vec![self.metadata; usize::from(self.metadata)]).expect("a few bytes")
    }
}

#[test]
fn random_sequences_of_all_verbs_are_answered_alike() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let server = RedisServer::builder().clock().start();
    let store = store_at(&server.url(), Dialect::Native);
    let offset = std::cell::Cell::new(Duration::ZERO);
    let (compared, gray) = (std::cell::Cell::new(0u32), std::cell::Cell::new(0u32));
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        source_file: Some(file!()),
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&prop::collection::vec(step(), 1..40), |steps| {
        server.cli(&["FLUSHALL"]);
        let tokens = (0..TOKENS).map(|_| rt::fresh_token()).collect();
        let table = LockTable::default();
        let mut pair = Pair {
            server: &server,
            store: store.clone(),
            table,
            offset: offset.get(),
            tokens,
            connection: server.connect(),
        };
        for step in &steps {
            let seen = runtime.block_on(pair.run(step));
            offset.set(pair.offset);
            if seen == Seen::Gray {
                gray.set(gray.get() + 1);
                break;
            }
            compared.set(compared.get() + 1);
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    println!("{} answers compared, {} sequences cut short", compared.get(), gray.get());
    assert!(gray.get() <= cases / 10, "{} of {cases} sequences were cut short", gray.get());
}
