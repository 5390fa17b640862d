//! The statements on SQLite: the same text as on PostgreSQL, and processes that write at once.

use fencelock::fenced::sql::{self, from_number, number};
use rusqlite::{Connection, TransactionBehavior::Immediate};

use crate::token;

fn database() -> Connection {
    let database = Connection::open_in_memory().unwrap();
    database.execute(sql::CREATE, []).unwrap();
    database
}

fn highest(database: &Connection, name: &str) -> i64 {
    database.query_row(sql::HIGHEST, [name], |row| row.get(0)).unwrap()
}

#[test]
fn the_statements_follow_the_rule() {
    let database = database();
    let raise = |name: &str, number: i64| database.execute(sql::RAISE, (name, number)).unwrap();
    let tokens = [34, 34, 33, number(fencelock::FencingToken::MAX)];
    assert_eq!(tokens.map(|number| raise("x", number)), [1, 1, 0, 1]);
    assert_eq!(raise("y", 1), 1);
    assert_eq!(highest(&database, "x"), 9_007_199_254_740_991);
    let once = |number: i64| database.execute(sql::RAISE_ONCE, ("z", number)).unwrap();
    assert_eq!([34, 34, 35, 33].map(once), [1, 0, 1, 0]);
    assert_eq!(highest(&database, "z"), 35);
}

#[test]
fn what_is_no_token_does_not_get_into_the_table() {
    let database = database();
    for number in [0, -1, 9_007_199_254_740_992] {
        assert!(database.execute(sql::RAISE, ("x", number)).is_err(), "{number}");
        assert!(from_number(number).is_err(), "{number}");
    }
    assert_eq!(from_number(34), Ok(token(34)));
}

/// Goal: what is committed is in the order of the tokens, whoever comes when.
/// Method: threads with connections of their own, each with every fourth of the tokens, and a journal
/// that the transactions write.
#[test]
fn transactions_that_race_are_committed_in_the_order_of_their_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guarded.db");
    let open = || {
        let database = Connection::open(&path).unwrap();
        database.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
        database
    };
    open().execute_batch(sql::CREATE).unwrap();
    open().execute_batch("CREATE TABLE journal (token BIGINT)").unwrap();
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let mut database = open();
            threads.spawn(move || {
                for round in 0..25 {
                    let token = number(token(1 + thread + 4 * round));
                    let transaction = database.transaction_with_behavior(Immediate).unwrap();
                    if transaction.execute(sql::RAISE, ("x", token)).unwrap() == 1 {
                        transaction.execute("INSERT INTO journal VALUES ($1)", [token]).unwrap();
                        transaction.commit().unwrap();
                    }
                }
            });
        }
    });
    let database = open();
    let mut statement = database.prepare("SELECT token FROM journal ORDER BY rowid").unwrap();
    let journal: Vec<i64> = statement.query_map([], |row| row.get(0)).unwrap().flatten().collect();
    assert!(journal.is_sorted(), "{journal:?}");
    // The largest one is refused by nobody.
    assert_eq!(journal.last(), Some(&100));
}
