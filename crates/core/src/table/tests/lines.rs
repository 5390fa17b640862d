//! What holds for lines after each step of any sequence of operations.
//!
//! Goal: the order of service, and that nobody is forgotten. Method: a few clients, each with the
//! names that it always asks for, and a fresh token after each end, as the protocol has it; the
//! records, the lines and the messages are compared before and after each step.

use std::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use proptest::{prelude::*, test_runner::TestCaseError};

use super::{operations::cases, *};
use crate::{
    ExchangeRequest, Exchanged, ForceReleaseRequest, ListenerId, Novelty, Place, PlaceRequest,
    Record, RecordState, Refusal, ReleaseRequest, Released, RenewRequest, Renewed, Retain,
    RevokeRequest, Revoked, ShortenRequest, Wakeup,
};

type Checked = Result<(), TestCaseError>;

/// What each client asks for.
const CLIENTS: [&[&str]; 8] =
    [&["a"], &["a"], &["a"], &["b"], &["a", "b"], &["a", "b"], &["b", "c"], &["a", "b", "c"]];
const NAMES: [&str; 3] = ["a", "b", "c"];
const LISTENERS: u64 = 3;

#[derive(Clone, Debug)]
struct Step {
    pause: u64,
    client: usize,
    ttl: u64,
    retain: u64,
    verb: Verb,
}

#[derive(Clone, Debug)]
enum Verb {
    Ask {
        /// Claim and life of a place, in milliseconds.
        place: Option<(u64, u64)>,
        listener: Option<u64>,
        reserve: u32,
        barging: bool,
        floor: Option<u64>,
    },
    Renew(u32),
    Shorten,
    Release,
    Exchange,
    Force,
    Revoke,
    Gone(u64),
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![
        5 => Just(0),
        2 => 1u64..20_000,
        2 => Just(10_000),
        1 => Just(50_000),
        1 => 0u64..2_000_000,
    ];
    let ttl = prop_oneof![Just(10), Just(50), Just(1_000)];
    let retain = prop_oneof![Just(0), Just(600_000)];
    let step = (pause, 0..CLIENTS.len(), ttl, retain, verb())
        .prop_map(|(pause, client, ttl, retain, verb)| Step { pause, client, ttl, retain, verb });
    prop::collection::vec(step, 1..80)
}

fn verb() -> impl Strategy<Value = Verb> {
    let place = prop_oneof![Just((10, 20)), Just((10, 1_000)), Just((500, 60_000))];
    let ask = (
        prop::option::weighted(0.85, place),
        prop::option::weighted(0.5, 0..LISTENERS),
        prop_oneof![3 => Just(0u32), 1 => 1u32..50],
        prop::bool::weighted(0.1),
        prop::option::weighted(0.2, prop_oneof![0u64..5_000, Just(10_000_001)]),
    );
    prop_oneof![
        16 => ask.prop_map(|(place, listener, reserve, barging, floor)| {
            Verb::Ask { place, listener, reserve, barging, floor }
        }),
        3 => prop_oneof![Just(0u32), 1u32..50].prop_map(Verb::Renew),
        1 => Just(Verb::Shorten),
        8 => Just(Verb::Release),
        1 => Just(Verb::Exchange),
        1 => Just(Verb::Force),
        1 => Just(Verb::Revoke),
        1 => (0..LISTENERS).prop_map(Verb::Gone),
        1 => Just(Verb::Sweep),
    ]
}

#[derive(Debug)]
enum Answer {
    Acquired(Acquired),
    Renewed(Renewed),
    Released(Released),
    Exchanged(Exchanged),
    Revoked(Revoked),
    Other,
}

/// The whole state of a store at an instant.
#[derive(Clone, Debug, PartialEq)]
struct State {
    records: BTreeMap<LockName, Record>,
    lines: BTreeMap<LockName, Vec<Place>>,
}

impl State {
    fn of(table: &LockTable, now: StoreNow) -> Self {
        let record = |at: &LockName| table.record(at).filter(|r| !r.is_forgotten(now)).cloned();
        let all = NAMES.map(name);
        Self {
            records: all.iter().filter_map(|at| Some((at.clone(), record(at)?))).collect(),
            lines: all.iter().map(|at| (at.clone(), table.line(at).cloned().collect())).collect(),
        }
    }

