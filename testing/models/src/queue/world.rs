//! The clients, the network between, and the store.

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, Acquired, ForceReleaseRequest, HandOff, ListenerId, LockName, LockTable,
    Moment, PlaceRequest, Record, RecordState, ReleaseRequest, Released, RenewRequest, Renewed,
    Rules, StoreNow, StoreTime, Token, Wakeup,
};

use super::{
    Event, Fault, Queue,
    client::{Client, Phase, Reply, Request, Verb, claim, ttl},
};

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// What it says.
    pub hand_off: HandOff,
}

/// What is on its way between a client and the store.
#[derive(Clone, Debug, Default)]
struct Wire {
    request: Option<Request>,
    /// Of an attempt of the same client, and nobody waits for its answer.
    late: Option<Request>,
    reply: Option<Reply>,
    /// Whether a tick passed since the request was sent.
    is_old: bool,
    message: Option<Told>,
}

/// All of it. Two worlds that differ in the time of day only are the same.
#[derive(Clone, Debug)]
pub struct World {
    now: StoreTime,
    table: LockTable,
    name: LockName,
    /// The clients.
    pub clients: Vec<Client>,
    wires: Vec<Wire>,
    losses: u8,
    crashes: u8,
    /// The fencing token of the last that began to act.
    last_started: u64,
    /// Somebody began to act with a smaller fencing token than somebody before.
    pub went_back: bool,
    /// For how many ticks a living waiter has a place in the line of a free name.
    pub idle_ticks: u8,
}

impl World {
    /// For how many ticks a name may be free that somebody waits for: a timer of two seconds by a
    /// slow clock and the question, and as long again for each that is lost.
    #[must_use]
    pub const fn most_idle_ticks(queue: &Queue) -> u8 {
        4 + 4 * queue.losses
    }

    pub(super) fn new(queue: &Queue) -> Self {
        let count = queue.rates.len();
        Self {
            now: StoreTime::from_micros(1_000_000_000),
            table: LockTable::new(Rules::default()),
            name: LockName::new("k").expect("a name within the limits"),
            clients: vec![Client::new(); count],
            wires: vec![Wire::default(); count],
            losses: queue.losses,
            crashes: queue.crashes,
            last_started: 0,
            went_back: false,
            idle_ticks: 0,
        }
    }

