//! Redisson on a cluster: there it tells and hears by the channels of slots.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use fencelock::{Attempt, Client, Released, Renew, blocking};
use fencelock_interop::{
    driver::{Answer, Driver},
    peers::{Built, PEERS, Peer},
};
use fencelock_testkit::{RedisCluster, eventually};

/// So long that nobody who waits for it was woken by its end.
const LONG: Duration = Duration::from_secs(300);
const LIMIT: Duration = Duration::from_secs(60);
/// In slots of all three primaries.
const NAMES: [&str; 6] = ["a", "b", "c", "order:1", "order:2", "{tag}x"];

/// One cluster, with both sides on it.
struct Stage {
    peer: &'static Peer,
    cluster: RedisCluster,
    locks: blocking::Client,
}

impl Stage {
    /// Nothing where there is no Java, which is printed.
    fn set(name: &str) -> Option<Self> {
        let peer = PEERS.iter().find(|peer| peer.name == name).expect("a row");
        if let Built::Skipped(why) = peer.build() {
            eprintln!("{name}: SKIPPED: {why}");
            return None;
        }
        let cluster = RedisCluster::start();
        let builder = Client::builder(cluster.url()).dialect(peer.dialect);
        let locks = builder.build_blocking().expect("a client");
        Some(Self { peer, cluster, locks })
    }

    fn driver(&self) -> Driver {
        let url = format!("redis://{}/", self.cluster.servers()[0].addr());
        Driver::start_with(self.peer, &url, &["cluster=yes"])
    }

    fn mutex(&self, name: &str) -> blocking::Mutex {
        self.locks.mutex(name).ttl(LONG).wait(LIMIT).renewal(Renew::Manual)
    }

    /// How many listen to the channel of a lock, by its slot.
    fn listeners(&self, channel: &str) -> u64 {
        let ask = |server: &fencelock_testkit::RedisServer| {
            let mut question = redis::cmd("PUBSUB");
            question.arg("SHARDNUMSUB").arg(channel);
            let (_, count): (String, u64) =
                question.query(&mut server.connect()).expect("the server counts");
            count
        };
        self.cluster.servers().iter().map(ask).sum()
    }
}

fn done(driver: &mut Driver, command: &str) -> String {
    match driver.ask(command) {
        Answer::Done(text) => text,
        other => panic!("{command}: {other:?}"),
    }
}

fn acquire(name: &str, wait: Duration) -> String {
    format!("acquire {name} {} {}", LONG.as_millis(), wait.as_millis())
}

fn channel(name: &str) -> String {
    match name.contains('{') {
        true => format!("redisson_lock__channel:{name}"),
        false => format!("redisson_lock__channel:{{{name}}}"),
    }
}

#[test]
fn the_names_are_in_slots_of_all_primaries() {
    let cluster = RedisCluster::start();
    let primary = |name: &&str| cluster.primary(cluster.slot(name.as_bytes()));
    let mut primaries: Vec<_> = NAMES.iter().map(primary).collect();
    primaries.sort_unstable();
    primaries.dedup();
    assert_eq!(primaries, [0, 1, 2]);
}

/// Goal: on whichever primary a lock is, both sides keep each other out, agree on its end, and wake each other
/// by its channel. Method: the leases end long after the limits of those who wait, who ask no more before that.
#[test]
fn both_sides_exclude_and_wake_each_other_in_every_slot() {
    let Some(stage) = Stage::set("Redisson, lock") else { return };
    let (mut theirs, mut others) = (stage.driver(), stage.driver());
    for name in NAMES {
        let _ = done(&mut theirs, &acquire(name, Duration::ZERO));
        let Attempt::Busy(busy) = stage.mutex(name).try_lock().expect("it answers") else {
            panic!("they hold {name}")
        };
        let left = busy.holder.remaining.expect("it ends");
        assert!(left <= LONG && left > LONG / 2, "{name}: {left:?}");
        let ours = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| (stage.mutex(name).lock(), Instant::now()));
            eventually(LIMIT, "we listen", || stage.listeners(&channel(name)) == 1);
            let released = Instant::now();
            let _ = done(&mut theirs, "release");
            let (guard, at) = waiter.join().expect("no panic");
            println!("{name}: we were woken in {:?}", at.saturating_duration_since(released));
            guard.expect("they gave it back")
        });

        let answer = theirs.ask(&acquire(name, Duration::ZERO));
        assert!(matches!(answer, Answer::Busy), "{name}: {answer:?}");
        others.send(&acquire(name, LIMIT));
        // Ours may still listen: channels are kept for a while.
        let before = stage.listeners(&channel(name));
        eventually(LIMIT, "they listen", || stage.listeners(&channel(name)) > before.min(1));
        assert_eq!(ours.release(), Released::Held);
        let answer = others.answer();
        assert!(answer.is_done(), "{name}: {answer:?}");
        let _ = done(&mut others, "release");
        let free = stage.mutex(name).try_lock().expect("it answers").granted();
        assert_eq!(free.expect("nobody has it").release(), Released::Held);
    }
}

#[test]
fn rounds_on_a_cluster_never_overlap() {
    const ROUNDS: usize = 100;
    let Some(stage) = Stage::set("Redisson, lock") else { return };
    let is_inside = AtomicBool::new(false);
    let enter = || assert!(!is_inside.swap(true, Ordering::SeqCst), "both are inside");
    let leave = || is_inside.store(false, Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut theirs = stage.driver();
            for _ in 0..ROUNDS {
                let _ = done(&mut theirs, &acquire("a", LIMIT));
                enter();
                leave();
                let _ = done(&mut theirs, "release");
            }
        });
        for _ in 0..ROUNDS {
            let guard = stage.mutex("a").lock().expect("they give it back");
            enter();
            leave();
            assert_eq!(guard.release(), Released::Held);
        }
    });
}
