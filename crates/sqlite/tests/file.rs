//! The file itself: how it comes to be, what is refused, what it holds.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{acquire, bare, is_free, manual, name, soon, take, ttl};
use fencelock_core::{
    AcquireRequest, Acquired, Binding, ExchangeRequest, Exchanged, FencingToken,
    ForceReleaseRequest, Forced, ForeignKind, InspectRequest, Inspection, ListRequest, Moment,
    Names, NotHeld, ProcessId, ReleaseRequest, Released, RenewRequest, Renewed, Retain,
    ShortenRequest, Shortened, Token,
};
use fencelock_sqlite::{Durability, SqliteStore, Surroundings, process::Presence};
use fencelock_store::{Clock, ManualClock, Outcome, Store, StoreErrorKind, rt};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

async fn refusal(path: &Path) -> (StoreErrorKind, String) {
    let error = SqliteStore::open(path).unwrap().connect(soon()).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotDone);
    (error.kind(), error.to_string())
}

#[tokio::test]
async fn folder_and_file_are_private_and_made_by_the_first_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/locks.db");
    let store = SqliteStore::open(&path).unwrap();
    assert!(!folder.path().join("a").exists(), "making a store touches nothing");
    assert_eq!(store.to_string(), format!("sqlite:{}", path.display()));
    let _ = store.connect(soon()).await.unwrap();
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let _ = take(&store, "x", 1_000).await;
    for file in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        assert_eq!(mode(&folder.path().join("a/b").join(file)), 0o600, "{file}");
    }
    let mut left: Vec<_> = fs::read_dir(folder.path().join("a/b"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["locks.db", "locks.db-shm", "locks.db-wal"]);
}

#[tokio::test]
async fn what_a_killed_creator_left_is_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let new = folder.path().join("locks.db.new");
    fs::write(&new, "half of a file").unwrap();
    fs::write(folder.path().join("locks.db.new-wal"), "half of a log").unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let _ = take(&store, "x", 1_000).await;
    assert!(!new.exists());
    fs::hard_link(&path, &new).unwrap();
    let _ = take(&SqliteStore::open(&path).unwrap(), "y", 1_000).await;
    assert!(!new.exists());
    fs::write(&new, "somebody else's").unwrap();
    let _ = take(&SqliteStore::open(&path).unwrap(), "z", 1_000).await;
    assert!(new.exists(), "it is not the same file");
}

#[tokio::test]
async fn both_durabilities_share_a_file_and_the_log_survives_the_close() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let store = SqliteStore::builder(&path).durability(Durability::Power).build().unwrap();
    let (token, _) = take(&store, "x", 60_000).await;
    store.close().await;
    assert!(fs::metadata(folder.path().join("locks.db-wal")).unwrap().len() > 0);
    let store = SqliteStore::open(&path).unwrap();
    assert!(!is_free(&store, "x").await);
    let request = ReleaseRequest::new(name("x"), token);
    assert_eq!(store.release(&request, soon()).await.unwrap().answer, Released::Held);
}

#[tokio::test]
async fn a_file_system_that_is_not_for_locks_is_refused_before_anything_is_made() {
    let (kind, message) = refusal(Path::new("/proc/fencelock/locks.db")).await;
    assert_eq!(kind, StoreErrorKind::Config);
    assert!(message.contains("a proc file system may not keep locks"), "{message}");
}

#[tokio::test]
async fn what_is_no_lock_file_is_left_alone_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "not a database, but long enough to be looked at as one".repeat(40)).unwrap();
    let before = fs::read(&text).unwrap();
    let (kind, message) = refusal(&text).await;
    assert_eq!(kind, StoreErrorKind::Config);
    assert!(message.contains("not a lock file of fencelock"), "{message}");
    assert_eq!(fs::read(&text).unwrap(), before);

    let other = folder.path().join("other.db");
    bare(&other).execute_batch("CREATE TABLE users (id)").unwrap();
    let before = fs::read(&other).unwrap();
    let (kind, message) = refusal(&other).await;
    assert_eq!(kind, StoreErrorKind::Config);
    assert!(message.contains("belongs to another program"), "{message}");
    assert_eq!(fs::read(&other).unwrap(), before);

    let (kind, message) = refusal(folder.path()).await;
    assert_eq!(kind, StoreErrorKind::Config);
    assert!(message.contains("this is not a file"), "{message}");

    let (kind, message) = refusal(&text.join("locks.db")).await;
    assert_eq!(kind, StoreErrorKind::Config, "{message}");

    let link = folder.path().join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    let (kind, message) = refusal(&link).await;
    assert_eq!(kind, StoreErrorKind::Config);
    assert!(message.contains("symbolic link to nothing"), "{message}");
}

