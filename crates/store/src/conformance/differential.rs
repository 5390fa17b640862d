//! Random sequences of operations, on a store and on [`LockTable`], with equal answers.
//!
//! The table is fed with the time that each reply carries, so that the two must agree to the
//! microsecond, whatever the clock did in between. A store that tells no time (a bare dialect with
//! keys that expire) is compared in whole seconds instead: pauses are whole seconds, leases end at
//! half ones, and a sequence ends before it has run into the half second. That is the whole
//! tolerance.
//!
//! Where there are lines, a sequence ends with everybody asking for a place at each name, and with
//! the lease being taken from one after the other, so that whole lines are compared; and where there
//! are listeners, with what each of them was told, in order.
//!
//! ```text
//! proptest! {
//!     #[test]
//!     fn the_store_answers_as_the_table(operations in differential::operations()) {
//!         let result = rt::block_on(async {
//!             let store = harness.fresh().await;
//!             differential::run(&harness, &store, &operations).await
//!         });
//!         prop_assert!(result.is_ok(), "{}", result.unwrap_err());
//!     }
//! }
//! ```

mod answer;
mod mode;
mod operation;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fencelock_core::{
    AcquireRequest, InspectRequest, ListRequest, LockName, LockTable, Names, RevokeRequest, Rules,
    StoreNow, StoreTime, Wakeup,
};

pub use self::operation::{Operation, operations, operations_together};
use self::{
    answer::Answer,
    operation::{Asked, Cast, LISTENERS, NAMES, drain},
};
use super::{
    Harness,
    support::{self, Ask as _},
    wakeups::{Ear, listening},
};
use crate::{Capabilities, Store, Subscription, rt};

/// Half of the second in which a store without a time of its own is compared, less a margin.
const UNASKED_MAX: Duration = Duration::from_millis(400);

/// Runs a sequence on a store and on a table, and says how many answers were compared.
///
/// The names are random, so that the store need not be empty. The number is smaller than that of
/// the operations only where a store without a time of its own was too slow to be compared on.
///
/// # Errors
/// Where an answer differs: which, after what, and both answers.
pub async fn run<H: Harness>(
    harness: &H,
    store: &H::Store,
    operations: &[Operation],
) -> Result<usize, String> {
    let mut pair = Pair::new(harness, store).await;
    for (index, operation) in operations.iter().enumerate() {
        if pair.pause(operation).await.is_err() {
            return Ok(index);
        }
        pair.step(operation)
            .await
            .map_err(|difference| format!("{difference}\nafter {:#?}", &operations[..=index]))?;
    }
    pair.finish().await.map_err(|difference| format!("{difference}\nafter {operations:#?}"))?;
    Ok(operations.len())
}

/// A store and a table, asked the same.
struct Pair<'a, H: Harness> {
    harness: &'a H,
    store: &'a H::Store,
    can: Capabilities,
    table: LockTable,
    cast: Cast,
    ears: Vec<(Arc<Ear>, Subscription)>,
    /// What each listener should have heard.
    expected: [Vec<Wakeup>; LISTENERS],
    /// When the store shall be, if it does not say so itself.
    planned: StoreNow,
}

/// The store's clock ran further than a sequence in whole seconds allows.
struct TooSlow;

impl<'a, H: Harness> Pair<'a, H> {
    async fn new(harness: &'a H, store: &'a H::Store) -> Self {
        let prefix = rt::fresh_token().reveal();
        let mut ears = Vec::new();
        // Without lines a place is told how the store likes it: see `wakeups`.
        let told = if store.capabilities().queue { LISTENERS } else { 0 };
        for _ in 0..told {
            ears.extend(listening(store).await);
        }
        let cast = Cast {
            names: std::array::from_fn(|index| support::name(format!("{prefix}:{index}"))),
            tokens: std::array::from_fn(|_| rt::fresh_token()),
            listeners: std::array::from_fn(|index| {
                ears.get(index).map(|(_, subscription): &(_, Subscription)| subscription.listener)
            }),
        };
        Self {
            harness,
            store,
            can: store.capabilities(),
            table: LockTable::new(Rules::default()),
            cast,
            ears,
            expected: Default::default(),
            planned: harness.time(store).await,
        }
    }

