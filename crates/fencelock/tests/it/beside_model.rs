//! The primitives against naive models, in histories that a computer made up.
//!
//! Goal: what is granted, to whom and in which order is what a list of holds and a list of waiters
//! say. Method: each step is done to the library and to the model; then all that the model says is
//! waited for, and nothing else may be the case. Nobody renews, and time passes only while nobody
//! waits, in steps of 3 s under leases of 10 s, so that no moment is near an end.

use std::{
    collections::{BTreeSet, VecDeque},
    future::Future,
};

use fencelock::{
    Attempt, Barrier, BarrierPass, Error, Guard, Latch, Moment, Part, Permit, ReadGuard,
    ReentrantGuard, Released, Renew, WriteGuard,
};
use proptest::prelude::*;
use tokio::task::JoinHandle;

use crate::world::{World, secs, until};

const TTL: std::time::Duration = secs(10);
const STEP: std::time::Duration = secs(3);

/// How a name is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Alone,
    Write,
    Read,
    Owned(u8),
    Permits(u32),
}

/// What is held.
enum Grant {
    Alone(Guard),
    Write(WriteGuard),
    Read(ReadGuard),
    Owned(ReentrantGuard),
    Permits(Permit),
}

impl Grant {
    fn number(&self) -> u64 {
        match self {
            Self::Alone(guard) => u64::from(guard.fencing_token().expect("a number")),
            Self::Write(guard) => u64::from(guard.fencing_token().expect("a number")),
            Self::Owned(guard) => u64::from(guard.fencing_token().expect("a number")),
            Self::Read(guard) => guard.shared_token().expect("a number").as_u64(),
            Self::Permits(permit) => permit.number().expect("a number"),
        }
    }

    fn is_valid(&self) -> bool {
        match self {
            Self::Alone(guard) => guard.is_valid(),
            Self::Write(guard) => guard.is_valid(),
            Self::Owned(guard) => guard.is_valid(),
            Self::Read(guard) => guard.is_valid(),
            Self::Permits(permit) => permit.is_valid(),
        }
    }

    async fn renew(&self) -> Result<(), Error> {
        match self {
            Self::Alone(guard) => guard.renew(TTL).await,
            Self::Write(guard) => guard.renew(TTL).await,
            Self::Owned(guard) => guard.renew(TTL).await,
            Self::Read(guard) => guard.renew(TTL).await,
            Self::Permits(permit) => permit.renew(TTL).await,
        }
    }

    async fn release(self) -> Released {
        match self {
            Self::Alone(guard) => guard.release().await,
            Self::Write(guard) => guard.release().await,
            Self::Owned(guard) => guard.release().await,
            Self::Read(guard) => guard.release().await,
            Self::Permits(permit) => permit.release().await,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Try(Ask),
    Wait(Ask),
    Release(usize),
    GiveUp(usize),
    Downgrade(usize),
    Renew(usize),
    SetLimit(u32),
    Pass,
}

fn ops(asks: impl Strategy<Value = Ask> + Clone) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => asks.clone().prop_map(Op::Try),
        4 => asks.prop_map(Op::Wait),
        4 => any::<usize>().prop_map(Op::Release),
        1 => any::<usize>().prop_map(Op::GiveUp),
        2 => any::<usize>().prop_map(Op::Downgrade),
        1 => any::<usize>().prop_map(Op::Renew),
        1 => (1..6_u32).prop_map(Op::SetLimit),
        2 => Just(Op::Pass),
    ];
    prop::collection::vec(op, 1..30)
}

/// A hold, as the model has it.
#[derive(Debug)]
struct Hold<T> {
    ask: Ask,
    end: Moment,
    grant: T,
}

struct History {
    world: World,
    limit: u32,
    holds: Vec<Hold<Grant>>,
    line: VecDeque<(Ask, JoinHandle<Result<Grant, Error>>)>,
    highest: u64,
}

impl History {
    async fn new() -> Self {
        let world = World::reached().await;
        Self { world, limit: 4, holds: Vec::new(), line: VecDeque::new(), highest: 0 }
    }

