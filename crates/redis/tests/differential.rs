//! The scripts say what `LockTable` says.
//!
//! Goal: equal answers to random sequences of all verbs on one and several names, with repeated
//! requests and steps of the clock. Method: each request goes to a real server whose clock the test
//! moves; its reply tells the time `at` which it was executed, and the table is asked at that time.
//! A sequence has the modes of one kind of lock, mostly. `FENCELOCK_SOAK=1` runs thousands.
//!
//! One thing is excluded, and exactly that: the server forgets a record with its key, whose expiry
//! is kept in whole milliseconds (from an instant shortly before `at`) and up to 3 ms late on
//! purpose, while the table forgets to the microsecond. So no request is sent within `GRAY` of the
//! instant at which a record is forgotten, and a sequence in which one was executed there all the
//! same (the machine was busy) ends before its answer is compared, as does one in which the server
//! was held up for longer between its look at the clock and its write. After each step the records
//! and the lines themselves are compared too, byte for byte: not every field shows in the next
//! answer. So is what was told to the one of two listeners that is there.
//!
//! A line whose places have all lapsed goes with its key, once the record is forgotten; the table
//! keeps it until somebody looks. What is gone at the server is deleted in the table, after a check
//! that it may be.

mod layout;
mod support;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, DowngradeRequest, ExchangeRequest, FencingToken, ForceReleaseRequest,
    HealRequest, InspectRequest, ListenerId, LockName, LockTable, Metadata, Mode, Names, Owner,
    Place, PlaceRequest, RaiseFenceRequest, Record, ReleaseRequest, RenewRequest, Retain,
    RevokeRequest, SetLimitRequest, ShortenRequest, StoreNow, StoreTime, Token, Ttl, Wakeup,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Reply, Store, Subscription, WakeupSink, rt};
use fencelock_testkit::RedisServer;
use layout::Found;
use proptest::{prelude::*, test_runner::TestRunner};
use support::{name, names, soon, store_at};

/// How near to the end of a record no request is sent.
const GRAY: Duration = Duration::from_millis(20);
const TOKENS: u8 = 6;
/// How many modes a sequence has, some more than once.
const MODES: usize = 6;

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    /// `mode` is one of those that the sequence has.
    Acquire {
        who: Who,
        mode: usize,
        fence: Fences,
        deadline: Option<i64>,
        wish: Wish,
    },
    Downgrade {
        at: u8,
        token: u8,
    },
    SetLimit {
        at: u8,
        limit: u32,
        retain: u64,
    },
    Renew(Vec<(Who, Wish)>),
    Shorten(Who),
    Release(Who),
    Exchange {
        who: Who,
        to: u8,
        fence: Fences,
        deadline: Option<i64>,
        listener: Listens,
    },
    Raise {
        who: Who,
        fence: i64,
    },
    Heal {
        who: Who,
        fence: Option<i64>,
        deadline: Option<i64>,
    },
    Inspect(u8),
    ForceRelease {
        at: u8,
        retain: u64,
    },
    Revoke(u8),
}

#[derive(Clone, Copy, Debug)]
enum Listens {
    Nowhere,
    There,
    /// Where nobody is any more.
    Gone,
}