    fn live(&self, at: &LockName, now: StoreNow) -> Option<&Record> {
        self.records.get(at).filter(|record| record.is_live(now))
    }
}

struct World {
    table: LockTable,
    now: StoreNow,
    tokens: [Token; CLIENTS.len()],
    fresh: u32,
    gone: BTreeSet<ListenerId>,
    withdrawn: BTreeSet<Token>,
    /// The highest fencing token that anybody had, of each name.
    highest: BTreeMap<LockName, FencingToken>,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            table: table(),
            now: ms(0),
            tokens: [token(0); CLIENTS.len()],
            fresh: 0,
            gone: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            highest: BTreeMap::new(),
        };
        world.tokens = [(); CLIENTS.len()].map(|()| world.fresh_token());
        world
    }

    fn fresh_token(&mut self) -> Token {
        self.fresh += 1;
        let mut bytes = [7; Token::BYTES];
        bytes[..4].copy_from_slice(&self.fresh.to_be_bytes());
        Token::from_bytes(bytes)
    }

    fn apply(&mut self, step: &Step) -> Answer {
        let (own, token, now) = (names(CLIENTS[step.client]), self.tokens[step.client], self.now);
        let (span, retain) = (ttl(step.ttl), Retain::new(millis(step.retain)));
        match step.verb {
            Verb::Ask { place, listener, reserve, barging, floor } => {
                let mut asked = AcquireRequest::new(own, token, span);
                asked.place =
                    place.map(|(claim, live)| PlaceRequest::new(ttl(claim), millis(live)));
                asked.listener = listener.map(ListenerId::from_u64);
                asked.floor = floor.map(|ahead| fencing_token(now.wall.as_micros() + ahead));
                (asked.retain, asked.reserve, asked.barging) = (retain, reserve, barging);
                Answer::Acquired(self.table.acquire(&asked, now))
            }
            Verb::Renew(reserve) => {
                let mut asked = RenewRequest::new(own, token, span);
                (asked.retain, asked.reserve) = (retain, reserve);
                Answer::Renewed(self.table.renew(&[asked], now).remove(0))
            }
            Verb::Shorten => {
                let _ = self.table.shorten(&ShortenRequest::new(own, token, span), now);
                Answer::Other
            }
            Verb::Release => {
                let mut asked = ReleaseRequest::new(own, token);
                asked.retain = retain;
                Answer::Released(self.table.release(&asked, now))
            }
            Verb::Exchange => {
                let to = self.fresh_token();
                let asked = ExchangeRequest::new(own, token, to, span);
                let answer = self.table.exchange_token(&asked, now);
                if matches!(answer, Exchanged::Granted(_)) {
                    self.tokens[step.client] = to;
                }
                Answer::Exchanged(answer)
            }
            Verb::Force => {
                let _ =
                    self.table.force_release(&ForceReleaseRequest::new(own.first().clone()), now);
                Answer::Other
            }
            Verb::Revoke => {
                Answer::Revoked(self.table.revoke(&RevokeRequest::new(own.first().clone()), now))
            }
            Verb::Gone(listener) => {
                let listener = ListenerId::from_u64(listener);
                self.gone.insert(listener);
                self.table.set_gone(listener);
                Answer::Other
            }
            Verb::Sweep => {
                self.table.sweep(now);
                Answer::Other
            }
        }
    }

    /// A client whose attempt is over begins another.
    fn go_on(&mut self, step: &Step, answer: &Answer) {
        let over = match answer {
            Answer::Acquired(answer) => *answer == Acquired::Refused(Refusal::TokenRetired),
            Answer::Released(answer) => {
                if *answer == Released::Withdrawn {
                    self.withdrawn.insert(self.tokens[step.client]);
                }
                true
            }
            _ => false,
        };
        if over {
            self.tokens[step.client] = self.fresh_token();
        }
    }

    fn is_gone(&self, place: &Place) -> bool {
        place.listener.is_some_and(|listener| self.gone.contains(&listener))
    }

    /// Whether a hand-over would pass this place over.
    fn is_dead(&self, place: &Place) -> bool {
        place.is_lapsed(self.now.lease) || self.is_gone(place)
    }
}

