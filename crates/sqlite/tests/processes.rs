//! Several processes and one file: exclusion, first openings, sudden death.
//!
//! The test starts this very binary again; `as_a_child` is what those children do.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use common::{Ear, bare, is_free, name, soon, take, ttl};
use fencelock_core::{
    AcquireRequest, Acquired, Binding, ListRequest, ListenerId, Names, Refusal, ReleaseRequest,
    Released, RenewRequest, Renewed, Token,
};
use fencelock_sqlite::{SqliteStore, process};
use fencelock_store::{Clock, Outcome, Store, StoreError, StoreErrorKind, rt};

const ROLE: &str = "FENCELOCK_TEST_ROLE";
const FOLDER: &str = "FENCELOCK_TEST_FOLDER";

fn start(role: &str, folder: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "as_a_child", "--ignored", "--nocapture"])
        .env(ROLE, role)
        .env(FOLDER, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn end_well(children: Vec<Child>) {
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

fn times(short: usize, soak: usize) -> usize {
    if env::var_os("FENCELOCK_SOAK").is_some() { soak } else { short }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("new/locks.db")
}

fn integrity(path: &Path) -> String {
    bare(path).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
}

#[test]
#[ignore = "what the child processes of the other tests do"]
fn as_a_child() {
    let role = env::var(ROLE).unwrap();
    let folder = PathBuf::from(env::var_os(FOLDER).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = SqliteStore::open(file(&folder)).unwrap();
    runtime.block_on(async {
        match role.as_str() {
            "count" => count(&store, &folder, times(40, 2_000)).await,
            "open" => open_first(&store).await,
            "churn" => churn(&store).await,
            "hold" => hold(&store, &folder).await,
            "full" => fill(&store).await,
            "wait" => wait_in_line(&store, &folder, own()).await,
            "wait-unbound" => wait_in_line(&store, &folder, Binding::Unbound).await,
            "turns" => take_turns(&store, &folder, times(40, 2_000)).await,
            "line" => churn_in_line(&store).await,
            other => panic!("{other}"),
        }
    });
}

/// Adds one to a number in a file so often, under the lock.
async fn count(store: &SqliteStore, folder: &Path, rounds: usize) {
    let number = folder.join("number");
    for _ in 0..rounds {
        let token = loop {
            let token = rt::fresh_token();
            let request = AcquireRequest::new(name("count"), token, ttl(60_000));
            match store.acquire(&request, soon()).await.unwrap().answer {
                Acquired::Granted(_) => break token,
                _ => rt::sleep(Duration::from_millis(1)).await,
            }
        };
        let before: usize = fs::read_to_string(&number).unwrap().parse().unwrap();
        rt::yield_now().await;
        fs::write(&number, (before + 1).to_string()).unwrap();
        let request = ReleaseRequest::new(name("count"), token);
        let answer = store.release(&request, soon()).await.unwrap().answer;
        assert_eq!(answer, Released::Held);
    }
}

/// Waits until its input ends, so that all begin together.
async fn open_first(store: &SqliteStore) {
    std::io::read_to_string(std::io::stdin()).unwrap();
    let request = AcquireRequest::new(name("first"), rt::fresh_token(), ttl(60_000));
    let _ = store.acquire(&request, soon()).await.unwrap();
}

/// Takes and gives back for ever.
async fn churn(store: &SqliteStore) {
    let mine = format!("mine-{}", std::process::id());
    loop {
        for lock in ["shared", mine.as_str()] {
            let token = rt::fresh_token();
            let mut request = AcquireRequest::new(name(lock), token, ttl(60_000));
            request.binding = Binding::Processes(vec![process::current().unwrap()]);
            if let Acquired::Granted(_) = store.acquire(&request, soon()).await.unwrap().answer {
                let request = ReleaseRequest::new(name(lock), token);
                let _ = store.release(&request, soon()).await.unwrap();
            }
        }
    }
}

/// Holds two locks, one bound to itself, until it is killed.
async fn hold(store: &SqliteStore, folder: &Path) {
    let _ = take(store, "unbound", 700).await;
    let mut request = AcquireRequest::new(name("bound"), rt::fresh_token(), ttl(60_000));
    request.binding = Binding::Processes(vec![process::current().unwrap()]);
    let answer = store.acquire(&request, soon()).await.unwrap().answer;
    assert!(matches!(answer, Acquired::Granted(_)));
    fs::write(folder.join("held"), "").unwrap();
    std::io::read_to_string(std::io::stdin()).unwrap();
}

/// A request that waits, bound to this process.
fn waiting(lock: &str, listener: Option<ListenerId>) -> AcquireRequest {
    let mut request = common::waits(lock, rt::fresh_token(), listener);
    request.binding = own();
    request
}

/// This process.
fn own() -> Binding {
    Binding::Processes(vec![process::current().unwrap()])
}

/// Takes a place in the line of "x", says so, and says when it has the lock; holds it until it is
/// killed, or the test has ended.
async fn wait_in_line(store: &SqliteStore, folder: &Path, binding: Binding) {
    std::thread::spawn(|| {
        let _ = std::io::read_to_string(std::io::stdin());
        std::process::exit(1);
    });
    let (ear, subscription) = Ear::listening(store).await;
    let mut request = waiting("x", Some(subscription.listener));
    request.binding = binding;
    assert!(common::queue(store, &request).await > 0);
    let say = |what: &str| fs::write(folder.join(format!("{what}-{}", std::process::id())), "");
    say("waits").unwrap();
    // Nothing but what it is told wakes it.
    ear.until_ever(|ear| !ear.heard().is_empty()).await;
    ear.is_granted(request.token).await;
    say("holds").unwrap();
    std::future::pending::<()>().await;
}

/// Waits for its turn: told, or by a look when its place or the lease before it may be over. Who
/// comes too late for the lease that it was handed takes a new place.
async fn turn(store: &SqliteStore, ear: &Ear, request: &mut AcquireRequest) {
    loop {
        let heard = ear.heard().len();
        let left = match store.acquire(request, soon()).await.unwrap().answer {
            Acquired::Granted(_) => {
                let batch = [RenewRequest::new(request.names.clone(), request.token, request.ttl)];
                match store.renew(&batch, soon()).await.unwrap().answer[..] {
                    [Renewed::Extended { .. }] => return,
                    _ => continue,
                }
            }
            Acquired::Queued(queued) => queued.busy.holder.remaining.unwrap_or_default(),
            Acquired::Refused(Refusal::TokenRetired) => {
                request.token = rt::fresh_token();
                continue;
            }
            other => panic!("{other:?}"),
        };
        let _ = rt::timeout(left, ear.until_ever(|ear| ear.heard().len() > heard)).await;
    }
}

/// Adds one to a number in a file so often, each time when its turn comes.
async fn take_turns(store: &SqliteStore, folder: &Path, rounds: usize) {
    let number = folder.join("number");
    let (ear, subscription) = Ear::listening(store).await;
    for _ in 0..rounds {
        let mut request = waiting("turns", Some(subscription.listener));
        turn(store, &ear, &mut request).await;
        let before: usize = fs::read_to_string(&number).unwrap().parse().unwrap();
        rt::yield_now().await;
        fs::write(&number, (before + 1).to_string()).unwrap();
        give_back(store, request.names, request.token).await.unwrap();
    }
}

/// Waits, holds and gives back for ever.
async fn churn_in_line(store: &SqliteStore) {
    let (ear, subscription) = Ear::listening(store).await;
    loop {
        for lock in ["shared", "other"] {
            let mut request = waiting(lock, Some(subscription.listener));
            // What a waiter costs that is killed at the very moment of its grant; being bound, it
            // costs nothing when somebody looks.
            request.place.as_mut().unwrap().claim = ttl(200);
            turn(store, &ear, &mut request).await;
            give_back(store, request.names, request.token).await.unwrap();
        }
    }
}

/// On a small disk: what is held is renewed and released while there is no room at all.
async fn fill(store: &SqliteStore) {
    let ballast = file(&PathBuf::from(env::var_os(FOLDER).unwrap())).with_file_name("ballast");
    // The log gets its length, and has started over once.
    for _ in 0..400 {
        let (token, _) = take(store, "held", 60_000).await;
        give_back(store, name("held").into(), token).await.unwrap();
    }
    let (token, _) = take(store, "held", 60_000).await;
    let full = std::io::copy(&mut std::io::repeat(1), &mut fs::File::create(&ballast).unwrap());
    assert_eq!(full.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    for _ in 0..2_000 {
        let batch = [RenewRequest::new(name("held"), token, ttl(60_000))];
        let answer = store.renew(&batch, soon()).await.unwrap().answer;
        assert!(matches!(answer[..], [Renewed::Extended { .. }]));
    }
    give_back(store, name("held").into(), token).await.unwrap();
    // New names are refused at some time, and then nothing of them is there.
    let mut held = Vec::new();
    let refused = loop {
        let lock = name(&format!("{:0>400}", held.len()));
        let request = AcquireRequest::new(lock, rt::fresh_token(), ttl(60_000));
        match store.acquire(&request, soon()).await {
            Ok(_) => held.push(request),
            Err(error) => break error,
        }
        assert!(held.len() < 100_000);
    };
    assert_eq!((refused.kind(), refused.outcome()), (StoreErrorKind::Full, Outcome::NotDone));
    assert_eq!(store.list(&ListRequest::new("0"), soon()).await.unwrap().answer.next, None);
    fs::remove_file(&ballast).unwrap();
    for request in held {
        give_back(store, request.names, request.token).await.unwrap();
    }
    let _ = take(store, &"again".repeat(90), 1_000).await;
}

async fn give_back(store: &SqliteStore, names: Names, token: Token) -> Result<(), StoreError> {
    let request = ReleaseRequest::new(names, token);
    assert_eq!(store.release(&request, soon()).await?.answer, Released::Held);
    Ok(())
}

#[test]
fn eight_processes_that_read_add_one_and_write_count_exactly() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("number"), "0").unwrap();
    end_well((0..8).map(|_| start("count", folder.path())).collect());
    let number = fs::read_to_string(folder.path().join("number")).unwrap();
    assert_eq!(number, (8 * times(40, 2_000)).to_string());
}

#[test]
fn eight_processes_that_take_turns_count_exactly() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("number"), "0").unwrap();
    end_well((0..8).map(|_| start("turns", folder.path())).collect());
    let number = fs::read_to_string(folder.path().join("number")).unwrap();
    assert_eq!(number, (8 * times(40, 2_000)).to_string());
    let sockets = fs::read_dir(folder.path().join("new/locks.db.wake")).unwrap();
    assert_eq!(sockets.count(), 0, "they went with their subscriptions");
}