/// What a request can ask for besides a lease.
#[derive(Clone, Debug)]
struct Wish {
    /// Claim and live, in ms.
    place: Option<(u64, u64)>,
    listener: Listens,
    barging: bool,
    reserve: u32,
    unattended: bool,
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

fn listens() -> impl Strategy<Value = Listens> {
    prop::sample::select(vec![Listens::Nowhere, Listens::There, Listens::There, Listens::Gone])
}

fn wish() -> impl Strategy<Value = Wish> {
    let claim = prop::sample::select(vec![10u64, 500, 5_000]);
    let live = prop::sample::select(vec![0u64, 1_000, 30_000, 30_000]);
    let reserve = prop::sample::select(vec![0u32, 0, 0, 64, 4_096, 5_000]);
    let place = prop::option::weighted(0.6, (claim, live));
    let rarely = || prop::bool::weighted(0.15);
    (place, listens(), rarely(), reserve, rarely()).prop_map(
        |(place, listener, barging, reserve, unattended)| Wish {
            place,
            listener,
            barging,
            reserve,
            unattended,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::sample::select(vec![1u64, 9, 300, 2_000, 4_000, 60_000, 700_000]).prop_map(Step::Advance),
        9 => (who(), any::<prop::sample::Index>(), fences(), deadline(), wish()).prop_map(
            |(who, mode, fence, deadline, wish)| Step::Acquire {
                who, mode: mode.index(MODES), fence, deadline, wish,
            }
        ),
        1 => (0u8..3, 0..TOKENS).prop_map(|(at, token)| Step::Downgrade { at, token }),
        1 => (0u8..3, 0u32..5, prop::sample::select(vec![0u64, 3_000]))
            .prop_map(|(at, limit, retain)| Step::SetLimit { at, limit, retain }),
        2 => prop::collection::vec((who(), wish()), 1..4).prop_map(Step::Renew),
        1 => who().prop_map(Step::Shorten),
        6 => who().prop_map(Step::Release),
        2 => (who(), 0..TOKENS, fences(), deadline(), listens()).prop_map(
            |(who, to, fence, deadline, listener)| Step::Exchange {
                who, to, fence, deadline, listener,
            }
        ),
        2 => (who(), offset()).prop_map(|(who, fence)| Step::Raise { who, fence }),
        2 => (who(), prop::option::of(offset()), deadline())
            .prop_map(|(who, fence, deadline)| Step::Heal { who, fence, deadline }),
        1 => (0u8..3).prop_map(Step::Inspect),
        1 => (0u8..3, prop::sample::select(vec![0u64, 3_000]))
            .prop_map(|(at, retain)| Step::ForceRelease { at, retain }),
        1 => (0u8..3).prop_map(Step::Revoke),
    ]
}

/// The modes of a sequence: of one kind of lock, mostly, since others are foreign to it.
fn modes() -> impl Strategy<Value = [Mode; MODES]> {
    let owned = |by: &str| Mode::Owned(Owner::new(by).expect("a short owner"));
    let permits = |permits| Mode::Permits { permits, limit: 4 };
    let (step, open) = (Mode::CountDown { count: 2 }, Mode::Opening { count: 2 });
    let meet = |parties| Mode::Meeting { parties };
    let (alone, read) = (Mode::Exclusive, Mode::Shared);
    prop::sample::select(vec![
        std::array::from_fn(|_| alone.clone()),
        [read.clone(), read.clone(), read.clone(), read.clone(), alone.clone(), alone.clone()],
        [owned("a"), owned("a"), owned("\0 -"), read.clone(), alone.clone(), owned("a")],
        [
            permits(1),
            permits(2),
            permits(4),
            permits(1),
            Mode::Permits { permits: 5, limit: 4 },
            Mode::Permits { permits: 5, limit: 5 },
        ],
        [
            step.clone(),
            step.clone(),
            open.clone(),
            open.clone(),
            step.clone(),
            Mode::CountDown { count: 3 },
        ],
        [meet(2), meet(2), meet(3), meet(2), meet(2), meet(0)],
        [alone, read, owned("b"), permits(2), step, meet(2)],
    ])
}

/// Keeps what it hears.
#[derive(Default)]
struct Ear(Mutex<Vec<Wakeup>>);

impl WakeupSink for Ear {
    fn wake(&self, wakeup: Wakeup) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(wakeup);
    }

    fn broken(&self) {
        panic!("the connection broke");
    }
}

impl Ear {
    fn take(&self) -> Vec<Wakeup> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The server, its store, and the table that is compared with them.
struct Pair<'s> {
    server: &'s RedisServer,
    store: RedisStore,
    table: LockTable,
    /// The offset of the server's clock from ours.
    offset: Duration,
    tokens: Vec<Token>,
    modes: [Mode; MODES],
    connection: redis::Connection,
    ear: &'s Ear,
    there: ListenerId,
    gone: ListenerId,
    /// When each key goes, as it was before the step.
    expiries: [Option<StoreTime>; 3],
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

