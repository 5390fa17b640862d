//! Random operations, and how they are asked of a store and of the table.

use std::time::Duration;

use fencelock_core::{
    AcquireRequest, DowngradeRequest, ExchangeRequest, FencingToken, ForceReleaseRequest,
    HealRequest, InspectRequest, ListRequest, ListenerId, LockName, LockTable, Metadata,
    PlaceRequest, RaiseFenceRequest, ReleaseRequest, RenewRequest, Retain, RevokeRequest,
    SetLimitRequest, ShortenRequest, StoreNow, StoreTime, Token,
};
use proptest::prelude::*;

use super::{
    super::support,
    Answer,
    mode::{MODES, mode},
    set,
};
use crate::{Capabilities, Store, StoreErrorKind, StoreResult};

/// So few names and tokens that operations meet. The last name is the one with foreign values.
pub(super) const NAMES: usize = 4;
pub(super) const TOKENS: usize = 5;
pub(super) const LISTENERS: usize = 2;

/// One operation of a random sequence.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Which of the pauses comes before it.
    pause: usize,
    members: Vec<usize>,
    token: usize,
    /// Which of the ttls it asks for.
    ttl: usize,
    retain: Duration,
    verb: Verb,
    wish: Wish,
}

/// What concerns lines and messages, for verbs that can ask for it.
#[derive(Clone, Debug, Default)]
struct Wish {
    /// Which of the places.
    place: Option<usize>,
    listener: Option<usize>,
    reserve: u32,
    barging: bool,
    unattended: bool,
    /// Which of the modes of the name; nothing: alone.
    mode: Option<usize>,
}

/// Numbers are microseconds from the store's present.
#[derive(Clone, Debug)]
enum Verb {
    Acquire { floor: Option<i64>, proposed: Option<i64>, deadline: Option<i64> },
    Renew,
    Shorten,
    Release,
    Exchange { to: usize, floor: Option<i64>, deadline: Option<i64> },
    Raise(i64),
    Heal { number: Option<i64>, deadline: Option<i64> },
    Inspect,
    List,
    Force,
    Revoke,
    Downgrade,
    Limit(u32),
    Plant,
}

/// Sequences of up to 40 operations.
pub fn operations() -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(operation(0.0), 1..40)
}

/// The same, of which most are about names that several hold together.
pub fn operations_together() -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(operation(0.85), 1..40)
}

fn operation(together: f64) -> impl Strategy<Value = Operation> {
    let members = prop_oneof![
        4 => (0..NAMES - 1).prop_map(|index| vec![index]),
        3 => prop::collection::vec(0..NAMES - 1, 1..NAMES),
        1 => prop::collection::vec(0..NAMES, 1..NAMES),
    ];
    let retain = prop_oneof![Just(0), Just(20), Just(600_000)].prop_map(Duration::from_millis);
    (
        0..PAUSES.len(),
        members,
        0..TOKENS,
        0..TTLS.len(),
        retain,
        verb(together > 0.0),
        wish(together),
    )
        .prop_map(|(pause, members, token, ttl, retain, verb, wish)| Operation {
            pause,
            members,
            token,
            ttl,
            retain,
            verb,
            wish,
        })
}

fn wish(together: f64) -> impl Strategy<Value = Wish> {
    let mode = (prop::bool::weighted(together), 0..MODES)
        .prop_map(|(together, choice)| together.then_some(choice));
    let place = prop::option::weighted(0.7, 0..PLACES.len());
    let listener = prop::option::weighted(0.6, 0..LISTENERS);
    let reserve = prop_oneof![4 => Just(0), 2 => 1u32..100, 1 => Just(u32::MAX)];
    let flags = (prop::bool::weighted(0.15), prop::bool::weighted(0.1));
    (place, listener, reserve, flags, mode).prop_map(
        |(place, listener, reserve, (barging, unattended), mode)| Wish {
            place,
            listener,
            reserve,
            barging,
            unattended,
            mode,
        },
    )
}

