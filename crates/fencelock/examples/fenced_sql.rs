//! Rows in SQLite that refuse a holder which was paused for too long; a row with a column of its
//! own for the token, and a table of tokens. For PostgreSQL see `fenced_postgres`.
//!
//! `cargo run --example fenced_sql`; the locks are at `REDIS_URL`, else in a local file.

use fencelock::{
    FencingToken,
    fenced::sql::{self, number},
};
use rusqlite::{Connection, TransactionBehavior::Immediate};

mod paused;

#[tokio::main]
async fn main() -> paused::Outcome {
    example(&paused::store()).await
}

/// The locks are in `store`, the guarded rows in memory.
pub(crate) async fn example(store: &str) -> paused::Outcome {
    let locks = fencelock::connect(store).await?;
    let mut database = Connection::open_in_memory()?;
    database.execute_batch(
        "CREATE TABLE invoices (
             id TEXT PRIMARY KEY, state TEXT NOT NULL, fence BIGINT NOT NULL DEFAULT 0);
         CREATE TABLE postings (amount INTEGER NOT NULL);
         INSERT INTO invoices (id, state) VALUES ('42', 'new');",
    )?;
    database.execute(sql::CREATE, [])?;

    let first = paused::about_to_be_paused(&locks).await?;
    let old = first.fencing_token().ok_or("a native lock has fencing tokens")?;
    assert!(set_state(&database, old, "drafted")?);
    println!("the first holder, {old}, has written, looks at its guard, and is paused");

    let second = paused::next_holder(&locks).await?;
    let new = second.fencing_token().ok_or("a native lock has fencing tokens")?;
    // Before anything else it shows its token, and reads in the same step.
    assert_eq!(read_state(&database, new)?.as_deref(), Some("drafted"));
    assert!(post(&mut database, new, 100)?);
    println!("the second holder, {new}, has the lock, has read, and has posted an amount");

    assert!(!set_state(&database, old, "paid")?);
    assert!(!post(&mut database, old, 100)?);
    println!("the first goes on, and neither its row nor its posting is accepted");

    assert!(set_state(&database, new, "sent")?);
    let posted: i64 =
        database.query_row("SELECT sum(amount) FROM postings", [], |row| row.get(0))?;
    assert_eq!((read_state(&database, new)?.as_deref(), posted), (Some("sent"), 100));
    println!("the second writes, and finds what it wrote");

    second.release().await;
    drop(first);
    locks.close().await;
    Ok(())
}

/// A row with a column for the token: whether it was changed.
fn set_state(database: &Connection, token: FencingToken, state: &str) -> rusqlite::Result<bool> {
    let update = "UPDATE invoices SET state = $1, fence = $2 WHERE id = $3 AND fence <= $2";
    Ok(database.execute(update, (state, number(token), "42"))? == 1)
}

/// Notes the token in the row and reads it; nothing when the token is stale.
fn read_state(database: &Connection, token: FencingToken) -> rusqlite::Result<Option<String>> {
    let claim = "UPDATE invoices SET fence = $1 WHERE id = $2 AND fence <= $1 RETURNING state";
    let mut statement = database.prepare(claim)?;
    let mut rows = statement.query((number(token), "42"))?;
    let state = rows.next()?.map(|row| row.get(0)).transpose();
    // To its end: SQLite commits the change with the last step.
    assert!(rows.next()?.is_none(), "one row has this id");
    state
}

/// Any transaction, guarded by its first statement: whether it was done.
fn post(database: &mut Connection, token: FencingToken, amount: i64) -> rusqlite::Result<bool> {
    let transaction = database.transaction_with_behavior(Immediate)?;
    if transaction.execute(sql::RAISE, ("ledger", number(token)))? == 0 {
        return Ok(false);
    }
    transaction.execute("INSERT INTO postings VALUES ($1)", [amount])?;
    transaction.commit()?;
    Ok(true)
}
