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
//! and the lines themselves are compared too, byte for byte: not every field shows in the next
//! answer. So is what was told to the one of two listeners that is there.
//!
//! A line whose places have all lapsed goes with its key, once the record is forgotten; the table
//! keeps it until somebody looks. What is gone at the server is deleted in the table, after a check
//! that it may be.

mod support;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, ExchangeRequest, FencingToken, ForceReleaseRequest, HealRequest,
    InspectRequest, ListenerId, LockName, LockTable, Metadata, Names, Place, PlaceRequest,
    RaiseFenceRequest, Record, RecordState, ReleaseRequest, RenewRequest, Retain, RevokeRequest,
    ShortenRequest, StoreNow, StoreTime, Token, Ttl, Wakeup,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Reply, Store, Subscription, WakeupSink, rt};
use fencelock_testkit::RedisServer;
use proptest::{prelude::*, test_runner::TestRunner};
use support::{name, names, soon, store_at};

/// How near to the end of a record no request is sent.
const GRAY: Duration = Duration::from_millis(20);
const TOKENS: u8 = 6;

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Acquire { who: Who, fence: Fences, deadline: Option<i64>, wish: Wish },
    Renew(Vec<(Who, Wish)>),
    Shorten(Who),
    Release(Who),
    Exchange { who: Who, to: u8, fence: Fences, deadline: Option<i64>, listener: Listens },
    Raise { who: Who, fence: i64 },
    Heal { who: Who, fence: Option<i64>, deadline: Option<i64> },
    Inspect(u8),
    ForceRelease { at: u8, retain: u64 },
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
        9 => (who(), fences(), deadline(), wish())
            .prop_map(|(who, fence, deadline, wish)| Step::Acquire { who, fence, deadline, wish }),
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
        let raw: Result<Option<Vec<u8>>, _> =
            redis::cmd("GET").arg(key).query(&mut self.connection);
        let fields: Result<HashMap<String, Vec<u8>>, _> =
            redis::cmd("HGETALL").arg(key).query(&mut self.connection);
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
        if !line.is_empty() {
            let fields = fields.expect("it is a hash");
            return compare_line(
                &format!("{step:?}: {key}"),
                &fields,
                record.as_ref(),
                &line,
                gone,
            );
        }
        let Some(record) = record else { return Duration::ZERO };
        let late = gone.saturating_since(record.forget_at);
        assert!(
            gone > record.forget_at,
            "{step:?}: {key} expires too early, at {gone}, {record:?}"
        );
        let raw = raw.expect("it is a string").expect("it is there");
        assert_eq!(read(&raw), written(&record), "{step:?}: {key}");
        late
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
            Step::Acquire { who, fence, deadline, wish } => {
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
            Step::Revoke(at) => {
                let request = RevokeRequest::new(name(NAMES[usize::from(*at)]));
                let reply = store.revoke(&request, by).await;
                self.compare(step, reply, |table, now| table.revoke(&request, now))
            }
        }
    }
}

/// What is at a key says what the table remembers of the record and its line.
fn compare_line(
    at: &str,
    fields: &HashMap<String, Vec<u8>>,
    record: Option<&Record>,
    line: &[Place],
    gone: StoreTime,
) -> Duration {
    assert_eq!(fields.len(), 2 * line.len() + 2, "{at}: {fields:?}");
    let bounds = String::from_utf8(fields["q"].clone()).expect("it is text");
    let number =
        |range: std::ops::Range<usize>| -> u64 { bounds[range].parse().expect("a number") };
    assert_eq!(&bounds[48..], "1fencelock:!wake:");
    let mut places = Vec::new();
    for index in number(0..16)..=number(16..32) {
        let Some(raw) = fields.get(&format!("w{index}")) else { continue };
        places.push(raw.escape_ascii().to_string());
        let token = String::from_utf8(raw[..32].to_vec()).expect("a token");
        assert_eq!(fields[&format!("i{token}")], index.to_string().into_bytes());
    }
    let expected: Vec<String> = line.iter().map(written_place).collect();
    assert_eq!(places, expected, "{at}");
    for place in line {
        let lapses = place.seen.saturating_add(place.live);
        assert!(gone > lapses, "{at} expires too early, at {gone}, {place:?}");
    }
    let Some(record) = record else { return Duration::ZERO };
    assert_eq!(read(&fields["r"]), written(record), "{at}");
    let kept = StoreTime::from_micros((number(32..48) + 1) * 1_000);
    assert!(kept > record.forget_at, "{at} is kept until {kept}, {record:?}");
    assert!(gone >= kept, "{at} expires too early, at {gone}, {record:?}");
    kept.saturating_since(record.forget_at)
}

/// A record as it stands in the store, escaped.
fn written(record: &Record) -> String {
    let state = match record.state {
        RecordState::Held => 'h',
        RecordState::Reserved => 'r',
        RecordState::Shared => unreachable!("no operation here shares"),
        RecordState::Free => 'f',
    };
    let token = record.token.map(|token| token.reveal()).expect("the rules always write one");
    let fence = record.fencing_token.map_or(0, FencingToken::as_u64);
    let by_token = u8::from(record.fence_by_token);
    let head = format!("fl2m{state}{token}{by_token}{fence:016}");
    if record.state == RecordState::Free {
        return head;
    }
    let first = record.first_fence.map_or(0, FencingToken::as_u64);
    let listener = record.listener.map_or(0, ListenerId::as_u64);
    let marks = u8::from(record.revoked) + 2 * u8::from(record.unattended);
    // The end is said as a start and a ttl, and only their sum is compared.
    let end = record.end.as_micros();
    let metadata = record.metadata.as_bytes().escape_ascii();
    format!("{head}{first:016}[{end}]{listener:016x}{marks}{metadata}")
}

/// A record that was read, in the same form.
fn read(raw: &[u8]) -> String {
    let text = raw.escape_ascii().to_string();
    if raw.len() < 111 {
        return text;
    }
    let number = |range: std::ops::Range<usize>| -> u64 { text[range].parse().expect("a number") };
    let end = number(70..86) + 1_000 * number(86..94);
    format!("{}[{end}]{}", &text[..70], &text[94..])
}

/// A place as it stands in the store, escaped.
fn written_place(place: &Place) -> String {
    format!(
        "{}{:016}{:08}{:08}{:010}{}{:016}{:04}{:016x}{}",
        place.token.reveal(),
        place.seen.as_micros(),
        place.live.as_millis(),
        place.claim.as_millis(),
        place.retain.as_duration().as_millis(),
        u8::from(place.is_set) + 2 * u8::from(place.barging),
        place.floor.map_or(0, FencingToken::as_u64),
        place.reserve.min(AcquireRequest::MAX_RESERVE),
        place.listener.map_or(0, ListenerId::as_u64),
        place.metadata.as_bytes().escape_ascii(),
    )
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
    let outcome = runner.run(&prop::collection::vec(step(), 1..40), |steps| {
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
