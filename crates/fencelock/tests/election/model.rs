//! An election against a naive model, in histories that a computer made up.
//!
//! Goal: who leads, in which order, by which term, and what observers see is what a list of candidates
//! says. Method: each step is done to the library and to the model; then all that the model says is
//! waited for. The first of the list leads; terms grow.

use std::collections::VecDeque;

use fencelock::{Leadership, Observed, Released};
use proptest::prelude::*;
use tokio::task::JoinHandle;

use crate::world::{World, secs, until};

#[derive(Clone, Copy, Debug)]
enum Op {
    /// One more candidate comes.
    Campaign,
    /// One of those who wait gives up.
    GiveUp(usize),
    /// The leader resigns.
    Resign,
    /// The leader's guard is dropped.
    Drop,
    /// The leader loses its term, as by an operator.
    Lose,
}

/// Those who are left, in order: the first leads.
struct Play {
    world: World,
    candidates: VecDeque<Candidate>,
    came: usize,
    last_term: u64,
}

struct Candidate {
    info: String,
    campaign: Option<JoinHandle<Leadership>>,
    leadership: Option<Leadership>,
}

impl Play {
    async fn step(&mut self, op: Op) {
        match op {
            Op::Campaign => self.campaign().await,
            Op::GiveUp(which) => {
                let waiting = self.candidates.len().saturating_sub(1);
                if waiting > 0
                    && let Some(candidate) = self.candidates.remove(1 + which % waiting)
                {
                    candidate.campaign.expect("it waits").abort();
                }
            }
            Op::Resign | Op::Drop | Op::Lose => {
                let Some(mut leader) = self.candidates.pop_front() else { return };
                let leadership = leader.leadership.take().expect("it leads");
                match op {
                    Op::Resign => assert_eq!(leadership.resign().await, Released::Held),
                    Op::Drop => drop(leadership),
                    _ => {
                        let forced = self.world.other().danger().force_release("job").await;
                        assert!(forced.unwrap().is_some(), "it was held");
                        assert_ne!(leadership.resign().await, Released::Held);
                    }
                }
            }
        }
        self.settle().await;
    }

    async fn campaign(&mut self) {
        self.came += 1;
        let info = format!("candidate {}", self.came);
        let election = self.world.client.election("job").ttl(secs(3_600));
        let campaign = tokio::spawn({
            let info = info.clone();
            async move { election.campaign(info).await.unwrap() }
        });
        let campaign = Some(campaign);
        self.candidates.push_back(Candidate { info, campaign, leadership: None });
    }

    /// Waits until everything is as the list says.
    async fn settle(&mut self) {
        let Self { world, candidates, last_term, .. } = self;
        if let Some(first) = candidates.front_mut()
            && let Some(campaign) = first.campaign.take()
        {
            let leadership = campaign.await.unwrap();
            let term = leadership.term().expect("there are fencing tokens").as_u64();
            assert!(term > *last_term, "terms grow: {term} after {last_term}");
            *last_term = term;
            first.leadership = Some(leadership);
        }
        let waiting = candidates.len().saturating_sub(1);
        until("all others wait", || world.waiting("job") as usize == waiting).await;
        for (place, candidate) in candidates.iter().enumerate() {
            assert_eq!(candidate.campaign.is_none(), place == 0, "only the first leads");
            let campaign = candidate.campaign.as_ref();
            assert!(campaign.is_none_or(|campaign| !campaign.is_finished()));
        }
        until("nobody else holds it", || world.is_held("job") != candidates.is_empty()).await;
        let seen = world.other().election("job").observe().next().await.expect("a first item");
        match (seen.unwrap(), candidates.front()) {
            (Observed::Leader(leader), Some(first)) => {
                assert_eq!((leader.info, leader.term), {
                    let leadership = first.leadership.as_ref().expect("it leads");
                    assert!(leadership.is_leader());
                    (first.info.clone(), leadership.term())
                });
            }
            (Observed::Vacant, None) => {}
            (seen, first) => panic!("{seen:?}, where {:?} leads", first.map(|first| &first.info)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn an_election_is_as_its_model(ops in prop::collection::vec(prop_oneof![
        5 => Just(Op::Campaign), 1 => any::<usize>().prop_map(Op::GiveUp),
        2 => Just(Op::Resign), 1 => Just(Op::Drop), 1 => Just(Op::Lose),
    ], 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::reached().await;
            let candidates = VecDeque::new();
            let mut play = Play { world, candidates, came: 0, last_term: 0 };
            for op in ops {
                play.step(op).await;
            }
        });
    }
}
