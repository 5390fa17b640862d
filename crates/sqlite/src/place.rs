//! A place in the line of a name as a row, as seen from here and now.
//!
//! ```text
//!   another boot                     its waiter is gone
//!   same boot and time namespace     seen_us as it is, processes can be looked at
//!   another time namespace           wall_seen_us, moved to our lease clock
//! ```
//! What can't be read is treated as the place of a waiter that is gone.

use std::time::Duration;

use fencelock_core::{
    Binding, ListenerId, LockName, Metadata, Place, Retain, StoreNow, StoreTime, Token, Ttl,
};
use rusqlite::{OptionalExtension as _, Row as SqlRow, params};

use crate::{
    mode::{mode, mode_column},
    row::{Bound, blob, bound, fencing_token, integer, listener, listener_column, time, to_column},
    surroundings::Surroundings,
    transaction::Transaction,
};

/// The columns in the order of [`read`], and of the statements that write a place.
macro_rules! columns {
    () => {
        "token, is_set, barging, listener, seen_us, wall_seen_us, boot_id, time_namespace, \
         live_us, claim_ms, retain_ms, floor, reserve, metadata, processes, pid_namespace, mode"
    };
}

const FIRST: &str =
    concat!("SELECT ", columns!(), ", number FROM place WHERE name = ?1 ORDER BY number LIMIT 1");

const ALL: &str =
    concat!("SELECT ", columns!(), ", number FROM place WHERE name = ?1 ORDER BY number");

const FIND: &str =
    concat!("SELECT ", columns!(), ", number FROM place WHERE token = ?1 AND name = ?2");

const INSERT: &str = concat!(
    "INSERT INTO place (",
    columns!(),
    ", name) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, \
     ?18)"
);

/// The token stays, and with it both indexes.
const UPDATE: &str = "UPDATE place SET is_set = ?2, barging = ?3, listener = ?4, seen_us = ?5, \
     wall_seen_us = ?6, boot_id = ?7, time_namespace = ?8, live_us = ?9, claim_ms = ?10, \
     retain_ms = ?11, floor = ?12, reserve = ?13, metadata = ?14, processes = ?15, \
     pid_namespace = ?16, mode = ?17 WHERE number = ?18 AND token = ?1";

const POSITION: &str = "SELECT count(*) FROM place WHERE name = ?1 AND number <= ?2";

/// A place with what the rules do not know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Its number in the file.
    pub(crate) number: i64,
    /// As the rules see it; nothing when its waiter is certainly gone.
    pub(crate) place: Option<Place>,
    /// What its lease will be bound to.
    pub(crate) bound: Option<Bound>,
    /// Where its waiter listens, or did.
    pub(crate) listener: Option<ListenerId>,
}

/// The first place of a name.
pub(crate) fn first(
    transaction: &Transaction<'_>,
    name: &LockName,
) -> rusqlite::Result<Option<Stored>> {
    let mut select = transaction.sql.prepare_cached(FIRST)?;
    select.query_row([name.as_bytes()], |row| Stored::of(row, transaction)).optional()
}

/// All places of a name, the first in front.
pub(crate) fn all(transaction: &Transaction<'_>, name: &LockName) -> rusqlite::Result<Vec<Stored>> {
    let mut select = transaction.sql.prepare_cached(ALL)?;
    let rows = select.query_map([name.as_bytes()], |row| Stored::of(row, transaction))?;
    rows.collect()
}

/// The place of a token.
pub(crate) fn find(
    transaction: &Transaction<'_>,
    name: &LockName,
    token: Token,
) -> rusqlite::Result<Option<Stored>> {
    let mut select = transaction.sql.prepare_cached(FIND)?;
    let parameters = params![token.as_bytes(), name.as_bytes()];
    select.query_row(parameters, |row| Stored::of(row, transaction)).optional()
}

/// How far a place is from the head: 1 is the first.
pub(crate) fn position(
    transaction: &Transaction<'_>,
    name: &LockName,
    number: i64,
) -> rusqlite::Result<u32> {
    let mut count = transaction.sql.prepare_cached(POSITION)?;
    count.query_row(params![name.as_bytes(), number], |row| row.get(0))
}

/// Writes a place over that with a number, or at the end of the line.
pub(crate) fn write(
    transaction: &Transaction<'_>,
    name: &LockName,
    number: Option<i64>,
    place: &Place,
) -> rusqlite::Result<()> {
    let (here, now) = (transaction.here, transaction.now);
    let bound = Bound::new(&place.binding, here);
    // The seen time is of this very step, or was seen from here: see `of`.
    let ago = now.lease.saturating_since(place.seen);
    let wall_seen = minus(now.wall, ago);
    let millis = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let mut statement =
        transaction.sql.prepare_cached(if number.is_some() { UPDATE } else { INSERT })?;
    let common = params![
        place.token.as_bytes(),
        place.is_set,
        place.barging,
        place.listener.map(listener_column),
        to_column(place.seen.as_micros()),
        to_column(wall_seen.as_micros()),
        here.boot.as_slice(),
        to_column(here.time_namespace),
        i64::try_from(place.live.as_micros()).unwrap_or(i64::MAX),
        place.claim.as_millis(),
        millis(place.retain.as_duration()),
        place.floor.map(|token| to_column(token.as_u64())),
        place.reserve,
        place.metadata.as_bytes(),
        bound.as_ref().map(|bound| bound.processes.as_slice()),
        bound.as_ref().and_then(|bound| bound.pid_namespace),
        mode_column(&place.mode),
    ];
    let name = name.as_bytes();
    let last: &dyn rusqlite::ToSql = match &number {
        Some(number) => number,
        None => &name,
    };
    let all: Vec<&dyn rusqlite::ToSql> = common.iter().copied().chain([last]).collect();
    statement.execute(all.as_slice()).map(|_| ())
}

