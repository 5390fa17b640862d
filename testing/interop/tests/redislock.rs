//! What the matrix can't say of redislock: leases that go from one side to the other, and sets of keys.

use std::time::Duration;

use fencelock::{LockName, Names, Released, Token};
use fencelock_interop::{
    driver::{Answer, Driver},
    peers::{Built, PEERS, Peer},
    stage::Stage,
};

const LEASE: &str = "60000";
const TTL: Duration = Duration::from_secs(60);

/// A stage with the Go library; nothing where there is no Go, which is printed.
fn stage() -> Option<Stage> {
    let peer: &'static Peer = PEERS.iter().find(|peer| peer.name == "redislock").expect("a row");
    match peer.build() {
        Built::Ready => Some(Stage::set(peer)),
        Built::Skipped(why) => {
            eprintln!("redislock: SKIPPED: {why}");
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

/// The text of a token that a driver told in hex.
fn text(hex: &str) -> String {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    String::from_utf8((0..hex.len()).step_by(2).map(byte).collect()).expect("base64")
}

fn only(name: &str) -> Names {
    Names::one(LockName::new(name).expect("a name"))
}

/// Goal: a lease of a Go service goes on in ours, with other metadata, and its old owner is late.
#[test]
fn a_lease_of_theirs_is_taken_over_by_its_token() {
    let Some(stage) = stage() else { return };
    let mut theirs = stage.driver();
    let _ = done(&mut theirs, "with - theirs");
    let hex = done(&mut theirs, &format!("acquire n {LEASE} 0"));
    let shown = stage.refused("n").holder;
    assert!(shown.remaining.is_some_and(|left| left <= TTL));
    let token = Token::from_base64url(&text(&hex)).expect("a token of 16 bytes");
    let guard = stage.locks().lease(only("n"), token).adopt(TTL).expect("it is theirs to give");
    for late in ["extend 60000", "release"] {
        let answer = theirs.ask(late);
        assert!(matches!(answer, Answer::Expired), "{late}: {answer:?}");
    }
    assert!(guard.is_valid());
    assert_eq!(guard.release(), Released::Held);
}

/// The other way round: by the same token with new metadata, as `Obtain` with a token does.
#[test]
fn a_lease_of_ours_is_taken_over_by_its_token() {
    let Some(stage) = stage() else { return };
    let mut theirs = stage.driver();
    let guard = stage.mutex("n", TTL).lock().expect("it is free");
    let ticket = guard.detach().expect("it is ours to give");
    assert!(matches!(theirs.ask(&format!("acquire n {LEASE} 0")), Answer::Busy));
    let _ = done(&mut theirs, &format!("with {} theirs", ticket.token().reveal_base64url()));
    let _ = done(&mut theirs, &format!("acquire n {LEASE} 0"));
    let _ = done(&mut theirs, "extend 60000");
    let _ = done(&mut theirs, "release");
    assert!(stage.mutex("n", TTL).try_lock().expect("it answers").granted().is_some());
}

#[test]
fn sets_of_keys_are_all_or_nothing_on_both_sides() {
    let Some(stage) = stage() else { return };
    let mut theirs = stage.driver();
    let set = || stage.locks().mutexes(["a", "b"]).ttl(TTL);
    let _ = done(&mut theirs, &format!("acquire b,c {LEASE} 0"));
    let _ = stage.refused("c");
    assert!(set().try_lock().expect("it answers").granted().is_none());
    let a = stage.mutex("a", TTL).try_lock().expect("it answers").granted().expect("it is free");
    assert_eq!(a.release(), Released::Held);
    let _ = done(&mut theirs, "release");
    let guard = set().lock().expect("all are free");
    assert!(matches!(theirs.ask(&format!("acquire b,c {LEASE} 0")), Answer::Busy));
    let c = stage.mutex("c", TTL).try_lock().expect("it answers").granted().expect("it is free");
    assert_eq!((c.release(), guard.release()), (Released::Held, Released::Held));
    let _ = done(&mut theirs, &format!("acquire b,c {LEASE} 0"));
}
