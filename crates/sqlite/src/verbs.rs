//! Each verb inside an open transaction: load, ask the rules, write what changed.
//!
//! The rules are [`Rules`], the very same functions as `LockTable`'s; what a foreign row means for
//! each verb is said here as `LockTable` says it for its own foreign values.

use fencelock_core::{
    AcquireRequest, Acquired, Binding, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged,
    ForceReleaseRequest, Forced, Foreign, HealRequest, Healed, InspectRequest, Inspection,
    LimitSet, Lines, LockName, Names, NotHeld, Novelty, RaiseFenceRequest, Raised, Record,
    ReleaseRequest, Released, RenewRequest, Renewed, RevokeRequest, Revoked, Rules,
    SetLimitRequest, ShortenRequest, Shortened,
};
use rusqlite::Result;

use crate::{
    line::FileLines,
    row::{Ours, Slot},
    sweep,
    transaction::{Rebind, Transaction},
};

/// What a rule answered, or the foreign row in its way.
type Ruled<A> = std::result::Result<A, Foreign>;

impl Transaction<'_> {
    /// Takes all names or none.
    pub(crate) fn acquire(&self, rules: Rules, request: &AcquireRequest) -> Result<Acquired> {
        let rebind = Rebind::To(&request.binding);
        let answer = self.apply(&request.names, rebind, |records, lines| {
            rules.acquire(records, lines, request, self.now)
        })?;
        let answer = answer.unwrap_or_else(Acquired::Foreign);
        let is_new = matches!(&answer, Acquired::Granted(grant) if grant.novelty == Novelty::Fresh);
        if is_new || self.made.get() > 0 {
            sweep::after_grant(self)?;
        }
        Ok(answer)
    }

    /// Prolongs leases: one answer for each.
    pub(crate) fn renew(&self, rules: Rules, batch: &[RenewRequest]) -> Result<Vec<Renewed>> {
        let renew = |request: &RenewRequest| {
            let answer = self.apply(&request.names, Rebind::Keep, |records, lines| {
                rules.renew(records, lines, request, self.now)
            })?;
            Ok(answer.unwrap_or_else(|foreign| Renewed::NotHeld(not_held(foreign))))
        };
        batch.iter().map(renew).collect()
    }

    /// Brings the end of a lease nearer.
    pub(crate) fn shorten(&self, rules: Rules, request: &ShortenRequest) -> Result<Shortened> {
        let answer = self.apply(&request.names, Rebind::Keep, |records, lines| {
            rules.shorten(records, lines, request, self.now)
        })?;
        Ok(answer.unwrap_or_else(|foreign| Shortened::NotHeld(not_held(foreign))))
    }

    /// Frees every name that is still ours, also beside foreign rows.
    pub(crate) fn release(&self, rules: Rules, request: &ReleaseRequest) -> Result<Released> {
        let mut slots = self.slots(&request.names)?;
        let all = slots.len();
        slots.retain(|(_, slot)| !matches!(slot, Slot::Foreign(_)));
        let some_foreign = slots.len() < all;
        let answer = self.rule(&slots, Rebind::Keep, |records, lines| {
            rules.release(records, lines, request, self.now)
        })?;
        Ok(if some_foreign { Released::Taken } else { answer })
    }

    /// Exchanges the token of a lease.
    pub(crate) fn exchange(&self, rules: Rules, request: &ExchangeRequest) -> Result<Exchanged> {
        let rebind = Rebind::To(&request.binding);
        let answer = self.apply(&request.names, rebind, |records, _| {
            rules.exchange_token(records, request, self.now)
        })?;
        Ok(answer.unwrap_or_else(|foreign| Exchanged::NotHeld(not_held(foreign))))
    }

    /// Makes a lease that is held alone a shared one.
    pub(crate) fn downgrade(&self, rules: Rules, request: &DowngradeRequest) -> Result<Downgraded> {
        let names = Names::one(request.name.clone());
        let binding = match self.load(&request.name)? {
            // Elsewhere's process ids mean nothing beside our boot id.
            Slot::Ours(Ours { bound: Some(bound), written_here: true, .. }) => bound.binding(),
            _ => Binding::Unbound,
        };
        let answer = self.apply(&names, Rebind::Keep, |records, lines| {
            rules.downgrade(&mut records[0], lines, request, &binding, self.now)
        })?;
        Ok(answer.unwrap_or_else(|foreign| Downgraded::NotHeld(not_held(foreign))))
    }

    /// Changes the limit of a semaphore.
    pub(crate) fn set_limit(&self, rules: Rules, request: &SetLimitRequest) -> Result<LimitSet> {
        let names = Names::one(request.name.clone());
        let answer = self.apply(&names, Rebind::Keep, |records, lines| {
            rules.set_limit(&mut records[0], lines, request, self.now)
        })?;
        if self.made.get() > 0 {
            sweep::after_grant(self)?;
        }
        Ok(answer.unwrap_or_else(|foreign| LimitSet::Foreign(foreign.kind)))
    }

    /// Writes a larger fencing token to a lease.
    pub(crate) fn raise(&self, rules: Rules, request: &RaiseFenceRequest) -> Result<Raised> {
        let answer = self.apply(&request.names, Rebind::Keep, |records, _| {
            rules.raise_fence(records, request, self.now)
        })?;
        Ok(answer.unwrap_or_else(|foreign| Raised::NotHeld(not_held(foreign))))
    }

    /// Takes a lease that is provably ours elsewhere.
    pub(crate) fn heal(&self, rules: Rules, request: &HealRequest) -> Result<Healed> {
        let rebind = Rebind::To(&Binding::Unbound);
        let answer = self
            .apply(&request.names, rebind, |records, _| rules.heal(records, request, self.now))?;
        Ok(answer.unwrap_or_else(Healed::Foreign))
    }

    /// Looks at one name.
    pub(crate) fn inspect(&self, rules: Rules, request: &InspectRequest) -> Result<Inspection> {
        let slot = self.load(&request.name)?;
        Ok(self.inspection(rules, request, &slot))
    }

    /// What an inspection says of a slot.
    pub(crate) fn inspection(
        &self,
        rules: Rules,
        request: &InspectRequest,
        slot: &Slot,
    ) -> Inspection {
        match slot {
            Slot::Foreign(kind) => Inspection::Foreign(kind.clone()),
            other => {
                let record = self.remembered(other);
                rules.inspect(record, waiting(other), request, self.now)
            }
        }
    }

    /// Frees a name whoever holds it.
    pub(crate) fn force(&self, rules: Rules, request: &ForceReleaseRequest) -> Result<Forced> {
        let names = Names::one(request.name.clone());
        let answer = self.apply(&names, Rebind::Keep, |records, lines| {
            rules.force_release(records, lines, request, self.now)
        })?;
        Ok(answer.unwrap_or_else(|foreign| Forced::Foreign(foreign.kind)))
    }

    /// Asks the holder of a name to give it back.
    pub(crate) fn revoke(&self, rules: Rules, request: &RevokeRequest) -> Result<Revoked> {
        let names = Names::one(request.name.clone());
        let answer = self.apply(&names, Rebind::Keep, |records, lines| {
            rules.revoke(records, lines, request, self.now)
        })?;
        Ok(answer.unwrap_or_else(|foreign| Revoked::Foreign(foreign.kind)))
    }

    fn apply<A>(
        &self,
        names: &Names,
        rebind: Rebind<'_>,
        rule: impl FnOnce(&mut [Option<Record>], &mut dyn Lines) -> A,
    ) -> Result<Ruled<A>> {
        let slots = self.slots(names)?;
        for (name, slot) in &slots {
            if let Slot::Foreign(kind) = slot {
                return Ok(Err(Foreign::new((*name).clone(), kind.clone())));
            }
        }
        self.rule(&slots, rebind, rule).map(Ok)
    }

    fn rule<A>(
        &self,
        slots: &[(&LockName, Slot)],
        rebind: Rebind<'_>,
        rule: impl FnOnce(&mut [Option<Record>], &mut dyn Lines) -> A,
    ) -> Result<A> {
        let mut records: Vec<_> =
            slots.iter().map(|(_, slot)| self.remembered(slot).cloned()).collect();
        let mut lines =
            FileLines::new(self, slots.iter().map(|(name, slot)| (*name, waiting(slot))));
        let answer = rule(&mut records, &mut lines);
        lines.check()?;
        for (index, ((name, slot), after)) in slots.iter().zip(&records).enumerate() {
            let now_waiting = lines.waiting(index);
            match after {
                Some(record) if Some(record) != self.remembered(slot) => {
                    let rebind = lines.handed(index, record.token).map_or(rebind, Rebind::As);
                    self.save(name, slot, record, rebind, now_waiting, lines.all_handed(index))?;
                }
                // No rule removes a record; the sweep does, when its time has come.
                _ if now_waiting != waiting(slot) => self.count_waiting(name, now_waiting)?,
                _ => {}
            }
        }
        Ok(answer)
    }

    fn slots<'n>(&self, names: &'n Names) -> Result<Vec<(&'n LockName, Slot)>> {
        names.iter().map(|name| Ok((name, self.load(name)?))).collect()
    }

    /// The record that the rules are shown: not one that is forgotten already.
    fn remembered<'s>(&self, slot: &'s Slot) -> Option<&'s Record> {
        match slot {
            Slot::Ours(ours) => Some(&ours.record).filter(|record| !record.is_forgotten(self.now)),
            Slot::Absent | Slot::Foreign(_) => None,
        }
    }
}

/// How many wait, as the row of the lock says.
fn waiting(slot: &Slot) -> u32 {
    match slot {
        Slot::Ours(ours) => ours.waiting,
        Slot::Absent | Slot::Foreign(_) => 0,
    }
}

fn not_held(foreign: Foreign) -> NotHeld {
    NotHeld::Foreign(foreign.kind)
}