#[tokio::test]
async fn a_newer_layout_is_refused_with_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let _ = SqliteStore::open(&path).unwrap().connect(soon()).await.unwrap();
    bare(&path).execute_batch("PRAGMA user_version = 7").unwrap();
    let (kind, message) = refusal(&path).await;
    assert_eq!(kind, StoreErrorKind::Config);
    assert!(message.contains("layout version 7, this program knows version 3"), "{message}");
    let layout: i64 = bare(&path).query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(layout, 7, "it was left alone");
}

/// A file of layout 1, as the program of that layout wrote it: on the boot `[1; 16]`, at 1,003,600 s
/// of a clock for everything, "held" and "bound" for a minute by the tokens of 1 and 2, and "free"
/// by that of 3.
const LAYOUT_1: &[u8] = include_bytes!("fixtures/layout-1.db");

fn layout_1(folder: &Path) -> (std::path::PathBuf, ManualClock) {
    let path = folder.join("locks.db");
    fs::write(&path, LAYOUT_1).unwrap();
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1_000_000));
    (path, clock)
}

/// What the program of layout 2 made of a file of layout 1.
const TO_LAYOUT_2: &str = "
    ALTER TABLE lock ADD COLUMN first_fence INTEGER;
    ALTER TABLE lock ADD COLUMN listener    INTEGER;
    ALTER TABLE lock ADD COLUMN revoked     INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE lock ADD COLUMN unattended  INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE lock ADD COLUMN waiting     INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE place (
      number INTEGER PRIMARY KEY, name BLOB NOT NULL, token BLOB NOT NULL,
      is_set INTEGER NOT NULL, barging INTEGER NOT NULL, listener INTEGER,
      seen_us INTEGER NOT NULL, wall_seen_us INTEGER NOT NULL, boot_id BLOB NOT NULL,
      time_namespace INTEGER NOT NULL, live_us INTEGER NOT NULL, claim_ms INTEGER NOT NULL,
      retain_ms INTEGER NOT NULL, floor INTEGER, reserve INTEGER NOT NULL,
      metadata BLOB NOT NULL, processes BLOB, pid_namespace INTEGER
    ) STRICT;
    CREATE INDEX place_line ON place (name);
    CREATE INDEX place_token ON place (token);
    INSERT INTO place VALUES (1, CAST('held' AS BLOB), zeroblob(16), 0, 0, NULL, 1003600000000, 1003600000000,
      x'01010101010101010101010101010101', 0, 60000000, 5000, 0, NULL, 0, x'', NULL, NULL);
    UPDATE lock SET waiting = 1 WHERE name = CAST('held' AS BLOB);
    PRAGMA user_version = 2;";

/// Goal: what somebody holds and waits for in a file of layout 2 is kept.
#[tokio::test]
async fn a_file_of_the_second_layout_keeps_its_locks_and_lines() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = layout_1(folder.path());
    bare(&path).execute_batch(TO_LAYOUT_2).unwrap();
    let store = within(&path, &clock, here());
    let look = InspectRequest::new(name("held"));
    let seen = store.inspect(&look, Moment::NEVER).await.unwrap().answer;
    assert!(matches!(&seen, Inspection::Held(holder) if holder.waiting == 1), "{seen:?}");
    let token = |number| Token::from_bytes([number; 16]);
    assert_eq!(common::give_back(&store, "held", token(1)).await, Released::Held);
    assert_eq!(common::give_back(&store, "held", token(0)).await, Released::Held);
    let fresh = folder.path().join("fresh.db");
    let _ = take(&manual(&fresh, &clock), "x", 1_000).await;
    assert_eq!(columns(&path), columns(&fresh));
}

