//! One fencing token for a lease on several nodes: unique, and larger than those of all leases that
//! were known before it was asked for.
//!
//! ```text
//!   idle --propose T--> asking --q nodes accepted T-----------------------> has T
//!                         \--q nodes granted, fewer accepted--> raising --> has T', the highest and one
//! ```
//! There is no clock here at all: a lease may end at any instant, requests arrive whenever they
//! like, also long after anybody waits for them, and any answer may be lost. So what holds here,
//! holds whatever clocks do. The nodes apply the real rules to a record.

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, Acquired, Fence, FencingToken, ForceReleaseRequest, LockName,
    RaiseFenceRequest, Raised, Record, Rules, StoreNow, StoreTime, Token, Ttl,
};
use stateright::{Model, Property};

use crate::nobody::Nobody;

/// How many nodes there are, and how many make a majority.
const NODES: usize = 3;
const NEEDED: usize = 2;

/// A fault that is built in on purpose; the checker must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Each node counts for itself, and the client takes the highest number it hears.
    HighestOfReplies,
    /// A node that has the number already takes a raise to it as done, whoever wrote it.
    PlainWriteBack,
    /// One node loses its record once.
    OneForgets,
}

/// Who takes part.
#[derive(Clone, Debug)]
pub struct Fences {
    /// How many attempts each client makes, one after the other.
    pub attempts: Vec<u8>,
    /// The numbers that earlier leases left at the nodes.
    pub left: [u64; NODES],
    /// What is wrong.
    pub fault: Option<Fault>,
}

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client begins its next attempt.
    Begin(usize),
    /// A node carries out a request, and its client hears the answer.
    Execute(usize, usize),
    /// The same, and the answer is lost.
    ExecuteUnheard(usize, usize),
    /// A client whose number was not accepted raises it.
    Raise(usize),
    /// A client ends its attempt; its requests are still on their way.
    GiveUp(usize),
    /// The lease at a node ends.
    Expire(usize),
    /// A node loses its record.
    Forget(usize),
}

/// What is on its way from an attempt to a node, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    Acquire(u64),
    Raise(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// What each node granted: the number that it has, and whether that is ours.
    Asking(u64, [Option<(u64, bool)>; NODES]),
    Raising(u64, [bool; NODES]),
}

/// One attempt: it may be over for its client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    wires: [Vec<Request>; NODES],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    phase: Phase,
    /// Its attempts so far, by number.
    attempts: Vec<Attempt>,
    /// The highest number that it heard of.
    seen: u64,
    /// The highest number that anybody had when it began.
    floor: u64,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct World {
    nodes: [[Option<Record>; 1]; NODES],
    clients: Vec<Client>,
    /// Every number that somebody had for a lease.
    had: Vec<u64>,
    /// The same number twice.
    pub twice: bool,
    /// A number that is not above one which was known before.
    pub went_back: bool,
    forgets: u8,
}

impl World {
    fn new(fences: &Fences) -> Self {
        let client = Client { phase: Phase::Idle, attempts: Vec::new(), seen: 0, floor: 0 };
        let had = fences.left.iter().copied().filter(|number| *number > 0);
        let mut had: Vec<_> = had.collect();
        had.sort_unstable();
        had.dedup();
        Self {
            nodes: fences.left.map(left),
            clients: vec![client; fences.attempts.len()],
            had,
            twice: false,
            went_back: false,
            forgets: u8::from(fences.fault == Some(Fault::OneForgets)),
        }
    }

    /// How many leases somebody had.
    #[must_use]
    pub fn leases(&self) -> usize {
        self.had.len()
    }

    fn begin(&mut self, index: usize) {
        let floor = self.had.iter().copied().max().unwrap_or(0);
        let client = &mut self.clients[index];
        let proposed = client.seen + 1;
        client.floor = floor;
        client.phase = Phase::Asking(proposed, [None; NODES]);
        client
            .attempts
            .push(Attempt { wires: [(); NODES].map(|()| vec![Request::Acquire(proposed)]) });
    }