    /// The model's rule: what goes beside what.
    fn fits(&self, ask: Ask) -> bool {
        let beside = |hold: &Hold<Grant>| match (ask, hold.ask) {
            (Ask::Read, Ask::Read) => true,
            (Ask::Owned(asked), Ask::Owned(held)) => asked == held,
            (Ask::Permits(_), Ask::Permits(_)) => true,
            _ => false,
        };
        let weight = |ask: Ask| if let Ask::Permits(permits) = ask { permits } else { 0 };
        let used: u32 = self.holds.iter().map(|hold| weight(hold.ask)).sum();
        self.holds.iter().all(beside) && used + weight(ask) <= self.limit
    }

    /// Whether somebody who asks now is granted it: not before those who wait, but for an owner.
    fn is_granted(&self, ask: Ask) -> bool {
        let reenters = matches!(ask, Ask::Owned(_)) && !self.holds.is_empty();
        self.fits(ask) && (self.line.is_empty() || reenters)
    }

    fn ask(&self, ask: Ask) -> impl Future<Output = Result<Grant, Error>> + use<> {
        let client = self.world.client.clone();
        let limit = self.limit;
        async move {
            Ok(match ask {
                Ask::Alone => Grant::Alone(
                    client.mutex("k").ttl(TTL).renewal(Renew::Manual).strict_fifo().lock().await?,
                ),
                Ask::Write => {
                    Grant::Write(client.rwlock("k").ttl(TTL).renewal(Renew::Manual).write().await?)
                }
                Ask::Read => {
                    Grant::Read(client.rwlock("k").ttl(TTL).renewal(Renew::Manual).read().await?)
                }
                Ask::Owned(owner) => {
                    let lock = client.reentrant("k", vec![owner]);
                    Grant::Owned(lock.ttl(TTL).renewal(Renew::Manual).lock().await?)
                }
                Ask::Permits(permits) => {
                    let semaphore = client.semaphore("k", limit).ttl(TTL).renewal(Renew::Manual);
                    Grant::Permits(semaphore.acquire_many(permits).await?)
                }
            })
        }
    }

    async fn try_for(&self, ask: Ask) -> Option<Grant> {
        let client = &self.world.client;
        let lock = client.rwlock("k").ttl(TTL).renewal(Renew::Manual);
        let answer = match ask {
            Ask::Alone => {
                let mutex = client.mutex("k").ttl(TTL).renewal(Renew::Manual);
                mutex.try_lock().await.map(|tried| tried.granted().map(Grant::Alone))
            }
            Ask::Write => lock.try_write().await.map(|tried| tried.granted().map(Grant::Write)),
            Ask::Read => lock.try_read().await.map(|tried| tried.granted().map(Grant::Read)),
            Ask::Owned(owner) => {
                let lock = client.reentrant("k", vec![owner]).ttl(TTL).renewal(Renew::Manual);
                lock.try_lock().await.map(|tried| tried.granted().map(Grant::Owned))
            }
            Ask::Permits(permits) => {
                let semaphore = client.semaphore("k", self.limit).ttl(TTL).renewal(Renew::Manual);
                let tried = semaphore.try_acquire_many(permits).await;
                tried.map(|tried| tried.granted().map(Grant::Permits))
            }
        };
        answer.expect("nothing fails")
    }

    fn hold(&mut self, ask: Ask, grant: Grant) {
        let number = grant.number();
        let same = self.holds.iter().find(|hold| matches!(hold.ask, Ask::Owned(_)));
        match same {
            Some(hold) if matches!(ask, Ask::Owned(_)) => assert_eq!(number, hold.grant.number()),
            _ => assert!(number > self.highest, "{ask:?}: numbers grow"),
        }
        assert!(grant.is_valid(), "{ask:?}");
        self.highest = self.highest.max(number);
        let end = self.world.clock.now().saturating_add(TTL);
        self.holds.push(Hold { ask, end, grant });
    }

