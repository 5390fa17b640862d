//! What the proxy is told to do, what it has counted, and the decision for each frame.
//!
//! One lock over all of it, so that a decision and its bookkeeping are one step. Does no I/O but
//! the closing of sockets.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::resp;

/// Commands that set a connection up; a fault aimed at "the next request" does not mean them.
const SET_UP: [&str; 4] = ["HELLO", "AUTH", "SELECT", "CLIENT"];

/// Commands whose answers come as pushes (RESP3) or in any number (RESP2).
const SUBSCRIPTION: [&str; 6] =
    ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"];

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) upstream: String,
    control: Mutex<Control>,
    changed: Condvar,
}

/// Delay and hold of one direction.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) delay: Duration,
    pub(super) holding: bool,
    pub(super) held: u64,
}

#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) requests_lane: Lane,
    pub(super) replies_lane: Lane,
    pub(super) blackhole: bool,
    pub(super) drop_replies: bool,
    pub(super) aim: Vec<String>,
    /// Requests until the cut, that one included; 0 for none.
    pub(super) cut_in: u64,
    pub(super) swallow_left: u64,
    pub(super) double_left: u64,
    pub(super) requests: u64,
    pub(super) connections: u64,
    pub(super) live: BTreeMap<u64, Live>,
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) client: TcpStream,
    pub(super) server: TcpStream,
    /// What becomes of the replies to come, in the order of their requests.
    fates: VecDeque<Fate>,
    subscribed: bool,
    /// A request was swallowed: none is forwarded any more.
    deaf: bool,
    /// A reply was swallowed: none is delivered any more.
    mute: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Deliver,
    /// The first reply of a doubled request: nothing is missing without it.
    Skip,
    Swallow,
    Cut,
}

/// Which way a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Request,
    Reply,
}

/// What to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forward {
    Once,
    Twice,
    Never,
}

/// What to do with a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deliver {
    Yes,
    No,
    Cut,
}

impl Shared {
    pub(super) fn new(upstream: &str) -> Self {
        Self { upstream: upstream.to_owned(), control: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Control) -> T) -> T {
        let outcome = change(&mut self.lock());
        self.changed.notify_all();
        outcome
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&Control) -> T) -> T {
        look(&self.lock())
    }

    /// Waits out delay and hold of one frame; `false` when its connection was closed meanwhile.
    pub(super) fn wait_turn(
        &self,
        id: u64,
        direction: Direction,
        arrived: Instant,
        name: &str,
    ) -> bool {
        let mut control = self.lock();
        let mut counted = false;
        let open = loop {
            if !control.live.contains_key(&id) {
                break false;
            }
            let concerned = direction == Direction::Reply || control.is_aimed_at(name);
            let lane = control.lane(direction);
            if concerned && lane.holding {
                if !counted {
                    lane.held += 1;
                    counted = true;
                }
                control = self.changed.wait(control).expect("not poisoned");
                continue;
            }
            let left = (arrived + lane.delay).saturating_duration_since(Instant::now());
            if left.is_zero() {
                break true;
            }
            control = self.changed.wait_timeout(control, left).expect("not poisoned").0;
        };
        if counted {
            control.lane(direction).held -= 1;
        }
        open
    }

    fn lock(&self) -> MutexGuard<'_, Control> {
        self.control.lock().expect("no panic under the proxy's lock")
    }
}

impl Control {
    pub(super) fn open(&mut self, id: u64, client: TcpStream, server: TcpStream) {
        let live = Live {
            client,
            server,
            fates: VecDeque::new(),
            subscribed: false,
            deaf: false,
            mute: false,
        };
        self.live.insert(id, live);
    }

    pub(super) fn close(&mut self, id: u64) {
        if let Some(live) = self.live.remove(&id) {
            live.close();
        }
    }

    pub(super) fn close_all(&mut self) {
        for live in std::mem::take(&mut self.live).into_values() {
            live.close();
        }
    }

