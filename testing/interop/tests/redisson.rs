//! What the matrix can't say of Redisson: holds that are counted, readers beside each other, and one
//! counter of fencing tokens for both sides.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use fencelock::{Attempt, Inspection, Released};
use fencelock_interop::{
    driver::{Answer, Driver},
    peers::{Built, PEERS, Peer},
    stage::Stage,
};
use fencelock_testkit::eventually;

const LEASE: &str = "60000";

/// A stage for one kind of Redisson's locks; nothing where there is no Java, which is printed.
fn stage(name: &str) -> Option<Stage> {
    let peer: &'static Peer = PEERS.iter().find(|peer| peer.name == name).expect("a row");
    match peer.build() {
        Built::Ready => Some(Stage::set(peer)),
        Built::Skipped(why) => {
            eprintln!("{name}: SKIPPED: {why}");
            None
        }
    }
}

fn done(driver: &mut Driver, command: &str) -> String {
    match driver.ask(command) {
        Answer::Done(text) => text,
        other => panic!("{command}: {other:?}"),
    }
}

fn is_free(stage: &Stage, name: &str) -> bool {
    match stage.mutex(name, Duration::from_secs(60)).try_lock().expect("the server answers") {
        Attempt::Granted(guard) => {
            assert_eq!(guard.release(), Released::Held);
            true
        }
        Attempt::Busy(_) => false,
    }
}

#[test]
fn a_lock_that_they_hold_twice_is_free_after_the_second_release() {
    let Some(stage) = stage("Redisson, lock") else { return };
    let mut theirs = stage.driver();
    for _ in 0..2 {
        let _ = done(&mut theirs, &format!("acquire n {LEASE} 0"));
    }
    assert!(!is_free(&stage, "n"));
    let Inspection::Held(holder) = stage.locks().inspect("n").expect("the server answers") else {
        panic!("they hold it");
    };
    assert_eq!(holder.sharing.map(|sharing| sharing.holders), Some(2));
    let _ = done(&mut theirs, "release");
    assert!(!is_free(&stage, "n"));
    let _ = done(&mut theirs, "release");
    assert!(is_free(&stage, "n"));
}

#[test]
fn holds_of_one_owner_of_ours_keep_them_out_until_the_last_is_given_back() {
    let Some(stage) = stage("Redisson, lock") else { return };
    let mut theirs = stage.driver();
    let lock = stage.locks().reentrant("n", "order 42").ttl(Duration::from_secs(60));
    let holds = [(); 2].map(|()| lock.lock().expect("it is ours"));
    for hold in holds {
        let answer = theirs.ask(&format!("acquire n {LEASE} 0"));
        assert!(matches!(answer, Answer::Busy), "{answer:?}");
        assert_eq!(hold.release(), Released::Held);
    }
    let _ = done(&mut theirs, &format!("acquire n {LEASE} 0"));
    let _ = done(&mut theirs, "release");
}

#[test]
fn fencing_tokens_grow_from_one_side_to_the_other() {
    let Some(stage) = stage("Redisson, fenced lock") else { return };
    let mut theirs = stage.driver();
    let ours = || {
        let guard = stage.mutex("n", Duration::from_secs(60)).lock().expect("it is free");
        let token = guard.fencing_token().expect("it is fenced").as_u64();
        assert_eq!(guard.release(), Released::Held);
        token
    };
    for round in 0..3 {
        assert_eq!(ours(), 2 * round + 1);
        let _ = done(&mut theirs, &format!("acquire n {LEASE} 0"));
        let said = done(&mut theirs, "token");
        assert!(said.contains(&(2 * round + 2).to_string()), "round {round}: {said}");
        let _ = done(&mut theirs, "release");
    }
}

const fn semaphore(name: &'static str, kind: &'static str, dialect: &'static str) -> Peer {
    Peer {
        name,
        folder: "redisson",
        kind,
        language: "Java",
        dialect,
        prefix: None,
        key: "NAME",
        wait_ms: 20_000,
        in_small: true,
        not_checked: &[],
    }
}