fn columns(path: &Path) -> Vec<String> {
    let sql = bare(path);
    let mut select = sql
        .prepare(
            "SELECT concat_ws(' ', m.name, i.cid, i.name, i.type, i.\"notnull\", i.dflt_value, i.pk)
             FROM sqlite_schema m LEFT JOIN pragma_table_info(m.name) i ORDER BY m.name, i.cid",
        )
        .unwrap();
    let rows = select.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[tokio::test]
async fn a_file_of_the_layout_before_is_brought_to_this_one_with_all_that_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = layout_1(folder.path());
    let gone = here().processes(|process| {
        assert_eq!((process.pid, process.started), (10, 5));
        Presence::Gone
    });
    let store = within(&path, &clock, gone);
    let look = InspectRequest::new(name("held"));
    match store.inspect(&look, Moment::NEVER).await.unwrap().answer {
        Inspection::Held(holder) => {
            assert_eq!(holder.remaining, Some(Duration::from_secs(60)));
            assert_eq!(holder.fencing_token, FencingToken::new(1_003_600_000_000).ok());
            assert_eq!(holder.metadata.as_bytes(), b"who");
            assert_eq!((holder.waiting, holder.revoked, holder.unattended), (0, false, false));
        }
        other => panic!("{other:?}"),
    }
    assert!(is_free(&store, "bound").await, "its process is gone");
    let token = |number| Token::from_bytes([number; 16]);
    assert_eq!(common::give_back(&store, "free", token(3)).await, Released::Held);
    // What is new works on it.
    let request = common::waits("held", rt::fresh_token(), None);
    assert_eq!(common::queue(&store, &request).await, 1);
    assert_eq!(common::give_back(&store, "held", token(1)).await, Released::Held);
    assert!(!is_free(&store, "held").await);
    let fresh = folder.path().join("fresh.db");
    let _ = take(&manual(&fresh, &clock), "x", 1_000).await;
    assert_eq!(columns(&path), columns(&fresh));
}

#[test]
fn a_file_of_the_layout_before_may_be_opened_by_many_at_once() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let (path, clock) = layout_1(folder.path());
        std::thread::scope(|scope| {
            for number in 0..6 {
                let store = within(&path, &clock, here());
                scope.spawn(move || {
                    rt::block_on(async {
                        let _ = take(&store, &format!("mine-{number}"), 1_000).await;
                        assert!(!is_free(&store, "held").await);
                    });
                });
            }
        });
        assert_eq!(columns(&path).len(), 21 + 19 + 15 + 4);
    }
}

/// Goal: no half of the step to this layout. Method: its last part, the table of places, fails.
#[tokio::test]
async fn a_file_of_the_layout_before_that_can_not_be_changed_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = layout_1(folder.path());
    bare(&path).execute_batch("CREATE TABLE place (mine)").unwrap();
    let before = columns(&path);
    let error = within(&path, &clock, here()).connect(Moment::NEVER).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotDone);
    let layout =
        || -> i64 { bare(&path).query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap() };
    assert_eq!((layout(), columns(&path)), (1, before));
    bare(&path).execute_batch("DROP TABLE place").unwrap();
    assert!(!is_free(&within(&path, &clock, here()), "held").await);
    assert_eq!(layout(), 3);
}

#[tokio::test]
async fn an_empty_file_becomes_a_lock_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    fs::write(&path, "").unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let _ = take(&store, "x", 1_000).await;
    let mode: String = bare(&path).query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

#[tokio::test]
async fn a_damaged_file_is_said_to_be_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let _ = SqliteStore::open(&path).unwrap().connect(soon()).await.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[1024..].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let request = AcquireRequest::new(name("x"), rt::fresh_token(), ttl(1_000));
    let error = store.acquire(&request, soon()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Protocol, Outcome::NotDone));
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[tokio::test]
async fn a_file_that_was_replaced_is_opened_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let store = SqliteStore::open(&path).unwrap();
    let _ = take(&store, "x", 60_000).await;
    let before = store.connect(soon()).await.unwrap().incarnation;
    // The log stays behind, as `rm locks.db` leaves it.
    fs::remove_file(&path).unwrap();
    let other = SqliteStore::open(&path).unwrap();
    assert!(!before.eq(&other.connect(soon()).await.unwrap().incarnation));
    let _ = take(&other, "x", 60_000).await;
    assert!(!is_free(&store, "x").await, "both look at the file that is there now");
    assert_eq!(
        store.connect(soon()).await.unwrap().incarnation,
        other.connect(soon()).await.unwrap().incarnation
    );
}