    /// Takes from the head of the line whoever fits, and waits until each of them has it.
    async fn settle(&mut self) {
        while self.line.front().is_some_and(|(ask, _)| self.fits(*ask)) {
            let (ask, waiting) = self.line.pop_front().expect("there is one");
            until(&format!("{ask:?} is granted"), || waiting.is_finished()).await;
            let grant = waiting.await.expect("it ends").expect("it is granted");
            self.hold(ask, grant);
        }
        let length = u32::try_from(self.line.len()).expect("few");
        until("the line is as it should be", || self.world.waiting("k") == length).await;
        for (ask, waiting) in &self.line {
            assert!(!waiting.is_finished(), "{ask:?} waits");
        }
        for hold in &self.holds {
            assert!(hold.grant.is_valid(), "{:?} is held", hold.ask);
        }
    }

    async fn step(&mut self, op: Op) {
        match op {
            Op::Try(Ask::Permits(permits)) | Op::Wait(Ask::Permits(permits))
                if permits > self.limit => {}
            Op::Try(ask) => {
                let is_granted = self.is_granted(ask);
                let grant = self.try_for(ask).await;
                assert_eq!(grant.is_some(), is_granted, "{ask:?} beside {:?}", self.asks());
                if let Some(grant) = grant {
                    self.hold(ask, grant);
                }
            }
            Op::Wait(ask) => {
                let is_granted = self.is_granted(ask);
                let waiting = tokio::spawn(self.ask(ask));
                if is_granted {
                    until(&format!("{ask:?} is granted"), || waiting.is_finished()).await;
                    let grant = waiting.await.expect("it ends").expect("it is granted");
                    self.hold(ask, grant);
                } else {
                    self.line.push_back((ask, waiting));
                }
            }
            Op::Release(index) if !self.holds.is_empty() => {
                let hold = self.holds.remove(index % self.holds.len());
                assert_eq!(hold.grant.release().await, Released::Held);
            }
            Op::GiveUp(index) if !self.line.is_empty() => {
                let at = index % self.line.len();
                let (_, waiting) = self.line.remove(at).expect("there is one");
                waiting.abort();
                assert!(waiting.await.is_err(), "it was dropped");
            }
            Op::Downgrade(index) if !self.holds.is_empty() => {
                let hold = self.holds.remove(index % self.holds.len());
                let (ask, grant) = match (hold.ask, hold.grant) {
                    (Ask::Write, Grant::Write(guard)) => {
                        let number = u64::from(guard.fencing_token().expect("a number"));
                        let reader = guard.downgrade().await.expect("it is held");
                        assert_eq!(reader.shared_token().expect("a number").as_u64(), number);
                        (Ask::Read, Grant::Read(reader))
                    }
                    other => other,
                };
                self.holds.push(Hold { ask, end: hold.end, grant });
            }
            Op::Renew(index) if !self.holds.is_empty() => {
                let at = index % self.holds.len();
                self.holds[at].grant.renew().await.expect("it is held");
                self.holds[at].end = self.world.clock.now().saturating_add(TTL);
            }
            Op::SetLimit(limit) => self.set_limit(limit).await,
            Op::Pass if self.line.is_empty() => {
                self.world.clock.advance(STEP);
                let now = self.world.clock.now();
                let (over, live) = std::mem::take(&mut self.holds)
                    .into_iter()
                    .partition(|hold: &Hold<Grant>| hold.end <= now);
                self.holds = live;
                for hold in over {
                    assert!(!hold.grant.is_valid(), "{:?} is over", hold.ask);
                    assert_ne!(hold.grant.release().await, Released::Held);
                }
            }
            _ => {}
        }
        self.settle().await;
    }

    /// Whoever waits with the old limit is told of the new one.
    async fn set_limit(&mut self, limit: u32) {
        let change = self.world.client.semaphore("k", limit).set_limit(limit).await;
        let is_other = |ask: Ask| !matches!(ask, Ask::Permits(_));
        if self
            .holds
            .iter()
            .map(|hold| hold.ask)
            .chain(self.line.iter().map(|(ask, _)| *ask))
            .any(is_other)
        {
            assert!(change.is_err(), "it is another kind of lock");
            return;
        }
        let used: u32 = self
            .holds
            .iter()
            .map(|hold| if let Ask::Permits(permits) = hold.ask { permits } else { 0 })
            .sum();
        assert_eq!(change.expect("nothing fails").used, used);
        if limit != self.limit {
            self.limit = limit;
            for (ask, waiting) in std::mem::take(&mut self.line) {
                until(&format!("{ask:?} is told"), || waiting.is_finished()).await;
                assert!(waiting.await.expect("it ends").is_err_and(|error| error.is_config()));
            }
        }
    }

