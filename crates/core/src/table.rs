//! The executable specification of one store: operation + now -> reply.
//!
//! The memory store is this table behind a mutex and a clock; Redis and SQLite are tested against
//! it, operation by operation, with the time that they themselves report.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};
use core::{mem, ops::Bound};

use crate::{
    AcquireRequest, Acquired, Binding, Cursor, DowngradeRequest, Downgraded, ExchangeRequest,
    Exchanged, ForceReleaseRequest, Forced, Foreign, ForeignKind, HealRequest, Healed,
    InspectRequest, Inspection, LimitSet, Lines, ListRequest, ListenerId, LockName, Names, NotHeld,
    Page, Place, RaiseFenceRequest, Raised, Record, ReleaseRequest, Released, RenewRequest,
    Renewed, RevokeRequest, Revoked, Rules, SetLimitRequest, ShortenRequest, Shortened, StoreNow,
    Token, Told, Wakeup,
};

/// All locks of one store.
#[derive(Clone, Debug, Default)]
pub struct LockTable {
    rules: Rules,
    records: BTreeMap<LockName, Record>,
    foreign: BTreeMap<LockName, ForeignKind>,
    lines: BTreeMap<LockName, VecDeque<Place>>,
    gone: BTreeSet<ListenerId>,
    mail: Vec<(ListenerId, Wakeup)>,
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
        self.apply(&request.names, now, |records, lines| {
            rules.acquire(records, lines, request, now)
        })
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
        self.apply(&request.names, now, |records, lines| rules.renew(records, lines, request, now))
    }

    /// Brings the end of a lease nearer.
    pub fn shorten(&mut self, request: &ShortenRequest, now: StoreNow) -> Shortened {
        if let Some(foreign) = self.first_foreign(&request.names) {
            return Shortened::NotHeld(NotHeld::Foreign(foreign.kind));
        }
        let rules = self.rules;
        self.apply(&request.names, now, |records, lines| {
            rules.shorten(records, lines, request, now)
        })
    }

    /// Gives a lease back.
    pub fn release(&mut self, request: &ReleaseRequest, now: StoreNow) -> Released {
        // What is foreign was written over our record; the other names are freed all the same.
        let (own, foreign): (Vec<_>, Vec<_>) =
            request.names.iter().cloned().partition(|name| !self.foreign.contains_key(name));
        let rules = self.rules;
        let answer = match Names::new(own) {
            Ok(names) => self
                .apply(&names, now, |records, lines| rules.release(records, lines, request, now)),
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
        self.apply(&request.names, now, |records, _| rules.exchange_token(records, request, now))
    }

    /// Makes a lease that is held alone a shared one.
    pub fn downgrade(&mut self, request: &DowngradeRequest, now: StoreNow) -> Downgraded {
        if let Some(kind) = self.foreign.get(&request.name) {
            return Downgraded::NotHeld(NotHeld::Foreign(kind.clone()));
        }
        let rules = self.rules;
        let names = Names::one(request.name.clone());
        self.apply(&names, now, |records, lines| {
            rules.downgrade(&mut records[0], lines, request, &Binding::Unbound, now)
        })
    }

    /// Changes the limit of a semaphore.
    pub fn set_limit(&mut self, request: &SetLimitRequest, now: StoreNow) -> LimitSet {
        if let Some(kind) = self.foreign.get(&request.name) {
            return LimitSet::Foreign(kind.clone());
        }
        let rules = self.rules;
        let names = Names::one(request.name.clone());
        self.apply(&names, now, |records, lines| {
            rules.set_limit(&mut records[0], lines, request, now)
        })
    }

    /// Writes a larger fencing token to a lease.
    pub fn raise_fence(&mut self, request: &RaiseFenceRequest, now: StoreNow) -> Raised {
        if let Some(foreign) = self.first_foreign(&request.names) {
            return Raised::NotHeld(NotHeld::Foreign(foreign.kind));
        }
        let rules = self.rules;
        self.apply(&request.names, now, |records, _| rules.raise_fence(records, request, now))
    }

    /// Takes a lease that is provably ours elsewhere.
    pub fn heal(&mut self, request: &HealRequest, now: StoreNow) -> Healed {
        if let Some(foreign) = self.first_foreign(&request.names) {
            return Healed::Foreign(foreign);
        }
        let rules = self.rules;
        self.apply(&request.names, now, |records, _| rules.heal(records, request, now))
    }

    /// Looks at one name.
    pub fn inspect(&self, request: &InspectRequest, now: StoreNow) -> Inspection {
        if let Some(kind) = self.foreign.get(&request.name) {
            return Inspection::Foreign(kind.clone());
        }
        let record = self.records.get(&request.name).filter(|record| !record.is_forgotten(now));
        self.rules.inspect(record, self.waiting(&request.name), request, now)
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
        self.apply(&names, now, |records, lines| rules.force_release(records, lines, request, now))
    }

    /// Asks the holder of a name to give it back.
    pub fn revoke(&mut self, request: &RevokeRequest, now: StoreNow) -> Revoked {
        if let Some(kind) = self.foreign.get(&request.name) {
            return Revoked::Foreign(kind.clone());
        }
        let rules = self.rules;
        let names = Names::one(request.name.clone());
        self.apply(&names, now, |records, lines| rules.revoke(records, lines, request, now))
    }

    /// How many places the line of a name has.
    #[must_use]
    pub fn waiting(&self, name: &LockName) -> u32 {
        self.lines.get(name).map_or(0, length)
    }

    /// The line of a name, the head first.
    pub fn line(&self, name: &LockName) -> impl Iterator<Item = &Place> {
        self.lines.get(name).into_iter().flatten()
    }

    /// From now on certainly nobody listens there.
    pub fn set_gone(&mut self, listener: ListenerId) {
        self.gone.insert(listener);
    }

    /// What is to be told since the last call, and to whom.
    pub fn take_mail(&mut self) -> Vec<(ListenerId, Wakeup)> {
        mem::take(&mut self.mail)
    }

    /// Puts a foreign value where another program would have.
    pub fn plant_foreign(&mut self, name: LockName, kind: ForeignKind) {
        self.records.remove(&name);
        self.lines.remove(&name);
        self.foreign.insert(name, kind);
    }

    /// Removes whatever is at a name, as an operator's delete or an eviction would.
    pub fn delete(&mut self, name: &LockName) {
        self.records.remove(name);
        self.lines.remove(name);
        self.foreign.remove(name);
    }

    /// Forgets what may be forgotten, and says how many records are left.
    pub fn sweep(&mut self, now: StoreNow) -> usize {
        self.records.retain(|_, record| !record.is_forgotten(now));
        self.lines.retain(|_, line| line.iter().any(|place| !place.is_lapsed(now.lease)));
        self.records.len()
    }

    /// Removes the first place of a line, as the clearing of a store may once it has lapsed.
    pub fn remove_first(&mut self, name: &LockName) -> Option<Place> {
        let line = self.lines.get_mut(name)?;
        let first = line.pop_front();
        if line.is_empty() {
            self.lines.remove(name);
        }
        first
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
        rule: impl FnOnce(&mut [Option<Record>], &mut dyn Lines) -> A,
    ) -> A {
        let taken = names.iter().map(|name| self.records.remove(name));
        let mut records: Vec<_> =
            taken.map(|record| record.filter(|record| !record.is_forgotten(now))).collect();
        let mut lines = TableLines {
            names: names.as_slice(),
            lines: &mut self.lines,
            gone: &self.gone,
            mail: &mut self.mail,
        };
        let answer = rule(&mut records, &mut lines);
        for (name, record) in names.iter().zip(records) {
            if let Some(record) = record {
                self.records.insert(name.clone(), record);
            }
        }
        answer
    }
}

