//! The share of one of several holders as a row, as seen from here and now: as a lock is, see `row`.

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

/// The shares of a name in the order of the grants; nothing where one can't be read.
pub(crate) fn all(
    transaction: &Transaction<'_>,
    name: &LockName,
) -> rusqlite::Result<Option<Vec<Share>>> {
    let mut select = transaction.sql.prepare_cached(ALL)?;
    let rows = select
        .query_map([name.as_bytes()], |row| Ok(read(row, transaction.here, transaction.now)))?;
    rows.collect()
}

/// Makes the rows of a name those of its crowd. `known` are those that were there before, over or
/// not.
pub(crate) fn save(
    transaction: &Transaction<'_>,
    name: &LockName,
    known: &[Share],
    crowd: Option<&Crowd>,
) -> rusqlite::Result<()> {
    let shares = crowd.map_or(&[][..], |crowd| &crowd.shares);
    for old in known {
        if !shares.iter().any(|share| share.token == old.token) {
            remove(transaction, name, old.token)?;
        }
    }
    for share in shares {
        if known.iter().any(|old| old == share) {
            continue;
        }
        write(transaction, name, share)?;
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

fn write(transaction: &Transaction<'_>, name: &LockName, share: &Share) -> rusqlite::Result<()> {
    let (here, now) = (transaction.here, transaction.now);
    let bound = Bound::new(&share.binding, here);
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
            bound.as_ref().map(|bound| bound.processes.as_slice()),
            bound.as_ref().and_then(|bound| bound.pid_namespace),
            name.as_bytes(),
        ])
        .map(|_| ())
}

fn read(row: &SqlRow<'_>, here: &Surroundings, now: StoreNow) -> Option<Share> {
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
    if end > now.lease && bound.as_ref().is_some_and(|bound| bound.is_gone(here)) {
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