#[tokio::test]
async fn a_busy_file_ends_with_by_and_is_used_as_soon_as_it_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let store = SqliteStore::open(&path).unwrap();
    let _ = store.connect(soon()).await.unwrap();
    let blocker = bare(&path);
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let request = AcquireRequest::new(name("x"), rt::fresh_token(), ttl(10_000));
    let start = Clock::Monotonic.now();
    let by = start.saturating_add(Duration::from_millis(50));
    let error = store.acquire(&request, by).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Unavailable, Outcome::NotDone));
    assert!(error.to_string().contains("the file is busy"), "{error}");
    assert!(Clock::Monotonic.now() >= by);
    // Looking needs no turn.
    let look = InspectRequest::new(name("x"));
    assert!(matches!(store.inspect(&look, soon()).await.unwrap().answer, Inspection::Free { .. }));
    let waiting = store.acquire(&request, soon());
    tokio::pin!(waiting);
    assert!(rt::timeout(Duration::from_millis(5), &mut waiting).await.is_none());
    blocker.execute_batch("COMMIT").unwrap();
    assert!(matches!(waiting.await.unwrap().answer, Acquired::Granted(_)));
}

#[tokio::test]
async fn requests_of_one_runtime_keep_their_order_while_the_file_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let store = SqliteStore::open(&path).unwrap();
    let _ = store.connect(soon()).await.unwrap();
    let blocker = bare(&path);
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let first = AcquireRequest::new(name("x"), rt::fresh_token(), ttl(10_000));
    let release = ReleaseRequest::new(name("x"), first.token);
    let second = AcquireRequest::new(name("x"), rt::fresh_token(), ttl(10_000));
    let unblock = async {
        rt::sleep(Duration::from_millis(30)).await;
        blocker.execute_batch("COMMIT").unwrap();
    };
    let (a, b, c, ()) = tokio::join!(
        store.acquire(&first, soon()),
        store.release(&release, soon()),
        store.acquire(&second, soon()),
        unblock,
    );
    assert!(matches!(a.unwrap().answer, Acquired::Granted(_)));
    assert_eq!(b.unwrap().answer, Released::Held);
    assert!(matches!(c.unwrap().answer, Acquired::Granted(_)));
}

#[test]
fn a_task_that_its_runtime_leaves_waiting_does_not_hold_up_another_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let store = SqliteStore::open(&path).unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (stuck, other) = (runtime(), runtime());
    let _ = other.block_on(store.connect(soon())).unwrap();
    let blocker = bare(&path);
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let request = AcquireRequest::new(name("x"), rt::fresh_token(), ttl(10_000));
    let mut waiting = store.acquire(&request, soon());
    let short = Duration::from_millis(5);
    assert!(stuck.block_on(async { rt::timeout(short, &mut waiting).await }).is_none());
    blocker.execute_batch("COMMIT").unwrap();
    assert!(other.block_on(is_free(&store, "y")));
    assert!(matches!(stuck.block_on(waiting).unwrap().answer, Acquired::Granted(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_on_several_threads_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("locks.db")).unwrap();
    let inside = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (store, inside) = (store.clone(), Arc::clone(&inside));
            tokio::spawn(async move {
                let mut done = 0;
                while done < 50 {
                    let token = rt::fresh_token();
                    let request = AcquireRequest::new(name("x"), token, ttl(60_000));
                    let answer = store.acquire(&request, soon()).await.unwrap().answer;
                    if !matches!(answer, Acquired::Granted(_)) {
                        rt::yield_now().await;
                        continue;
                    }
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    rt::yield_now().await;
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                    let request = ReleaseRequest::new(name("x"), token);
                    let answer = store.release(&request, soon()).await.unwrap().answer;
                    assert_eq!(answer, Released::Held);
                    done += 1;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_closed_store_says_so_and_no_time_left_is_no_try() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("locks.db")).unwrap();
    let error = store.connect(Moment::START).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Unavailable, Outcome::NotDone));
    assert!(!folder.path().join("locks.db").exists());
    let _ = take(&store, "x", 1_000).await;
    store.close().await;
    let error = store.clone().connect(soon()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Closed, Outcome::NotDone));
}

