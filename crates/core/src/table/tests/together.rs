//! What must hold of a name that several hold, whatever was asked before.
//!
//! Goal: the safety and liveness of [`crowds`](super::crowds) in every order. Method: random
//! requests for one name, and after each a look by an observer who keeps a history of its own.

use std::{collections::BTreeMap, vec::Vec};

use proptest::prelude::*;

use super::*;
use crate::{
    DowngradeRequest, Fence, LimitSet, Mode, Novelty, Owner, PlaceRequest, RecordState,
    ReleaseRequest, RenewRequest, SetLimitRequest, Wakeup,
};

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Ask { mode: Mode, token: u8, ttl: u64, waits: bool },
    Release(u8),
    Renew(u8),
    Downgrade(u8),
    Limit(u32),
}

fn lock_mode() -> impl Strategy<Value = Mode> {
    let owned = |by: &'static str| Mode::Owned(Owner::new(by).expect("a short owner"));
    prop_oneof![
        3 => Just(Mode::Exclusive),
        5 => Just(Mode::Shared),
        2 => Just(owned("a")),
        1 => Just(owned("b")),
    ]
}

fn permits_mode() -> impl Strategy<Value = Mode> {
    (1u32..4, Just(3u32)).prop_map(|(permits, limit)| Mode::Permits { permits, limit })
}

fn steps(mode: BoxedStrategy<Mode>) -> impl Strategy<Value = Vec<Step>> {
    let token = || 1u8..12;
    let ttl = prop_oneof![Just(50u64), Just(1_000), Just(60_000)];
    let step = prop_oneof![
        3 => prop_oneof![Just(0u64), Just(1), Just(49), Just(50), Just(1_000)].prop_map(Step::Pass),
        9 => (mode, token(), ttl, prop::bool::weighted(0.7)).prop_map(
            |(mode, token, ttl, waits)| Step::Ask { mode, token, ttl, waits }
        ),
        6 => token().prop_map(Step::Release),
        2 => token().prop_map(Step::Renew),
        1 => token().prop_map(Step::Downgrade),
        1 => (2u32..5).prop_map(Step::Limit),
    ];
    prop::collection::vec(step, 1..80)
}

/// What the observer knows.
#[derive(Default)]
struct History {
    /// The number of each token that was granted one, the last.
    numbers: BTreeMap<Token, FencingToken>,
    /// The mode in which each token asked last.
    modes: BTreeMap<Token, Mode>,
    highest: Option<FencingToken>,
}

impl History {
    fn granted(&mut self, token: Token, number: Option<FencingToken>) {
        let number = number.expect("each grant has a number");
        let again = matches!(self.modes.get(&token), Some(Mode::Owned(_)))
            && self.numbers.values().any(|known| *known == number);
        assert!(again || Some(number) > self.highest, "{number} after {:?}", self.highest);
        self.highest = self.highest.max(Some(number));
        self.numbers.insert(token, number);
    }
}

fn observe(table: &LockTable, history: &History, now: StoreNow, moved: bool) {
    let Some(record) = table.record(&name("k")).filter(|record| !record.is_forgotten(now)) else {
        return;
    };
    let shares: Vec<_> = record.live_shares(now).collect();
    if record.state == RecordState::Held {
        assert!(shares.is_empty(), "somebody is beside one who is alone");
    }
    let modes: Vec<_> = shares.iter().filter_map(|share| history.modes.get(&share.token)).collect();
    let crowd = record.crowd.as_ref();
    if let Some(owner) = crowd.and_then(|crowd| crowd.owner.as_ref()) {
        assert!(modes.iter().all(|mode| **mode == Mode::Owned(owner.clone())), "{modes:?}");
    } else {
        // A writer that became a reader asked to be alone.
        assert!(modes.iter().all(|mode| !matches!(mode, Mode::Owned(_))), "{modes:?}");
    }
    let tokens: Vec<_> = shares.iter().map(|share| share.token).collect();
    let line: Vec<_> = table.line(&name("k")).filter(|place| !place.is_lapsed(now.lease)).collect();
    assert!(line.iter().all(|place| !tokens.contains(&place.token)), "a holder waits for itself");
    if !moved {
        return;
    }
    // Nobody waits for what is to be had: whoever is first does not fit beside who is there.
    let Some(first) = line.first() else { return };
    let alone = record.state == RecordState::Held && record.is_live(now);
    let has_room = match &first.mode {
        Mode::Exclusive => shares.is_empty(),
        Mode::Shared => crowd.is_none_or(|crowd| crowd.owner.is_none()),
        Mode::Owned(owner) => {
            shares.is_empty() || crowd.is_some_and(|crowd| crowd.owner.as_ref() == Some(owner))
        }
        Mode::Permits { permits, .. } => crowd.is_none_or(|crowd| {
            let used: u32 = shares.iter().map(|share| share.weight).sum();
            used + permits <= crowd.limit.unwrap_or(0)
        }),
        _ => false,
    };
    assert!(alone || !has_room, "{first:?} waits for {record:?}");
}

