//! The executable specification of one store: operation + now -> reply.
//!
//! The memory store is this table behind a mutex and a clock; Redis and SQLite are tested against
//! it, operation by operation, with the time that they themselves report.

use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::Bound;

use crate::{
    AcquireRequest, Acquired, Cursor, ExchangeRequest, Exchanged, ForceReleaseRequest, Forced,
    Foreign, ForeignKind, HealRequest, Healed, InspectRequest, Inspection, ListRequest, LockName,
    Names, NotHeld, Page, RaiseFenceRequest, Raised, Record, ReleaseRequest, Released,
    RenewRequest, Renewed, Rules, ShortenRequest, Shortened, StoreNow, rules::gather,
};

/// All locks of one store.
#[derive(Clone, Debug, Default)]
pub struct LockTable {
    rules: Rules,
    records: BTreeMap<LockName, Record>,
    foreign: BTreeMap<LockName, ForeignKind>,
}

impl LockTable {
    /// An empty table.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Takes all names or none.
    pub fn acquire(&mut self, request: &AcquireRequest, now: StoreNow) -> Acquired {
        if let Some(foreign) = self.first_foreign(&request.names) {
            return Acquired::Foreign(foreign);
        }
        let rules = self.rules;
        self.apply(&request.names, now, |records| rules.acquire(records, request, now))
    }

    /// Prolongs leases: one answer for each, in order.
    pub fn renew(&mut self, batch: &[RenewRequest], now: StoreNow) -> Vec<Renewed> {
        batch.iter().map(|request| self.renew_one(request, now)).collect()
    }

    fn renew_one(&mut self, request: &RenewRequest, now: StoreNow) -> Renewed {
        if let Some(foreign) = self.first_foreign(&request.names) {
            return Renewed::NotHeld(NotHeld::Foreign(foreign.kind));
        }
        let rules = self.rules;
        self.apply(&request.names, now, |records| rules.renew(records, request, now))
    }

    /// Brings the end of a lease nearer.
    pub fn shorten(&mut self, request: &ShortenRequest, now: StoreNow) -> Shortened {
        if let Some(foreign) = self.first_foreign(&request.names) {
            return Shortened::NotHeld(NotHeld::Foreign(foreign.kind));
        }
        let rules = self.rules;
        self.apply(&request.names, now, |records| rules.shorten(records, request, now))
    }

    /// Gives a lease back.
    pub fn release(&mut self, request: &ReleaseRequest, now: StoreNow) -> Released {
        // What is foreign was written over our record; the other names are freed all the same.
        let (own, foreign): (Vec<_>, Vec<_>) =
            request.names.iter().cloned().partition(|name| !self.foreign.contains_key(name));
        let rules = self.rules;
        let answer = match Names::new(own) {
            Ok(names) => self.apply(&names, now, |records| rules.release(records, request, now)),
            Err(_) => Released::Taken,
        };
        if foreign.is_empty() { answer } else { Released::Taken }
    }

    /// Exchanges the token of a lease.
    pub fn exchange_token(&mut self, request: &ExchangeRequest, now: StoreNow) -> Exchanged {
        if let Some(foreign) = self.first_foreign(&request.names) {
            return Exchanged::NotHeld(NotHeld::Foreign(foreign.kind));
        }
        let rules = self.rules;
        self.apply(&request.names, now, |records| rules.exchange_token(records, request, now))
    }

    /// Writes a larger fencing token to a lease.
    pub fn raise_fence(&mut self, request: &RaiseFenceRequest, now: StoreNow) -> Raised {
        if let Some(foreign) = self.first_foreign(&request.names) {
            return Raised::NotHeld(NotHeld::Foreign(foreign.kind));
        }
        let rules = self.rules;
        self.apply(&request.names, now, |records| rules.raise_fence(records, request, now))
    }