    fn asks(&self) -> Vec<Ask> {
        self.holds.iter().map(|hold| hold.ask).collect()
    }

    async fn end(mut self) {
        for (_, waiting) in self.line.drain(..) {
            waiting.abort();
        }
        for hold in self.holds.drain(..) {
            let _found = hold.grant.release().await;
        }
        let world = &self.world;
        is_done(world, "k").await;
    }
}

/// A wait that is dropped in the middle of a question leaves a release that is asked for until that
/// question comes too late: for a second, on the clock.
async fn is_done(world: &World, name: &str) {
    let none = || world.waiting(name) == 0 && world.keeper() == (0, 0);
    world.pass_by(secs(1), secs(60), "nothing is left", none).await;
}

fn in_runtime(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future);
}

fn play(ops: Vec<Op>) {
    in_runtime(async {
        let mut history = History::new().await;
        for op in ops {
            history.step(op).await;
        }
        history.end().await;
    });
}

/// The model of a latch.
#[derive(Default)]
struct Steps {
    taken: BTreeSet<u8>,
    end: Option<Moment>,
}

#[derive(Clone, Copy, Debug)]
enum LatchOp {
    Step(u8),
    Wait,
    GiveUp,
    Pass,
}

const COUNT: u32 = 3;

async fn play_latch(ops: Vec<LatchOp>) {
    let world = World::reached().await;
    let latch: Latch = world.client.latch("ready", COUNT).ttl(TTL);
    let mut model = Steps::default();
    let mut waiting: Vec<JoinHandle<Result<(), Error>>> = Vec::new();
    for op in ops {
        match op {
            LatchOp::Step(step) => {
                latch.count_down_as([step]).await.expect("it counts");
                if model.taken.len() < COUNT as usize && model.taken.insert(step) {
                    model.end = Some(world.clock.now().saturating_add(TTL));
                }
            }
            LatchOp::Wait => {
                let latch = latch.clone();
                waiting.push(tokio::spawn(async move { latch.wait().await }));
            }
            LatchOp::GiveUp => {
                if let Some(waiting) = waiting.pop() {
                    waiting.abort();
                }
            }
            LatchOp::Pass if waiting.is_empty() => {
                world.clock.advance(STEP);
                if model.end.is_some_and(|end| end <= world.clock.now()) {
                    model = Steps::default();
                }
            }
            LatchOp::Pass => {}
        }
        if model.taken.len() == COUNT as usize {
            for waiting in waiting.drain(..) {
                until("it is open", || waiting.is_finished()).await;
                waiting.await.expect("it ends").expect("it is open");
            }
        }
        let length = u32::try_from(waiting.len()).expect("few");
        until("they wait", || world.waiting("ready") == length).await;
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        let missing = COUNT - u32::try_from(model.taken.len()).expect("few");
        assert_eq!(latch.remaining().await.expect("nothing fails"), missing);
    }
    for waiting in waiting {
        waiting.abort();
    }
    is_done(&world, "ready").await;
}