    /// Lets time pass before an operation.
    async fn pause(&mut self, operation: &Operation) -> Result<(), TooSlow> {
        let pause = operation.pause(self.can.store_time);
        if self.can.store_time {
            if !pause.is_zero() {
                self.harness.advance(self.store, pause).await;
            }
            return Ok(());
        }
        self.planned = StoreNow {
            lease: self.planned.lease.saturating_add(pause),
            wall: self.planned.wall.saturating_add(pause),
        };
        let missing =
            self.planned.lease.saturating_since(self.harness.time(self.store).await.lease);
        if !missing.is_zero() {
            self.harness.advance(self.store, missing).await;
        }
        self.check_planned().await
    }

    async fn check_planned(&self) -> Result<(), TooSlow> {
        let now = self.harness.time(self.store).await;
        let unasked = now.lease.saturating_since(self.planned.lease);
        if !self.can.store_time && unasked > UNASKED_MAX {
            return Err(TooSlow);
        }
        Ok(())
    }

    async fn step(&mut self, operation: &Operation) -> Result<(), String> {
        let clocks = self.harness.time(self.store).await;
        let asked = operation.ask(&self.cast, clocks, self.can.store_time);
        match &asked {
            Asked::Plant(name) => self.plant(name).await,
            Asked::List(request) => self.list(request, clocks).await,
            _ => self.compare(&asked, clocks).await,
        }
    }

    /// Asks both the same, and keeps what the table tells listeners.
    async fn compare(&mut self, asked: &Asked, clocks: StoreNow) -> Result<(), String> {
        let reply = asked.of_store(self.store).await;
        let now = match &reply {
            Ok(reply) => self.time_of(clocks, reply.at)?,
            Err(_) => self.planned,
        };
        if self.check_planned().await.is_err() {
            // The next pause ends the sequence; this answer may belong to the next second.
            return Ok(());
        }
        let actual = match reply {
            Ok(reply) => reply.answer,
            Err(error) => Answer::Failed(error.kind()),
        };
        let expected = self.expected(asked, now);
        let (actual, expected) = (actual.seen_by(&self.can), expected.seen_by(&self.can));
        if actual == expected {
            return Ok(());
        }
        Err(format!("{asked:?} at {now:?}\n  the store: {actual:?}\n  the table: {expected:?}"))
    }

    fn expected(&mut self, asked: &Asked, now: StoreNow) -> Answer {
        if let Some(failure) = asked.unsupported(&self.can) {
            return Answer::Failed(failure);
        }
        self.forget(now);
        let answer = asked.effective(&self.can).of_table(&mut self.table, now);
        for (listener, wakeup) in self.table.take_mail() {
            let known = |own: &Option<_>| *own == Some(listener);
            if let Some(index) = self.cast.listeners.iter().position(known) {
                self.expected[index].push(wakeup);
            }
        }
        answer
    }

    /// Compares what is left: the state of each name, its line, and what everybody was told.
    async fn finish(&mut self) -> Result<(), String> {
        for at in self.cast.names.clone() {
            let mut steps = vec![Asked::Inspect(InspectRequest::new(at.clone()))];
            if self.can.queue {
                steps.extend(drain(&self.cast, &at));
            }
            for asked in steps {
                let clocks = self.harness.time(self.store).await;
                self.compare(&asked, clocks).await?;
            }
        }
        for index in 0..self.ears.len() {
            let told = self.told(index).await;
            if told != self.expected[index] {
                let expected = &self.expected[index];
                return Err(format!(
                    "listener {index}\n  was told {told:?}\n  instead of {expected:?}"
                ));
            }
        }
        Ok(())
    }