/// One step, from outside.
struct Seen<'a> {
    world: &'a World,
    step: &'a Step,
    /// The token that asked.
    token: Token,
    answer: &'a Answer,
    before: &'a State,
    after: &'a State,
    mail: &'a [(ListenerId, Wakeup)],
}

impl Seen<'_> {
    fn asks_for(&self, at: &LockName) -> bool {
        CLIENTS[self.step.client].iter().any(|own| name(own) == *at)
    }

    fn is_fresh_grant(&self) -> bool {
        matches!(
            self.answer,
            Answer::Acquired(Acquired::Granted(Grant { novelty: Novelty::Fresh, .. }))
                | Answer::Exchanged(Exchanged::Granted(_))
        )
    }

    fn lines_keep_the_order_of_arrival(&self) -> Checked {
        let mut everywhere = BTreeSet::new();
        for (at, line) in &self.after.lines {
            let now: Vec<_> = line.iter().map(|place| place.token).collect();
            for token in &now {
                prop_assert!(everywhere.insert(*token), "{} has two places", token);
                prop_assert!(!self.world.withdrawn.contains(token), "{} was withdrawn", token);
                let held = self.after.live(at, self.world.now);
                prop_assert_ne!(held.and_then(|r| r.token), Some(*token), "it holds {}", at);
            }
            // Whoever lapsed and asks may have lost its place, and has a new one at the end.
            let lapsed =
                |place: &&Place| place.token == self.token && place.is_lapsed(self.world.now.lease);
            let old = self.before.lines[at].iter().filter(|place| !lapsed(place));
            let old: Vec<_> = old.map(|place| place.token).collect();
            let stayed: Vec<_> = old.iter().copied().filter(|t| now.contains(t)).collect();
            let kept: Vec<_> = now.iter().copied().filter(|t| stayed.contains(t)).collect();
            prop_assert_eq!(&kept, &stayed, "the line of {} was mixed", at);
            // Without its lapsed place the asker counts as new, wherever it is.
            let new: Vec<_> = now.iter().filter(|t| !stayed.contains(t)).collect();
            prop_assert!(new.iter().all(|t| **t == self.token), "{:?} did not ask", new);
            let fresh = new
                .first()
                .filter(|_| !self.before.lines[at].iter().any(|p| p.token == self.token));
            prop_assert!(fresh.is_none() || now.last() == fresh.copied(), "{:?} is not last", new);
        }
        Ok(())
    }

    fn answers_say_the_truth(&self) -> Checked {
        match self.answer {
            Answer::Acquired(Acquired::Queued(queued)) => {
                let line = &self.after.lines[&queued.busy.name];
                let at = line.iter().position(|place| place.token == self.token);
                prop_assert_eq!(at.map(|index| index + 1), usize::try_from(queued.position).ok());
                prop_assert_eq!(line.len(), queued.busy.holder.waiting as usize);
                prop_assert!(self.after.live(&queued.busy.name, self.world.now).is_some());
            }
            Answer::Acquired(Acquired::Busy(busy)) => {
                let line = &self.after.lines[&busy.name];
                prop_assert_eq!(line.len(), busy.holder.waiting as usize);
            }
            _ => {}
        }
        Ok(())
    }

    /// A new holder asked for it itself, or was the first in line that is alive.
    fn leases_go_to_the_first_in_line(&self) -> Checked {
        let now = self.world.now;
        for at in NAMES.map(name) {
            let old = self.before.live(&at, now).map(|record| (record.token, record.state));
            let Some(new) = self.after.live(&at, now) else { continue };
            if old == Some((new.token, new.state)) {
                continue;
            }
            let token = new.token.expect("a live record has a token");
            prop_assert!(!self.world.withdrawn.contains(&token), "{} was withdrawn", token);
            let line = &self.before.lines[&at];
            // Whoever asks is there, whatever the store knows of its listener.
            let asks =
                |place: &Place| place.token == self.token && !place.is_lapsed(self.world.now.lease);
            let first = line.iter().find(|place| asks(place) || !self.world.is_dead(place));
            if self.is_fresh_grant() && new.state == RecordState::Held && self.asks_for(&at) {
                self.nobody_was_overtaken(&at, first)?;
                continue;
            }
            let ended = old.is_none() || self.may_end(&at);
            prop_assert!(ended, "the live lease of {} was given away", at);
            // The asker itself may have left the line in this very step.
            let mut alive = line.iter().filter(|place| !self.world.is_dead(place));
            let first = alive.find(|place| {
                let left = self.after.lines[&at].iter().all(|p| p.token != place.token);
                place.token != self.token || !left || place.token == token
            });
            let Some(place) = first else {
                return Err(TestCaseError::fail("it was handed to nobody in the line"));
            };
            prop_assert_eq!(place.token, token, "at {}", at);
            prop_assert!(!place.barging, "it did not insist");
            let state = if place.is_set { RecordState::Reserved } else { RecordState::Held };
            prop_assert_eq!(new.state, state);
            prop_assert_eq!(new.end, now.lease.saturating_add(place.claim.as_duration()));
            self.is_told_once(place)?;
        }
        Ok(())
    }

    fn nobody_was_overtaken(&self, at: &LockName, first: Option<&Place>) -> Checked {
        let barges = matches!(self.step.verb, Verb::Ask { barging: true, .. } | Verb::Exchange);
        let reserved = self
            .before
            .live(at, self.world.now)
            .is_some_and(|r| r.is_reserved_for(self.token, self.world.now));
        if let Some(first) = first.filter(|_| !barges && !reserved) {
            let fair = first.token == self.token || first.barging;
            prop_assert!(fair, "{} was before {} at {}", first.token, self.token, at);
        }
        Ok(())
    }

    /// Whether this step may end the live lease of a name.
    fn may_end(&self, at: &LockName) -> bool {
        let holds = self
            .before
            .live(at, self.world.now)
            .is_some_and(|record| record.token == Some(self.token));
        holds || matches!(self.step.verb, Verb::Force)
    }

    fn is_told_once(&self, place: &Place) -> Checked {
        let told = |wakeup: &Wakeup| match wakeup {
            Wakeup::Granted(hand_off) => hand_off.seen == place.seen && !place.is_set,
            Wakeup::Turn(_) => place.is_set,
            _ => false,
        };
        let count = self
            .mail
            .iter()
            .filter(|(to, wakeup)| Some(*to) == place.listener && wakeup.token() == place.token)
            .filter(|(_, wakeup)| told(wakeup))
            .count();
        prop_assert_eq!(count, usize::from(place.listener.is_some()), "{:?}", self.mail);
        Ok(())
    }

    /// Only its own token, force, or its end changes a live lease.
    fn a_live_lease_is_left_alone(&self) -> Checked {
        for at in NAMES.map(name) {
            let Some(old) = self.before.live(&at, self.world.now) else { continue };
            if self.may_end(&at) {
                continue;
            }
            let Some(new) = self.after.records.get(&at) else {
                return Err(TestCaseError::fail("a live record vanished"));
            };
            let revoked = matches!(self.step.verb, Verb::Revoke) && new.revoked;
            let same = Record { revoked: old.revoked, ..new.clone() };
            prop_assert!(same == *old && (revoked || new.revoked == old.revoked), "{:?}", new);
        }
        Ok(())
    }

    /// A step that looks at a name leaves it free only if nobody insists on it.
    fn nobody_is_forgotten(&self) -> Checked {
        let passes_on = match (&self.step.verb, self.answer) {
            (Verb::Ask { barging: true, .. }, _)
            | (_, Answer::Acquired(Acquired::Refused(Refusal::TokenRetired))) => return Ok(()),
            (Verb::Ask { .. } | Verb::Release, _) => CLIENTS[self.step.client],
            (Verb::Force, _) => &CLIENTS[self.step.client][..1],
            _ => return Ok(()),
        };
        for at in passes_on.iter().map(|own| name(own)) {
            if self.after.live(&at, self.world.now).is_some() {
                continue;
            }
            let line = &self.after.lines[&at];
            // Whoever asks is there, and may have been refused for another reason.
            let alive = |place: &Place| !self.world.is_dead(place) || place.token == self.token;
            let first = line.iter().find(|place| alive(place));
            let fine = first.is_none_or(|place| place.barging || place.token == self.token);
            prop_assert!(fine, "{} is free, and {:?} waits", at, first);
        }
        Ok(())
    }

    fn refusals_change_nothing(&self) -> Checked {
        let unchanged = match self.answer {
            Answer::Acquired(Acquired::Refused(why)) => *why != Refusal::FenceAhead,
            Answer::Renewed(answer) => matches!(answer, Renewed::NotHeld(_)),
            Answer::Exchanged(answer) => !matches!(answer, Exchanged::Granted(_)),
            Answer::Revoked(answer) => !matches!(answer, Revoked::Requested(_)),
            _ => false,
        };
        if unchanged {
            prop_assert_eq!(self.before, self.after, "refused, and changed all the same");
            prop_assert!(self.mail.is_empty(), "refused, and told: {:?}", self.mail);
        }
        // Of a name that somebody holds, whoever is refused or tries changes nothing either.
        let tries = matches!(
            self.answer,
            Answer::Acquired(Acquired::Refused(_) | Acquired::Busy(_))
                | Answer::Acquired(Acquired::Granted(Grant { novelty: Novelty::Repeated, .. }))
        );
        for at in NAMES.map(name) {
            let held = self.before.live(&at, self.world.now).is_some();
            if !self.asks_for(&at) || (tries && held) {
                prop_assert_eq!(self.before.records.get(&at), self.after.records.get(&at));
                let same = self.before.lines[&at] == self.after.lines[&at];
                // A sweep clears lines that nobody is in any more.
                prop_assert!(same || matches!(self.step.verb, Verb::Sweep), "the line of {}", at);
            }
        }
        Ok(())
    }
}