static PERMITS: Peer = semaphore("Redisson, permits", "permits", "redisson-permits");
static SEMAPHORE: Peer = semaphore("Redisson, semaphore", "semaphore", "redisson-semaphore");

#[test]
fn permits_that_expire_are_counted_together_and_each_side_wakes_the_other() {
    permits_are_counted_together(&PERMITS);
}

#[test]
fn permits_without_an_end_are_counted_together_and_each_side_wakes_the_other() {
    permits_are_counted_together(&SEMAPHORE);
}

fn permits_are_counted_together(peer: &'static Peer) {
    if let Built::Skipped(why) = peer.build() {
        eprintln!("{}: SKIPPED: {why}", peer.name);
        return;
    }
    let stage = Stage::set(peer);
    let mut theirs = stage.driver();
    let permits = stage.locks().semaphore("n", 2).ttl(Duration::from_secs(60));
    // Who comes first says how many there are.
    let ours = permits.acquire().expect("two are free");
    let _ = done(&mut theirs, &format!("acquire n {LEASE} 0"));
    assert!(permits.try_acquire().expect("the server answers").granted().is_none());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| permits.acquire().expect("one becomes free"));
        eventually(Duration::from_secs(60), "our waiter listens", || {
            stage.subscribers("redisson_sc:{n}") == 1
        });
        let _ = done(&mut theirs, "release");
        assert_eq!(waiter.join().expect("no panic").release(), Released::Held);
    });
    let _ = done(&mut theirs, &format!("acquire n {LEASE} 0"));
    let mut second = stage.driver();
    second.send(&format!("acquire n {LEASE} 20000"));
    eventually(Duration::from_secs(60), "their waiter listens", || {
        stage.subscribers("redisson_sc:{n}") == 2
    });
    assert_eq!(ours.release(), Released::Held);
    assert!(second.answer().is_done(), "ours became free");
}

static MULTI: Peer =
    Peer { in_small: true, ..semaphore("Redisson, multi-lock", "multi", "redisson") };

/// Goal: a lock of several of theirs is one set of names of ours, whichever way round.
#[test]
fn a_lock_of_several_is_all_or_nothing_on_both_sides() {
    if let Built::Skipped(why) = MULTI.build() {
        eprintln!("{}: SKIPPED: {why}", MULTI.name);
        return;
    }
    let stage = Stage::set(&MULTI);
    let mut theirs = stage.driver();
    let set = || stage.locks().mutexes(["a", "b"]).ttl(Duration::from_secs(60));
    let _ = done(&mut theirs, &format!("acquire b,c {LEASE} 0"));
    let _ = stage.refused("c");
    assert!(set().try_lock().expect("it answers").granted().is_none());
    assert!(is_free(&stage, "a"), "a refused set has nothing");
    let _ = done(&mut theirs, "release");

    let guard = set().lock().expect("all are free");
    assert!(matches!(theirs.ask(&format!("acquire b,c {LEASE} 0")), Answer::Busy));
    assert!(is_free(&stage, "c"), "theirs has nothing, either");
    theirs.send(&format!("acquire b,c {LEASE} 20000"));
    eventually(Duration::from_secs(60), "their waiter listens", || {
        stage.subscribers("redisson_lock__channel:{b}") == 1
    });
    assert_eq!(guard.release(), Released::Held);
    assert!(theirs.answer().is_done(), "ours became free");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| set().lock().expect("theirs becomes free"));
        eventually(Duration::from_secs(60), "our waiter listens", || {
            stage.subscribers("redisson_lock__channel:{b}") == 1
        });
        let _ = done(&mut theirs, "release");
        assert_eq!(waiter.join().expect("no panic").release(), Released::Held);
    });
}

