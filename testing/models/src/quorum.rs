//! A lease on several nodes, one of which may be restarted empty: won, prolonged, healed, given back.
//!
//! ```text
//!   idle --ask--> asking --a majority granted in time--> holding <--prolonged in time--> renewing
//!                                                           \--give back, or lost--> done
//! ```
//! Requests arrive whenever they like, also long after anybody waits for them, and any answer may
//! be lost. Time goes in ticks; the clocks agree. Nodes apply the real rules to a record.

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, Acquired, HealRequest, Healed, LockName, NotHeld, Record, ReleaseRequest,
    RenewRequest, Renewed, Rules, StoreNow, StoreTime, Token, Ttl,
};
use stateright::{Model, Property};

use crate::nobody::Nobody;

/// How many nodes there are, and how many make a majority.
const NODES: usize = 3;
const NEEDED: usize = 2;
/// How long a lease runs, in ticks.
const TTL: u8 = 2;
/// For how many ticks a node that was restarted is granted nothing new on.
const QUARANTINE: u8 = TTL + 1;

/// A fault that is built in on purpose; the checker must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A restarted node counts for new grants at once.
    NoQuarantine,
    /// A majority is any node that says yes: half of them are enough.
    HalfIsEnough,
    /// Validity counts from the answer that made the majority.
    ValidityFromReply,
}

/// Who takes part.
#[derive(Clone, Debug)]
pub struct Quorum {
    /// How many clients there are; each has one lease.
    pub clients: usize,
    /// How often each may prolong its lease.
    pub renewals: u8,
    /// How many times a node is restarted.
    pub restarts: u8,
    /// When it is over, in ticks.
    pub end: u8,
    /// What is wrong.
    pub fault: Option<Fault>,
}

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client asks all nodes.
    Ask(usize),
    /// A node carries out a request, and its client hears the answer.
    Execute(usize, usize),
    /// The same, and the answer is lost.
    ExecuteUnheard(usize, usize),
    /// A client prolongs its lease.
    Renew(usize),
    /// A client gives its lease back, or gives up.
    GiveBack(usize),
    /// A node is restarted, and has forgotten everything.
    Restart(usize),
    /// Time passes.
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    Acquire,
    Renew,
    Heal,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Asking { sent: u8, yes: u8 },
    Holding { until: u8 },
    Renewing { until: u8, sent: u8, yes: u8, no: u8 },
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    phase: Phase,
    renewals: u8,
    wires: [Vec<Request>; NODES],
}

/// All of it.
#[derive(Clone, Debug)]
pub struct World {
    now: u8,
    nodes: [[Option<Record>; 1]; NODES],
    restarted: [Option<u8>; NODES],
    restarts: u8,
    clients: Vec<Client>,
    /// A node was healed.
    pub healed: bool,
}

impl World {
    fn new(quorum: &Quorum) -> Self {
        let wires = [(); NODES].map(|()| Vec::new());
        let client = Client { phase: Phase::Idle, renewals: quorum.renewals, wires };
        Self {
            now: 0,
            nodes: [const { [None] }; NODES],
            restarted: [None; NODES],
            restarts: quorum.restarts,
            clients: vec![client; quorum.clients],
            healed: false,
        }
    }

    /// How many think that they hold the lock.
    #[must_use]
    pub fn holders(&self) -> usize {
        let holds = |client: &&Client| match client.phase {
            Phase::Holding { until } | Phase::Renewing { until, .. } => self.now < until,
            _ => false,
        };
        self.clients.iter().filter(holds).count()
    }

    fn store_now(&self) -> StoreNow {
        StoreNow::same(StoreTime::from_micros((1_000 + u64::from(self.now)) * 1_000_000))
    }

    fn send(&mut self, client: usize, request: Request) {
        for wire in &mut self.clients[client].wires {
            wire.push(request);
        }
    }

    fn is_quarantined(&self, quorum: &Quorum, node: usize) -> bool {
        let out = self.restarted[node].is_some_and(|since| self.now < since + QUARANTINE);
        out && quorum.fault != Some(Fault::NoQuarantine)
    }

    fn execute(&mut self, quorum: &Quorum, client: usize, node: usize, heard: bool) {
        let request = self.clients[client].wires[node].remove(0);
        let (rules, now) = (Rules::default(), self.store_now());
        let quarantined = self.is_quarantined(quorum, node);
        let records = &mut self.nodes[node];
        let token = token(client);
        match request {
            Request::Acquire if quarantined => {}
            Request::Acquire => {
                let asked = AcquireRequest::new(name(), token, ttl());
                let answer = rules.acquire(records, &mut Nobody, &asked, now);
                if heard && matches!(answer, Acquired::Granted(_)) {
                    self.hear_grant(quorum, client, node);
                }
            }
            Request::Renew => {
                let asked = RenewRequest::new(name(), token, ttl());
                let answer = rules.renew(records, &mut Nobody, &asked, now);
                if heard {
                    self.hear_renewal(client, node, &answer);
                }
            }
            Request::Heal => {
                let asked = HealRequest::new(name(), token, ttl());
                self.healed |= rules.heal(records, &asked, now) == Healed::Healed;
            }
            Request::Release => {
                let asked = ReleaseRequest::new(name(), token);
                let _ = rules.release(records, &mut Nobody, &asked, now);
            }
        }
    }