fn verb(together: bool) -> impl Strategy<Value = Verb> {
    let number = || prop_oneof![Just(0), -3i64..3, -20_000i64..20_000, Just(11_000_000i64)];
    let rarely = || prop::option::weighted(0.15, number());
    let only_together = if together {
        prop_oneof![3 => Just(Verb::Downgrade), 1 => (1u32..4).prop_map(Verb::Limit)].boxed()
    } else {
        Just(Verb::Release).boxed()
    };
    let deadline =
        || prop::option::weighted(0.15, prop_oneof![Just(-1i64), Just(0), Just(60_000_000)]);
    prop_oneof![
        14 => (rarely(), rarely(), deadline())
            .prop_map(|(floor, proposed, deadline)| Verb::Acquire { floor, proposed, deadline }),
        3 => Just(Verb::Renew),
        2 => Just(Verb::Shorten),
        7 => Just(Verb::Release),
        3 => (0..TOKENS, rarely(), deadline())
            .prop_map(|(to, floor, deadline)| Verb::Exchange { to, floor, deadline }),
        2 => number().prop_map(Verb::Raise),
        2 => (rarely(), deadline()).prop_map(|(number, deadline)| Verb::Heal { number, deadline }),
        2 => Just(Verb::Inspect),
        1 => Just(Verb::List),
        1 => Just(Verb::Force),
        2 => Just(Verb::Revoke),
        4 => only_together,
        1 => Just(Verb::Plant),
    ]
}

/// Milliseconds, where the store tells the time; and whole seconds, where it does not.
const PAUSES: [(u64, u64); 7] = [(0, 0), (0, 0), (0, 0), (1, 0), (10, 1), (49, 2), (1_600, 11)];

/// Milliseconds, where the store tells the time; and half seconds, where it does not.
const TTLS: [(u64, u64); 4] = [(10, 500), (50, 1_500), (1_500, 3_500), (60_000, 60_500)];

/// For how long a lease runs that is handed over, and how long a place lasts, in milliseconds. Only
/// a store that tells the time has places.
const PLACES: [(u64, u64); 4] = [(10, 20), (50, 1_600), (1_500, 60_000), (60_000, 60_000)];

fn place(index: usize) -> PlaceRequest {
    let (claim, live) = PLACES[index];
    PlaceRequest::new(support::ttl(Duration::from_millis(claim)), Duration::from_millis(live))
}

/// Names, tokens and listeners of a sequence.
#[derive(Debug)]
pub(super) struct Cast {
    pub(super) names: [LockName; NAMES],
    pub(super) tokens: [Token; TOKENS],
    /// Nothing where the store can't be listened to.
    pub(super) listeners: [Option<ListenerId>; LISTENERS],
}

/// An operation in the words of the store.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Acquire(AcquireRequest),
    Renew(Vec<RenewRequest>),
    Shorten(ShortenRequest),
    Release(ReleaseRequest),
    Exchange(ExchangeRequest),
    Raise(RaiseFenceRequest),
    Heal(HealRequest),
    Inspect(InspectRequest),
    List(ListRequest),
    Force(ForceReleaseRequest),
    Revoke(RevokeRequest),
    Downgrade(DowngradeRequest),
    Limit(SetLimitRequest),
    Plant(LockName),
}

impl Operation {
    pub(super) fn pause(&self, exact: bool) -> Duration {
        let (millis, seconds) = PAUSES[self.pause];
        if exact { Duration::from_millis(millis) } else { Duration::from_secs(seconds) }
    }