    fn execute(&mut self, fences: &Fences, index: usize, node: usize, heard: bool) {
        let (client, attempt) = parts(index);
        let is_last = attempt + 1 == self.clients[client].attempts.len();
        let request = self.clients[client].attempts[attempt].wires[node].remove(0);
        let (rules, records) = (Rules::default(), &mut self.nodes[node]);
        let token = token(client, attempt);
        let hears = heard && is_last;
        match request {
            Request::Acquire(proposed) => {
                let mut asked = AcquireRequest::new(name(), token, ttl());
                if fences.fault != Some(Fault::HighestOfReplies) {
                    asked.proposed = FencingToken::new(proposed).ok();
                }
                let granted = match rules.acquire(records, &mut Nobody, &asked, now()) {
                    Acquired::Granted(grant) => match grant.fence {
                        Fence::Token(token) => Some((token.as_u64(), true)),
                        Fence::Behind(token) => Some((token.as_u64(), false)),
                        _ => None,
                    },
                    _ => None,
                };
                if hears {
                    self.hear_grant(fences, client, node, granted);
                }
            }
            Request::Raise(number) => {
                let raise = FencingToken::new(number).expect("in range");
                let answer = rules.raise_fence(
                    records,
                    &RaiseFenceRequest::new(name(), token, raise),
                    now(),
                );
                let plain = fences.fault == Some(Fault::PlainWriteBack);
                let done = match answer {
                    Raised::Raised => true,
                    Raised::Behind(highest) => plain && highest == raise,
                    _ => false,
                };
                if hears && done {
                    self.hear_raised(client, node);
                }
            }
        }
    }

    fn hear_grant(
        &mut self,
        fences: &Fences,
        client: usize,
        node: usize,
        granted: Option<(u64, bool)>,
    ) {
        let it = &mut self.clients[client];
        let (Phase::Asking(proposed, grants), Some((number, accepted))) = (&mut it.phase, granted)
        else {
            return;
        };
        grants[node] = Some((number, accepted));
        it.seen = it.seen.max(number);
        let granted = grants.iter().flatten();
        let has = if fences.fault == Some(Fault::HighestOfReplies) {
            let enough = granted.clone().count() >= NEEDED;
            granted.map(|(number, _)| *number).max().filter(|_| enough)
        } else {
            let proposed = *proposed;
            let accepted = granted.filter(|(number, ours)| *ours && *number == proposed).count();
            (accepted >= NEEDED).then_some(proposed)
        };
        if let Some(number) = has {
            self.has(client, number);
        }
    }

    fn hear_raised(&mut self, client: usize, node: usize) {
        let Phase::Raising(number, acks) = &mut self.clients[client].phase else { return };
        acks[node] = true;
        let number = *number;
        if acks.iter().filter(|ack| **ack).count() >= NEEDED {
            self.has(client, number);
        }
    }

    /// A client has a lease with this number.
    fn has(&mut self, client: usize, number: u64) {
        self.twice |= self.had.contains(&number);
        self.went_back |= number <= self.clients[client].floor;
        self.had.push(number);
        self.had.sort_unstable();
        let client = &mut self.clients[client];
        client.seen = client.seen.max(number);
        client.phase = Phase::Idle;
    }

    fn may_raise(&self, client: usize) -> Option<u64> {
        let Phase::Asking(proposed, grants) = &self.clients[client].phase else { return None };
        let granted = grants.iter().flatten();
        let highest = granted.clone().map(|(number, _)| *number).max()?;
        (granted.count() >= NEEDED).then_some(highest.max(*proposed) + 1)
    }

    fn raise(&mut self, client: usize) {
        let Some(number) = self.may_raise(client) else { return };
        let client = &mut self.clients[client];
        client.phase = Phase::Raising(number, [false; NODES]);
        if let Some(attempt) = client.attempts.last_mut() {
            for wire in &mut attempt.wires {
                wire.push(Request::Raise(number));
            }
        }
    }

    fn view(&self) -> Vec<(u8, bool, u64, bool)> {
        let view = |[record]: &[Option<Record>; 1]| match record {
            None => (0, false, 0, false),
            Some(record) => {
                let fence = record.fencing_token.map_or(0, FencingToken::as_u64);
                let token = record.token.map_or(0, number);
                (token, record.is_live(now()), fence, record.fence_by_token)
            }
        };
        self.nodes.iter().map(view).collect()
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        (self.view(), &self.clients, &self.had) == (other.view(), &other.clients, &other.had)
            && (self.twice, self.went_back, self.forgets)
                == (other.twice, other.went_back, other.forgets)
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.view(), &self.clients, &self.had).hash(state);
        (self.twice, self.went_back, self.forgets).hash(state);
    }
}