    fn hear_grant(&mut self, quorum: &Quorum, client: usize, node: usize) {
        let now = self.now;
        let Phase::Asking { sent, yes } = &mut self.clients[client].phase else { return };
        *yes |= 1 << node;
        let needed = if quorum.fault == Some(Fault::HalfIsEnough) { 1 } else { NEEDED };
        if count(*yes) < needed {
            return;
        }
        let from = if quorum.fault == Some(Fault::ValidityFromReply) { now } else { *sent };
        self.clients[client].phase = Phase::Holding { until: from + TTL };
        if now >= from + TTL {
            self.give_back(client);
        }
    }

    fn hear_renewal(&mut self, client: usize, node: usize, answer: &Renewed) {
        let now = self.now;
        match &mut self.clients[client].phase {
            Phase::Renewing { until, sent, yes, no } => {
                match answer {
                    Renewed::Extended { .. } => *yes |= 1 << node,
                    _ => *no |= 1 << node,
                }
                let (until, sent, yes, no) = (*until, *sent, *yes, *no);
                if count(yes) >= NEEDED && now < until {
                    let until = until.max(sent + TTL);
                    self.clients[client].phase = Phase::Holding { until };
                    self.heal(client, no & !yes);
                } else if count(yes) >= NEEDED || count(no) >= NEEDED {
                    self.give_back(client);
                }
            }
            // One that was late: the others have decided.
            Phase::Holding { .. } if is_missing(answer) => self.heal(client, 1 << node),
            _ => {}
        }
    }

    fn heal(&mut self, client: usize, missing: u8) {
        for (node, wire) in self.clients[client].wires.iter_mut().enumerate() {
            if missing & (1 << node) != 0 && !wire.contains(&Request::Heal) {
                wire.push(Request::Heal);
            }
        }
    }

    fn give_back(&mut self, client: usize) {
        self.clients[client].phase = Phase::Done;
        self.send(client, Request::Release);
    }

    fn view(&self) -> Vec<(u8, bool, u64)> {
        let now = self.store_now();
        let view = |[record]: &[Option<Record>; 1]| {
            record.as_ref().map_or((0, false, 0), |record| {
                let live = record.is_live(now);
                let left = record.end.saturating_since(now.lease).as_secs();
                let released = record.state == fencelock_core::RecordState::Free;
                (record.token.map_or(0, number), released, if live { left } else { 0 })
            })
        };
        self.nodes.iter().map(view).collect()
    }
}

fn is_missing(answer: &Renewed) -> bool {
    matches!(answer, Renewed::NotHeld(NotHeld::Absent | NotHeld::Expired | NotHeld::Taken))
}

fn count(nodes: u8) -> usize {
    usize::try_from(nodes.count_ones()).unwrap_or(usize::MAX)
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        (self.now, self.view(), self.restarted, self.restarts, &self.clients, self.healed)
            == (
                other.now,
                other.view(),
                other.restarted,
                other.restarts,
                &other.clients,
                other.healed,
            )
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.now, self.view(), self.restarted, self.restarts, &self.clients, self.healed)
            .hash(state);
    }
}

impl Model for Quorum {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        for (index, client) in world.clients.iter().enumerate() {
            match client.phase {
                Phase::Idle => events.push(Event::Ask(index)),
                Phase::Holding { until } if world.now < until && client.renewals > 0 => {
                    events.push(Event::Renew(index));
                }
                _ => {}
            }
            if !matches!(client.phase, Phase::Idle | Phase::Done) {
                events.push(Event::GiveBack(index));
            }
            for (node, wire) in client.wires.iter().enumerate() {
                if !wire.is_empty() {
                    events.push(Event::ExecuteUnheard(index, node));
                    if client.phase != Phase::Done {
                        events.push(Event::Execute(index, node));
                    }
                }
            }
        }
        if world.restarts > 0 {
            events.extend((0..NODES).map(Event::Restart));
        }
        if world.now < self.end {
            events.push(Event::Tick);
        }
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        let mut next = world.clone();
        match event {
            Event::Ask(client) => {
                next.clients[client].phase = Phase::Asking { sent: next.now, yes: 0 };
                next.send(client, Request::Acquire);
            }
            Event::Execute(client, node) => next.execute(self, client, node, true),
            Event::ExecuteUnheard(client, node) => next.execute(self, client, node, false),
            Event::Renew(client) => {
                let Phase::Holding { until } = next.clients[client].phase else { return None };
                let sent = next.now;
                next.clients[client].phase = Phase::Renewing { until, sent, yes: 0, no: 0 };
                next.clients[client].renewals -= 1;
                next.send(client, Request::Renew);
            }
            Event::GiveBack(client) => next.give_back(client),
            Event::Restart(node) => {
                next.nodes[node] = [None];
                next.restarted[node] = Some(next.now);
                next.restarts -= 1;
            }
            Event::Tick => next.now += 1,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![Property::always(
            "at most one client thinks that it holds the lock",
            |_, world: &World| world.holders() <= 1,
        )];
        if self.fault.is_none() {
            // The model is not empty.
            properties.push(Property::sometimes("somebody holds it", |_, world: &World| {
                world.holders() == 1
            }));
            if self.renewals > 0 {
                properties
                    .push(Property::sometimes("a node is healed", |_, world: &World| world.healed));
            }
        }
        properties
    }
}

fn token(client: usize) -> Token {
    let number = u8::try_from(client + 1).expect("few clients");
    Token::from_bytes([number; Token::BYTES])
}

fn number(token: Token) -> u8 {
    (1..=u8::MAX).find(|n| Token::from_bytes([*n; Token::BYTES]) == token).unwrap_or(0)
}

fn name() -> LockName {
    LockName::new("k").expect("a name within the limits")
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(TTL.into())).expect("a ttl within the limits")
}