/// Waits for a sign that a process gives.
fn patiently(what: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < patience);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn says(folder: &Path, what: &str, child: &Child) -> bool {
    folder.join(format!("{what}-{}", child.id())).exists()
}

/// Starts processes that wait for "x", one after the other.
fn start_line(folder: &Path, roles: &[&str]) -> Vec<Child> {
    roles
        .iter()
        .map(|role| {
            let child = start(role, folder);
            patiently(|| says(folder, "waits", &child));
            child
        })
        .collect()
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Goal: killed waiters cost no delay. Method: the first, second and fourth of five are killed
/// while they wait, some of them known by their process, some only by their socket; the ttls are far
/// longer than the patience of the test.
#[tokio::test]
async fn killed_waiters_are_passed_over_and_the_next_has_the_lock_at_the_release() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(file(folder.path())).unwrap();
    let (token, _) = take(&store, "x", 600_000).await;
    let roles = ["wait", "wait-unbound", "wait", "wait-unbound", "wait"];
    let mut line = start_line(folder.path(), &roles);
    for index in [0, 1, 3] {
        kill(&mut line[index]);
    }
    give_back(&store, name("x").into(), token).await.unwrap();
    patiently(|| says(folder.path(), "holds", &line[2]));
    let sockets = || fs::read_dir(folder.path().join("new/locks.db.wake")).unwrap().count();
    assert_eq!(sockets(), 2, "of the living");
    // A killed holder: it is found out by whoever looks.
    kill(&mut line[2]);
    let look = common::waits("x", rt::fresh_token(), None);
    assert_eq!(common::queue(&store, &look).await, 1);
    patiently(|| says(folder.path(), "holds", &line[4]));
    kill(&mut line[4]);
    assert_eq!(common::give_back(&store, "x", look.token).await, Released::Withdrawn);
    assert!(is_free(&store, "x").await);
}