async fn play_barrier(parties: u32, ops: Vec<Option<usize>>) {
    let world = World::reached().await;
    let barrier: Barrier = world.client.barrier("step", parties);
    let mut waiting: Vec<JoinHandle<Result<BarrierPass, Error>>> = Vec::new();
    let mut last = None;
    for op in ops {
        match op {
            Some(index) if !waiting.is_empty() => {
                let at = index % waiting.len();
                waiting.remove(at).abort();
            }
            _ => {
                let barrier = barrier.clone();
                waiting.push(tokio::spawn(async move { barrier.wait().await }));
            }
        }
        if waiting.len() == parties as usize {
            let mut passes = Vec::new();
            for waiting in waiting.drain(..) {
                until("all pass", || waiting.is_finished()).await;
                passes.push(waiting.await.expect("it ends").expect("it passes"));
            }
            let leaders = passes.iter().filter(|pass| pass.is_leader()).count();
            assert!(leaders == 1 && passes.last().is_some_and(BarrierPass::is_leader));
            assert!(passes.iter().all(|pass| pass.number() == passes[0].number()));
            assert!(passes[0].number() > last);
            last = passes[0].number();
        }
        let length = u32::try_from(waiting.len()).expect("few");
        until("they wait", || world.waiting("step") == length).await;
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    }
    for waiting in waiting {
        waiting.abort();
    }
    is_done(&world, "step").await;
}

/// Sets of names as bits: each is tried for as one, and given back.
async fn play_composite(ops: Vec<(u8, bool)>) {
    let world = World::reached().await;
    let client = &world.client;
    let mut held: Vec<(u8, fencelock::CompositeGuard)> = Vec::new();
    for (set, gives) in ops {
        if gives && !held.is_empty() {
            let (_, guard) = held.remove(usize::from(set) % held.len());
            assert_eq!(guard.release().await, Released::Held);
            continue;
        }
        let part = |bit: u8| match bit {
            0 => Part::from(client.mutex("a")),
            1 => Part::write(&client.rwlock("b")),
            2 => Part::from(client.reentrant("c", vec![set, 1])),
            _ => Part::permits(&client.semaphore("d", 2), 2),
        };
        let bits: Vec<u8> = (0..4).rev().filter(|bit| set & (1 << bit) != 0).collect();
        // The owner is the set, so that the same one may have it twice.
        let taken = |own: u8, other: u8| {
            let both = own & other;
            if own == other { both & 0b1011 } else { both }
        };
        let is_free = held.iter().all(|(other, _)| taken(set, *other) == 0);
        let all = client.all_of(bits.into_iter().map(part));
        match all.try_lock().await.expect("nothing fails") {
            Attempt::Granted(guard) => {
                assert!(is_free && guard.is_valid());
                held.push((set, guard));
            }
            Attempt::Busy(_) => assert!(!is_free),
        }
        for (bit, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let is_held = held.iter().any(|(set, _)| set & (1 << bit) != 0);
            assert_eq!(world.is_held(name), is_held, "{name}: nothing is left of a busy try");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_read_write_lock_is_as_its_model(ops in ops(prop_oneof![
        3 => Just(Ask::Read), 2 => Just(Ask::Write), 1 => Just(Ask::Alone),
    ])) {
        play(ops);
    }

    #[test]
    fn a_semaphore_is_as_its_model(ops in ops((1..5_u32).prop_map(Ask::Permits))) {
        play(ops);
    }

    #[test]
    fn a_reentrant_mutex_is_as_its_model(ops in ops(prop_oneof![
        3 => Just(Ask::Owned(1)), 2 => Just(Ask::Owned(2)), 1 => Just(Ask::Read),
        1 => Just(Ask::Alone),
    ])) {
        play(ops);
    }

    #[test]
    fn a_latch_is_as_its_model(ops in prop::collection::vec(prop_oneof![
        4 => (0..5_u8).prop_map(LatchOp::Step), 2 => Just(LatchOp::Wait),
        1 => Just(LatchOp::GiveUp), 3 => Just(LatchOp::Pass),
    ], 1..40)) {
        in_runtime(play_latch(ops));
    }

    #[test]
    fn a_barrier_is_as_its_model(
        parties in 1..5_u32,
        ops in prop::collection::vec(prop::option::weighted(0.3, any::<usize>()), 1..40),
    ) {
        in_runtime(play_barrier(parties, ops));
    }

    #[test]
    fn a_composite_is_as_its_model(
        ops in prop::collection::vec((1..16_u8, prop::bool::weighted(0.4)), 1..40),
    ) {
        in_runtime(play_composite(ops));
    }
}