#[tokio::test]
async fn a_full_file_refuses_new_names_only_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let store = SqliteStore::builder(&path).pages_max(12).build().unwrap();
    let mut held = Vec::new();
    let refused = loop {
        let lock = name(&format!("{:0>300}", held.len()));
        let request = AcquireRequest::new(lock.clone(), rt::fresh_token(), ttl(60_000));
        match store.acquire(&request, soon()).await {
            Ok(_) => held.push(request),
            Err(error) => break (request, error),
        }
        assert!(held.len() < 1_000);
    };
    let (request, error) = refused;
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Full, Outcome::NotDone));
    let look = InspectRequest::new(request.names.as_slice()[0].clone());
    let seen = store.inspect(&look, soon()).await.unwrap().answer;
    assert_eq!(seen, Inspection::Free { fencing_token: None }, "nothing is half done");
    for held in &held {
        let renew = [RenewRequest::new(held.names.clone(), held.token, ttl(60_000))];
        let answer = store.renew(&renew, soon()).await.unwrap().answer;
        assert!(matches!(answer[..], [Renewed::Extended { .. }]));
        let release = ReleaseRequest::new(held.names.clone(), held.token);
        assert_eq!(store.release(&release, soon()).await.unwrap().answer, Released::Held);
    }
    let roomier = SqliteStore::builder(&path).pages_max(1_000).build().unwrap();
    assert!(matches!(
        roomier.acquire(&request, soon()).await.unwrap().answer,
        Acquired::Granted(_)
    ));
}

#[tokio::test]
async fn forgotten_rows_are_swept_while_new_ones_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let clock = ManualClock::new();
    let store = manual(&path, &clock);
    let (kept, _) = take(&store, "kept", 86_400_000).await;
    for number in 0..3_000 {
        let lock = name(&format!("once-{number}"));
        let token = rt::fresh_token();
        let mut request = AcquireRequest::new(lock.clone(), token, ttl(1_000));
        request.retain = Retain::new(Duration::from_secs(2));
        let _ = acquire(&store, &request).await.unwrap();
        let mut request = ReleaseRequest::new(lock, token);
        request.retain = Retain::new(Duration::from_secs(2));
        let _ = store.release(&request, Moment::NEVER).await.unwrap();
        clock.advance(Duration::from_millis(100));
    }
    let rows: i64 =
        bare(&path).query_row("SELECT count(*) FROM lock", [], |row| row.get(0)).unwrap();
    assert!(rows < 100, "{rows} rows are left");
    let renew = [RenewRequest::new(name("kept"), kept, ttl(1_000))];
    let answer = store.renew(&renew, Moment::NEVER).await.unwrap().answer;
    assert!(matches!(answer[..], [Renewed::Extended { .. }]));
}

#[tokio::test]
async fn the_log_does_not_grow_for_ever() {
    // 18,000 commits of a frame or more, without a break in which nobody writes.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let store = SqliteStore::open(&path).unwrap();
    for _ in 0..9_000 {
        let (token, _) = take(&store, "x", 10_000).await;
        let request = ReleaseRequest::new(name("x"), token);
        let _ = store.release(&request, soon()).await.unwrap();
    }
    let log = fs::metadata(folder.path().join("locks.db-wal")).unwrap().len();
    assert!(log < 16_500 * 1_060, "{log} bytes");
    assert!(log >= 500 * 1_024, "the test wrote too little to see it: {log} bytes");
}

/// Goal: programs that live for one lock do not leave a log that each of them has to read from its
/// beginning. Method: 60 frames by one store, 60 more by the next; only the second close empties
/// the log.
#[tokio::test]
async fn a_long_log_is_brought_into_the_file_at_a_clean_close() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let log = || fs::metadata(folder.path().join("locks.db-wal")).unwrap().len();
    for process in 0..2 {
        let store = SqliteStore::open(&path).unwrap();
        for _ in 0..30 {
            let (token, _) = take(&store, "x", 10_000).await;
            let request = ReleaseRequest::new(name("x"), token);
            let _ = store.release(&request, soon()).await.unwrap();
        }
        store.close().await;
        assert_eq!(log() == 0, process == 1, "store {process}");
    }
}

