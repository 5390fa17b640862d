//! What is run: a store by its url, what is done to it in between, and the run itself.
//!
//! This is where other stores are plugged in: Sentinel, a cluster, a quorum are a url as
//! `Client::builder` takes it, and faults that are closures (a failover, the loss of a node). A fault
//! must leave a store that comes back by itself.

use std::time::{Duration, Instant};

use fencelock_testkit::eventually;

use crate::{
    crew::Work,
    ledger::{Ledger, Order, Reader},
};

/// Longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// How many grants lie between two faults.
const BETWEEN: u64 = 100;

/// A store, and what happens to it.
pub(crate) struct World<'a> {
    url: String,
    order: Order,
    faults: Vec<Fault<'a>>,
}

/// One thing that happens.
pub(crate) struct Fault<'a> {
    name: &'static str,
    strike: Box<dyn Fn() + 'a>,
}

impl<'a> Fault<'a> {
    pub(crate) fn new(name: &'static str, strike: impl Fn() + 'a) -> Self {
        Self { name, strike: Box::new(strike) }
    }
}

impl<'a> World<'a> {
    /// A store, and what order its faults leave: [`Order::Strict`] while it keeps its records.
    pub(crate) fn new(url: impl Into<String>, order: Order) -> Self {
        Self { url: url.into(), order, faults: Vec::new() }
    }

    pub(crate) fn fault(mut self, fault: Fault<'a>) -> Self {
        self.faults.push(fault);
        self
    }
}

/// Lets the crew work, strikes every hundred grants, and asks the witness.
#[track_caller]
pub(crate) fn run(world: &World<'_>, work: &Work) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ledger");
    drop(Ledger::open(&path));
    let mut reader = Reader::open(&path);
    let start = Instant::now();
    let mut crew = work.start(&world.url, &path);

    let wanted = work.all_grants();
    let mut struck = 0;
    let moments = (1..).map(|n| n * BETWEEN).take_while(|moment| moment + BETWEEN / 2 < wanted);
    for (fault, moment) in world.faults.iter().cycle().zip(moments) {
        let what = format!("{moment} grants, after {struck} faults");
        eventually(LIMIT, &what, || {
            let alive = crew.iter_mut().all(|member| member.exited().is_none_or(|it| it.success()));
            assert!(alive, "a process of the crew failed: {}", crew[0].stderr());
            reader.grants() >= moment
        });
        (fault.strike)();
        struck += 1;
    }
    for member in &mut crew {
        let ended = member.wait_within(LIMIT);
        assert!(ended.status.success(), "a process of the crew failed: {}", ended.stderr);
    }

    let verdict = reader.verdict(world.order);
    let faults: Vec<&str> = world.faults.iter().map(|fault| fault.name).collect();
    eprintln!(
        "{} grants in {:.1?} ({:?}), {struck} faults of {faults:?}; {} compared, {} out of forgotten \
         leases, at most {} at once, {} violations",
        verdict.grants,
        start.elapsed(),
        world.order,
        verdict.compared,
        verdict.outlived,
        verdict.overlapping_max,
        verdict.violations.len()
    );
    assert_eq!(verdict.violations, Vec::<String>::new());
    assert_eq!(verdict.grants, wanted);
    // A witness that compares nothing sees nothing.
    assert!(verdict.compared * 10 >= wanted * 9, "{} of {wanted} compared", verdict.compared);
}
