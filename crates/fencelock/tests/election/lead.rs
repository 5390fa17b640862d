//! The loop of a candidate.

use std::{
    ops::ControlFlow::{Break, Continue},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use fencelock::{
    ErrorKind, FencingToken, Leading, MemoryStore,
    store::{
        Fault, StoreErrorKind, Verb,
        core::{InspectRequest, Inspection},
    },
};
use tokio::sync::mpsc;

use crate::world::{World, millis, name, now, secs, until};

/// Work that says its term and goes on for ever.
async fn work(leading: Leading, terms: mpsc::UnboundedSender<FencingToken>, inside: Inside) {
    terms.send(leading.term().expect("there are fencing tokens")).expect("somebody listens");
    let _inside = inside;
    std::future::pending::<()>().await;
}

/// How often work ended, and how often its lease was over by then.
#[derive(Clone)]
struct Ends {
    memory: MemoryStore,
    all: Arc<AtomicUsize>,
    late: Arc<AtomicUsize>,
}

/// What work has while it runs.
struct Inside(Ends);

impl Ends {
    fn of(world: &World) -> Self {
        Self { memory: world.memory.clone(), all: Arc::default(), late: Arc::default() }
    }

    fn all(&self) -> usize {
        self.all.load(Ordering::SeqCst)
    }

    fn late(&self) -> usize {
        self.late.load(Ordering::SeqCst)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let now = self.0.memory.store_now();
        let request = InspectRequest::new(name("job"));
        let seen = self.0.memory.with_table(|table| table.inspect(&request, now));
        if !matches!(seen, Inspection::Held(_)) {
            self.0.late.fetch_add(1, Ordering::SeqCst);
        }
        self.0.all.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn work_that_breaks_ends_the_loop_and_resigns() {
    let world = World::reached().await;
    let election = world.client.election("job");
    let result = election.lead("a", |leading| async move {
        assert!(leading.is_leader() && leading.info() == "a");
        Break(leading.term())
    });
    assert!(result.await.unwrap().is_some());
    assert!(!world.is_held("job"));
}

#[tokio::test]
async fn work_that_continues_lets_others_lead_and_comes_again() {
    let world = World::reached().await;
    let (sent, mut terms) = mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for candidate in ["a", "b"] {
        let (election, sent) = (world.client.election("job"), sent.clone());
        let memory = world.memory.clone();
        let mut left = 3;
        tasks.push(tokio::spawn(async move {
            election
                .lead(candidate, |leading| {
                    left -= 1;
                    let (sent, memory, end) = (sent.clone(), memory.clone(), left == 0);
                    async move {
                        // Not before the other waits.
                        let others = || memory.with_table(|table| table.waiting(&name("job")));
                        let other_is_done = end && leading.info() == "b";
                        until("the other waits", || other_is_done || others() == 1).await;
                        sent.send((candidate, leading.term())).unwrap();
                        if end { Break(()) } else { Continue(()) }
                    }
                })
                .await
                .unwrap();
        }));
        // The order of the first two is known.
        let first = candidate == "a";
        until("it takes part", || world.is_held("job") && (first || world.waiting("job") == 1))
            .await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    let seen: Vec<_> = std::iter::from_fn(|| terms.try_recv().ok()).collect();
    let who: Vec<&str> = seen.iter().map(|(candidate, _)| *candidate).collect();
    assert_eq!(who, ["a", "b", "a", "b", "a", "b"]);
    assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1), "{seen:?}");
}

#[tokio::test]
async fn a_loss_drops_the_work_and_the_next_term_comes_by_itself() {
    let world = World::reached().await;
    let (sent, mut terms) = mpsc::unbounded_channel();
    let ends = Ends::of(&world);
    let (election, inside) = (world.client.election("job").ttl(secs(9)), ends.clone());
    let leading = tokio::spawn(async move {
        let lead = election.lead("a", |leading| {
            let work = work(leading, sent.clone(), Inside(inside.clone()));
            async move {
                work.await;
                Continue(())
            }
        });
        lead.await.map(|(): ()| ())
    });
    let first = terms.recv().await.unwrap();
    assert_eq!(ends.all(), 0);
    // Nobody answers until the lease is over: then the store comes back.
    world.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    world.pass_until(secs(10), "the work is dropped", || ends.all() == 1).await;
    assert_eq!(ends.late(), 0, "the work ended before its lease did");
    world.faulty.plan_for_all(None);
    world.pass_until(secs(30), "it leads again", || !terms.is_empty()).await;
    let second = terms.recv().await.unwrap();
    assert!(second > first);
    // An operator takes it away: the loss is noticed by a renewal.
    world.delete("job");
    world.pass_until(secs(30), "it leads once more", || !terms.is_empty()).await;
    assert!(terms.recv().await.unwrap() > second);
    assert_eq!(ends.all(), 2);
    leading.abort();
    until("nobody leads", || !world.is_held("job")).await;
    assert_eq!(ends.all(), 3);
}

#[tokio::test]
async fn dropping_the_loop_drops_the_work_before_it_resigns() {
    let world = World::reached().await;
    let (sent, mut terms) = mpsc::unbounded_channel();
    let ends = Ends::of(&world);
    {
        let election = world.client.election("job");
        let lead = election.lead("a", |leading| {
            let work = work(leading, sent.clone(), Inside(ends.clone()));
            async move {
                work.await;
                Break(())
            }
        });
        let mut lead = std::pin::pin!(lead);
        tokio::select! {
            _ = &mut lead => unreachable!("the work has no end"),
            _ = terms.recv() => {}
        }
        assert!(world.is_held("job"));
    }
    assert_eq!((ends.all(), ends.late()), (1, 0));
    until("nobody leads", || !world.is_held("job")).await;
}

#[tokio::test]
async fn a_loss_in_the_very_step_in_which_the_work_breaks_is_told() {
    let world = World::reached().await;
    let clock = world.clock.clone();
    let election = world.client.election("job").ttl(secs(9));
    let result = election.lead("a", |_| {
        let clock = clock.clone();
        async move {
            clock.advance(secs(10));
            Break("done")
        }
    });
    let error = result.await.unwrap_err();
    assert!(error.is_lost(), "{error}");
}

#[tokio::test]
async fn a_panic_of_the_work_resigns() {
    let world = World::reached().await;
    let election = world.client.election("job");
    let task = tokio::spawn(async move {
        let lead = election.lead("a", |_| async { panic!("as the test wants it") });
        lead.await.map(|(): ()| ())
    });
    assert!(task.await.unwrap_err().is_panic());
    until("nobody leads", || !world.is_held("job")).await;
}

#[tokio::test]
async fn work_that_campaigns_for_its_own_name_is_told_that_it_leads_already() {
    let world = World::reached().await;
    let election = world.client.election("job");
    let result =
        election.lead("a", |_| async { Break(election.campaign("b").await.unwrap_err().kind()) });
    assert_eq!(result.await.unwrap(), ErrorKind::AlreadyHeld);
}

#[tokio::test]
async fn what_may_pass_is_waited_out_and_what_can_not_is_told() {
    let world = World::reached().await;
    let faults = [StoreErrorKind::NotAcknowledged, StoreErrorKind::Full];
    for kind in faults {
        world.faulty.plan_for_all(Some(Fault::Fail(kind)));
        let election = world.client.election("job");
        let task = tokio::spawn(async move { election.lead("a", |_| async { Break(()) }).await });
        // The mutex alone gives up after two seconds of this.
        let end = world.clock.now().saturating_add(secs(8));
        world
            .pass_by(millis(200), secs(9), "it goes on", || {
                assert!(!task.is_finished(), "{kind:?} ended it");
                world.clock.now() >= end
            })
            .await;
        world.faulty.plan_for_all(None);
        world.pass_until(secs(12), "it has led", || task.is_finished()).await;
        task.await.unwrap().unwrap();
    }
    world.faulty.plan(Verb::Acquire, Fault::Fail(StoreErrorKind::Denied));
    let election = world.client.election("job");
    let error = election.lead("a", |_| async { Break(()) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
}

#[tokio::test]
async fn a_store_that_was_never_reached_ends_it() {
    let world = World::new();
    world.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    let election = world.client.election("job");
    let task = tokio::spawn(async move { election.lead("a", |_| async { Break(()) }).await });
    world.pass_by(millis(100), secs(4), "it ends", || task.is_finished()).await;
    assert!(task.await.unwrap().unwrap_err().is_unavailable());
}

#[tokio::test]
async fn leading_ends_for_whoever_kept_the_view() {
    let world = World::reached().await;
    let election = world.client.election("job");
    let kept = election.lead("a", |leading| async move { Break(leading) }).await.unwrap();
    assert!(!kept.is_leader());
    assert_eq!(kept.validity_left(), secs(0));
    assert!(now(kept.lost()).is_none(), "it was resigned, not lost");
}