/// Goal: waiting asks nothing, of the file or otherwise. Method: what the kernel counts of eight
/// processes while they wait for a lock that is held for a second.
#[tokio::test]
async fn processes_in_a_line_sleep_until_they_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(file(folder.path())).unwrap();
    let (token, _) = take(&store, "x", 600_000).await;
    let mut line = start_line(folder.path(), &["wait"; 8]);
    let wakes = |child: &Child| -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
        let count = |task: fs::DirEntry| -> u64 {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let lines = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
            lines
                .filter(|(kind, _)| *kind == "voluntary_")
                .map(|(_, count)| count.trim().parse::<u64>().unwrap())
                .sum()
        };
        tasks.map(Result::unwrap).map(count).sum()
    };
    // The last one may just be going to sleep.
    rt::sleep(Duration::from_millis(200)).await;
    let before: Vec<u64> = line.iter().map(wakes).collect();
    let log = || fs::metadata(file(folder.path()).with_file_name("locks.db-wal")).unwrap().len();
    let log_before = log();
    rt::sleep(Duration::from_secs(1)).await;
    let woken: Vec<u64> =
        line.iter().map(wakes).zip(&before).map(|(after, before)| after - before).collect();
    assert!(woken.iter().all(|&count| count <= 3), "{woken:?}");
    assert_eq!(log(), log_before);
    give_back(&store, name("x").into(), token).await.unwrap();
    patiently(|| says(folder.path(), "holds", &line[0]));
    line.iter_mut().for_each(kill);
}