impl Model for Fences {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        for (index, client) in world.clients.iter().enumerate() {
            let more = client.attempts.len() < usize::from(self.attempts[index]);
            if client.phase == Phase::Idle && more {
                events.push(Event::Begin(index));
            }
            if client.phase != Phase::Idle {
                events.push(Event::GiveUp(index));
            }
            if self.fault != Some(Fault::HighestOfReplies) && world.may_raise(index).is_some() {
                events.push(Event::Raise(index));
            }
            for (attempt, it) in client.attempts.iter().enumerate() {
                let is_last = attempt + 1 == client.attempts.len() && client.phase != Phase::Idle;
                for (node, _) in it.wires.iter().enumerate().filter(|(_, wire)| !wire.is_empty()) {
                    let at = whole(index, attempt);
                    events.push(Event::ExecuteUnheard(at, node));
                    if is_last {
                        events.push(Event::Execute(at, node));
                    }
                }
            }
        }
        for (node, (_, live, _, _)) in world.view().into_iter().enumerate() {
            if live {
                events.push(Event::Expire(node));
            }
            if world.forgets > 0 && world.nodes[node][0].is_some() {
                events.push(Event::Forget(node));
            }
        }
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        let mut next = world.clone();
        match event {
            Event::Begin(client) => next.begin(client),
            Event::Execute(at, node) => next.execute(self, at, node, true),
            Event::ExecuteUnheard(at, node) => next.execute(self, at, node, false),
            Event::Raise(client) => next.raise(client),
            Event::GiveUp(client) => next.clients[client].phase = Phase::Idle,
            Event::Expire(node) => {
                let force = ForceReleaseRequest::new(name());
                let records = &mut next.nodes[node];
                let _ = Rules::default().force_release(records, &mut Nobody, &force, now());
            }
            Event::Forget(node) => {
                next.nodes[node] = [None];
                next.forgets -= 1;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("no two leases have the same number", |_, world: &World| !world.twice),
            Property::always("a later lease has a larger number", |_, world: &World| {
                !world.went_back
            }),
        ];
        if self.fault.is_none() {
            // The model is not empty.
            properties.push(Property::sometimes("all attempts succeed", |fences: &Self, world| {
                let before = World::new(fences).leases();
                let attempts: usize = fences.attempts.iter().map(|n| usize::from(*n)).sum();
                world.leases() == before + attempts
            }));
        }
        properties
    }
}

/// A node with the number of an earlier lease.
fn left(number: u64) -> [Option<Record>; 1] {
    let mut records = [None];
    if let Ok(number) = FencingToken::new(number) {
        let mut earlier = AcquireRequest::new(name(), Token::from_bytes([u8::MAX; 16]), ttl());
        earlier.proposed = Some(number);
        let rules = Rules::default();
        let _ = rules.acquire(&mut records, &mut Nobody, &earlier, now());
        let force = ForceReleaseRequest::new(name());
        let _ = rules.force_release(&mut records, &mut Nobody, &force, now());
    }
    records
}

/// An attempt by one number: clients make up to so many.
const ATTEMPTS_MAX: usize = 8;

fn whole(client: usize, attempt: usize) -> usize {
    client * ATTEMPTS_MAX + attempt
}

fn parts(at: usize) -> (usize, usize) {
    (at / ATTEMPTS_MAX, at % ATTEMPTS_MAX)
}

fn token(client: usize, attempt: usize) -> Token {
    let number = u8::try_from(client * ATTEMPTS_MAX + attempt + 1).expect("few attempts");
    Token::from_bytes([number; Token::BYTES])
}

fn number(token: Token) -> u8 {
    (1..=u8::MAX).find(|n| Token::from_bytes([*n; Token::BYTES]) == token).unwrap_or(0)
}

fn name() -> LockName {
    LockName::new("k").expect("a name within the limits")
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(60)).expect("a ttl within the limits")
}

/// Time stands still just after its beginning, so that no number is ahead of the small ones here.
fn now() -> StoreNow {
    StoreNow::same(StoreTime::from_micros(1))
}
