//! Four processes with sixteen tasks each contend for one lock, and are killed and frozen; the
//! server is made to forget who listens and what its scripts are. A witness stands by.
//!
//! ```text
//!   task:    lock -> door open? -> still valid? -> [ witness: write the fencing token ] -> release
//!   parent:  "pause" shuts the door; when nobody is inside, the process is frozen for any time
//! ```
//! No lease protects from a process that is frozen *inside*: that is what fencing tokens are for.
//! So nobody is frozen there, and the guard must know the truth when the process goes on. Who found
//! after its section that validity had ended (on a starved machine) writes that down, and as many
//! overlaps are excused.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fencelock::Client;
use fencelock_testkit::{RedisServer, Witness, eventually};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

use crate::{
    child::{Child, LIMIT},
    driver::{ordered, tell},
};

const PROCESSES: usize = 4;
const TASKS: u64 = 16;
const TTL: Duration = Duration::from_secs(1);
/// Enough for the section of a task on a machine that is not starved.
const ENOUGH: Duration = Duration::from_millis(200);
const MODES: [&str; 4] = ["default", "strict", "default", "barging"];

/// The contenders of a process.
#[derive(Default)]
pub(crate) struct Contention {
    door: Arc<RwLock<()>>,
    shut: Arc<Mutex<Option<OwnedRwLockWriteGuard<()>>>>,
    over: Arc<AtomicBool>,
    grants: Arc<AtomicU64>,
    tasks: Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

impl Contention {
    pub(crate) fn begin(
        &self,
        client: &Client,
        count: u64,
        name: &str,
        ttl: Duration,
        folder: &Path,
    ) {
        let witness = Witness::in_directory(folder);
        let mut tasks = self.tasks.lock().unwrap();
        for (task, mode) in (0..count).zip(MODES.into_iter().cycle()) {
            let mutex = ordered(client.mutex(name).ttl(ttl), mode);
            let (door, over) = (Arc::clone(&self.door), Arc::clone(&self.over));
            let (grants, witness) = (Arc::clone(&self.grants), witness.clone());
            tasks.push(tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let guard = match mutex.lock().await {
                        Ok(guard) => guard,
                        Err(error) => {
                            tell("failed", mode, &error);
                            continue;
                        }
                    };
                    grants.fetch_add(1, Ordering::Relaxed);
                    {
                        let _open = door.read().await;
                        if guard.validity_left() > ENOUGH {
                            work(&witness, mode, &guard);
                        }
                    }
                    if task % 5 == 4 {
                        drop(guard);
                    } else {
                        guard.release().await;
                    }
                }
            }));
        }
    }

    /// Nobody is inside when this is answered, and nobody gets in.
    pub(crate) fn pause(&self, n: &str) {
        let (door, shut, n) = (Arc::clone(&self.door), Arc::clone(&self.shut), n.to_owned());
        tokio::spawn(async move {
            let guard = door.write_owned().await;
            *shut.lock().unwrap() = Some(guard);
            tell("pause", &n, "");
        });
    }

    pub(crate) fn resume(&self, n: &str) {
        drop(self.shut.lock().unwrap().take());
        tell("resume", n, "");
    }

    /// Answered when every task has had the lock it was waiting for.
    pub(crate) fn stop(&self, n: &str) {
        self.over.store(true, Ordering::Relaxed);
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap());
        let (n, grants) = (n.to_owned(), Arc::clone(&self.grants));
        tokio::spawn(async move {
            for task in tasks {
                task.await.expect("no task panics");
            }
            tell("stop", &n, grants.load(Ordering::Relaxed));
        });
    }
}

fn work(witness: &Witness, mode: &str, guard: &fencelock::Guard) {
    if let Ok(inside) = witness.enter(mode) {
        let token = guard.fencing_token().expect("native locks have one");
        append(&tokens(witness.directory()), &token.to_string());
        drop(inside);
    }
    if !guard.is_valid() {
        append(&late(witness.directory()), mode);
    }
}