#[test]
fn processes_killed_in_lines_at_any_instant_leave_a_sound_file_and_free_locks() {
    let folder = tempfile::tempdir().unwrap();
    let mut children: Vec<_> = (0..6).map(|_| start("line", folder.path())).collect();
    let end = Instant::now() + Duration::from_secs(times(3, 120) as u64);
    let mut kills = 0;
    while Instant::now() < end {
        let pause = Duration::from_micros(u64::from(rt::chance() % 30_000));
        std::thread::sleep(pause);
        let index = rt::chance() as usize % children.len();
        kill(&mut children[index]);
        children[index] = start("line", folder.path());
        kills += 1;
    }
    children.iter_mut().for_each(kill);
    assert!(kills > 20, "{kills}");
    let path = file(folder.path());
    rt::block_on(async {
        let store = SqliteStore::open(&path).unwrap();
        let (ear, subscription) = Ear::listening(&store).await;
        for lock in ["shared", "other"] {
            // Whatever they left behind, all of it is bound to processes that are gone.
            let mut request = waiting(lock, Some(subscription.listener));
            turn(&store, &ear, &mut request).await;
            give_back(&store, request.names, request.token).await.unwrap();
        }
    });
    assert_eq!(integrity(&path), "ok");
    let count =
        |question: &str| -> i64 { bare(&path).query_row(question, [], |row| row.get(0)).unwrap() };
    assert_eq!(count("SELECT count(*) FROM place"), 0);
    assert_eq!(count("SELECT sum(waiting) FROM lock"), 0);
    assert!(
        count("SELECT count(*) FROM lock WHERE fencing_token NOTNULL") > 0,
        "they got somewhere"
    );
}