    /// How many think that they may act.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.clients.iter().filter(|client| client.is_valid()).count()
    }

    /// The fencing token of the last that began to act: how many there were.
    #[must_use]
    pub fn last_started(&self) -> u64 {
        self.last_started
    }

    /// Whether somebody is about to hear that what was handed to it ran out.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        let refused = |reply: &Reply| matches!(reply, Reply::Acquired(Acquired::Refused(_), _));
        self.wires.iter().any(|wire| wire.reply.as_ref().is_some_and(refused))
    }

    pub(super) fn list_events(&self, queue: &Queue, events: &mut Vec<Event>) {
        let is_idle = |client: &Client| client.is_over() || client.phase == Phase::Idle;
        let mut may_tick = !self.clients.iter().all(is_idle);
        for (index, (client, wire)) in self.clients.iter().zip(&self.wires).enumerate() {
            if wire.late.is_some() {
                events.push(Event::ExecuteLate(index));
            }
            if client.is_over() {
                continue;
            }
            if client.may_ask() {
                events.push(Event::Ask(index));
            }
            if wire.request.is_some() {
                events.push(Event::Execute(index));
                if self.losses > 0 {
                    events.push(Event::DelayRequest(index));
                }
            }
            if wire.reply.is_some() {
                events.push(Event::Answer(index));
                if self.losses > 0 {
                    events.push(Event::LoseAnswer(index));
                }
            }
            if client.has_timed_out() {
                events.push(Event::TimeOut(index));
            }
            if wire.message.is_some() && client.phase == Phase::Waiting {
                events.push(Event::Hear(index));
            }
            if client.may_claim() {
                events.push(Event::Claim(index));
            }
            let gives_up = client.phase == Phase::Waiting && queue.give_up;
            if gives_up || matches!(client.phase, Phase::Holding { .. }) {
                events.push(Event::GiveBack(index));
            }
            if self.crashes > 0 && client.phase != Phase::Idle {
                events.extend([Event::Die(index), Event::Vanish(index)]);
            }
            let on_its_way = wire.request.is_some() || wire.reply.is_some();
            let is_due = on_its_way && wire.is_old;
            may_tick &= !(client.is_urgent() || is_due);
        }
        if may_tick {
            events.push(Event::Tick);
        }
    }

    pub(super) fn handle(&mut self, queue: &Queue, event: Event) {
        match event {
            Event::Ask(index) => self.send(index, Verb::Ask),
            Event::Claim(index) => self.send(index, Verb::Claim),
            Event::GiveBack(index) => self.send(index, Verb::GiveBack),
            Event::Execute(index) => {
                let request = self.wires[index].request.take().expect("it was sent");
                let reply = self.execute(queue, index, request);
                self.wires[index].reply = Some(reply);
            }
            Event::DelayRequest(index) => {
                self.losses -= 1;
                self.wires[index].late = self.wires[index].request.take();
            }
            Event::ExecuteLate(index) => {
                let request = self.wires[index].late.take().expect("it was sent");
                let _nobody_waits = self.execute(queue, index, request);
            }
            Event::Answer(index) => {
                let reply = self.wires[index].reply.take().expect("there is an answer");
                let started = self.clients[index].handle_reply(reply, queue.attempts, queue.fault);
                self.note(started);
            }
            Event::LoseAnswer(index) => {
                self.losses -= 1;
                self.wires[index].reply = None;
            }
            Event::TimeOut(index) => {
                self.clients[index].handle_time_out(queue.attempts);
                self.forget_request(index);
            }
            Event::Hear(index) => {
                let told = self.wires[index].message.take().expect("there is a message");
                let client = &mut self.clients[index];
                if told.hand_off.token == token(index, client.attempt) {
                    let started = client.handle_message(&told.hand_off, queue.fault);
                    self.note(started);
                }
            }
            Event::Die(index) => {
                self.die(index);
                self.table.set_gone(listener(index));
            }
            Event::Vanish(index) => self.die(index),
            Event::Tick => self.tick(queue),
        }
        // Whoever does not wait does not listen.
        for (client, wire) in self.clients.iter().zip(&mut self.wires) {
            if client.phase != Phase::Waiting {
                wire.message = None;
            }
        }
    }

    fn send(&mut self, index: usize, verb: Verb) {
        self.forget_request(index);
        let request = self.clients[index].send(verb);
        let wire = &mut self.wires[index];
        (wire.request, wire.reply, wire.is_old) = (Some(request), None, false);
    }

    /// What is on its way still may be carried out at any time, as long as one such is kept.
    fn forget_request(&mut self, index: usize) {
        let wire = &mut self.wires[index];
        if let Some(request) = wire.request.take() {
            wire.late = Some(request);
        }
        wire.reply = None;
    }

    fn die(&mut self, index: usize) {
        self.crashes -= 1;
        self.forget_request(index);
        self.wires[index].message = None;
        self.clients[index].phase = Phase::Dead;
        self.clients[index].pending = None;
    }

    fn execute(&mut self, queue: &Queue, index: usize, request: Request) -> Reply {
        // The wall clock stands still: fencing tokens are counted, and the time of day is none.
        let now = StoreNow { lease: self.now, wall: StoreTime::from_micros(1) };
        let (name, token) = (self.name.clone(), token(index, request.attempt));
        let reply = match request.verb {
            Verb::Ask => {
                let mut asked = AcquireRequest::new(name, token, ttl());
                asked.listener = Some(listener(index));
                asked.place = Some(PlaceRequest::new(claim(), Client::TICK * 9));
                Reply::Acquired(self.table.acquire(&asked, now), self.now)
            }
            Verb::Claim => {
                let asked = RenewRequest::new(name, token, ttl());
                Reply::Renewed(self.table.renew(&[asked], now).remove(0))
            }
            Verb::GiveBack if queue.fault == Some(Fault::ReleaseOfAnything) => {
                let _ = self.table.force_release(&ForceReleaseRequest::new(name), now);
                Reply::Released(Released::Held)
            }
            Verb::GiveBack => {
                Reply::Released(self.table.release(&ReleaseRequest::new(name, token), now))
            }
        };
        for (to, wakeup) in self.table.take_mail() {
            // What else is told are hints at most.
            let Wakeup::Granted(hand_off) = wakeup else { continue };
            let to = usize::try_from(to.as_u64()).expect("the number of a client");
            if !self.clients[to].is_over() {
                self.wires[to].message = Some(Told { hand_off });
            }
        }
        reply
    }

    fn note(&mut self, started: Option<u64>) {
        if let Some(fence) = started {
            self.went_back |= fence <= self.last_started;
            self.last_started = self.last_started.max(fence);
        }
    }

    fn tick(&mut self, queue: &Queue) {
        self.now = self.now.saturating_add(Client::TICK);
        for (client, quarters) in self.clients.iter_mut().zip(&queue.rates) {
            client.clock = client.clock.saturating_add(Client::TICK / 4 * u32::from(*quarters));
        }
        for wire in &mut self.wires {
            wire.is_old = wire.request.is_some() || wire.reply.is_some();
        }
        self.idle_ticks = if self.is_idle() { self.idle_ticks.saturating_add(1) } else { 0 };
    }

    /// Whether nobody holds the name, though a living client has a place in its line.
    fn is_idle(&self) -> bool {
        let now = StoreNow { lease: self.now, wall: StoreTime::from_micros(1) };
        let is_free = !self.table.record(&self.name).is_some_and(|record| record.is_live(now));
        is_free
            && self.table.line(&self.name).any(|place| {
                place.listener.is_some_and(|listener| {
                    let index = usize::try_from(listener.as_u64()).expect("a client");
                    self.clients[index].phase == Phase::Waiting
                })
            })
    }

    /// Everything that counts, with all times relative to the present, where what is long over is
    /// over.
    fn view(&self) -> Vec<u64> {
        let mut view = Vec::with_capacity(32 * self.clients.len());
        view.push(u64::from(self.went_back));
        view.extend([self.losses, self.crashes, self.idle_ticks].map(u64::from));
        view.push(self.last_started);
        if let Some(record) = self.table.record(&self.name) {
            view_record(&mut view, record, self.now);
        }
        for place in self.table.line(&self.name) {
            let age = self.now.saturating_since(place.seen);
            view.extend([number(place.token), micros(age.min(place.live + Client::TICK))]);
        }
        for (client, wire) in self.clients.iter().zip(&self.wires) {
            view.push(u64::MAX);
            view_client(&mut view, client, self.now);
            view_wire(&mut view, wire, self.now);
        }
        view
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.view() == other.view()
    }
}