#[tokio::test]
async fn a_held_lock_of_another_kind_is_foreign_to_every_verb_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let clock = ManualClock::new();
    let store = manual(&path, &clock);
    let (token, _) = take(&store, "s", 10_000).await;
    bare(&path).execute("UPDATE lock SET kind = 'turnstile'", []).unwrap();
    let kind = ForeignKind::Kind("turnstile".into());
    let by = Moment::NEVER;
    let names = || Names::new([name("a"), name("s")]).unwrap();
    let request = AcquireRequest::new(names(), token, ttl(1_000));
    match acquire(&store, &request).await.unwrap() {
        Acquired::Foreign(foreign) => {
            assert_eq!((foreign.name, foreign.kind), (name("s"), kind.clone()));
        }
        other => panic!("{other:?}"),
    }
    let why = || NotHeld::Foreign(kind.clone());
    let batch = [RenewRequest::new(name("s"), token, ttl(1_000))];
    assert_eq!(store.renew(&batch, by).await.unwrap().answer, [Renewed::NotHeld(why())]);
    let request = ShortenRequest::new(name("s"), token, ttl(1_000));
    assert_eq!(store.shorten(&request, by).await.unwrap().answer, Shortened::NotHeld(why()));
    let request = ExchangeRequest::new(name("s"), token, rt::fresh_token(), ttl(1_000));
    assert_eq!(store.exchange_token(&request, by).await.unwrap().answer, Exchanged::NotHeld(why()));
    let request = ForceReleaseRequest::new(name("s"));
    assert_eq!(
        store.force_release(&request, by).await.unwrap().answer,
        Forced::Foreign(kind.clone())
    );
    // Beside it, what is ours is freed.
    let (other, _) = take(&store, "a", 10_000).await;
    let request = ReleaseRequest::new(names(), other);
    assert_eq!(store.release(&request, by).await.unwrap().answer, Released::Taken);
    assert!(is_free(&store, "a").await);
    let page = store.list(&ListRequest::new("s"), by).await.unwrap().answer;
    assert_eq!(page.locks, [(name("s"), Inspection::Foreign(kind))]);
    clock.advance(Duration::from_secs(10));
    assert!(is_free(&store, "s").await, "its lease is over");
}

#[tokio::test]
async fn an_unreadable_row_is_foreign_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let store = SqliteStore::open(&path).unwrap();
    let _ = take(&store, "u", 10).await;
    bare(&path).execute("UPDATE lock SET token = x'01'", []).unwrap();
    let request = AcquireRequest::new(name("u"), rt::fresh_token(), ttl(1_000));
    match acquire(&store, &request).await.unwrap() {
        Acquired::Foreign(foreign) => assert_eq!(foreign.kind, ForeignKind::Unreadable),
        other => panic!("{other:?}"),
    }
}

fn here() -> Surroundings {
    Surroundings::made_up([1; 16])
}

fn within(path: &Path, clock: &ManualClock, surroundings: Surroundings) -> SqliteStore {
    SqliteStore::builder(path).manual(clock.clone()).surroundings(surroundings).build().unwrap()
}

#[tokio::test]
async fn a_lease_of_another_boot_or_time_namespace_counts_until_its_end_on_the_wall_clock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let clock = ManualClock::new();
    let before = within(&path, &clock, here());
    for elsewhere in [here().boot([2; 16]), here().time_namespace(9)] {
        let (token, _) = take(&before, "x", 10_000).await;
        // A lease clock that shows something else altogether.
        let shift = "UPDATE lock SET end_us = CASE WHEN end_us = 0 THEN 1 ELSE 0 END";
        bare(&path).execute(shift, []).unwrap();
        let after = within(&path, &clock, elsewhere);
        clock.advance(Duration::from_micros(9_999_999));
        let look = InspectRequest::new(name("x"));
        match after.inspect(&look, Moment::NEVER).await.unwrap().answer {
            Inspection::Held(holder) => {
                assert_eq!(holder.remaining, Some(Duration::from_micros(1)));
            }
            other => panic!("{other:?}"),
        }
        assert!(!is_free(&after, "x").await);
        // Its token still proves it, and renewing moves it to the new clock.
        let batch = [RenewRequest::new(name("x"), token, ttl(1_000))];
        let answer = after.renew(&batch, Moment::NEVER).await.unwrap().answer;
        assert_eq!(answer, [Renewed::extended(Duration::from_secs(1))]);
        clock.advance(Duration::from_micros(999_999));
        assert!(!is_free(&after, "x").await);
        clock.advance(Duration::from_micros(1));
        assert!(is_free(&after, "x").await);
    }
}

fn processes(pids: &[u32]) -> Binding {
    Binding::Processes(pids.iter().map(|&pid| ProcessId { pid, started: 5 }).collect())
}

