//! Readers beside others: refused below the last writer, and noted nowhere.

use fencelock::{
    FencingToken, SharedToken,
    fenced::{
        Checked,
        redis::{self as scripts, Keep},
        sql,
    },
};
use fencelock_testkit::RedisServer;
use redis::Script;

use crate::cluster::Cluster;

/// A reader from before a writer, the writer, one that it became, and the next writer.
async fn grants() -> (SharedToken, FencingToken, SharedToken, FencingToken) {
    let locks = fencelock::connect("memory:").await.unwrap();
    let lock = locks.rwlock("guarded");
    let reader = lock.read().await.unwrap();
    let early = reader.shared_token().unwrap();
    drop(reader);
    let writer = lock.write().await.unwrap();
    let written = writer.fencing_token().unwrap();
    let reader = writer.downgrade().await.unwrap();
    let late = reader.shared_token().unwrap();
    drop(reader);
    (early, written, late, lock.write().await.unwrap().fencing_token().unwrap())
}

#[tokio::test]
async fn a_value_in_redis_is_read_from_the_last_writer_on_and_raised_by_no_reader() {
    let (early, first, late, second) = grants().await;
    let server = RedisServer::start();
    let mut connection = server.connect();
    let mut call = |script: &str, argv: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
        Script::new(script).key("guarded").arg(argv).invoke(&mut connection).unwrap()
    };
    // Before anything was written, there is nothing to be late for.
    let keep = Keep::Forever;
    let reply = call(scripts::READ_SHARED, scripts::shared_arguments(early, keep));
    assert_eq!(scripts::shared_fields(early, &reply), Ok(Checked::Accepted(Vec::new())));
    let argv = scripts::arguments(first, keep, ["state", "paid"]);
    let reply = call(scripts::WRITE, argv);
    assert_eq!(scripts::checked(first, &reply), Ok(Checked::Accepted(())));

    let reply = call(scripts::READ_SHARED, scripts::shared_arguments(early, keep));
    assert_eq!(scripts::shared_fields(early, &reply), Ok(Checked::Stale { highest: first }));
    let reply = call(scripts::READ_SHARED, scripts::shared_arguments(late, keep));
    let found = scripts::shared_fields(late, &reply).unwrap().accepted().expect("it may read");
    assert_eq!(
        (&found[0].name[..], &found[0].value[..], found.len()),
        (&b"state"[..], &b"paid"[..], 1)
    );

    let reply = call(scripts::READ, scripts::arguments(second, keep, scripts::NOTHING));
    assert!(scripts::fields(second, &reply).unwrap().accepted().is_some());
    let reply = call(scripts::READ_SHARED, scripts::shared_arguments(late, keep));
    assert!(scripts::shared_fields(late, &reply).unwrap().is_stale(), "the next writer was here");
}

/// Goal: a reader with a larger number does not shut out the writer whose grant is older, and still
/// held. Method: the number of a reader is only looked at, so the writer before it writes on.
#[tokio::test]
async fn a_reader_raises_nothing() {
    let (_, first, late, _) = grants().await;
    let server = RedisServer::start();
    let mut connection = server.connect();
    let mut call = |script: &str, argv: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
        Script::new(script).key("guarded").arg(argv).invoke(&mut connection).unwrap()
    };
    let before = FencingToken::new(first.as_u64() - 1).unwrap();
    for _ in 0..2 {
        let reply = call(scripts::WRITE, scripts::arguments(before, Keep::Forever, ["a", "b"]));
        assert_eq!(scripts::checked(before, &reply), Ok(Checked::Accepted(())));
        let reply = call(scripts::READ_SHARED, scripts::shared_arguments(late, Keep::Forever));
        assert!(scripts::shared_fields(late, &reply).unwrap().accepted().is_some());
    }
}

#[tokio::test]
async fn a_table_says_who_may_read() {
    let (early, first, late, _) = grants().await;
    let database = rusqlite::Connection::open_in_memory().unwrap();
    database.execute(sql::CREATE, []).unwrap();
    let may_read = |reader: SharedToken| -> bool {
        let number = sql::shared_number(reader);
        database.query_row(sql::MAY_READ, ("x", number), |row| row.get(0)).unwrap()
    };
    assert!(may_read(early), "nobody wrote yet");
    assert_eq!(database.execute(sql::RAISE, ("x", sql::number(first))).unwrap(), 1);
    assert!(!may_read(early) && may_read(late));
    let highest: i64 = database.query_row(sql::HIGHEST, ["x"], |row| row.get(0)).unwrap();
    assert_eq!(highest, sql::number(first));

    let Some(cluster) = Cluster::start() else { return };
    let script = format!(
        "{};PREPARE raise AS {}; PREPARE may_read AS {};
         EXECUTE raise('x', {first}); EXECUTE may_read('x', {early}); EXECUTE may_read('x', {late});",
        sql::CREATE,
        sql::RAISE,
        sql::MAY_READ
    );
    let printed = cluster.run(&script);
    assert!(printed.ends_with("f\nt\n"), "{printed}");
}
