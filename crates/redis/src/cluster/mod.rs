//! A cluster of Redis or Valkey servers: finds the primary of each key, and follows it when it
//! moves.
//!
//! ```text
//!   question --slot--> primary --answer-->
//!                 ^       |  MOVED: the map is told, the same request goes there
//!                 |       |  ASK: once to the other, behind ASKING in the same write
//!                 |       |  TRYAGAIN, LOADING: a pause        } inside of the call's time
//!                 +-------+  CLUSTERDOWN, no connection: a new map, a pause }
//! ```
//!
//! Not the client library's own cluster client, because that repeats requests as it sees fit, and
//! here each copy has to be one that the Contract of `Store` allows: what a server refused was
//! certainly not done, and goes on; what may have been done is sent again only where its token
//! makes the copy harmless. Requests of one slot go over one connection, in the order of their
//! first polls, also while the first map is still on its way (`gate.rs`).
//!
//! A replica is never believed: it answers `MOVED` to whatever has a key.

mod gate;
mod listeners;
mod map;
mod nodes;
mod redirect;
mod refresh;
mod route;
mod slot;
pub(crate) mod spread;

use std::{
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fencelock_core::Moment;
use fencelock_store::{Clock, Outcome, StoreError, StoreErrorKind, rt};

use self::{
    gate::Gates,
    map::SlotMap,
    nodes::{Node, Nodes},
    redirect::Redirect,
    refresh::Pace,
};
pub(crate) use self::{
    listeners::{Listener, Listeners},
    map::Address,
    route::Route,
    slot::{slot_of, tag_of},
};
use crate::{
    connection::{Again, Answer, NoAnswer},
    error::{self, Failure},
    script::Question,
    url::RedisUrl,
};

/// A cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    shared: Arc<Shared>,
    pub(crate) listeners: Listeners,
}

/// What is known of it, also to the task that looks for a new map.
struct Shared {
    /// How messages call it.
    at: String,
    nodes: Nodes,
    map: RwLock<SlotMap>,
    /// There is a map.
    is_known: AtomicBool,
    closed: AtomicBool,
    gates: Gates,
    pace: Pace,
}

impl Cluster {
    pub(crate) fn new(url: &RedisUrl, seeds: &[(String, u16)]) -> Result<Self, StoreError> {
        let shared = Shared {
            at: url.to_string(),
            nodes: Nodes::new(url, seeds)?,
            map: RwLock::new(SlotMap::empty()),
            is_known: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            gates: Gates::default(),
            pace: Pace::default(),
        };
        Ok(Self { shared: Arc::new(shared), listeners: Listeners::default() })
    }

    /// How messages call it.
    pub(crate) fn at(&self) -> &str {
        &self.shared.at
    }

    /// Refuses calls after the end.
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(error::closed(self.at()).into());
        }
        Ok(())
    }

    /// Ends all connections.
    pub(crate) fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.nodes.close();
    }

    /// Asks one question within its time, wherever it has to go.
    pub(crate) async fn answer(
        &self,
        question: &mut Question,
        clock: &Clock,
        by: Moment,
    ) -> Result<Answer, StoreError> {
        let asked = self.travel(question, clock, by).await;
        asked.map_err(|error| match self.shared.is_known.load(Ordering::Acquire) {
            // Somebody gave the map.
            true => error.of_a_part(),
            false => error,
        })
    }

    async fn travel(
        &self,
        question: &mut Question,
        clock: &Clock,
        by: Moment,
    ) -> Result<Answer, StoreError> {
        self.check_open()?;
        if let Route::Nowhere(names) = &question.route {
            return Err(self.cross_slot(&names.0, &names.1));
        }
        let mut journey = Journey::default();
        loop {
            let step = self.shared.step(question, &mut journey, clock, by).await;
            // This copy was not sent, but an earlier one may have been carried out.
            let (node, result) = step.map_err(|error| journey.overdue(error, self.at()))?;
            let failure = match result {
                Ok(mut answer) => {
                    answer.resent |= journey.uncertain;
                    // Each server has a life of its own, and a slot goes from one to another.
                    answer.greeting.incarnation = None;
                    return Ok(answer);
                }
                Err(NoAnswer::Ended(error)) => {
                    // It may be frozen, and another may have taken its place.
                    self.shared.look_anew(None);
                    return Err(journey.overdue(error, self.at()));
                }
                Err(NoAnswer::Failed(failure)) => failure,
            };
            let Some(redirect) = Redirect::of(&failure, &node.address) else {
                return Err(journey.end(failure).into());
            };
            if failure.outcome == Outcome::Unknown {
                if question.again == Again::Never {
                    return Err(failure.into());
                }
                journey.uncertain = true;
            }
            tracing::debug!(store = self.at(), asked = %node.address, ?redirect, "asking elsewhere");
            journey.hops += 1;
            let pause = match redirect {
                Redirect::Moved(slot, to) => {
                    self.shared.moved(slot, &to);
                    journey.hops > Journey::HOPS_AT_ONCE
                }
                Redirect::Ask(to) => {
                    journey.asking = Some(to);
                    journey.hops > Journey::HOPS_AT_ONCE
                }
                Redirect::Pause => true,
                Redirect::Lost => {
                    self.shared.refresh(None, Some(&node.address), clock, by).await;
                    true
                }
            };
            let pause = if pause { journey.pause(rt::chance()) } else { Duration::ZERO };
            let next = clock.now().saturating_add(pause);
            if next >= by {
                return Err(journey.end(error::on_the_move(failure, self.at())).into());
            }
            clock.sleep_until(next).await;
        }
    }

    /// The primary of a slot, for who wants to listen there.
    async fn primary(
        &self,
        route: &Route,
        clock: &Clock,
        by: Moment,
    ) -> Result<Arc<Node>, StoreError> {
        self.check_open()?;
        if !self.shared.is_known.load(Ordering::Acquire) {
            self.shared.load(clock, by).await?;
        }
        self.shared.node(route)
    }

    /// The primaries by their lowest slot, after a fresh look where that is not too soon.
    pub(crate) async fn primaries(
        &self,
        clock: &Clock,
        by: Moment,
    ) -> Result<std::collections::BTreeMap<u16, Address>, StoreError> {
        self.check_open()?;
        self.shared.refresh(None, None, clock, by).await;
        if !self.shared.is_known.load(Ordering::Acquire) {
            self.shared.load(clock, by).await?;
        }
        Ok(self.shared.map().primaries())
    }

    fn cross_slot(
        &self,
        one: &fencelock_core::LockName,
        other: &fencelock_core::LockName,
    ) -> StoreError {
        let message = format!(
            "`{one}` and `{other}` are in different slots of the cluster at {}, and can't be taken \
             in one step; give their names one hash tag, as in `{{order}}:a` and `{{order}}:b`, or \
             take them with `across_slots`",
            self.at()
        );
        StoreError::new(StoreErrorKind::CrossSlot, Outcome::NotDone, message)
    }
}

