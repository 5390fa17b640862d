//! Removes forgotten rows, a few at a time, inside transactions that write anyway.
//!
//! `sweep_at_us` is when a row is looked at, not when it is forgotten: it is set when the row is
//! made, and again at each look. So the steps of a lock that exists never touch the index, and a
//! row that is used once is removed soon after its time.

use std::time::Duration;

use fencelock_core::{StoreNow, StoreTime};
use fencelock_store::rt;
use rusqlite::params;

use crate::{
    place,
    row::{NAME, Slot, columns, to_column},
    share,
    transaction::Transaction,
};

/// Rows for each new name: more than one, so that sweeping is faster than making.
const ROWS_EACH: usize = 4;
/// Of the grants that made no row, one in so many sweeps.
const ONE_GRANT_IN: u32 = 16;
/// A row is looked at again after at most this: its forgetting may have come nearer.
const LOOK_AGAIN: Duration = Duration::from_secs(600);
/// And after at least this, so that a row which can't be removed is not looked at all the time.
const LOOK_AGAIN_SOONEST: Duration = Duration::from_secs(1);

/// When a row is to be looked at.
pub(crate) fn next_look(forget_at: StoreTime, now: StoreNow) -> i64 {
    let left = forget_at.saturating_since(now.wall);
    let span = left.clamp(LOOK_AGAIN_SOONEST, LOOK_AGAIN);
    to_column(now.wall.saturating_add(span).as_micros())
}

/// Looks at a few rows whose time has come, after names were granted.
pub(crate) fn after_grant(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let now = transaction.now;
    // Where nothing was made it is only for what others left: now and then.
    let looks = match transaction.made.get() {
        0 if !rt::chance().is_multiple_of(ONE_GRANT_IN) => return Ok(()),
        made => made.max(1).saturating_mul(ROWS_EACH),
    };
    let due = due(transaction, looks)?;
    for (name, slot) in due {
        match slot {
            // Nothing is forgotten that somebody waits for.
            Slot::Ours(ours)
                if ours.record.is_forgotten(now)
                    && place::clear_line(transaction, &name, ours.waiting)? =>
            {
                let mut delete =
                    transaction.sql.prepare_cached("DELETE FROM lock WHERE name = ?1")?;
                delete.execute([&name])?;
                if ours.record.crowd.is_some() {
                    share::clear(transaction, &name)?;
                }
            }
            other => {
                let forget_at = match other {
                    Slot::Ours(ours) => ours.record.forget_at,
                    // Not ours to remove.
                    Slot::Foreign(_) | Slot::Absent => StoreTime::from_micros(u64::MAX),
                };
                let mut later = transaction
                    .sql
                    .prepare_cached("UPDATE lock SET sweep_at_us = ?1 WHERE name = ?2")?;
                later.execute(params![next_look(forget_at, now), name])?;
            }
        }
    }
    Ok(())
}

fn due(transaction: &Transaction<'_>, limit: usize) -> rusqlite::Result<Vec<(Vec<u8>, Slot)>> {
    let mut select = transaction.sql.prepare_cached(concat!(
        "SELECT ",
        columns!(),
        ", name FROM lock WHERE sweep_at_us < ?1 ORDER BY sweep_at_us LIMIT ?2"
    ))?;
    let wall = to_column(transaction.now.wall.as_micros());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = select.query_map([wall, limit], |row| {
        Ok((row.get(NAME)?, Slot::of(row, transaction.here, transaction.now)))
    })?;
    rows.collect()
}