/// Goal: both ask for overlapping sets at once, and never both have theirs.
#[test]
fn rounds_of_sets_never_overlap() {
    const ROUNDS: usize = 50;
    if let Built::Skipped(why) = MULTI.build() {
        eprintln!("{}: SKIPPED: {why}", MULTI.name);
        return;
    }
    let stage = Stage::set(&MULTI);
    let is_inside = AtomicBool::new(false);
    let visit = || {
        assert!(!is_inside.swap(true, Ordering::SeqCst), "both are inside");
        is_inside.store(false, Ordering::SeqCst);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut theirs = stage.driver();
            for _ in 0..ROUNDS {
                let _ = done(&mut theirs, &format!("acquire c,b {LEASE} 60000"));
                visit();
                let _ = done(&mut theirs, "release");
            }
        });
        for _ in 0..ROUNDS {
            let set = stage.locks().mutexes(["a", "b", "c"]).ttl(Duration::from_secs(60));
            let guard = set.lock().expect("theirs becomes free");
            visit();
            assert_eq!(guard.release(), Released::Held);
        }
    });
}

static LATCH: Peer = semaphore("Redisson, latch", "latch", "redisson-latch");

/// Goal: one latch of both: whoever sets it up and whoever counts, all who wait go on when it opens.
#[test]
fn a_latch_is_counted_down_by_both_sides_and_opens_for_both() {
    const LIMIT: Duration = Duration::from_secs(60);
    if let Built::Skipped(why) = LATCH.build() {
        eprintln!("{}: SKIPPED: {why}", LATCH.name);
        return;
    }
    let stage = Stage::set(&LATCH);
    let (mut theirs, mut others) = (stage.driver(), stage.driver());
    for driver in [&mut theirs, &mut others] {
        let _ = done(driver, "name n");
    }
    let ours = || stage.locks().latch("n", 3).wait_limit(LIMIT);
    for they_set_it_up in [true, false] {
        if they_set_it_up {
            let _ = done(&mut theirs, "count 3");
            assert!(!ours().set_up().expect("it answers"), "it was shut before");
        } else {
            assert!(ours().set_up().expect("it answers"));
            assert!(matches!(theirs.ask("count 3"), Answer::Busy));
        }
        assert_eq!(ours().remaining().expect("it answers"), 3);
        others.send("await 60000");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| ours().wait());
            eventually(LIMIT, "both sides listen", || {
                stage.subscribers("redisson_countdownlatch__channel__{n}") == 2
            });
            ours().count_down_as("one").expect("it is counted");
            ours().count_down_as("one").expect("once");
            let _ = done(&mut theirs, "countdown");
            assert_eq!(ours().remaining().expect("it answers"), 1);
            assert_eq!(done(&mut theirs, "get"), "1");
            if they_set_it_up {
                let _ = done(&mut theirs, "countdown");
            } else {
                ours().count_down().expect("it is counted");
            }
            waiter.join().expect("no panic").expect("it is open");
        });
        assert!(others.answer().is_done(), "it is open for theirs");
        assert_eq!(ours().remaining().expect("it answers"), 0);
        ours().wait().expect("it stays open");
    }
}

/// Method: their release of a read lock looks at the leases of all readers, and drops the hash where it
/// finds none.
#[test]
fn readers_of_both_sides_are_beside_each_other_and_a_release_of_theirs_leaves_ours() {
    let Some(stage) = stage("Redisson, write lock") else { return };
    let (mut theirs, mut others) = (stage.driver(), stage.driver());
    let lock = stage.locks().rwlock("n").ttl(Duration::from_secs(60));
    let _ = done(&mut theirs, "as read");
    let _ = done(&mut theirs, &format!("acquire n {LEASE} 0"));
    let guard = lock.read().expect("they read, too");
    assert!(lock.try_write().expect("the server answers").granted().is_none());
    let _ = done(&mut theirs, "release");
    let answer = others.ask(&format!("acquire n {LEASE} 0"));
    assert!(matches!(answer, Answer::Busy), "we read: {answer:?}");
    assert_eq!(guard.release(), Released::Held);
    let _ = done(&mut others, &format!("acquire n {LEASE} 0"));
    assert!(lock.try_read().expect("the server answers").granted().is_none(), "they write");
    let _ = done(&mut others, "release");
    assert!(lock.try_read().expect("the server answers").granted().is_some());
}
