//! What is run: a store by its url, what is done to it in between, and the run itself.
//!
//! This is where stores are plugged in: a url as `Client::builder` takes it, or several with spaces
//! in between for a quorum, and faults that are closures (a fail-over, the loss of a node). A fault
//! must leave a store that comes back by itself.

use std::time::{Duration, Instant};

use fencelock_testkit::eventually;

use crate::{
    crew::Work,
    ledger::{Ledger, Order, Reader},
};

/// Longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// How many grants lie between two faults, unless a world says otherwise.
const BETWEEN: u64 = 100;

/// A store, and what happens to it.
pub(crate) struct World<'a> {
    url: String,
    order: Order,
    between: u64,
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
        Self { url: url.into(), order, between: BETWEEN, faults: Vec::new() }
    }

    /// How many grants lie between two faults, where one takes seconds.
    pub(crate) fn between(self, between: u64) -> Self {
        Self { between, ..self }
    }

    pub(crate) fn fault(mut self, fault: Fault<'a>) -> Self {
        self.faults.push(fault);
        self
    }
}

/// Lets the crew work, strikes now and then, and asks the witness.
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
    let between = world.between;
    let moments = (1..).map(|n| n * between).take_while(|moment| moment + between / 2 < wanted);
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
