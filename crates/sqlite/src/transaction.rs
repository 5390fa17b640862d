//! One transaction: loading and writing rows at one instant of the store.
//!
//! It must not decide anything about locks; `verbs` does, with the rules of the core.

use std::cell::{Cell, RefCell};

use fencelock_core::{Binding, ForeignKind, LockName, Record, RecordState, StoreNow, Token};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::{
    mail::Letter,
    mode,
    row::{Bound, Ours, Slot, columns, kind_column, listener_column, state_column, to_column},
    share,
    surroundings::Surroundings,
    sweep,
    wake_folder::WakeFolder,
};

/// An open transaction.
pub(crate) struct Transaction<'c> {
    pub(crate) sql: &'c Connection,
    pub(crate) here: &'c Surroundings,
    pub(crate) now: StoreNow,
    /// How many rows it made.
    pub(crate) made: Cell<usize>,
    /// Where those listen who share the file.
    pub(crate) folder: &'c WakeFolder,
    /// What is to be told once it is committed.
    pub(crate) mail: RefCell<Vec<Letter>>,
}

/// What becomes of the processes that a lease is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rebind<'r> {
    /// As it was.
    Keep,
    /// A new grant: these.
    To(&'r Binding),
    /// Handed to a waiter: what its place says.
    As(Option<&'r Bound>),
}

const SELECT: &str = concat!("SELECT ", columns!(), " FROM lock WHERE name = ?1");

const INSERT: &str = concat!(
    "INSERT INTO lock (",
    columns!(),
    ", name, sweep_at_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, \
     ?16, ?17, ?18, ?19, ?20, ?21)"
);

const UPDATE: &str = "UPDATE lock SET kind = ?1, held = ?2, token = ?3, fencing_token = ?4, \
     fence_by_token = ?5, end_us = ?6, wall_end_us = ?7, boot_id = ?8, time_namespace = ?9, \
     forget_at_us = ?10, metadata = ?11, processes = ?12, pid_namespace = ?13, first_fence = ?14, \
     listener = ?15, revoked = ?16, unattended = ?17, waiting = ?18, crowd = ?19 \
     WHERE name = ?20";

impl Transaction<'_> {
    /// What is at a name.
    pub(crate) fn load(&self, name: &LockName) -> rusqlite::Result<Slot> {
        let mut select = self.sql.prepare_cached(SELECT)?;
        let slot = select
            .query_row([name.as_bytes()], |row| Ok(Slot::of(row, self.here, self.now)))
            .optional()?;
        self.complete(name, slot.unwrap_or(Slot::Absent))
    }

    /// A slot with the shares of its crowd.
    pub(crate) fn complete(&self, name: &LockName, mut slot: Slot) -> rusqlite::Result<Slot> {
        let Slot::Ours(ours) = &mut slot else { return Ok(slot) };
        let Some(crowd) = &mut ours.record.crowd else { return Ok(slot) };
        let Some(shares) = share::all(self, name)? else {
            return Ok(Slot::Foreign(ForeignKind::Unreadable));
        };
        crowd.shares.clone_from(&shares);
        ours.shares = shares;
        ours.record.refresh(self.now);
        Ok(slot)
    }

    /// Writes what a rule made of the record that was loaded.
    pub(crate) fn save(
        &self,
        name: &LockName,
        before: &Slot,
        record: &Record,
        rebind: Rebind<'_>,
        waiting: u32,
        handed: &[(Token, Option<Bound>)],
    ) -> rusqlite::Result<()> {
        let bound = match (record.state, rebind, before) {
            (RecordState::Free | RecordState::Shared, ..) => None,
            (RecordState::Held | RecordState::Reserved, Rebind::As(bound), _) => bound.cloned(),
            (RecordState::Held | RecordState::Reserved, Rebind::To(binding), _) => {
                Bound::new(binding, self.here)
            }
            (
                RecordState::Held | RecordState::Reserved,
                Rebind::Keep,
                Slot::Ours(Ours { bound, written_here, .. }),
            ) => {
                // Elsewhere's process ids mean nothing beside our boot id.
                bound.clone().filter(|_| *written_here)
            }
            (RecordState::Held | RecordState::Reserved, Rebind::Keep, _) => None,
        };
        // A free lock has neither; what is written keeps the length of the row, so that a release
        // writes over it in place: it needs no room, not even where the row is a long one.
        let (first_fence, listener) = match (record.state, before) {
            (RecordState::Free, Slot::Ours(before)) => {
                (record.fencing_token, before.record.listener)
            }
            _ => (record.first_fence, record.listener),
        };
        let is_new = matches!(before, Slot::Absent);
        let known = match before {
            Slot::Ours(ours) if ours.record.crowd.is_some() => ours.shares.as_slice(),
            _ => {
                if record.crowd.is_some() {
                    // Of a row that was deleted, or written by a program that knows no crowds.
                    share::clear(self, name.as_bytes())?;
                }
                &[]
            }
        };
        // First what makes room: a release works on a full file.
        share::remove_missing(self, name, known, record.crowd.as_ref())?;
        let left = record.end.saturating_since(self.now.lease);
        let mut statement = self.sql.prepare_cached(if is_new { INSERT } else { UPDATE })?;
        let values = params![
            kind_column(record.kind),
            state_column(record.state),
            record.token.as_ref().map(|token| token.as_bytes().as_slice()),
            record.fencing_token.map(|token| to_column(token.as_u64())),
            record.fence_by_token,
            to_column(record.end.as_micros()),
            to_column(self.now.wall.saturating_add(left).as_micros()),
            self.here.boot.as_slice(),
            to_column(self.here.time_namespace),
            to_column(record.forget_at.as_micros()),
            record.metadata.as_bytes(),
            bound.as_ref().map(|bound| bound.processes.as_slice()),
            bound.as_ref().and_then(|bound| bound.pid_namespace),
            first_fence.map(|token| to_column(token.as_u64())),
            listener.map(listener_column),
            record.revoked,
            record.unattended,
            waiting,
            record.crowd.as_ref().map(mode::crowd_column),
            name.as_bytes(),
            sweep::next_look(record.forget_at, self.now),
        ];
        // An update leaves the last one, and with it the index, alone.
        let values = if is_new { values } else { &values[..values.len() - 1] };
        statement.execute(values)?;
        share::save(self, name, known, handed, record.crowd.as_ref())?;
        self.made.set(self.made.get() + usize::from(is_new));
        Ok(())
    }

    /// Writes how many wait for a lock whose record stays as it is.
    pub(crate) fn count_waiting(&self, name: &LockName, waiting: u32) -> rusqlite::Result<()> {
        let mut update = self.sql.prepare_cached("UPDATE lock SET waiting = ?1 WHERE name = ?2")?;
        update.execute(params![waiting, name.as_bytes()]).map(|_| ())
    }
}
