//! One transaction: loading and writing rows at one instant of the store.
//!
//! It must not decide anything about locks; `verbs` does, with the rules of the core.

use fencelock_core::{Binding, LockName, Record, RecordState, StoreNow};
use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::{
    row::{Bound, KIND, Ours, Slot, columns, to_column},
    surroundings::Surroundings,
    sweep,
};

/// An open transaction.
pub(crate) struct Transaction<'c> {
    pub(crate) sql: &'c Connection,
    pub(crate) here: &'c Surroundings,
    pub(crate) now: StoreNow,
}

/// What becomes of the processes that a lease is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rebind<'r> {
    /// As it was.
    Keep,
    /// A new grant: these.
    To(&'r Binding),
}

const SELECT: &str = concat!("SELECT ", columns!(), " FROM lock WHERE name = ?1");

const INSERT: &str = "INSERT INTO lock (name, kind, held, token, fencing_token, fence_by_token, \
     end_us, wall_end_us, boot_id, time_namespace, forget_at_us, metadata, processes, \
     pid_namespace, sweep_at_us) VALUES (:name, :kind, :held, :token, :fencing_token, \
     :fence_by_token, :end, :wall_end, :boot, :time_namespace, :forget_at, :metadata, :processes, \
     :pid_namespace, :sweep_at)";

const UPDATE: &str = "UPDATE lock SET kind = :kind, held = :held, token = :token, \
     fencing_token = :fencing_token, fence_by_token = :fence_by_token, end_us = :end, \
     wall_end_us = :wall_end, boot_id = :boot, time_namespace = :time_namespace, \
     forget_at_us = :forget_at, metadata = :metadata, processes = :processes, \
     pid_namespace = :pid_namespace WHERE name = :name";

impl Transaction<'_> {
    /// What is at a name.
    pub(crate) fn load(&self, name: &LockName) -> rusqlite::Result<Slot> {
        let mut select = self.sql.prepare_cached(SELECT)?;
        let slot = select
            .query_row([name.as_bytes()], |row| Ok(Slot::of(row, self.here, self.now)))
            .optional()?;
        Ok(slot.unwrap_or(Slot::Absent))
    }

    /// Writes what a rule made of the record that was loaded.
    pub(crate) fn save(
        &self,
        name: &LockName,
        before: &Slot,
        record: &Record,
        rebind: Rebind<'_>,
    ) -> rusqlite::Result<()> {
        let bound = match (record.state, rebind, before) {
            (RecordState::Free, ..) => None,
            (RecordState::Held, Rebind::To(binding), _) => Bound::new(binding, self.here),
            (RecordState::Held, Rebind::Keep, Slot::Ours(Ours { bound, written_here, .. })) => {
                // Elsewhere's process ids mean nothing beside our boot id.
                bound.clone().filter(|_| *written_here)
            }
            (RecordState::Held, Rebind::Keep, _) => None,
        };
        let is_new = matches!(before, Slot::Absent);
        let left = record.end.saturating_since(self.now.lease);
        let mut statement = self.sql.prepare_cached(if is_new { INSERT } else { UPDATE })?;
        let values = named_params! {
            ":name": name.as_bytes(),
            ":kind": KIND,
            ":held": record.state == RecordState::Held,
            ":token": record.token.as_ref().map(|token| token.as_bytes().as_slice()),
            ":fencing_token": record.fencing_token.map(|token| to_column(token.as_u64())),
            ":fence_by_token": record.fence_by_token,
            ":end": to_column(record.end.as_micros()),
            ":wall_end": to_column(self.now.wall.saturating_add(left).as_micros()),
            ":boot": self.here.boot.as_slice(),
            ":time_namespace": to_column(self.here.time_namespace),
            ":forget_at": to_column(record.forget_at.as_micros()),
            ":metadata": record.metadata.as_bytes(),
            ":processes": bound.as_ref().map(|bound| bound.processes.as_slice()),
            ":pid_namespace": bound.as_ref().and_then(|bound| bound.pid_namespace),
            ":sweep_at": sweep::next_look(record.forget_at, self.now),
        };
        let values = if is_new { values } else { &values[..values.len() - 1] };
        statement.execute(values)?;
        Ok(())
    }
}