    /// What a listener heard. Nothing is on its way any more when it has heard the last message,
    /// which is about a lock of its own.
    async fn told(&self, index: usize) -> Vec<Wakeup> {
        let (ear, subscription) = &self.ears[index];
        let at = support::name(format!("{}!{index}", self.cast.names[0]));
        let token = rt::fresh_token();
        let mut last = AcquireRequest::new(at.clone(), token, support::ttl(support::MINUTE));
        last.listener = Some(subscription.listener);
        let _ = self.store.take_as(&last).await;
        let _ = support::answered(
            self.store.revoke(&RevokeRequest::new(at.clone()), self.store.by()).await,
        );
        ear.hears(|wakeup| (*wakeup == Wakeup::Revoked(token)).then_some(())).await;
        let _ = self.store.give_back(at, token).await;
        let mut heard = ear.heard();
        heard.retain(|wakeup| wakeup.token() != token);
        heard
    }

    /// A store without memory is a table from which whatever is over was deleted.
    fn forget(&mut self, now: StoreNow) {
        if self.can.remembers_tokens {
            return;
        }
        for name in &self.cast.names {
            if self.table.record(name).is_some_and(|record| !record.is_live(now)) {
                self.table.delete(name);
            }
        }
    }

    /// When the store answered.
    fn time_of(&self, clocks: StoreNow, at: Option<StoreTime>) -> Result<StoreNow, String> {
        match (self.can.store_time, at) {
            (true, Some(at)) => Ok(shown(clocks, at)),
            (false, None) => Ok(self.planned),
            (can, at) => Err(format!("the capability is {can}, and the reply is of {at:?}")),
        }
    }

    /// Pages are seen one after the other: each entry is compared at the time of its page, and
    /// what is held at the end must be there.
    async fn list(&mut self, request: &ListRequest, clocks: StoreNow) -> Result<(), String> {
        let mut request = request.clone();
        let mut seen = BTreeSet::new();
        loop {
            let reply = self.store.list(&request, self.store.by()).await;
            let reply = reply.map_err(|error| format!("a list failed: {error}"))?;
            let now = self.time_of(clocks, reply.at)?;
            if self.check_planned().await.is_err() {
                return Ok(());
            }
            self.forget(now);
            for (name, shown) in reply.answer.locks {
                let look = Asked::Inspect(InspectRequest::new(name.clone()));
                let expected = look.of_table(&mut self.table, now).seen_by(&self.can);
                let shown = Answer::Inspected(shown).seen_by(&self.can);
                if shown != expected {
                    return Err(format!(
                        "{name} in a list at {now:?}: {shown:?}, not {expected:?}"
                    ));
                }
                seen.insert(name);
            }
            request.cursor = reply.answer.next;
            if request.cursor.is_none() {
                let held = self.table.list(&ListRequest::new(""), now).locks;
                let missing = held.into_iter().find(|(name, _)| !seen.contains(name));
                return match missing {
                    Some(missing) => Err(format!("a list at {now:?} lacks {missing:?}")),
                    None => Ok(()),
                };
            }
        }
    }

    async fn plant(&mut self, name: &LockName) -> Result<(), String> {
        if !self.harness.plant_foreign(self.store, name).await {
            return Ok(());
        }
        // What it looks like only the store can say.
        match self.store.look(name).await {
            fencelock_core::Inspection::Foreign(kind) => {
                self.table.plant_foreign(name.clone(), kind);
                Ok(())
            }
            other => Err(format!("a foreign value at {name} is shown as {other:?}")),
        }
    }
}

/// What both clocks showed when the clock of leases showed `at`.
fn shown(clocks: StoreNow, at: StoreTime) -> StoreNow {
    let (lease, wall) = (clocks.lease.as_micros(), clocks.wall.as_micros());
    let wall = u128::from(wall) + u128::from(at.as_micros());
    let wall = u64::try_from(wall.saturating_sub(u128::from(lease))).unwrap_or(u64::MAX);
    StoreNow { lease: at, wall: StoreTime::from_micros(wall) }
}

/// Those of the names that an operation is about, as a set.
fn set(names: &[LockName; NAMES], members: &[usize]) -> Names {
    Names::new(members.iter().map(|&index| names[index].clone())).expect("one or more, and few")
}
