//! The clients, the network between, and the store.

mod view;

use std::hash::{Hash, Hasher};

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, ForceReleaseRequest, ListenerId,
    LockName, LockTable, Mode, PlaceRequest, RecordState, ReleaseRequest, Released, Rules,
    StoreNow, StoreTime, Token, Wakeup,
};

use super::{
    Crowd, Event, Fault,
    client::{Client, LIVE, Phase, Reply, Verb, claim, ttl},
};

/// What is on its way between a client and the store.
#[derive(Clone, Debug, Default)]
struct Wire {
    request: Option<Verb>,
    /// A copy, or a request whose answer nobody waits for.
    late: Option<Verb>,
    reply: Option<Reply>,
    message: Option<Wakeup>,
    /// It gave a share back, and nobody held the name alone since.
    gave_back: bool,
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
    fault: Option<Fault>,
    /// The largest number of a writer, and of anybody, that began to act.
    last_writer: u64,
    last_started: u64,
    /// Somebody began to act with a number that is too small.
    pub went_back: bool,
    /// Somebody has a share or a place again after it gave its share back.
    pub came_back: bool,
    /// A step of the store left somebody waiting who fitted beside those who hold the name.
    pub left_out: bool,
    /// A late copy was told that its token is worth nothing.
    pub refused_late: bool,
    /// For how many ticks a living waiter at the head of the line fits.
    pub idle_ticks: u8,
}

impl World {
    /// For how many ticks a living waiter at the head of the line may fit without having it: a timer of
    /// two ticks and one more, and as long again for each question that is lost.
    #[must_use]
    pub const fn most_idle_ticks(crowd: &Crowd) -> u8 {
        3 + 2 * crowd.losses
    }

    pub(super) fn new(crowd: &Crowd) -> Self {
        Self {
            now: StoreTime::from_micros(1_000_000_000),
            table: LockTable::new(Rules::default()),
            name: LockName::new("k").expect("a name within the limits"),
            clients: crowd.wishes.iter().map(|wish| Client::new(*wish)).collect(),
            wires: vec![Wire::default(); crowd.wishes.len()],
            losses: crowd.losses,
            crashes: crowd.crashes,
            fault: crowd.fault,
            last_writer: 0,
            last_started: 0,
            went_back: false,
            came_back: false,
            left_out: false,
            refused_late: false,
            idle_ticks: 0,
        }
    }