fn check(steps: Vec<Step>) {
    let (mut table, mut history, mut millis) = (table(), History::default(), 0);
    for step in steps {
        let now = ms(millis);
        let mut grants = Vec::new();
        let mut moved = matches!(step, Step::Release(_));
        match step {
            Step::Pass(span) => {
                millis += span;
                continue;
            }
            Step::Ask { mode, token: by, ttl: span, waits } => {
                // A token asks for one thing all its life.
                let mode = history.modes.entry(token(by)).or_insert(mode).clone();
                let mut asked = AcquireRequest::new(names(&["k"]), token(by), ttl(span));
                asked.mode = mode.clone();
                asked.place = waits.then(|| PlaceRequest::new(ttl(500), super::millis(5_000)));
                asked.listener = Some(crate::ListenerId::from_u64(by.into()));
                let answer = table.acquire(&asked, now);
                // A copy of what was granted, and what is refused, look at nobody else.
                moved = match &answer {
                    Acquired::Granted(grant) => grant.novelty == Novelty::Fresh,
                    answer => !matches!(answer, Acquired::Refused(_) | Acquired::Foreign(_)),
                };
                if let Acquired::Granted(grant) = answer {
                    let record = table.record(&name("k")).expect("it is held");
                    if let (Mode::Permits { .. }, Novelty::Fresh) = (&mode, grant.novelty) {
                        let crowd = record.crowd.as_ref().expect("permits are shares");
                        assert!(crowd.limit.is_some_and(|limit| crowd.used() <= limit));
                    }
                    match grant.novelty {
                        Novelty::Fresh => grants.push((grant.fence.token(), token(by))),
                        Novelty::Repeated => assert!(matches!(grant.fence, Fence::Token(_))),
                    }
                }
            }
            Step::Release(by) => {
                let _ = table.release(&ReleaseRequest::new(names(&["k"]), token(by)), now);
            }
            Step::Renew(by) => {
                let _ =
                    table.renew(&[RenewRequest::new(names(&["k"]), token(by), ttl(1_000))], now);
            }
            Step::Downgrade(by) => {
                let owned = matches!(history.modes.get(&token(by)), Some(Mode::Owned(_)));
                if !owned {
                    let _ = table.downgrade(&DowngradeRequest::new(name("k"), token(by)), now);
                }
            }
            Step::Limit(limit) => {
                let answer = table.set_limit(&SetLimitRequest::new(name("k"), limit), now);
                moved = matches!(answer, LimitSet::Set { .. });
            }
        }
        for (_, wakeup) in table.take_mail() {
            if let Wakeup::Granted(hand_off) = wakeup {
                grants.push((hand_off.fencing_token, hand_off.token));
            }
        }
        // Of one step: some may have been handed over before the caller was granted its own.
        grants.sort_unstable();
        for (number, token) in grants {
            history.granted(token, number);
        }
        observe(&table, &history, now, moved);
    }
}

proptest! {
    #[test]
    fn readers_writers_and_owners_never_meet_and_nobody_waits_in_vain(
        steps in steps(lock_mode().boxed())
    ) {
        check(steps);
    }

    #[test]
    fn permits_are_never_more_than_the_limit_and_nobody_waits_in_vain(
        steps in steps(permits_mode().boxed())
    ) {
        check(steps);
    }
}
