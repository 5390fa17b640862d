//! One name, its line at the store, and the validity of a hand-over.
//!
//! ```text
//!   idle --ask--> waiting --granted in time--> holding --give back--> leaving --> done
//!                   |  ^ \--told, and the question matches: starts at once--^
//!                   |  | refused: a fresh token                 (a waiter that gives up, too)
//!                   +--+ asks again by its own timer
//! ```
//! Time goes in ticks of a second of the store. Clients count it in quarters of a tick, some of them
//! at three quarters of the rate. Requests take up to a tick; a bounded number is lost, or is carried
//! out when nobody waits for it any more. Messages are late or lost as the network likes, without
//! a bound. Time waits for whoever must do something now, such as to ask when its timer is due.

mod client;
mod world;

use stateright::{Model, Property};

pub use self::{
    client::{Client, Phase},
    world::{Told, World},
};

/// A fault that is built in on purpose; the checker must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Validity counts from the moment at which the message arrived.
    ValidityFromMessage,
    /// Validity counts from the last question, whether or not the message answers it.
    AnyQuestion,
    /// Validity of a grant counts from the moment at which its answer arrived.
    ValidityFromReply,
    /// The store releases whatever is held, whosever it is.
    ReleaseOfAnything,
    /// A waiter relies on messages.
    NoTimer,
}

/// Who takes part, and what may go wrong how often.
#[derive(Clone, Debug)]
pub struct Queue {
    /// For each client, how many quarters its clock goes on in a tick.
    pub rates: Vec<u8>,
    /// How many attempts each makes, one after the other.
    pub attempts: u8,
    /// How many requests or answers are lost or very late.
    pub losses: u8,
    /// How many clients die.
    pub crashes: u8,
    /// Whether waiters may give up.
    pub give_up: bool,
    /// What is wrong.
    pub fault: Option<Fault>,
}

/// What can happen next. The number is that of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It sends a question.
    Ask(usize),
    /// The store carries its request out.
    Execute(usize),
    /// Its request will be carried out too late, or never.
    DelayRequest(usize),
    /// The store carries out what nobody waits for any more.
    ExecuteLate(usize),
    /// It hears the answer.
    Answer(usize),
    /// The answer is lost.
    LoseAnswer(usize),
    /// It waits no longer for an answer.
    TimeOut(usize),
    /// It hears the message.
    Hear(usize),
    /// It sends a renewal of what it holds.
    Claim(usize),
    /// It gives back what it holds, or its place.
    GiveBack(usize),
    /// It dies, and the store knows.
    Die(usize),
    /// It dies, and the store does not know.
    Vanish(usize),
    /// A second of the store passes.
    Tick,
}

impl Model for Queue {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        world.list_events(self, events);
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        let mut next = world.clone();
        next.handle(self, event);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(
                "at most one client thinks that it holds the lock",
                |_, world: &World| world.holders() <= 1,
            ),
            Property::always("fencing tokens grow in the order of starts", |_, world: &World| {
                !world.went_back
            }),
            Property::always("nobody waits long for a free name", |queue: &Self, world: &World| {
                world.idle_ticks <= World::most_idle_ticks(queue)
            }),
            Property::eventually("everybody comes to an end", |_, world: &World| {
                world.clients.iter().all(Client::is_over)
            }),
        ];
        if self.fault.is_none() {
            // The model is not empty: what it is about does happen.
            properties.extend([
                Property::sometimes("a message starts a holder", |_, world: &World| {
                    world.clients.iter().any(|client| client.started_by_message)
                }),
                Property::sometimes("all have held the lock", |queue: &Self, world: &World| {
                    world.last_started() >= queue.rates.len() as u64
                }),
                Property::sometimes("a claim runs out", |_, world: &World| world.is_refused()),
            ]);
        }
        properties
    }
}