    pub(super) fn heal(&mut self) {
        let held = [self.requests_lane.held, self.replies_lane.held];
        self.requests_lane = Lane { held: held[0], ..Lane::default() };
        self.replies_lane = Lane { held: held[1], ..Lane::default() };
        (self.blackhole, self.drop_replies) = (false, false);
        (self.cut_in, self.swallow_left, self.double_left) = (0, 0, 0);
        self.aim.clear();
        let lost: Vec<u64> = self
            .live
            .iter()
            .filter(|(_, live)| live.deaf || live.mute)
            .map(|(id, _)| *id)
            .collect();
        lost.into_iter().for_each(|id| self.close(id));
    }

    pub(super) fn is_aimed_at(&self, name: &str) -> bool {
        if self.aim.is_empty() {
            !SET_UP.contains(&name)
        } else {
            self.aim.iter().any(|aimed| aimed == name)
        }
    }

    pub(super) fn count_request(&mut self, name: &str) {
        if self.is_aimed_at(name) {
            self.requests += 1;
        }
    }

    /// Decides on one request and writes down what becomes of its reply.
    pub(super) fn decide_request(&mut self, id: u64, name: &str) -> Forward {
        let aimed = self.is_aimed_at(name);
        let Some(live) = self.live.get_mut(&id) else { return Forward::Never };
        if self.blackhole {
            (live.deaf, live.mute) = (true, true);
        }
        if live.deaf {
            return Forward::Never;
        }
        if SUBSCRIPTION.contains(&name) {
            live.subscribed = true;
            return Forward::Once;
        }
        if !aimed {
            live.fates.push_back(Fate::Deliver);
            return Forward::Once;
        }
        let doubled = take_one(&mut self.double_left);
        if doubled {
            live.fates.push_back(Fate::Skip);
        }
        let cut = self.cut_in == 1;
        self.cut_in = self.cut_in.saturating_sub(1);
        let swallow = take_one(&mut self.swallow_left);
        live.fates.push_back(match (cut, swallow) {
            (true, _) => Fate::Cut,
            (false, true) => Fate::Swallow,
            (false, false) => Fate::Deliver,
        });
        // Nothing behind the cut gets through.
        live.deaf = cut;
        if doubled { Forward::Twice } else { Forward::Once }
    }

    /// Decides on one reply or push.
    pub(super) fn decide_reply(&mut self, id: u64, frame: &[u8]) -> Deliver {
        let silent = self.blackhole || self.drop_replies;
        let Some(live) = self.live.get_mut(&id) else { return Deliver::No };
        let fate = if live.is_push(frame) {
            Fate::Deliver
        } else {
            live.fates.pop_front().unwrap_or(Fate::Deliver)
        };
        live.mute |= silent || fate == Fate::Swallow;
        match fate {
            Fate::Cut => Deliver::Cut,
            Fate::Skip => Deliver::No,
            Fate::Deliver | Fate::Swallow if live.mute => Deliver::No,
            Fate::Deliver | Fate::Swallow => Deliver::Yes,
        }
    }

    /// Whether the end of the server's side is to be passed on to the client: in an outage it
    /// would not be seen.
    pub(super) fn shows_end(&self, id: u64) -> bool {
        !self.blackhole && !self.drop_replies && !self.live.get(&id).is_some_and(|live| live.mute)
    }

    /// Whether the end of the client's side is to be passed on to the server.
    pub(super) fn forwards_end(&self, id: u64) -> bool {
        !self.blackhole && !self.live.get(&id).is_some_and(|live| live.deaf)
    }

    fn lane(&mut self, direction: Direction) -> &mut Lane {
        match direction {
            Direction::Request => &mut self.requests_lane,
            Direction::Reply => &mut self.replies_lane,
        }
    }
}

impl Live {
    fn close(&self) {
        // Either side may be closed already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    fn is_push(&self, frame: &[u8]) -> bool {
        if frame.first() == Some(&b'>') {
            return true;
        }
        // RESP2 has no pushes: a message is an array like any other.
        let first = || resp::bulk_elements(frame).ok()?.into_iter().next();
        self.subscribed
            && frame.first() == Some(&b'*')
            && first()
                .is_some_and(|kind| kind.ends_with(b"subscribe") || kind.ends_with(b"message"))
    }
}

fn take_one(left: &mut u64) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(1);
    any
}