/// Removes a place by its number.
pub(crate) fn remove(transaction: &Transaction<'_>, number: i64) -> rusqlite::Result<()> {
    let mut delete = transaction.sql.prepare_cached("DELETE FROM place WHERE number = ?1")?;
    delete.execute([number]).map(|_| ())
}

/// Removes the place of a token; whether there was one.
pub(crate) fn remove_token(
    transaction: &Transaction<'_>,
    name: &LockName,
    token: Token,
) -> rusqlite::Result<bool> {
    let mut delete =
        transaction.sql.prepare_cached("DELETE FROM place WHERE token = ?1 AND name = ?2")?;
    Ok(delete.execute(params![token.as_bytes(), name.as_bytes()])? > 0)
}

/// Removes what is left of a line that has no places any more, as the row of its lock says: of a
/// lock whose row somebody else has deleted.
pub(crate) fn clear(transaction: &Transaction<'_>, name: &LockName) -> rusqlite::Result<()> {
    let mut delete = transaction.sql.prepare_cached("DELETE FROM place WHERE name = ?1")?;
    delete.execute([name.as_bytes()]).map(|_| ())
}

/// How many places one look of the sweep clears away.
const CLEARED_AT_ONCE: u32 = 16;

/// For the sweep: removes places whose waiters are gone from the head of a line. Whether the line
/// is empty then; only then its lock may be forgotten.
pub(crate) fn clear_line(
    transaction: &Transaction<'_>,
    name: &[u8],
    waiting: u32,
) -> rusqlite::Result<bool> {
    if waiting == 0 {
        return Ok(true);
    }
    let Ok(name) = LockName::new(name) else { return Ok(false) };
    for _ in 0..CLEARED_AT_ONCE {
        let Some(stored) = first(transaction, &name)? else { return Ok(true) };
        if stored.place.is_some_and(|place| !place.is_lapsed(transaction.now.lease)) {
            break;
        }
        remove(transaction, stored.number)?;
        let mut count = transaction
            .sql
            .prepare_cached("UPDATE lock SET waiting = max(waiting - 1, 0) WHERE name = ?1")?;
        count.execute([name.as_bytes()])?;
    }
    Ok(false)
}

impl Stored {
    fn of(row: &SqlRow<'_>, transaction: &Transaction<'_>) -> rusqlite::Result<Self> {
        let number = row.get(17)?;
        let (here, now) = (transaction.here, transaction.now);
        let Some((place, bound)) = read(row, here, now) else {
            return Ok(Self { number, place: None, bound: None, listener: None });
        };
        let is_gone = bound.as_ref().is_some_and(|bound| bound.is_gone(here));
        let listener = place.listener;
        Ok(Self { number, place: Some(place).filter(|_| !is_gone), bound, listener })
    }
}

/// Nothing when its waiter is gone with an earlier boot, or it can't be read.
fn read(row: &SqlRow<'_>, here: &Surroundings, now: StoreNow) -> Option<(Place, Option<Bound>)> {
    if blob(row, 6)?? != here.boot.as_slice() {
        return None;
    }
    let same_clock = integer(row, 7)?? == to_column(here.time_namespace);
    let seen = if same_clock {
        time(row, 4)?
    } else {
        minus(now.lease, now.wall.saturating_since(time(row, 5)?))
    };
    // Start times of processes are shown in the reader's time namespace.
    let bound = bound(row, 14, 15)?.filter(|_| same_clock);
    let unsigned = |index| u64::try_from(integer(row, index)??).ok();
    let place = Place {
        token: Token::from_bytes(blob(row, 0)??.try_into().ok()?),
        is_set: integer(row, 1)?? != 0,
        barging: integer(row, 2)?? != 0,
        listener: listener(row, 3)?,
        seen,
        live: Duration::from_micros(unsigned(8)?),
        claim: Ttl::from_millis(unsigned(9)?).ok()?,
        retain: Retain::new(Duration::from_millis(unsigned(10)?)),
        metadata: Metadata::new(blob(row, 13)??).ok()?,
        binding: bound.as_ref().map_or(Binding::Unbound, Bound::binding),
        floor: fencing_token(row, 11)?,
        reserve: u32::try_from(unsigned(12)?).ok()?,
        mode: mode(blob(row, 16)?)?,
    };
    Some((place, bound))
}

fn minus(time: StoreTime, span: Duration) -> StoreTime {
    let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    StoreTime::from_micros(time.as_micros().saturating_sub(span))
}
