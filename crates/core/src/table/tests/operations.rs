//! Random sequences of operations: few names and tokens, so that they meet.

use std::{string::String, vec::Vec};

use proptest::prelude::*;

use super::*;
use crate::{
    ExchangeRequest, Exchanged, ForceReleaseRequest, Forced, ForeignKind, HealRequest, Healed,
    RaiseFenceRequest, Raised, ReleaseRequest, Released, RenewRequest, Renewed, Retain,
    ShortenRequest, Shortened,
};

/// One operation, `pause` after the one before.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) pause: Duration,
    pub(super) names: Names,
    pub(super) token: Token,
    pub(super) verb: Verb,
    pub(super) ttl: Ttl,
    pub(super) retain: Retain,
}

#[derive(Clone, Debug)]
pub(super) enum Verb {
    /// Offsets of a floor, a proposed fencing token and a deadline from the present.
    Acquire {
        floor: Option<i64>,
        proposed: Option<i64>,
        deadline: Option<i64>,
    },
    Renew,
    Shorten,
    Release,
    Exchange {
        to: Token,
    },
    /// Offset of the number from the present.
    Raise(i64),
    Heal(Option<i64>),
    Force,
    Plant,
    Delete,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Acquired(Acquired),
    Renewed(Renewed),
    Shortened(Shortened),
    Released(Released),
    Exchanged(Exchanged),
    Raised(Raised),
    Healed(Healed),
    Forced(Forced),
    Tampered,
}

impl Step {
    pub(super) fn acquire_request(&self, now: StoreNow) -> Option<AcquireRequest> {
        let Verb::Acquire { floor, proposed, deadline } = self.verb else { return None };
        let mut request = AcquireRequest::new(self.names.clone(), self.token, self.ttl);
        request.retain = self.retain;
        request.floor = floor.map(|offset| near(now, offset));
        request.proposed = proposed.map(|offset| near(now, offset));
        request.deadline = deadline.map(|offset| {
            StoreTime::from_micros(now.lease.as_micros().saturating_add_signed(offset))
        });
        Some(request)
    }

    pub(super) fn apply(&self, table: &mut LockTable, now: StoreNow) -> Answer {
        let (names, token) = (self.names.clone(), self.token);
        match self.verb {
            Verb::Acquire { .. } => {
                let request = self.acquire_request(now).expect("it is an acquire");
                Answer::Acquired(table.acquire(&request, now))
            }
            Verb::Renew => {
                let mut request = RenewRequest::new(names, token, self.ttl);
                request.retain = self.retain;
                Answer::Renewed(table.renew(&[request], now).remove(0))
            }
            Verb::Shorten => {
                let mut request = ShortenRequest::new(names, token, self.ttl);
                request.retain = self.retain;
                Answer::Shortened(table.shorten(&request, now))
            }
            Verb::Release => {
                let mut request = ReleaseRequest::new(names, token);
                request.retain = self.retain;
                Answer::Released(table.release(&request, now))
            }
            Verb::Exchange { to } => {
                let mut request = ExchangeRequest::new(names, token, to, self.ttl);
                request.retain = self.retain;
                Answer::Exchanged(table.exchange_token(&request, now))
            }
            Verb::Raise(offset) => {
                let request = RaiseFenceRequest::new(names, token, near(now, offset));
                Answer::Raised(table.raise_fence(&request, now))
            }
            Verb::Heal(offset) => {
                let mut request = HealRequest::new(names, token, self.ttl);
                request.retain = self.retain;
                request.fencing_token = offset.map(|offset| near(now, offset));
                Answer::Healed(table.heal(&request, now))
            }
            Verb::Force => {
                let mut request = ForceReleaseRequest::new(names.first().clone());
                request.retain = self.retain;
                Answer::Forced(table.force_release(&request, now))
            }
            Verb::Plant => {
                table.plant_foreign(names.first().clone(), ForeignKind::String);
                Answer::Tampered
            }
            Verb::Delete => {
                table.delete(names.first());
                Answer::Tampered
            }
        }
    }

    /// The names that this step may touch.
    pub(super) fn touches(&self, at: &LockName) -> bool {
        match self.verb {
            Verb::Force | Verb::Plant | Verb::Delete => self.names.first() == at,
            _ => self.names.iter().any(|own| own == at),
        }
    }
}

fn near(now: StoreNow, offset: i64) -> FencingToken {
    fencing_token(now.wall.as_micros().saturating_add_signed(offset).max(1))
}

/// The names of all sequences.
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

pub(super) fn steps(tampering: bool) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(tampering), 1..60)
}

fn step(tampering: bool) -> impl Strategy<Value = Step> {
    let pause = prop_oneof![
        4 => Just(0),
        2 => Just(1),
        2 => 1u64..20_000,
        1 => Just(10_000),
        1 => Just(50_000),
        1 => 0u64..2_000_000,
    ];
    let list = prop_oneof![
        Just(&["a"][..]),
        Just(&["b"][..]),
        Just(&["a", "b"][..]),
        Just(&["b", "c"][..]),
        Just(&["a", "b", "c"][..]),
    ];
    let retain = prop_oneof![Just(0), Just(20), Just(600_000)];
    (pause, list, 0u8..4, verb(tampering), prop_oneof![Just(10), Just(50), Just(1_000)], retain)
        .prop_map(|(pause, list, number, verb, span, retain)| Step {
            pause: Duration::from_micros(pause),
            names: names(list),
            token: token(number),
            verb,
            ttl: ttl(span),
            retain: Retain::new(millis(retain)),
        })
}

fn verb(tampering: bool) -> impl Strategy<Value = Verb> {
    let offset = || prop_oneof![Just(0), -3i64..3, -20_000i64..20_000, Just(10_000_001i64)];
    prop_oneof![
        8 => (
            prop::option::weighted(0.2, offset()),
            prop::option::weighted(0.2, offset()),
            prop::option::weighted(0.2, -2i64..1_000),
        ).prop_map(|(floor, proposed, deadline)| Verb::Acquire { floor, proposed, deadline }),
        3 => Just(Verb::Renew),
        2 => Just(Verb::Shorten),
        5 => Just(Verb::Release),
        3 => (0u8..4).prop_map(|number| Verb::Exchange { to: token(number) }),
        3 => offset().prop_map(Verb::Raise),
        2 => prop::option::of(offset()).prop_map(Verb::Heal),
        1 => Just(Verb::Force),
        u32::from(tampering) => Just(Verb::Plant),
        u32::from(tampering) => Just(Verb::Delete),
    ]
}

/// What goes wrong is shown with the sequence up to there.
pub(super) fn story(steps: &[Step], upto: usize) -> String {
    format!("{:#?}", &steps[..=upto])
}

/// Sequences are long, so a quarter of the usual number of cases; `PROPTEST_CASES` raises it.
pub(super) fn cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.div_ceil(4), ..usual }
}