    /// Whether a record is forgotten, or a key went, about then, as things were before the step.
    fn is_gray(&self, at: StoreTime) -> bool {
        let near =
            |end: StoreTime| at.saturating_since(end) < GRAY && end.saturating_since(at) < GRAY;
        let forgotten = NAMES.iter().filter_map(|at| self.table.record(&name(at)));
        if forgotten.map(|record| record.forget_at).any(near) {
            return true;
        }
        self.expiries.iter().flatten().copied().any(near)
    }

    /// When a key goes.
    fn expiry(&mut self, key: &str) -> Option<StoreTime> {
        let expiry: i64 = redis::cmd("PEXPIRETIME")
            .arg(key)
            .query(&mut self.connection)
            .expect("the server answers");
        assert_ne!(expiry, -1, "{key} never expires");
        u64::try_from(expiry).ok().map(|expiry| StoreTime::from_micros((expiry + 1) * 1_000))
    }

    /// Deletes in the table what is gone at the server.
    fn forget(&mut self) {
        let now = StoreNow::same(self.now());
        for (index, key) in KEYS.iter().enumerate() {
            let at = name(NAMES[index]);
            if self.expiry(key).is_some() || self.table.waiting(&at) == 0 {
                continue;
            }
            let record = self.table.record(&at);
            assert!(record.is_none_or(|record| record.is_forgotten(now)), "{key}: {record:?}");
            let lapsed = self.table.line(&at).all(|place| place.is_lapsed(now.lease));
            assert!(lapsed, "{key} is gone while somebody waits there");
            self.table.delete(&at);
        }
    }

    fn leave_the_gray(&mut self) {
        self.expiries = KEYS.map(|key| self.expiry(key));
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
        let mail = self.table.take_mail().into_iter().filter(|(to, _)| *to == self.there);
        let mail: Vec<Wakeup> = mail.map(|(_, wakeup)| wakeup).collect();
        assert_eq!(self.ear.take(), mail, "{step:?} at {at}: what was heard, what was to be told");
        let late =
            NAMES.map(|at_name| self.compare_record(step, &name(at_name), StoreNow::same(at)));
        if late.into_iter().any(|late| late > GRAY / 2) { Seen::Gray } else { Seen::Equal }
    }

    /// What is at the key says what the table remembers. Returns how late the key goes: by more
    /// than some ms if the server was held up between its look at the clock and its write.
    fn compare_record(&mut self, step: &Step, at: &LockName, now: StoreNow) -> Duration {
        let key = KEYS[NAMES.iter().position(|known| name(known) == *at).expect("one of ours")];
        // What the table forgets in the next microsecond, the server may delete in this one.
        let kept = |record: &&Record| record.is_live(now) || record.forget_at > now.wall;
        let record = self.table.record(at).filter(kept).cloned();
        let line: Vec<Place> = self.table.line(at).cloned().collect();
        // Read before the expiry: a key that has one then was there.
        let found = self.read(key);
        let Some(gone) = self.expiry(key) else {
            let now = rt::wall_now().saturating_add(self.offset);
            if let Some(record) = record {
                assert!(now > record.forget_at, "{step:?}: {key} is gone at {now}, {record:?}");
            }
            for place in line {
                assert!(place.is_lapsed(now), "{step:?}: {key} is gone at {now}, {place:?}");
            }
            return Duration::ZERO;
        };
        let found = found.expect("it was there");
        layout::compare(&format!("{step:?}: {key}"), &found, record.as_ref(), &line, gone, now)
    }

    fn read(&mut self, key: &str) -> Option<Found> {
        let raw: Result<Option<Vec<u8>>, _> =
            redis::cmd("GET").arg(key).query(&mut self.connection);
        match raw {
            Ok(raw) => raw.map(Found::Text),
            Err(_) => {
                let fields = redis::cmd("HGETALL").arg(key).query(&mut self.connection);
                Some(Found::Fields(fields.expect("it is a hash")))
            }
        }
    }