/// The lines of the names of one request.
struct TableLines<'a> {
    names: &'a [LockName],
    lines: &'a mut BTreeMap<LockName, VecDeque<Place>>,
    gone: &'a BTreeSet<ListenerId>,
    mail: &'a mut Vec<(ListenerId, Wakeup)>,
}

fn length(line: &VecDeque<Place>) -> u32 {
    u32::try_from(line.len()).unwrap_or(u32::MAX)
}

impl TableLines<'_> {
    fn position(&self, index: usize, token: Token) -> Option<usize> {
        self.lines.get(&self.names[index])?.iter().position(|place| place.token == token)
    }
}

impl Lines for TableLines<'_> {
    fn len(&mut self, index: usize) -> u32 {
        self.lines.get(&self.names[index]).map_or(0, length)
    }

    fn first(&mut self, index: usize) -> Option<Place> {
        self.lines.get(&self.names[index])?.front().cloned()
    }

    fn all(&mut self, index: usize) -> Vec<Place> {
        self.lines.get(&self.names[index]).into_iter().flatten().cloned().collect()
    }

    fn has(&mut self, index: usize, token: Token) -> bool {
        self.position(index, token).is_some()
    }

    fn put(&mut self, index: usize, place: Place) -> u32 {
        let known = self.position(index, place.token);
        let line = self.lines.entry(self.names[index].clone()).or_default();
        match known.and_then(|position| line.get_mut(position)) {
            Some(old) => *old = place,
            None => line.push_back(place),
        }
        let position = known.map_or_else(|| length(line), |p| u32::try_from(p + 1).unwrap_or(0));
        position.max(1)
    }

    fn remove(&mut self, index: usize, token: Token) -> bool {
        let Some(position) = self.position(index, token) else { return false };
        let name = &self.names[index];
        if let Some(line) = self.lines.get_mut(name) {
            line.remove(position);
            if line.is_empty() {
                self.lines.remove(name);
            }
        }
        true
    }

    fn offer(&mut self, _: usize, place: &Place, wakeup: Wakeup) -> Told {
        match place.listener {
            Some(listener) if self.gone.contains(&listener) => Told::Nobody,
            Some(listener) => {
                self.tell(listener, wakeup);
                Told::Perhaps
            }
            // Its waiter asks often.
            None => Told::Perhaps,
        }
    }

    fn tell(&mut self, listener: ListenerId, wakeup: Wakeup) {
        self.mail.push((listener, wakeup));
    }
}

#[cfg(test)]
mod tests;