impl Shared {
    /// Asks the server that is next. The first poll puts the question into a connection, or into
    /// the queue of those that wait for the map.
    async fn step(
        &self,
        question: &mut Question,
        journey: &mut Journey,
        clock: &Clock,
        by: Moment,
    ) -> Result<(Arc<Node>, Result<Answer, NoAnswer>), StoreError> {
        if let Some(address) = journey.asking.take() {
            let node = self.nodes.at(&address)?;
            question.asking = true;
            let result = Box::pin(node.requests.answer(question, clock, by)).await;
            question.asking = false;
            return Ok((node, result));
        }
        if self.is_known.load(Ordering::Acquire) && !self.gates.is_busy() {
            let node = self.node(&question.route)?;
            let result = Box::pin(node.requests.answer(question, clock, by)).await;
            return Ok((node, result));
        }
        let (pass, turn) = match Box::pin(clock.until(by, self.gates.enter())).await {
            Some(turn) => turn,
            None => return Err(error::overdue(&self.at, false)),
        };
        if !self.is_known.load(Ordering::Acquire) {
            Box::pin(self.load(clock, by)).await?;
        }
        let node = self.node(&question.route)?;
        let result = {
            let mut asking = Box::pin(node.requests.answer(question, clock, by));
            // Into the connection, or its queue, before the next in ours may.
            let early = rt::once(asking.as_mut()).await;
            drop((turn, pass));
            match early {
                Some(result) => result,
                None => asking.await,
            }
        };
        Ok((node, result))
    }

    /// The server for a route.
    fn node(&self, route: &Route) -> Result<Arc<Node>, StoreError> {
        let address = match route {
            Route::Server(address) => Some(Arc::clone(address)),
            Route::Slot(slot) => self.map().primary(*slot).map(Arc::clone),
            _ => None,
        };
        // Where nobody is known to serve a slot, whoever is asked says who does, or that nobody does.
        let address = match address {
            Some(address) => address,
            None => {
                let any = self.map().primaries().into_values().next();
                any.ok_or_else(|| StoreError::from(error::unreachable(&self.at, "no primary")))?
            }
        };
        self.nodes.at(&address)
    }

    fn map(&self) -> std::sync::RwLockReadGuard<'_, SlotMap> {
        // Nothing under this lock can panic half way.
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("at", &self.at)
            .field("nodes", &self.nodes)
            .field("is_known", &self.is_known)
            .finish_non_exhaustive()
    }
}

/// One question on its way through the cluster.
#[derive(Debug, Default)]
struct Journey {
    /// An earlier copy may have been carried out.
    uncertain: bool,
    /// The next server gets it once, behind ASKING.
    asking: Option<Address>,
    hops: u32,
}

impl Journey {
    /// How many redirections are followed without a pause: a map that is out of date, and a slot
    /// that is on the move beyond that. More of them in a row go in a circle.
    const HOPS_AT_ONCE: u32 = 3;
    const PAUSE_MIN: Duration = Duration::from_millis(4);
    /// Short against a call's time of a second, long enough for a server that is in trouble.
    const PAUSE_MAX: Duration = Duration::from_millis(100);

    /// Grows with each hop, with jitter: a cluster that changes shall not be met by waves.
    fn pause(&self, chance: u32) -> Duration {
        let grown = Self::PAUSE_MIN.saturating_mul(1 << self.hops.min(16)).min(Self::PAUSE_MAX);
        let half = grown / 2;
        half + half.mul_f64(f64::from(chance) / f64::from(u32::MAX))
    }

    /// The failure that the call ends with.
    fn end(&self, failure: Failure) -> Failure {
        match self.uncertain {
            true => Failure { outcome: Outcome::Unknown, ..failure },
            false => failure,
        }
    }

    /// The same when its time is over, or there is nobody to ask any more.
    fn overdue(&self, error: StoreError, at: &str) -> StoreError {
        match error.outcome() {
            Outcome::NotDone if self.uncertain => error::overdue(at, true),
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_with_jitter_and_stays_within_its_bound() {
        for hops in 0..40 {
            let journey = Journey { hops, ..Journey::default() };
            let (least, most) = (journey.pause(0), journey.pause(u32::MAX));
            assert!(least < most && most <= Journey::PAUSE_MAX, "{hops}: {least:?} {most:?}");
        }
    }
}