async fn bind(store: &SqliteStore, binding: Binding) {
    let mut request = AcquireRequest::new(name("x"), rt::fresh_token(), ttl(10_000));
    request.binding = binding;
    let answer = acquire(store, &request).await.unwrap();
    assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
}

#[tokio::test]
async fn a_bound_lease_is_free_once_all_its_processes_are_gone_and_we_can_tell() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let clock = ManualClock::new();
    let gone = |pids: &'static [u32]| {
        here().processes(move |process| {
            assert_eq!(process.started, 5);
            if pids.contains(&process.pid) { Presence::Gone } else { Presence::PerhapsAlive }
        })
    };
    let holder = within(&path, &clock, gone(&[]));
    bind(&holder, processes(&[10, 11])).await;
    let cases = [
        (gone(&[]), false),
        (gone(&[10]), false),
        (gone(&[11]), false),
        (gone(&[10, 11]).boot([2; 16]), false),
        (gone(&[10, 11]).time_namespace(2), false),
        (gone(&[10, 11]).pid_namespace(Some(2)), false),
        (gone(&[10, 11]).pid_namespace(None), false),
        (gone(&[10, 11]), true),
    ];
    for (surroundings, free) in cases {
        let text = format!("{surroundings:?}");
        let store = within(&path, &clock, surroundings);
        assert_eq!(is_free(&store, "x").await, free, "{text}");
    }
    let store = within(&path, &clock, gone(&[10, 11]));
    bind(&store, Binding::Processes(Vec::new())).await;
    assert!(!is_free(&store, "x").await, "no process at all is not all of them gone");
}

#[tokio::test]
async fn a_lease_that_is_renewed_from_another_time_namespace_is_bound_no_more() {
    // Start times are shown in the reader's namespace: there every process seems to be another.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let clock = ManualClock::new();
    let mut request = AcquireRequest::new(name("x"), rt::fresh_token(), ttl(10_000));
    request.binding = processes(&[10]);
    let answer = acquire(&within(&path, &clock, here()), &request).await.unwrap();
    assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
    let elsewhere = here().time_namespace(2).processes(|_| Presence::Gone);
    let elsewhere = within(&path, &clock, elsewhere);
    let batch = [RenewRequest::new(name("x"), request.token, ttl(10_000))];
    clock.advance(Duration::from_millis(1));
    let answer = elsewhere.renew(&batch, Moment::NEVER).await.unwrap().answer;
    assert!(matches!(answer[..], [Renewed::Extended { .. }]), "{answer:?}");
    assert!(!is_free(&elsewhere, "x").await);
}

#[tokio::test]
async fn a_lease_that_was_handed_on_is_not_bound_to_its_old_processes() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let all_gone =
        here().processes(
            |process| {
                if process.pid == 10 { Presence::Gone } else { Presence::PerhapsAlive }
            },
        );
    let store = within(&folder.path().join("locks.db"), &clock, all_gone);
    let mut request = AcquireRequest::new(name("x"), rt::fresh_token(), ttl(10_000));
    request.binding = processes(&[12]);
    let _ = acquire(&store, &request).await.unwrap();
    let mut exchange =
        ExchangeRequest::new(name("x"), request.token, rt::fresh_token(), ttl(10_000));
    exchange.binding = Binding::Unbound;
    let answer = store.exchange_token(&exchange, Moment::NEVER).await.unwrap().answer;
    assert!(matches!(answer, Exchanged::Granted(_)));
    let look = "SELECT count(*) FROM lock WHERE processes IS NULL";
    let unbound: i64 = bare(store.path()).query_row(look, [], |row| row.get(0)).unwrap();
    assert_eq!(unbound, 1);
}

#[tokio::test]
async fn too_many_processes_are_unsupported() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("locks.db")).unwrap();
    assert!(store.capabilities().binding);
    let mut request = AcquireRequest::new(Names::one(name("x")), rt::fresh_token(), ttl(1_000));
    request.binding = processes(&(0..17).collect::<Vec<_>>());
    let error = store.acquire(&request, soon()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
}

#[test]
fn outside_of_a_runtime_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("locks.db")).unwrap();
    let request = AcquireRequest::new(name("k"), rt::fresh_token(), ttl(1_000));
    let mut future = store.acquire(&request, soon());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(Err(error)) => assert_eq!(error.kind(), StoreErrorKind::Config),
        other => panic!("{other:?}"),
    }
}
