//! The share of one of several holders as a row, as seen from here and now: as a lock is, see `row`.
//!
//! What a share is bound to stays as it was written, by whoever it belongs to: another process, in
//! another pid namespace perhaps, that changes something else of it knows nothing of that.

use std::collections::HashMap;

use fencelock_core::{Binding, Crowd, LockName, Metadata, Share, StoreNow, StoreTime, Token};
use rusqlite::{Row as SqlRow, params};

use crate::{
    row::{Bound, blob, bound, fencing_token, integer, listener, listener_column, time, to_column},
    surroundings::Surroundings,
    transaction::Transaction,
};

/// The columns in the order of [`read`], and of the statement that writes a share.
macro_rules! columns {
    () => {
        "token, fencing_token, weight, end_us, wall_end_us, boot_id, time_namespace, listener, \
         revoked, unattended, metadata, processes, pid_namespace"
    };
}

const ALL: &str = concat!("SELECT ", columns!(), " FROM share WHERE name = ?1 ORDER BY number");

/// The number stays where the token is known: it is the order of the grants.
const WRITE: &str = concat!(
    "INSERT INTO share (",
    columns!(),
    ", name) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) \
     ON CONFLICT (name, token) DO UPDATE SET fencing_token = ?2, weight = ?3, end_us = ?4, \
     wall_end_us = ?5, boot_id = ?6, time_namespace = ?7, listener = ?8, revoked = ?9, \
     unattended = ?10, metadata = ?11, processes = ?12, pid_namespace = ?13"
);

/// What the processes are bound by are numbers of another time namespace once it is written here, so
/// such a row loses them.
const UPDATE: &str = "\
UPDATE share SET fencing_token = ?1, weight = ?2, end_us = ?3, wall_end_us = ?4, \
     processes = CASE WHEN boot_id = ?5 AND time_namespace = ?6 THEN processes END, boot_id = ?5, \
     time_namespace = ?6, listener = ?7, revoked = ?8, unattended = ?9, metadata = ?10 \
     WHERE name = ?11 AND token = ?12";

/// The shares of a name in the order of the grants; nothing where one can't be read.
pub(crate) fn all(
    transaction: &Transaction<'_>,
    name: &LockName,
) -> rusqlite::Result<Option<Vec<Share>>> {
    let mut select = transaction.sql.prepare_cached(ALL)?;
    // Most holders are few processes, and to look at one costs more than to read its row.
    let mut gone: HashMap<Bound, bool> = HashMap::new();
    let mut is_gone = |bound: &Bound| {
        *gone.entry(bound.clone()).or_insert_with(|| bound.is_gone(transaction.here))
    };
    let rows = select.query_map([name.as_bytes()], |row| {
        Ok(read(row, transaction.here, transaction.now, &mut is_gone))
    })?;
    rows.collect()
}

/// Removes the rows of those who are no shares of the crowd any more. `known` are those that were
/// there before, over or not.
pub(crate) fn remove_missing(
    transaction: &Transaction<'_>,
    name: &LockName,
    known: &[Share],
    crowd: Option<&Crowd>,
) -> rusqlite::Result<()> {
    let missing = known.iter().filter(|old| crowd.is_none_or(|c| c.share(old.token).is_none()));
    for old in missing {
        remove(transaction, name, old.token)?;
    }
    Ok(())
}

/// Writes what changed of the shares of a crowd. `known` are those that were there before, `handed`
/// says what those are bound to that were handed over in this step.
pub(crate) fn save(
    transaction: &Transaction<'_>,
    name: &LockName,
    known: &[Share],
    handed: &[(Token, Option<Bound>)],
    crowd: Option<&Crowd>,
) -> rusqlite::Result<()> {
    let shares = crowd.map_or(&[][..], |crowd| &crowd.shares);
    for share in shares {
        let before = known.iter().find(|old| old.token == share.token);
        if before == Some(share) {
            continue;
        }
        if before.is_some_and(|old| old.binding == share.binding) {
            update(transaction, name, share)?;
            continue;
        }
        let bound = match handed.iter().rfind(|(token, _)| *token == share.token) {
            Some((_, bound)) if share.binding != Binding::Unbound => bound.clone(),
            _ => Bound::new(&share.binding, transaction.here),
        };
        write(transaction, name, share, bound.as_ref())?;
    }
    Ok(())
}