    /// Takes a lease that is provably ours elsewhere.
    pub fn heal(&mut self, request: &HealRequest, now: StoreNow) -> Healed {
        if let Some(foreign) = self.first_foreign(&request.names) {
            return Healed::Foreign(foreign);
        }
        let rules = self.rules;
        self.apply(&request.names, now, |records| rules.heal(records, request, now))
    }

    /// Looks at one name.
    pub fn inspect(&self, request: &InspectRequest, now: StoreNow) -> Inspection {
        if let Some(kind) = self.foreign.get(&request.name) {
            return Inspection::Foreign(kind.clone());
        }
        let record = self.records.get(&request.name).filter(|record| !record.is_forgotten(now));
        self.rules.inspect(record, request, now)
    }

    /// Lists held names and foreign values, in order.
    pub fn list(&self, request: &ListRequest, now: StoreNow) -> Page {
        let limit = request.limit.clamp(1, ListRequest::MAX_LIMIT);
        let after =
            request.cursor.as_ref().and_then(|cursor| LockName::new(cursor.as_bytes()).ok());
        let lower = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let records = self.records.range::<LockName, _>((lower, Bound::Unbounded));
        let foreign = self.foreign.range::<LockName, _>((lower, Bound::Unbounded));
        let mut names: Vec<&LockName> =
            records.map(|(name, _)| name).chain(foreign.map(|(name, _)| name)).collect();
        names.sort();
        names.dedup();
        let mut locks = Vec::new();
        for name in names {
            if !name.as_bytes().starts_with(&request.prefix) {
                continue;
            }
            let seen = self.inspect(&InspectRequest::new(name.clone()), now);
            if matches!(seen, Inspection::Free { .. }) {
                continue;
            }
            if locks.len() == limit {
                let last: Option<&(LockName, Inspection)> = locks.last();
                let next = last.map(|(name, _)| Cursor::new(name.as_bytes()));
                return Page::new(locks, next);
            }
            locks.push((name.clone(), seen));
        }
        Page::new(locks, None)
    }

    /// Frees a name whoever holds it.
    pub fn force_release(&mut self, request: &ForceReleaseRequest, now: StoreNow) -> Forced {
        if let Some(kind) = self.foreign.get(&request.name) {
            return Forced::Foreign(kind.clone());
        }
        let rules = self.rules;
        let names = Names::one(request.name.clone());
        self.apply(&names, now, |records| rules.force_release(&mut records[0], request, now))
    }

    /// Puts a foreign value where another program would have.
    pub fn plant_foreign(&mut self, name: LockName, kind: ForeignKind) {
        self.records.remove(&name);
        self.foreign.insert(name, kind);
    }

    /// Removes whatever is at a name, as an operator's delete or an eviction would.
    pub fn delete(&mut self, name: &LockName) {
        self.records.remove(name);
        self.foreign.remove(name);
    }

    /// Forgets what may be forgotten, and says how many records are left.
    pub fn sweep(&mut self, now: StoreNow) -> usize {
        self.records.retain(|_, record| !record.is_forgotten(now));
        self.records.len()
    }

    /// The record of a name, forgotten or not.
    #[must_use]
    pub fn record(&self, name: &LockName) -> Option<&Record> {
        self.records.get(name)
    }

    fn first_foreign(&self, names: &Names) -> Option<Foreign> {
        let (name, kind) = names.iter().find_map(|name| self.foreign.get_key_value(name))?;
        Some(Foreign::new(name.clone(), kind.clone()))
    }

    fn apply<A>(
        &mut self,
        names: &Names,
        now: StoreNow,
        rule: impl FnOnce(&mut [Option<Record>]) -> A,
    ) -> A {
        let mut records = gather(names, |name| self.records.get(name).cloned(), now);
        let answer = rule(&mut records);
        for (name, record) in names.iter().zip(records) {
            match record {
                Some(record) => self.records.insert(name.clone(), record),
                None => self.records.remove(name),
            };
        }
        answer
    }
}

#[cfg(test)]
mod tests;