#[test]
fn processes_that_open_a_new_file_at_once_all_succeed() {
    for round in 0..times(6, 300) {
        let folder = tempfile::tempdir().unwrap();
        if round % 2 == 1 {
            // An empty file is laid out in place.
            fs::create_dir(folder.path().join("new")).unwrap();
            fs::write(file(folder.path()), "").unwrap();
        }
        let mut children: Vec<_> = (0..8).map(|_| start("open", folder.path())).collect();
        for child in &mut children {
            drop(child.stdin.take());
        }
        end_well(children);
        let path = file(folder.path());
        assert_eq!(integrity(&path), "ok");
        let held: i64 = bare(&path)
            .query_row("SELECT count(*) FROM lock WHERE held", [], |row| row.get(0))
            .unwrap();
        assert_eq!(held, 1);
    }
}

#[test]
fn processes_killed_at_any_instant_leave_a_sound_file_and_free_locks() {
    let folder = tempfile::tempdir().unwrap();
    let mut children: Vec<_> = (0..6).map(|_| start("churn", folder.path())).collect();
    let end = Instant::now() + Duration::from_secs(times(3, 120) as u64);
    let mut kills = 0;
    while Instant::now() < end {
        // The pause is part of what is tested: another one each time.
        let pause = Duration::from_micros(u64::from(rt::chance() % 30_000));
        std::thread::sleep(pause);
        let index = rt::chance() as usize % children.len();
        children[index].kill().unwrap();
        children[index].wait().unwrap();
        children[index] = start("churn", folder.path());
        kills += 1;
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(kills > 20, "{kills}");
    let path = file(folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(&path).unwrap();
        assert!(is_free(&store, "shared").await);
        let page = store.list(&ListRequest::new(""), soon()).await.unwrap();
        assert_eq!(page.answer.locks, [], "all were bound to processes that are gone");
    });
    assert_eq!(integrity(&path), "ok");
}

#[tokio::test]
async fn a_killed_holder_is_gone_at_once_where_bound_and_after_its_ttl_where_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = start("hold", folder.path());
    let patience = Instant::now() + Duration::from_secs(20);
    while !folder.path().join("held").exists() {
        assert!(Instant::now() < patience);
        rt::sleep(Duration::from_millis(2)).await;
    }
    let store = SqliteStore::open(file(folder.path())).unwrap();
    assert!(!is_free(&store, "bound").await, "its process lives");
    child.kill().unwrap();
    // Not reaped: a zombie is gone too.
    while process::presence(process::find(child.id()).unwrap()) != process::Presence::Gone {
        assert!(Instant::now() < patience);
        rt::sleep(Duration::from_millis(1)).await;
    }
    assert!(is_free(&store, "bound").await);
    let killed = Clock::Monotonic.now();
    while !is_free(&store, "unbound").await {
        assert!(Instant::now() < patience);
        rt::sleep(Duration::from_millis(10)).await;
    }
    assert!(Clock::Monotonic.now().saturating_since(killed) < Duration::from_millis(1_200));
    child.wait().unwrap();
}

/// On a file system of 4 MiB of its own; with user namespaces this needs no rights.
#[test]
fn a_full_disk_refuses_new_names_only_and_the_store_works_on() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mkdir new && mount -t tmpfs -o size=4m none new && exec \"$0\" \"$@\"";
    let unshare = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--"]).args(arguments);
        command.current_dir(folder.path());
        command
    };
    if !unshare(&["true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: this machine gives no mount namespace");
        return;
    }
    let test = env::current_exe().unwrap();
    let status = unshare(&["sh", "-c", script])
        .arg(test)
        .args(["--exact", "as_a_child", "--ignored", "--nocapture"])
        .env(ROLE, "full")
        .env(FOLDER, folder.path())
        .status()
        .unwrap();
    assert!(status.success());
}
