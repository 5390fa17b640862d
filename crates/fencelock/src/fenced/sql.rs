//! Rows in SQLite or PostgreSQL that refuse the writes of a holder from before.
//!
//! The statements are the same text for both, with the parameters `$1`, `$2`, ... in the order of
//! their first appearance. A token is a `BIGINT`: [`number`] and [`from_number`].
//!
//! # A row with a column for the token
//! The shortest way where one row is guarded, tested as it stands here:
//! ```sql
//! CREATE TABLE invoices (id TEXT PRIMARY KEY, state TEXT NOT NULL, fence BIGINT NOT NULL DEFAULT 0);
//! UPDATE invoices SET fence = $1 WHERE id = $2 AND fence <= $1 RETURNING state;  -- first: note it, read
//! UPDATE invoices SET state = $1, fence = $2 WHERE id = $3 AND fence <= $2;      -- every write
//! ```
//! One row was changed: accepted. None: a larger token was seen, or there is no such row. A row is
//! not deleted but marked, since its token goes with it.
//!
//! **`<=` or `<`.** All writes of one grant carry the same token, so `<=` lets the second one in.
//! `<` lets each grant write *once*, so a write that is sent again, because its answer was lost, is
//! not done again: it changes no row, and the token that stands there is its own.
//!
//! # A table of its own, for whatever a transaction changes
//! [`CREATE`] once; then [`RAISE`] is the *first* statement of each transaction that writes. When it changes no
//! row, the transaction is rolled back. It locks the row of the fence until the end of the
//! transaction, so who comes later with a larger token waits for the commit, and who comes later
//! with a smaller one is refused. In this order nothing can come in between, at every isolation
//! level; where it is above READ COMMITTED, PostgreSQL may report a serialization failure instead:
//! begin anew then, as always.
//!
//! A reader of a [read-write lock](crate::RwLock) asks [`MAY_READ`] in the transaction in which it
//! reads.
//!
//! In SQLite begin with `BEGIN IMMEDIATE`.
//!
//! # Limits
//! - Only statements that check are checked: a `WHERE` that was forgotten, a repair by hand.
//! - A connection pool or a statement that is retried sends the same token: see `<` above.
//! - Durability is the database's: with `synchronous_commit = off`, or `synchronous = NORMAL` in
//!   SQLite, a power cut may take back the token together with the write. Both are gone then, and
//!   the holder before may write once.
//! - A read replica may be behind: the first read of a new holder goes to the primary, by [`RAISE`].
//!
//! # Examples
//! ```
//! use fencelock::{FencingToken, fenced::sql};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut database = rusqlite::Connection::open_in_memory()?;
//! database.execute(sql::CREATE, [])?;
//! database.execute("CREATE TABLE notes (text TEXT)", [])?;
//!
//! let mut note = |token: FencingToken, text: &str| -> rusqlite::Result<bool> {
//!     use rusqlite::TransactionBehavior::Immediate;
//!     let transaction = database.transaction_with_behavior(Immediate)?;
//!     let raised = transaction.execute(sql::RAISE, ("invoice:42", sql::number(token)))?;
//!     if raised == 0 {
//!         return Ok(false);
//!     }
//!     transaction.execute("INSERT INTO notes VALUES ($1)", [text])?;
//!     transaction.commit()?;
//!     Ok(true)
//! };
//! assert!(note(FencingToken::new(34)?, "by the holder")?);
//! assert!(!note(FencingToken::new(33)?, "by the one before it")?);
//! # Ok(()) }
//! ```

use fencelock_core::{FencingToken, FencingTokenError};

use crate::SharedToken;

/// The table of the tokens: one row for each guarded thing.
pub const CREATE: &str = "\
CREATE TABLE IF NOT EXISTS fences (
    name TEXT PRIMARY KEY,
    token BIGINT NOT NULL CHECK (token BETWEEN 1 AND 9007199254740991)
)";

/// Notes a token for a thing: `$1` its name, `$2` the token. One row was changed: it is the highest;
/// none: a larger one was seen.
pub const RAISE: &str = "\
INSERT INTO fences (name, token) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE fences.token <= excluded.token";

/// As [`RAISE`], and only once for each token: for a transaction that must not be done twice when
/// the answer to its commit was lost. No row was changed, and [`HIGHEST`] is the own token: it was
/// done before.
pub const RAISE_ONCE: &str = "\
INSERT INTO fences (name, token) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE fences.token < excluded.token";

/// The highest token of a thing: `$1` its name. To say who was there, not to decide by.
pub const HIGHEST: &str = "SELECT token FROM fences WHERE name = $1";

/// Whether a reader beside others may read a thing: `$1` its name, `$2` the [number](shared_number) of
/// the reader. One row, true (1) or false (0); in the transaction in which it reads. It notes nothing.
pub const MAY_READ: &str = "\
SELECT NOT EXISTS (SELECT 1 FROM fences WHERE name = $1 AND token > $2)";

/// The number of a reader as [`MAY_READ`] takes it. No other statement does.
#[must_use]
pub fn shared_number(token: SharedToken) -> i64 {
    token.as_u64().cast_signed()
}

/// A token as these databases keep it.
#[must_use]
pub fn number(token: FencingToken) -> i64 {
    // A token has 53 bits.
    token.as_u64().cast_signed()
}

/// A token that was kept.
///
/// # Errors
/// When the number is not one.
pub fn from_number(number: i64) -> Result<FencingToken, FencingTokenError> {
    FencingToken::new(u64::try_from(number).unwrap_or(0))
}