    /// How many think that they may read.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.clients.iter().filter(|client| client.reads(self.now)).count()
    }

    /// How many think that they may write.
    #[must_use]
    pub fn writers(&self) -> usize {
        self.clients.iter().filter(|client| client.writes(self.now, self.fault)).count()
    }

    pub(super) fn list_events(&self, crowd: &Crowd, events: &mut Vec<Event>) {
        let is_idle = |client: &Client| client.is_over() || client.phase == Phase::Idle;
        let mut may_tick = !self.clients.iter().all(is_idle);
        for (index, (client, wire)) in self.clients.iter().zip(&self.wires).enumerate() {
            if wire.late.is_some() {
                events.push(Event::ExecuteLate(index));
            }
            if client.is_over() {
                continue;
            }
            if client.may_ask(self.now) {
                events.push(Event::Ask(index));
            }
            if wire.request.is_some() {
                events.push(Event::Execute(index));
                if self.losses > 0 {
                    events.extend([Event::CopyRequest(index), Event::DelayRequest(index)]);
                }
            }
            if wire.reply.is_some() {
                events.push(Event::Answer(index));
                if self.losses > 0 {
                    events.push(Event::LoseAnswer(index));
                }
            }
            let on_its_way = wire.request.is_some() || wire.reply.is_some();
            let has_timed_out = client.pending.is_some() && !on_its_way;
            if has_timed_out {
                events.push(Event::TimeOut(index));
            }
            if wire.message.is_some() && client.phase == Phase::Waiting {
                events.push(Event::Hear(index));
            }
            if client.may_downgrade(self.now) {
                events.push(Event::Downgrade(index));
            }
            let gives_up = client.phase == Phase::Waiting && crowd.give_up;
            let holds = matches!(client.phase, Phase::Holding { .. });
            let is_late = client.is_late(self.now);
            if gives_up || holds || is_late {
                events.push(Event::GiveBack(index));
            }
            if self.crashes > 0 && client.phase != Phase::Idle {
                events.push(Event::Vanish(index));
            }
            let asks = client.phase == Phase::Waiting && client.may_ask(self.now);
            may_tick &= !(is_late || asks || has_timed_out || on_its_way);
        }
        if may_tick {
            events.push(Event::Tick);
        }
    }

    pub(super) fn handle(&mut self, crowd: &Crowd, event: Event) {
        match event {
            Event::Ask(index) => self.send(index, Verb::Ask),
            Event::Downgrade(index) => self.send(index, Verb::Downgrade),
            Event::GiveBack(index) => self.send(index, Verb::GiveBack),
            Event::Execute(index) => {
                let verb = self.wires[index].request.take().expect("it was sent");
                let reply = self.execute(index, verb, false);
                self.wires[index].reply = Some(reply);
            }
            Event::CopyRequest(index) => {
                self.losses -= 1;
                self.wires[index].late = self.wires[index].request;
            }
            Event::DelayRequest(index) => {
                self.losses -= 1;
                self.wires[index].late = self.wires[index].request.take();
            }
            Event::ExecuteLate(index) => {
                let verb = self.wires[index].late.take().expect("it was sent");
                let answer = self.execute(index, verb, true);
                self.refused_late |= matches!(answer, Reply::Acquired(Acquired::Refused(_), _));
            }
            Event::Answer(index) => {
                let reply = self.wires[index].reply.take().expect("there is an answer");
                let started = self.clients[index].handle_reply(reply, self.now, crowd.fault);
                self.note(index, started);
            }
            Event::LoseAnswer(index) => {
                self.losses -= 1;
                self.wires[index].reply = None;
            }
            Event::TimeOut(index) => self.clients[index].handle_time_out(self.now),
            Event::Hear(index) => {
                let wakeup = self.wires[index].message.take().expect("there is a message");
                let started = self.clients[index].handle_message(wakeup, self.now);
                self.note(index, started);
            }
            Event::Vanish(index) => {
                self.crashes -= 1;
                self.forget_request(index);
                self.clients[index].phase = Phase::Dead;
                self.clients[index].pending = None;
            }
            Event::Tick => self.tick(),
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
        self.clients[index].send(verb, self.now);
        let wire = &mut self.wires[index];
        (wire.request, wire.reply) = (Some(verb), None);
    }

    /// What is on its way still may be carried out at any time, as long as one such is kept.
    fn forget_request(&mut self, index: usize) {
        let wire = &mut self.wires[index];
        if let Some(request) = wire.request.take() {
            wire.late = Some(request);
        }
        wire.reply = None;
    }

    fn store_now(&self) -> StoreNow {
        // The wall clock stands still: fencing tokens are counted, and the time of day is none.
        StoreNow { lease: self.now, wall: StoreTime::from_micros(1) }
    }

    fn execute(&mut self, index: usize, verb: Verb, is_late: bool) -> Reply {
        let now = self.store_now();
        let is_new = is_late && self.fault == Some(Fault::CopiesAreNew);
        let (name, token) = (self.name.clone(), token(index, is_new));
        let record = self.table.record(&self.name);
        let had_share = record.is_some_and(|record| record.live_share(token, now).is_some());
        let reply = match verb {
            Verb::Ask => {
                let mut asked = AcquireRequest::new(name, token, ttl());
                asked.mode = self.clients[index].mode();
                asked.listener = Some(listener(index));
                asked.place = Some(PlaceRequest::new(claim(), LIVE));
                Reply::Acquired(self.table.acquire(&asked, now), self.now)
            }
            Verb::Downgrade => {
                Reply::Downgraded(self.table.downgrade(&DowngradeRequest::new(name, token), now))
            }
            Verb::GiveBack if self.fault == Some(Fault::ReleaseOfAll) => {
                let _ = self.table.force_release(&ForceReleaseRequest::new(name), now);
                Reply::Released(Released::Held)
            }
            Verb::GiveBack => {
                Reply::Released(self.table.release(&ReleaseRequest::new(name, token), now))
            }
        };
        self.look_after(index, had_share && verb == Verb::GiveBack);
        // What is refused changes nothing, and whoever waits looks by itself.
        let is_refused = matches!(
            reply,
            Reply::Downgraded(Downgraded::NotHeld(_)) | Reply::Acquired(Acquired::Refused(_), _)
        );
        self.left_out |= !is_refused && self.head_fits();
        for (to, wakeup) in self.table.take_mail() {
            let to = usize::try_from(to.as_u64()).expect("the number of a client");
            if !self.clients[to].is_over() {
                self.wires[to].message = Some(wakeup);
            }
        }
        reply
    }

    /// What was given back stays so.
    fn look_after(&mut self, index: usize, gave: bool) {
        let now = self.store_now();
        let record = self.table.record(&self.name);
        let is_alone = record.is_some_and(|record| record.crowd.is_none());
        let has = |index: usize| {
            [false, true].into_iter().map(|is_new| token(index, is_new)).any(|token| {
                let holds = record.is_some_and(|record| record.is_live_for(token, now));
                holds || self.table.line(&self.name).any(|place| place.token == token)
            })
        };
        let back = (0..self.wires.len()).any(|index| self.wires[index].gave_back && has(index));
        self.came_back |= back;
        for (at, wire) in self.wires.iter_mut().enumerate() {
            // What was given back is remembered until somebody holds the name alone.
            wire.gave_back = !is_alone && (wire.gave_back || gave && at == index);
        }
    }

    /// Whether the first in line, which has not lapsed, would fit beside those who hold the name.
    fn head_fits(&self) -> bool {
        let now = self.store_now();
        let Some(head) = self.table.line(&self.name).find(|place| !place.is_lapsed(self.now))
        else {
            return false;
        };
        match self.table.record(&self.name).filter(|record| record.is_live(now)) {
            None => true,
            Some(record) => record.state == RecordState::Shared && head.mode == Mode::Shared,
        }
    }

    fn note(&mut self, index: usize, started: Option<u64>) {
        let Some(number) = started else { return };
        let writes = self.clients[index].writes(self.now, None);
        let before = if writes { self.last_started } else { self.last_writer };
        self.went_back |= number <= before;
        self.last_started = self.last_started.max(number);
        if writes {
            self.last_writer = self.last_writer.max(number);
        }
    }

    fn tick(&mut self) {
        self.now = self.now.saturating_add(Client::TICK);
        let head = self.table.line(&self.name).find(|place| !place.is_lapsed(self.now));
        let is_alive = head.is_some_and(|head| {
            (0..self.clients.len()).any(|index| {
                head.token == token(index, false) && self.clients[index].phase == Phase::Waiting
            })
        });
        let idle = is_alive && self.head_fits();
        self.idle_ticks = if idle { self.idle_ticks.saturating_add(1) } else { 0 };
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

fn listener(index: usize) -> ListenerId {
    ListenerId::from_u64(u64::try_from(index).unwrap_or(u64::MAX))
}

/// The token of a client, or the one that a copy gets which is not known again.
fn token(index: usize, is_new: bool) -> Token {
    let mut bytes = [0; Token::BYTES];
    (bytes[0], bytes[1]) = (u8::try_from(index + 1).unwrap_or(u8::MAX), u8::from(is_new));
    Token::from_bytes(bytes)
}