    pub(super) fn ask(&self, cast: &Cast, now: StoreNow, exact: bool) -> Asked {
        let Cast { names, tokens, .. } = cast;
        let wish = &self.wish;
        let listener = wish.listener.and_then(|index| cast.listeners[index]);
        let (own, token) = (set(names, &self.members), tokens[self.token]);
        let (fine, coarse) = TTLS[self.ttl];
        let ttl = support::ttl(Duration::from_millis(if exact { fine } else { coarse }));
        let retain = Retain::new(self.retain);
        let number = |offset: Option<i64>| offset.map(|offset| near(now, offset));
        let instant = |offset: Option<i64>| {
            let micros = now.lease.as_micros();
            offset.map(|offset| StoreTime::from_micros(micros.saturating_add_signed(offset)))
        };
        let metadata = Metadata::new(vec![b'm'; self.ttl]).expect("it is small");
        match &self.verb {
            Verb::Acquire { floor, proposed, deadline } => Asked::Acquire({
                let mut request = AcquireRequest::new(own, token, ttl);
                (request.retain, request.metadata) = (retain, metadata);
                (request.floor, request.proposed) = (number(*floor), number(*proposed));
                request.deadline = instant(*deadline);
                (request.place, request.listener) = (wish.place.map(place), listener);
                (request.reserve, request.barging) = (wish.reserve, wish.barging);
                request.unattended = wish.unattended;
                if let Some(choice) = wish.mode {
                    // Only one name can be held together, and never as part of a quorum.
                    request.names = set(names, &self.members[..1]);
                    request.mode = mode(self.members[0], choice);
                    if !request.mode.is_exclusive() {
                        (request.proposed, request.reserve) = (None, 0);
                    }
                }
                request
            }),
            Verb::Renew => Asked::Renew({
                let other = tokens[(self.token + 1) % TOKENS];
                let mut batch = Vec::new();
                for token in [token, other] {
                    let mut request = RenewRequest::new(own.clone(), token, ttl);
                    (request.retain, request.listener) = (retain, listener);
                    (request.reserve, request.unattended) = (wish.reserve, wish.unattended);
                    batch.push(request);
                }
                batch
            }),
            Verb::Shorten => Asked::Shorten({
                let mut request = ShortenRequest::new(own, token, ttl);
                request.retain = retain;
                request
            }),
            Verb::Release => Asked::Release({
                let mut request = ReleaseRequest::new(own, token);
                request.retain = retain;
                request
            }),
            Verb::Exchange { to, floor, deadline } => Asked::Exchange({
                let mut request = ExchangeRequest::new(own, token, tokens[*to], ttl);
                (request.retain, request.metadata) = (retain, metadata);
                (request.floor, request.deadline) = (number(*floor), instant(*deadline));
                request.listener = listener;
                request
            }),
            Verb::Raise(offset) => {
                Asked::Raise(RaiseFenceRequest::new(own, token, near(now, *offset)))
            }
            Verb::Heal { number: offset, deadline } => Asked::Heal({
                let mut request = HealRequest::new(own, token, ttl);
                (request.retain, request.metadata) = (retain, metadata);
                (request.fencing_token, request.deadline) = (number(*offset), instant(*deadline));
                request
            }),
            Verb::Inspect => Asked::Inspect(InspectRequest::new(own.first().clone())),
            Verb::List => {
                let prefix = names[0].as_bytes();
                Asked::List(ListRequest::new(&prefix[..prefix.len() - 1]))
            }
            Verb::Force => Asked::Force({
                let mut request = ForceReleaseRequest::new(own.first().clone());
                request.retain = retain;
                request
            }),
            Verb::Revoke => Asked::Revoke(RevokeRequest::new(own.first().clone())),
            Verb::Downgrade => Asked::Downgrade(DowngradeRequest::new(own.first().clone(), token)),
            Verb::Limit(limit) => Asked::Limit({
                let mut request = SetLimitRequest::new(own.first().clone(), *limit);
                request.retain = retain;
                request
            }),
            Verb::Plant => Asked::Plant(names[NAMES - 1].clone()),
        }
    }
}

/// What shows the whole state of a name, and of its line: everybody asks for a place, and then the
/// lease is taken away from one after the other.
pub(super) fn drain(cast: &Cast, at: &LockName) -> Vec<Asked> {
    let mut steps = Vec::new();
    for token in cast.tokens {
        let mut request = AcquireRequest::new(at.clone(), token, support::ttl(support::MINUTE));
        request.place = Some(place(PLACES.len() - 1));
        steps.push(Asked::Acquire(request));
    }
    for _ in 0..=TOKENS {
        steps.push(Asked::Inspect(InspectRequest::new(at.clone())));
        steps.push(Asked::Force(ForceReleaseRequest::new(at.clone())));
    }
    steps
}

impl Asked {
    pub(super) async fn of_store(&self, store: &impl Store) -> StoreResult<Answer> {
        let by = support::Ask::by(store);
        Ok(match self {
            Self::Acquire(request) => store.acquire(request, by).await?.map(Answer::Acquired),
            Self::Renew(batch) => store.renew(batch, by).await?.map(Answer::Renewed),
            Self::Shorten(request) => store.shorten(request, by).await?.map(Answer::Shortened),
            Self::Release(request) => store.release(request, by).await?.map(Answer::Released),
            Self::Exchange(request) => {
                store.exchange_token(request, by).await?.map(Answer::Exchanged)
            }
            Self::Raise(request) => store.raise_fence(request, by).await?.map(Answer::Raised),
            Self::Heal(request) => store.heal(request, by).await?.map(Answer::Healed),
            Self::Inspect(request) => store.inspect(request, by).await?.map(Answer::Inspected),
            Self::Force(request) => store.force_release(request, by).await?.map(Answer::Forced),
            Self::Revoke(request) => store.revoke(request, by).await?.map(Answer::Revoked),
            Self::Downgrade(request) => store.downgrade(request, by).await?.map(Answer::Downgraded),
            Self::Limit(request) => store.set_limit(request, by).await?.map(Answer::LimitSet),
            Self::List(_) | Self::Plant(_) => unreachable!("it has a step of its own"),
        })
    }

