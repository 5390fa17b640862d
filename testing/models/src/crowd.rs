//! One name that readers hold together and writers alone, its line at the store, and what is left
//! of requests that are late.
//!
//! ```text
//!   idle --ask--> waiting --granted, told--> reading / writing --give back--> leaving --> done
//!                   |  ^                       writing --downgrade--> between --> reading
//!                   +--+ asks again by its own timer
//! ```
//! Time goes in ticks of the store, and all clocks are exact: what clocks may do to validity is in
//! the model of the [queue](crate::queue), and so is what comes of requests that take long. Here they
//! take no time, but for a bounded number that is copied, lost, or carried out when nobody waits for it
//! any more. Messages are late or lost without a bound.

mod client;
mod world;

use stateright::{Model, Property};

pub use self::{
    client::{Client, Phase},
    world::World,
};

/// A fault that is built in on purpose; the checker must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The store frees the name when one of several gives back.
    ReleaseOfAll,
    /// The store knows no copy of a request again.
    CopiesAreNew,
    /// Who downgrades writes until it hears the answer.
    WritesOn,
    /// A waiter relies on messages.
    NoTimer,
}

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Beside other readers.
    Read,
    /// Alone.
    Write,
    /// Alone, and then perhaps beside readers.
    WriteThenRead,
}

/// Who takes part, and what may go wrong how often.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// What each client wants.
    pub wishes: Vec<Wish>,
    /// How many requests or answers are copied, lost or very late.
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
    /// Its request is copied; the copy will be carried out later, or never.
    CopyRequest(usize),
    /// Its request will be carried out too late, or never.
    DelayRequest(usize),
    /// The store carries out what nobody waits for any more.
    ExecuteLate(usize),
    /// It hears the answer.
    Answer(usize),
    /// The answer is lost.
    LoseAnswer(usize),
    /// It waits no longer for an answer that does not come.
    TimeOut(usize),
    /// It hears the message.
    Hear(usize),
    /// It becomes a reader.
    Downgrade(usize),
    /// It gives back what it holds, or its place.
    GiveBack(usize),
    /// It dies, and the store does not know.
    Vanish(usize),
    /// A tick of the store passes.
    Tick,
}

impl Model for Crowd {
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
            Property::always("no writer is beside anybody", |_, world: &World| {
                world.writers() == 0 || world.writers() + world.readers() == 1
            }),
            Property::always("a late copy brings no share back", |_, world: &World| {
                !world.came_back
            }),
            Property::always("a step leaves nobody waiting who fits", |_, world: &World| {
                !world.left_out
            }),
            Property::always("nobody waits long for what fits", |crowd: &Self, world: &World| {
                world.idle_ticks <= World::most_idle_ticks(crowd)
            }),
            Property::always("numbers grow with each writer", |_, world: &World| !world.went_back),
            Property::eventually("everybody comes to an end", |_, world: &World| {
                world.clients.iter().all(Client::is_over)
            }),
        ];
        if self.fault.is_none() {
            properties.extend(self.happens());
        }
        properties
    }
}

impl Crowd {
    /// The model is not empty: what it is about does happen.
    fn happens(&self) -> Vec<Property<Self>> {
        let mut properties =
            vec![Property::sometimes("a message starts a holder", |_, world: &World| {
                world.clients.iter().any(|client| client.started_by_message)
            })];
        let readers = self.wishes.iter().filter(|wish| **wish != Wish::Write).count();
        if readers > 1 {
            properties.push(Property::sometimes("two read together", |_, world: &World| {
                world.readers() >= 2
            }));
        }
        if self.losses > 0 && self.wishes.contains(&Wish::Read) {
            properties.push(Property::sometimes("a late copy is refused", |_, world: &World| {
                world.refused_late
            }));
        }
        properties
    }
}