impl Eq for World {}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.view().hash(state);
    }
}

fn view_record(view: &mut Vec<u64>, record: &Record, now: StoreTime) {
    let state = match record.state {
        RecordState::Held => 0,
        RecordState::Reserved => 1,
        RecordState::Free => 2,
        // Nobody here holds anything beside others.
        RecordState::Shared => 3,
    };
    let fence = record.fencing_token.map_or(0, |token| token.as_u64());
    let left = if record.state == RecordState::Free {
        Duration::ZERO
    } else {
        record.end.saturating_since(now)
    };
    view.extend([state, record.token.map_or(0, number), fence, micros(left), u64::MAX]);
}

fn view_client(view: &mut Vec<u64>, client: &Client, now: StoreTime) {
    let until = |moment: Moment| micros(moment.saturating_since(client.clock));
    let since = |moment: Moment| micros(client.clock.saturating_since(moment));
    let phase = match client.phase {
        Phase::Idle => [0, 0],
        Phase::Waiting => [1, 0],
        Phase::Holding { deadline, claimed } => [2 + u64::from(claimed), until(deadline)],
        Phase::Leaving => [4, 0],
        Phase::Done => [5, 0],
        Phase::Dead => [6, 0],
    };
    view.extend(phase);
    view.extend([u64::from(client.attempt), u64::from(client.started_by_message)]);
    if client.is_over() {
        return;
    }
    if let Some((request, sent)) = client.pending {
        view.extend([1, code(request), since(sent)]);
    }
    if let Some((seen, sent)) = client.place {
        view.extend([2, micros(now.saturating_since(seen)), since(sent)]);
    }
    if let Some(timer) = client.timer {
        view.extend([3, until(timer)]);
    }
    if client.phase == Phase::Waiting {
        view.push(since(client.last_asked));
    }
}

fn view_wire(view: &mut Vec<u64>, wire: &Wire, now: StoreTime) {
    if let Some(request) = wire.request {
        view.extend([11, code(request), u64::from(wire.is_old)]);
    }
    if let Some(request) = wire.late {
        view.extend([12, code(request)]);
    }
    if let Some(reply) = &wire.reply {
        view.extend([13, u64::from(wire.is_old)]);
        view_reply(view, reply, now);
    }
    if let Some(Told { hand_off }) = &wire.message {
        let fence = hand_off.fencing_token.map_or(0, |token| token.as_u64());
        let ages = [hand_off.seen, hand_off.at].map(|at| micros(now.saturating_since(at)));
        view.extend([14, number(hand_off.token), fence, ages[0], ages[1]]);
    }
}

fn view_reply(view: &mut Vec<u64>, reply: &Reply, now: StoreTime) {
    match reply {
        Reply::Acquired(Acquired::Granted(grant), _) => {
            let fence = grant.fence.token().map_or(0, |token| token.as_u64());
            view.extend([1, fence, micros(grant.remaining)]);
        }
        Reply::Acquired(Acquired::Queued(queued), at) => {
            let left = queued.busy.holder.remaining.map_or(0, micros);
            view.extend([2, left, micros(now.saturating_since(*at))]);
        }
        Reply::Acquired(_, _) => view.push(3),
        Reply::Renewed(Renewed::Extended { remaining, .. }) => {
            view.extend([4, micros(*remaining)]);
        }
        Reply::Renewed(_) => view.push(5),
        Reply::Released(_) => view.push(6),
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn code(request: Request) -> u64 {
    let verb = match request.verb {
        Verb::Ask => 0,
        Verb::Claim => 1,
        Verb::GiveBack => 2,
    };
    verb + 4 * u64::from(request.attempt)
}

fn listener(index: usize) -> ListenerId {
    ListenerId::from_u64(u64::try_from(index).unwrap_or(u64::MAX))
}

fn token(index: usize, attempt: u8) -> Token {
    let mut bytes = [0; Token::BYTES];
    (bytes[0], bytes[1]) = (u8::try_from(index + 1).unwrap_or(u8::MAX), attempt);
    Token::from_bytes(bytes)
}

fn number(token: Token) -> u64 {
    let bytes = token.as_bytes();
    u64::from(bytes[0]) * 256 + u64::from(bytes[1])
}