impl World {
    /// Grants have larger numbers than all before, ranges included, and ranges only grow.
    fn check_fences(&mut self, before: &State, after: &State) -> Checked {
        for (at, record) in &after.records {
            let Some(last) = record.fencing_token else { continue };
            let highest = self.highest.get(at).copied();
            prop_assert!(Some(last) >= highest, "{} went back at {}", last, at);
            let old = before.live(at, self.now).map(|old| (old.token, old.state));
            let granted = record.state == RecordState::Held && record.is_live(self.now);
            if granted && old != Some((record.token, record.state)) {
                let first = record.own_fence();
                prop_assert!(first > highest, "{:?} at {} after {:?}", first, at, highest);
                prop_assert!(record.fence_by_token && first <= Some(last));
            }
            self.highest.insert(at.clone(), last);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn lines_are_in_order_and_nobody_in_them_is_forgotten(steps in steps()) {
        let mut world = World::new();
        for (index, step) in steps.iter().enumerate() {
            world.now = StoreNow::same(world.now.lease.saturating_add(Duration::from_micros(step.pause)));
            let before = State::of(&world.table, world.now);
            let token = world.tokens[step.client];
            let _ = world.table.take_mail();
            let answer = world.apply(step);
            let mail = world.table.take_mail();
            let after = State::of(&world.table, world.now);
            let seen = Seen {
                world: &world, step, token, answer: &answer, before: &before, after: &after, mail: &mail,
            };
            let checked = seen
                .lines_keep_the_order_of_arrival()
                .and_then(|()| seen.answers_say_the_truth())
                .and_then(|()| seen.leases_go_to_the_first_in_line())
                .and_then(|()| seen.a_live_lease_is_left_alone())
                .and_then(|()| seen.nobody_is_forgotten())
                .and_then(|()| seen.refusals_change_nothing());
            let checked = checked.and_then(|()| world.check_fences(&before, &after));
            checked.map_err(|error| TestCaseError::fail(format!(
                "{error}: {answer:?} after {:#?}", &steps[..=index]
            )))?;
            world.go_on(step, &answer);
        }
    }
}