    /// The request without what has no effect on a store that lacks the capability for it.
    pub(super) fn effective(&self, can: &Capabilities) -> Self {
        let mut effective = self.clone();
        if can.queue {
            return effective;
        }
        match &mut effective {
            Self::Acquire(request) => {
                (request.place, request.listener, request.reserve) = (None, None, 0);
                (request.barging, request.unattended) = (false, false);
            }
            Self::Renew(batch) => {
                for request in batch {
                    (request.listener, request.reserve, request.unattended) = (None, 0, false);
                }
            }
            _ => {}
        }
        effective
    }

    pub(super) fn of_table(&self, table: &mut LockTable, now: StoreNow) -> Answer {
        match self {
            Self::Acquire(request) => Answer::Acquired(table.acquire(request, now)),
            Self::Renew(batch) => Answer::Renewed(table.renew(batch, now)),
            Self::Shorten(request) => Answer::Shortened(table.shorten(request, now)),
            Self::Release(request) => Answer::Released(table.release(request, now)),
            Self::Exchange(request) => Answer::Exchanged(table.exchange_token(request, now)),
            Self::Raise(request) => Answer::Raised(table.raise_fence(request, now)),
            Self::Heal(request) => Answer::Healed(table.heal(request, now)),
            Self::Inspect(request) => Answer::Inspected(table.inspect(request, now)),
            Self::Force(request) => Answer::Forced(table.force_release(request, now)),
            Self::Revoke(request) => Answer::Revoked(table.revoke(request, now)),
            Self::Downgrade(request) => Answer::Downgraded(table.downgrade(request, now)),
            Self::Limit(request) => Answer::LimitSet(table.set_limit(request, now)),
            Self::List(_) | Self::Plant(_) => unreachable!("it has a step of its own"),
        }
    }

    /// What a store without the capabilities for this says (rule 10 of the Contract).
    pub(super) fn unsupported(&self, can: &Capabilities) -> Option<StoreErrorKind> {
        let (names, number, instant) = match self {
            Self::Acquire(request) if !can.modes.has(&request.mode) => {
                return Some(StoreErrorKind::Unsupported);
            }
            Self::Acquire(request) => (
                request.names.len(),
                request.floor.or(request.proposed).is_some(),
                request.deadline.is_some(),
            ),
            Self::Exchange(request) => {
                (request.names.len(), request.floor.is_some(), request.deadline.is_some())
            }
            Self::Heal(request) => {
                (request.names.len(), request.fencing_token.is_some(), request.deadline.is_some())
            }
            Self::Raise(request) => (request.names.len(), true, false),
            Self::Renew(batch) => {
                (batch.iter().map(|one| one.names.len()).max().unwrap_or(1), false, false)
            }
            Self::Shorten(request) => (request.names.len(), false, false),
            Self::Release(request) => (request.names.len(), false, false),
            Self::Revoke(_) if !can.revoke => return Some(StoreErrorKind::Unsupported),
            Self::Downgrade(_) if !can.modes.downgrade => return Some(StoreErrorKind::Unsupported),
            Self::Limit(_) if !can.modes.set_limit => return Some(StoreErrorKind::Unsupported),
            Self::Inspect(_)
            | Self::List(_)
            | Self::Force(_)
            | Self::Revoke(_)
            | Self::Downgrade(_)
            | Self::Limit(_)
            | Self::Plant(_) => (1, false, false),
        };
        let asks_more =
            names > can.max_names || (number && !can.fencing) || (instant && !can.store_time);
        asks_more.then_some(StoreErrorKind::Unsupported)
    }
}

fn near(now: StoreNow, offset: i64) -> FencingToken {
    let number = now.wall.as_micros().saturating_add_signed(offset).max(1);
    FencingToken::new(number).expect("the present and a little more is within the range")
}
