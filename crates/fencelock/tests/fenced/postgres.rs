//! The statements on a real PostgreSQL: the rule, and two transactions at once.

use std::time::Duration;

use fencelock::fenced::sql;
use fencelock_testkit::eventually;

use crate::cluster::{Cluster, Session};

const ROW: &str = "
CREATE TABLE invoices (id TEXT PRIMARY KEY, state TEXT NOT NULL, fence BIGINT NOT NULL DEFAULT 0);
INSERT INTO invoices (id, state) VALUES ('42', 'new');
PREPARE claim AS
    UPDATE invoices SET fence = $1 WHERE id = $2 AND fence <= $1 RETURNING state;
PREPARE pay AS UPDATE invoices SET state = $1, fence = $2 WHERE id = $3 AND fence <= $2;
";

fn prepared() -> String {
    format!(
        "PREPARE raise AS {}; PREPARE once AS {}; PREPARE highest AS {};",
        sql::RAISE,
        sql::RAISE_ONCE,
        sql::HIGHEST
    )
}

/// The counts of rows that the commands printed.
fn counts(printed: &str) -> Vec<&str> {
    printed
        .lines()
        .filter(|line| line.starts_with("INSERT") || line.starts_with("UPDATE"))
        .collect()
}

#[test]
fn the_statements_follow_the_rule() {
    let Some(cluster) = Cluster::start() else { return };
    let script = format!(
        "{};{}
         EXECUTE raise('x', 34); EXECUTE raise('x', 34); EXECUTE raise('x', 33);
         EXECUTE raise('x', 9007199254740991); EXECUTE raise('y', 1);
         EXECUTE once('z', 34); EXECUTE once('z', 34); EXECUTE once('z', 35); EXECUTE once('z', 33);
         EXECUTE highest('x'); EXECUTE highest('z');",
        sql::CREATE,
        prepared()
    );
    let printed = cluster.run(&script);
    let expected = [
        "INSERT 0 1",
        "INSERT 0 1",
        "INSERT 0 0",
        "INSERT 0 1",
        "INSERT 0 1", // raise
        "INSERT 0 1",
        "INSERT 0 0",
        "INSERT 0 1",
        "INSERT 0 0", // once
    ];
    assert_eq!(counts(&printed), expected);
    assert!(printed.ends_with("9007199254740991\n35\n"), "{printed}");

    let script = format!(
        "{ROW}
         EXECUTE pay('drafted', 33, '42'); EXECUTE claim(34, '42'); EXECUTE claim(33, '42');
         EXECUTE pay('late', 33, '42'); EXECUTE pay('sent', 34, '42'); EXECUTE pay('done', 34, '42');
         SELECT state FROM invoices;"
    );
    let printed = cluster.run(&script);
    // The rows of RETURNING come before the count; a refused claim returns none.
    assert!(printed.contains("UPDATE 1\ndrafted\nUPDATE 1\nUPDATE 0\nUPDATE 0\n"), "{printed}");
    assert!(printed.ends_with("UPDATE 0\nUPDATE 1\nUPDATE 1\ndone\n"), "{printed}");
}

/// Goal: no transaction of a holder before commits behind one of the next holder.
/// Method: the next one is held open between its first statement and its commit, while the other
/// comes; then the other way round.
#[test]
fn who_comes_while_another_writes_waits_and_is_judged_by_what_it_committed() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.run(&format!("{};CREATE TABLE postings (who TEXT);", sql::CREATE));
    let post = |who: &str, token: u64| {
        format!(
            "{} BEGIN; EXECUTE raise('x', {token}); SELECT :ROW_COUNT = 1 AS accepted \\gset
             \\if :accepted
             INSERT INTO postings VALUES ('{who}');
             \\endif
             \\echo inside",
            prepared()
        )
    };

    let mut next = Session::open(&cluster);
    next.say(&post("next", 34));
    next.hears("inside");
    let mut before = Session::open(&cluster);
    before.say(&post("before", 33));
    waits_for_a_lock(&cluster);
    next.say("COMMIT;");
    next.end();
    before.hears("inside");
    before.say("COMMIT;");
    assert_eq!(counts(&before.end()), ["INSERT 0 0"]);
    assert_eq!(cluster.run("SELECT who FROM postings;"), "next\n");

    // The other order: the earlier one is first, so the next one waits for its commit.
    let mut earlier = Session::open(&cluster);
    earlier.say(&post("earlier", 40));
    earlier.hears("inside");
    let mut later = Session::open(&cluster);
    later.say(&post("later", 41));
    waits_for_a_lock(&cluster);
    earlier.say("COMMIT;");
    earlier.end();
    later.say("SELECT 'saw ' || count(*) FROM postings WHERE who = 'earlier'; COMMIT;");
    let printed = later.end();
    assert!(printed.contains("saw 1"), "it read before the earlier one had committed: {printed}");
    assert_eq!(cluster.run("SELECT token FROM fences;"), "41\n");
}

#[test]
fn above_read_committed_the_holder_before_fails_to_serialise() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.run(&format!("{}; INSERT INTO fences VALUES ('x', 30);", sql::CREATE));
    let begin = "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1;";
    let mut before = Session::open(&cluster);
    before.say(&format!("\\set ON_ERROR_STOP 0\n{} {begin} \\echo begun", prepared()));
    before.hears("begun");
    cluster.run(&format!("{} EXECUTE raise('x', 34);", prepared()));
    before.say("EXECUTE raise('x', 33);\n\\echo state :SQLSTATE\nROLLBACK;");
    assert!(before.end().contains("state 40001"));
    assert_eq!(cluster.run("SELECT token FROM fences;"), "34\n");
}

/// Somebody stands behind a lock of another transaction.
fn waits_for_a_lock(cluster: &Cluster) {
    let question = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock';";
    eventually(Duration::from_secs(60), "the other transaction waits", || {
        cluster.run(question) == "1\n"
    });
}