/// Removes all shares of a name.
pub(crate) fn clear(transaction: &Transaction<'_>, name: &[u8]) -> rusqlite::Result<()> {
    let mut delete = transaction.sql.prepare_cached("DELETE FROM share WHERE name = ?1")?;
    delete.execute([name]).map(|_| ())
}

fn remove(transaction: &Transaction<'_>, name: &LockName, token: Token) -> rusqlite::Result<()> {
    let mut delete =
        transaction.sql.prepare_cached("DELETE FROM share WHERE name = ?1 AND token = ?2")?;
    delete.execute(params![name.as_bytes(), token.as_bytes()]).map(|_| ())
}

/// Writes all but what the share is bound to. A row that was written elsewhere stays as it is seen
/// from there, but for its end.
fn update(transaction: &Transaction<'_>, name: &LockName, share: &Share) -> rusqlite::Result<()> {
    let now = transaction.now;
    let wall_end = now.wall.saturating_add(share.end.saturating_since(now.lease));
    let mut statement = transaction.sql.prepare_cached(UPDATE)?;
    statement
        .execute(params![
            share.fencing_token.map(|token| to_column(token.as_u64())),
            share.weight,
            to_column(share.end.as_micros()),
            to_column(wall_end.as_micros()),
            transaction.here.boot.as_slice(),
            to_column(transaction.here.time_namespace),
            share.listener.map(listener_column),
            share.revoked,
            share.unattended,
            share.metadata.as_bytes(),
            name.as_bytes(),
            share.token.as_bytes(),
        ])
        .map(|_| ())
}

fn write(
    transaction: &Transaction<'_>,
    name: &LockName,
    share: &Share,
    bound: Option<&Bound>,
) -> rusqlite::Result<()> {
    let (here, now) = (transaction.here, transaction.now);
    let wall_end = now.wall.saturating_add(share.end.saturating_since(now.lease));
    let mut statement = transaction.sql.prepare_cached(WRITE)?;
    statement
        .execute(params![
            share.token.as_bytes(),
            share.fencing_token.map(|token| to_column(token.as_u64())),
            share.weight,
            to_column(share.end.as_micros()),
            to_column(wall_end.as_micros()),
            here.boot.as_slice(),
            to_column(here.time_namespace),
            share.listener.map(listener_column),
            share.revoked,
            share.unattended,
            share.metadata.as_bytes(),
            bound.map(|bound| bound.processes.as_slice()),
            bound.and_then(|bound| bound.pid_namespace),
            name.as_bytes(),
        ])
        .map(|_| ())
}

fn read(
    row: &SqlRow<'_>,
    here: &Surroundings,
    now: StoreNow,
    is_gone: &mut impl FnMut(&Bound) -> bool,
) -> Option<Share> {
    let written_here = blob(row, 5)?? == here.boot.as_slice()
        && integer(row, 6)?? == to_column(here.time_namespace);
    let wall_end: StoreTime = time(row, 4)?;
    let mut end = if written_here {
        time(row, 3)?
    } else {
        now.lease.saturating_add(wall_end.saturating_since(now.wall))
    };
    // Elsewhere's process ids mean nothing here.
    let bound = bound(row, 11, 12)?.filter(|_| written_here);
    if end > now.lease && bound.as_ref().is_some_and(is_gone) {
        end = now.lease;
    }
    Some(Share {
        token: Token::from_bytes(blob(row, 0)??.try_into().ok()?),
        fencing_token: fencing_token(row, 1)?,
        weight: u32::try_from(integer(row, 2)??).ok()?,
        end,
        listener: listener(row, 7)?,
        revoked: integer(row, 8)?? != 0,
        unattended: integer(row, 9)?? != 0,
        metadata: Metadata::new(blob(row, 10)??).ok()?,
        binding: bound.as_ref().map_or(Binding::Unbound, Bound::binding),
    })
}