    fn listener(&self, listens: Listens) -> Option<ListenerId> {
        match listens {
            Listens::Nowhere => None,
            Listens::There => Some(self.there),
            Listens::Gone => Some(self.gone),
        }
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
        self.forget();
        let store = self.store.clone();
        let by = soon(&store);
        match step {
            Step::Advance(millis) => {
                self.advance(Duration::from_millis(*millis));
                Seen::Equal
            }
            Step::Acquire { who, mode, fence, deadline, wish } => {
                let mut request =
                    AcquireRequest::new(who.names(), self.token(who.token), who.ttl());
                request.retain = who.retain();
                request.metadata = who.metadata();
                request.floor = fence.floor.map(|offset| self.fence(offset));
                request.proposed = fence.proposed.map(|offset| self.fence(offset));
                request.deadline = deadline.map(|offset| self.at(offset));
                request.listener = self.listener(wish.listener);
                request.place = wish.place.map(|(claim, live)| {
                    PlaceRequest::new(support::ttl(claim), Duration::from_millis(live))
                });
                request.barging = wish.barging;
                request.reserve = wish.reserve;
                request.unattended = wish.unattended;
                request.mode = self.modes[*mode].clone();
                let reply = store.acquire(&request, by).await;
                self.compare(step, reply, |table, now| table.acquire(&request, now))
            }
            Step::Renew(batch) => {
                let batch: Vec<RenewRequest> = batch
                    .iter()
                    .map(|(who, wish)| {
                        let token = self.token(who.token);
                        let mut request = RenewRequest::new(who.names(), token, who.ttl());
                        request.retain = who.retain();
                        request.listener = self.listener(wish.listener);
                        request.reserve = wish.reserve;
                        request.unattended = wish.unattended;
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
            Step::Exchange { who, to, fence, deadline, listener } => {
                let (from, to) = (self.token(who.token), self.token(*to));
                let mut request = ExchangeRequest::new(who.names(), from, to, who.ttl());
                request.retain = who.retain();
                request.metadata = who.metadata();
                request.floor = fence.floor.map(|offset| self.fence(offset));
                request.deadline = deadline.map(|offset| self.at(offset));
                request.listener = self.listener(*listener);
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
            Step::Downgrade { at, token } => {
                let at = name(NAMES[usize::from(*at)]);
                let request = DowngradeRequest::new(at, self.token(*token));
                let reply = store.downgrade(&request, by).await;
                self.compare(step, reply, |table, now| table.downgrade(&request, now))
            }
            Step::SetLimit { at, limit, retain } => {
                let mut request = SetLimitRequest::new(name(NAMES[usize::from(*at)]), *limit);
                request.retain = Retain::new(Duration::from_millis(*retain));
                let reply = store.set_limit(&request, by).await;
                self.compare(step, reply, |table, now| table.set_limit(&request, now))
            }
            Step::Revoke(at) => {
                let request = RevokeRequest::new(name(NAMES[usize::from(*at)]));
                let reply = store.revoke(&request, by).await;
                self.compare(step, reply, |table, now| table.revoke(&request, now))
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
    let usual = if std::env::var_os("FENCELOCK_SOAK").is_some() { 4_000 } else { 150 };
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let server = RedisServer::builder().clock().start();
    let store = store_at(&server.url(), Dialect::Native);
    let ear = Arc::new(Ear::default());
    let sink = Arc::clone(&ear) as Arc<dyn WakeupSink>;
    let subscription: Subscription =
        runtime.block_on(store.listen(sink, soon(&store))).expect("it can be listened to");
    let offset = std::cell::Cell::new(Duration::ZERO);
    let (compared, gray) = (std::cell::Cell::new(0u32), std::cell::Cell::new(0u32));
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        source_file: Some(file!()),
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&(modes(), prop::collection::vec(step(), 1..40)), |(modes, steps)| {
        server.cli(&["FLUSHALL"]);
        let tokens = (0..TOKENS).map(|_| rt::fresh_token()).collect();
        let mut table = LockTable::default();
        let gone = rt::fresh_listener();
        table.set_gone(gone);
        let _ = ear.take();
        let mut pair = Pair {
            server: &server,
            store: store.clone(),
            table,
            offset: offset.get(),
            tokens,
            modes,
            connection: server.connect(),
            ear: &ear,
            there: subscription.listener,
            gone,
            expiries: [None; 3],
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