fn append(path: &Path, line: &str) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    // In one piece, also when the process is killed.
    file.expect("a file").write_all(format!("{line}\n").as_bytes()).expect("it is written");
}

fn tokens(folder: &Path) -> PathBuf {
    folder.join("tokens")
}

fn late(folder: &Path) -> PathBuf {
    folder.join("late")
}

fn start(url: &str, folder: &Path) -> Child {
    let mut child = Child::plain(url);
    let ttl = TTL.as_millis();
    child.say(format_args!("contend {TASKS} job {ttl} {}", folder.display()));
    child
}

#[test]
fn processes_that_are_killed_and_frozen_never_overlap_and_tokens_grow() {
    let seed = std::env::var("FENCELOCK_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut random = Random(seed.unwrap_or_else(crate::driver::now));
    println!("FENCELOCK_SEED={}", random.0);
    let is_soak = std::env::var_os("FENCELOCK_SOAK").is_some();
    let end = Instant::now() + Duration::from_secs(if is_soak { 120 } else { 5 });
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    let mut children: Vec<Child> =
        (0..PROCESSES).map(|_| start(&server.url(), folder.path())).collect();
    let mut done = [0_u32; 5];
    while Instant::now() < end {
        // Each of them at least once.
        let total: u32 = done.iter().sum();
        let what = if total < 5 { total as usize } else { random.below(5) };
        // Also for longer than a lease, though not each time.
        let longest = if random.below(3) == 0 { 1_500 } else { 300 };
        let child = &mut children[random.below(PROCESSES)];
        match what {
            0 => {
                child.kill();
                *child = start(&server.url(), folder.path());
            }
            1 | 2 => {
                child.ask("pause", "");
                child.freeze();
                std::thread::sleep(Duration::from_millis(50 + random.below(longest) as u64));
                child.thaw();
                child.ask("resume", "");
            }
            3 => {
                server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            }
            _ => {
                server.cli(&["SCRIPT", "FLUSH"]);
            }
        }
        done[what] += 1;
        std::thread::sleep(Duration::from_millis(random.below(150) as u64));
    }
    let mut grants = 0;
    for child in &mut children {
        // To all of them first: who waits may need the others.
        child.say(format_args!("stop last"));
    }
    for child in &children {
        grants += child.wait("stop", "last").rest.parse::<u64>().expect("a number");
        assert!(child.events().iter().all(|event| event.kind != "failed"), "{}", child.shown());
    }
    check(folder.path(), grants, &done);
}

/// The witness can object: here each process has a lock of its own.
#[test]
fn the_witness_notices_when_the_lock_is_none() {
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    let urls = (0..).map(|database| server.url_with_db(database));
    let _children: Vec<Child> =
        urls.take(PROCESSES).map(|url| start(&url, folder.path())).collect();
    let witness = Witness::in_directory(folder.path());
    eventually(LIMIT, "two are inside at once", || !witness.check().overlaps.is_empty());
}

fn check(folder: &Path, grants: u64, done: &[u32; 5]) {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let (verdict, late) =
        (Witness::in_directory(folder).check(), read(late(folder)).lines().count());
    let tokens: Vec<u64> =
        read(tokens(folder)).lines().map(|line| line.parse().expect("a number")).collect();
    let steps_back = tokens.windows(2).filter(|pair| pair[0] >= pair[1]).count();
    println!(
        "{} entries, {grants} grants of those who lived; {} killed, {} frozen, {} times no \
         subscriptions, {} times no scripts; {late} were late, {} overlaps",
        verdict.entries,
        done[0],
        done[1] + done[2],
        done[3],
        done[4],
        verdict.overlaps.len()
    );
    assert!(verdict.entries > 100, "hardly anybody was ever inside");
    assert!(verdict.overlaps.len() <= late, "two were inside at once: {:#?}", verdict.overlaps);
    assert!(steps_back <= late, "a fencing token was not larger than the one before: {tokens:?}");
}

/// Reproducible choices: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).expect("smaller than a usize")
    }
}
