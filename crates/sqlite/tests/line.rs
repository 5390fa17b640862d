//! Lines in a file: who is passed over, what a lease is bound to that was handed over, and how its
//! waiter hears of it.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixDatagram},
    path::{Path, PathBuf},
    time::Duration,
};

use common::{Ear, acquire, bare, give_back, is_free, manual, queue, take, waits};
use fencelock_core::{
    AcquireRequest, Acquired, Binding, InspectRequest, Inspection, ListenerId, Moment, Names,
    ProcessId, Released, Retain, RevokeRequest, Revoked, Token, Wakeup,
};
use fencelock_sqlite::{SqliteStore, Surroundings, process::Presence};
use fencelock_store::{
    Capabilities, ManualClock, Outcome, Store, StoreErrorKind, Subscription, rt,
};

struct Place {
    folder: tempfile::TempDir,
    clock: ManualClock,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), clock: ManualClock::new() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    fn store(&self) -> SqliteStore {
        manual(&self.path(), &self.clock)
    }

    fn seen_from(&self, surroundings: Surroundings) -> SqliteStore {
        let builder = SqliteStore::builder(self.path()).manual(self.clock.clone());
        builder.surroundings(surroundings).build().unwrap()
    }

    fn number(&self, question: &str) -> i64 {
        bare(&self.path()).query_row(question, [], |row| row.get(0)).unwrap()
    }
}

fn socket(database: &Path, listener: ListenerId) -> PathBuf {
    wake_folder(database).join(listener.to_string())
}

fn wake_folder(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".wake");
    path.into()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

async fn is_held_by(store: &SqliteStore, lock: &str, token: Token) -> bool {
    let request = InspectRequest::new(common::name(lock));
    match store.inspect(&request, Moment::NEVER).await.unwrap().answer {
        Inspection::Held(holder) => holder.proof == Some(token.into()),
        _ => false,
    }
}

async fn waiting(store: &SqliteStore, lock: &str) -> u32 {
    let request = InspectRequest::new(common::name(lock));
    match store.inspect(&request, Moment::NEVER).await.unwrap().answer {
        Inspection::Held(holder) => holder.waiting,
        other => panic!("{other:?}"),
    }
}

/// A listener of somebody who is told, and will not be looked at.
async fn somebody(store: &SqliteStore) -> (Subscription, ListenerId) {
    let (_, subscription) = Ear::listening(store).await;
    let listener = subscription.listener;
    (subscription, listener)
}

#[tokio::test]
async fn it_can_do_all_of_it() {
    let can: Capabilities = Place::new().store().capabilities();
    assert!(can.queue && can.wakeups && can.binding);
}

#[tokio::test]
async fn a_waiter_is_told_what_stands_in_the_file() {
    let place = Place::new();
    let (holder, other) = (place.store(), place.store());
    let (ear, subscription) = Ear::listening(&other).await;
    let (first, grant) = take(&holder, "x", 60_000).await;
    let mut request = waits("x", rt::fresh_token(), Some(subscription.listener));
    request.reserve = 3;
    assert_eq!(queue(&other, &request).await, 1);
    assert_eq!(queue(&other, &waits("x", rt::fresh_token(), None)).await, 2);
    place.clock.advance(Duration::from_secs(5));
    let asked = other.store_now().lease;
    assert_eq!(queue(&other, &request).await, 1, "the place is kept");
    place.clock.advance(Duration::from_secs(1));
    assert_eq!(give_back(&holder, "x", first).await, Released::Held);
    let hand_off = ear.is_granted(request.token).await;
    assert_eq!((hand_off.seen, hand_off.at), (asked, other.store_now().lease));
    assert_eq!((hand_off.claim, hand_off.waiting), (Duration::from_secs(10), 1));
    let fence = hand_off.fencing_token.unwrap();
    assert!(Some(fence) > grant.fence.token());
    assert_eq!(hand_off.last_fence, fence.plus(3));
    assert!(is_held_by(&holder, "x", request.token).await);
    match acquire(&other, &request).await.unwrap() {
        Acquired::Granted(grant) => assert_eq!(grant.fence.token(), Some(fence)),
        answer => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn a_holder_hears_of_waiters_and_of_a_wish_to_have_it_back() {
    let place = Place::new();
    let store = place.store();
    let (ear, subscription) = Ear::listening(&store).await;
    let token = rt::fresh_token();
    let mut request = AcquireRequest::new(common::name("x"), token, common::ttl(60_000));
    request.listener = Some(subscription.listener);
    let answer = acquire(&store, &request).await.unwrap();
    assert!(matches!(answer, Acquired::Granted(_)));
    let other = place.store();
    assert_eq!(queue(&other, &waits("x", rt::fresh_token(), None)).await, 1);
    let revoke = RevokeRequest::new(common::name("x"));
    let answer = other.revoke(&revoke, Moment::NEVER).await.unwrap().answer;
    assert!(matches!(answer, Revoked::Requested(_)), "{answer:?}");
    ear.hears_all(&[Wakeup::Waiting(token), Wakeup::Revoked(token)]).await;
}

#[tokio::test]
async fn a_waiter_whose_processes_are_gone_is_passed_over_at_once() {
    let place = Place::new();
    let (there, _) = somebody(&place.store()).await;
    let bound = |pid| Binding::Processes(vec![ProcessId { pid, started: 5 }]);
    let here = || Surroundings::made_up([1; 16]);
    let gone = || {
        here().processes(|process| match process.pid {
            10 => Presence::Gone,
            _ => Presence::PerhapsAlive,
        })
    };
    for (surroundings, passed_over) in [
        (gone(), true),
        (here(), false),
        (gone().pid_namespace(Some(2)), false),
        (gone().time_namespace(2), false),
    ] {
        let text = format!("{surroundings:?}");
        let before = place.seen_from(here());
        let (first, _) = take(&before, "x", 60_000).await;
        let [second, third] = [10, 11].map(|pid| {
            let mut request = waits("x", rt::fresh_token(), Some(there.listener));
            request.binding = bound(pid);
            request
        });
        assert_eq!(queue(&before, &second).await, 1);
        assert_eq!(queue(&before, &third).await, 2);
        let store = place.seen_from(surroundings);
        assert_eq!(give_back(&store, "x", first).await, Released::Held);
        let next = if passed_over { &third } else { &second };
        assert!(is_held_by(&store, "x", next.token).await, "{text}");
        for request in [&second, &third] {
            let _ = give_back(&store, "x", request.token).await;
        }
        assert_eq!(place.number("SELECT count(*) FROM place"), 0, "{text}");
        assert_eq!(place.number("SELECT waiting FROM lock"), 0, "{text}");
    }
}

#[tokio::test]
async fn a_lease_that_was_handed_over_is_bound_to_its_waiter() {
    let place = Place::new();
    let here = || Surroundings::made_up([1; 16]);
    let store = place.seen_from(here());
    let (there, _) = somebody(&store).await;
    let mut first = AcquireRequest::new(common::name("x"), rt::fresh_token(), common::ttl(60_000));
    first.binding = Binding::Processes(vec![ProcessId { pid: 9, started: 5 }]);
    let _ = acquire(&store, &first).await.unwrap();
    let mut bound = waits("x", rt::fresh_token(), Some(there.listener));
    bound.binding = Binding::Processes(vec![ProcessId { pid: 10, started: 5 }]);
    let unbound = waits("x", rt::fresh_token(), Some(there.listener));
    queue(&store, &bound).await;
    queue(&store, &unbound).await;
    let only = |pid: u32| {
        let view = move |process: ProcessId| {
            if process.pid == pid { Presence::Gone } else { Presence::PerhapsAlive }
        };
        place.seen_from(here().processes(view))
    };
    let _ = give_back(&store, "x", first.token).await;
    assert!(is_held_by(&only(9), "x", bound.token).await, "the one before may be gone");
    assert!(!is_held_by(&only(10), "x", bound.token).await, "it ended with its process");
    assert!(!is_free(&only(10), "x").await, "and whoever looks hands it on");
    assert!(is_held_by(&only(10), "x", unbound.token).await);
    assert_eq!(place.number("SELECT count(*) FROM lock WHERE processes IS NULL"), 1);
}

#[tokio::test]
async fn waiters_of_another_boot_are_gone_and_those_of_another_time_namespace_are_not() {
    let place = Place::new();
    let here = || Surroundings::made_up([1; 16]);
    let (there, _) = somebody(&place.store()).await;
    for (elsewhere, gone) in [(here().boot([2; 16]), true), (here().time_namespace(2), false)] {
        let (first, _) = take(&place.seen_from(here()), "x", 60_000).await;
        let mut request = waits("x", rt::fresh_token(), Some(there.listener));
        request.place.as_mut().unwrap().live = Duration::from_secs(10);
        queue(&place.seen_from(here()), &request).await;
        // A lease clock that shows something else altogether.
        let shift = "UPDATE place SET seen_us = CASE WHEN seen_us = 0 THEN 1 ELSE 0 END";
        bare(&place.path()).execute(shift, []).unwrap();
        place.clock.advance(Duration::from_secs(10));
        let after = place.seen_from(elsewhere);
        assert_eq!(give_back(&after, "x", first).await, Released::Held);
        assert_eq!(is_held_by(&after, "x", request.token).await, !gone);
        assert_eq!(place.number("SELECT count(*) FROM place"), 0);
        let _ = give_back(&after, "x", request.token).await;
    }
}

#[tokio::test]
async fn in_a_copy_of_the_file_nobody_waits_and_nobody_of_the_original_is_told() {
    let place = Place::new();
    let store = place.store();
    let (ear, subscription) = Ear::listening(&store).await;
    let (first, _) = take(&store, "x", 60_000).await;
    let request = waits("x", rt::fresh_token(), Some(subscription.listener));
    queue(&store, &request).await;
    let copy = place.folder.path().join("copy.db");
    bare(&place.path()).execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
    let copied = manual(&copy, &place.clock);
    assert_eq!(waiting(&copied, "x").await, 1);
    assert_eq!(give_back(&copied, "x", first).await, Released::Held);
    assert!(is_free(&copied, "x").await);
    assert_eq!(ear.heard(), []);
    assert_eq!(give_back(&store, "x", first).await, Released::Held);
    ear.is_granted(request.token).await;
}

#[tokio::test]
async fn the_folder_of_wakeups_is_private_and_made_by_the_first_listener() {
    let place = Place::new();
    let store = place.store();
    let _ = take(&store, "x", 1_000).await;
    assert!(!wake_folder(&place.path()).exists());
    let (ear, subscription) = Ear::listening(&store).await;
    assert_eq!(mode(&wake_folder(&place.path())), 0o700);
    let file = socket(&place.path(), subscription.listener);
    assert!(file.exists());
    drop(subscription);
    assert!(!file.exists(), "it went with the subscription");
    assert_eq!(ear.breaks(), 0);
}

#[tokio::test]
async fn listening_before_anything_else_makes_the_file() {
    let place = Place::new();
    let _subscription = Ear::listening(&place.store()).await;
    assert!(place.path().exists());
    let store = place.store();
    store.close().await;
    let error = store.listen(std::sync::Arc::new(Ear::default()), Moment::NEVER).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Closed);
}

#[tokio::test]
async fn where_no_socket_can_be_made_it_says_so_and_waiters_that_ask_are_served() {
    let place = Place::new();
    let store = place.store();
    let _ = store.connect(Moment::NEVER).await.unwrap();
    let folder = wake_folder(&place.path());
    let refused = || async {
        let sink = std::sync::Arc::new(Ear::default());
        let error = store.listen(sink, Moment::NEVER).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (StoreErrorKind::Unsupported, Outcome::NotDone)
        );
        assert!(error.to_string().contains("no socket for wakeups"), "{error}");
    };
    fs::write(&folder, "a file").unwrap();
    refused().await;
    fs::remove_file(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    refused().await;
    fs::remove_dir(&folder).unwrap();
    std::os::unix::fs::symlink(place.folder.path(), &folder).unwrap();
    refused().await;
    let (first, _) = take(&store, "x", 60_000).await;
    let request = waits("x", rt::fresh_token(), None);
    assert_eq!(queue(&store, &request).await, 1);
    let _ = give_back(&store, "x", first).await;
    assert!(matches!(acquire(&store, &request).await.unwrap(), Acquired::Granted(_)));
}

#[tokio::test]
async fn a_path_that_is_too_long_for_a_socket_works() {
    let place = Place::new();
    let path = place.folder.path().join("long".repeat(50)).join("longer".repeat(30));
    assert!(path.as_os_str().len() > 300);
    let store = manual(&path, &place.clock);
    let (ear, subscription) = Ear::listening(&store).await;
    let (first, _) = take(&store, "x", 60_000).await;
    let request = waits("x", rt::fresh_token(), Some(subscription.listener));
    queue(&store, &request).await;
    let _ = give_back(&manual(&path, &place.clock), "x", first).await;
    ear.is_granted(request.token).await;
    drop(subscription);
    assert_eq!(fs::read_dir(wake_folder(&path)).unwrap().count(), 0);
}

#[tokio::test]
async fn whoever_reaches_the_file_by_a_link_tells_the_same_waiters() {
    let place = Place::new();
    let store = place.store();
    let (ear, subscription) = Ear::listening(&store).await;
    let (first, _) = take(&store, "x", 60_000).await;
    let request = waits("x", rt::fresh_token(), Some(subscription.listener));
    queue(&store, &request).await;
    let links = tempfile::tempdir().unwrap();
    let link = links.path().join("link.db");
    std::os::unix::fs::symlink(place.path(), &link).unwrap();
    let by_link = manual(&link, &place.clock);
    let _ = give_back(&by_link, "x", first).await;
    ear.is_granted(request.token).await;
    let _other = Ear::listening(&by_link).await;
    assert_eq!(fs::read_dir(links.path()).unwrap().count(), 1, "only the link");
}

#[tokio::test]
async fn dropped_and_dead_listeners_are_passed_over_in_the_same_step() {
    let place = Place::new();
    let store = place.store();
    let (first, grant) = take(&store, "x", 60_000).await;
    let dropped = {
        let (there, _) = somebody(&store).await;
        let request = waits("x", rt::fresh_token(), Some(there.listener));
        queue(&store, &request).await;
        request
    };
    // As a killed process leaves it: the socket's file, and nobody behind it.
    let dead = ListenerId::from_u64(7);
    let (ear, subscription) = Ear::listening(&store).await;
    let file = socket(&place.path(), dead);
    drop(UnixDatagram::bind(&file).unwrap());
    let killed = waits("x", rt::fresh_token(), Some(dead));
    queue(&store, &killed).await;
    let next = waits("x", rt::fresh_token(), Some(subscription.listener));
    assert_eq!(queue(&store, &next).await, 3);
    let _ = give_back(&store, "x", first).await;
    let hand_off = ear.is_granted(next.token).await;
    assert_eq!(hand_off.fencing_token, grant.fence.token().and_then(|fence| fence.next()));
    assert!(!file.exists(), "whoever finds it refused removes it");
    // They are not in the line any more.
    assert_eq!(queue(&store, &dropped).await, 1);
    assert_eq!(queue(&store, &killed).await, 2);
}

#[tokio::test]
async fn what_is_no_message_is_ignored_by_the_listener() {
    let place = Place::new();
    let store = place.store();
    let (ear, subscription) = Ear::listening(&store).await;
    let to = socket(&place.path(), subscription.listener);
    let stranger = UnixDatagram::unbound().unwrap();
    for nonsense in [&b""[..], b"\x01", b"\x02g", &[1; 18], &[b'x'; 2_000]] {
        stranger.send_to(nonsense, &to).unwrap();
    }
    let (first, _) = take(&store, "x", 60_000).await;
    let request = waits("x", rt::fresh_token(), Some(subscription.listener));
    queue(&store, &request).await;
    let _ = give_back(&store, "x", first).await;
    let hand_off = ear.is_granted(request.token).await;
    assert_eq!(ear.heard(), [Wakeup::Granted(hand_off)]);
    assert_eq!(ear.breaks(), 0);
}

#[tokio::test]
async fn a_listener_whose_folder_vanishes_or_moves_is_told_once() {
    for step in ["remove", "move"] {
        let place = Place::new();
        let store = place.store();
        let (ear, subscription) = Ear::listening(&store).await;
        let folder = wake_folder(&place.path());
        match step {
            "remove" => fs::remove_dir_all(&folder).unwrap(),
            _ => fs::rename(&folder, place.folder.path().join("elsewhere")).unwrap(),
        }
        ear.until(|ear| (ear.breaks() == 1).then_some(())).await;
        let (again, new) = Ear::listening(&store).await;
        drop(subscription);
        let (first, _) = take(&store, "x", 60_000).await;
        let request = waits("x", rt::fresh_token(), Some(new.listener));
        queue(&store, &request).await;
        let _ = give_back(&store, "x", first).await;
        again.is_granted(request.token).await;
        assert_eq!((ear.breaks(), again.breaks()), (1, 0), "{step}");
    }
}

#[test]
fn the_end_of_its_runtime_breaks_a_subscription_once_and_leaves_nothing_behind() {
    let place = Place::new();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let store = place.store();
    let (ear, subscription) = first.block_on(Ear::listening(&store));
    let file = socket(&place.path(), subscription.listener);
    assert!(file.exists());
    drop(first);
    assert_eq!(ear.breaks(), 1);
    assert!(!file.exists());
    drop(subscription);
    assert_eq!(ear.breaks(), 1);
    // A subscription that was dropped first is not broken by the end.
    let second = runtime();
    let (ear, subscription) = second.block_on(Ear::listening(&store));
    drop(subscription);
    drop(second);
    assert_eq!(ear.breaks(), 0);
}

#[test]
fn a_runtime_without_io_can_not_listen_and_says_so() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let store = place.store();
        let sink = std::sync::Arc::new(Ear::default());
        let error = store.listen(sink, Moment::NEVER).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
        let _ = take(&store, "x", 1_000).await;
    });
    assert_eq!(fs::read_dir(wake_folder(&place.path())).unwrap().count(), 0);
}

#[tokio::test]
async fn a_new_listener_clears_old_dead_sockets_away_and_nothing_else() {
    let place = Place::new();
    let store = place.store();
    let (_ear, living) = Ear::listening(&store).await;
    let [old, new] = [8, 9].map(|id| socket(&place.path(), ListenerId::from_u64(id)));
    let other = wake_folder(&place.path()).join("somebody else's");
    fs::write(&other, "").unwrap();
    for file in [&old, &new] {
        drop(UnixDatagram::bind(file).unwrap());
    }
    let long_ago = rustix::fs::Timespec { tv_sec: 1_000, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: long_ago, last_modification: long_ago };
    let alive = socket(&place.path(), living.listener);
    for file in [&old, &other, &alive] {
        rustix::fs::utimensat(rustix::fs::CWD, file, &times, rustix::fs::AtFlags::empty()).unwrap();
    }
    let _another = Ear::listening(&store).await;
    assert!(!old.exists());
    assert!(new.exists(), "it may be in the making");
    assert!(other.exists() && alive.exists());
}

#[tokio::test]
async fn a_line_whose_lock_was_deleted_by_hand_is_cleared() {
    let place = Place::new();
    let store = place.store();
    let _ = take(&store, "x", 60_000).await;
    queue(&store, &waits("x", rt::fresh_token(), None)).await;
    bare(&place.path()).execute("DELETE FROM lock", []).unwrap();
    let _ = take(&store, "x", 60_000).await;
    let request = waits("x", rt::fresh_token(), None);
    assert_eq!(queue(&store, &request).await, 1);
    // And the other way round.
    bare(&place.path()).execute("DELETE FROM place", []).unwrap();
    assert_eq!(queue(&store, &request).await, 2, "the row of the lock says so");
    place.clock.advance(Duration::from_secs(60));
    assert!(matches!(acquire(&store, &request).await.unwrap(), Acquired::Granted(_)));
    let _ = give_back(&store, "x", request.token).await;
    assert!(is_free(&store, "x").await);
    assert_eq!(place.number("SELECT waiting FROM lock"), 0);
}

#[tokio::test]
async fn the_sweep_forgets_lines_of_the_dead_and_no_lock_that_is_waited_for() {
    let place = Place::new();
    let store = place.store();
    for lock in ["dead", "waited-for"] {
        let mut request = waits(lock, rt::fresh_token(), None);
        request.retain = Retain::NOTHING;
        request.ttl = common::ttl(1_000);
        assert!(matches!(acquire(&store, &request).await.unwrap(), Acquired::Granted(_)));
        let mut request = waits(lock, rt::fresh_token(), None);
        let live = if lock == "dead" { 1 } else { 86_400 };
        request.place.as_mut().unwrap().live = Duration::from_secs(live);
        queue(&store, &request).await;
    }
    for number in 0..40 {
        place.clock.advance(Duration::from_secs(60));
        let _ = take(&store, &format!("other-{number}"), 1_000).await;
    }
    let left = |table: &str, lock: &str| {
        place.number(&format!("SELECT count(*) FROM {table} WHERE name = CAST('{lock}' AS BLOB)"))
    };
    assert_eq!((left("place", "dead"), left("lock", "dead")), (0, 0));
    assert_eq!((left("place", "waited-for"), left("lock", "waited-for")), (1, 1));
}

#[tokio::test]
async fn a_file_without_room_refuses_a_place_and_nothing_of_it_is_there() {
    let place = Place::new();
    let store = SqliteStore::builder(place.path())
        .manual(place.clock.clone())
        .pages_max(40)
        .build()
        .unwrap();
    let (first, _) = take(&store, "x", 60_000).await;
    let mut line = Vec::new();
    let error = loop {
        let mut request = waits("x", rt::fresh_token(), None);
        request.metadata = fencelock_core::Metadata::new(vec![1; 500]).unwrap();
        match acquire(&store, &request).await {
            Ok(_) => line.push(request),
            Err(error) => break error,
        }
        assert!(line.len() < 1_000);
    };
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Full, Outcome::NotDone));
    let length = i64::try_from(line.len()).unwrap();
    assert!(length > 5);
    assert_eq!(place.number("SELECT count(*) FROM place"), length);
    assert_eq!(place.number("SELECT waiting FROM lock"), length);
    // Those in the line are served all the same.
    let mut holder = first;
    for request in line {
        assert_eq!(give_back(&store, "x", holder).await, Released::Held);
        assert!(is_held_by(&store, "x", request.token).await);
        holder = request.token;
    }
}

#[tokio::test]
async fn a_long_line_keeps_its_order_and_its_members_know_their_places() {
    let place = Place::new();
    let store = place.store();
    let (mut holder, _) = take(&store, "x", 60_000).await;
    let line: Vec<_> = (0..300).map(|_| waits("x", rt::fresh_token(), None)).collect();
    for (index, request) in line.iter().enumerate() {
        assert_eq!(queue(&store, request).await as usize, index + 1);
        // Others arrive at another name in between.
        if index == 0 {
            let _ = take(&store, "y", 60_000).await;
        }
        queue(&store, &waits("y", rt::fresh_token(), None)).await;
    }
    let withdrawn = &line[100];
    assert_eq!(give_back(&store, "x", withdrawn.token).await, Released::Withdrawn);
    assert_eq!(queue(&store, &line[99]).await, 100);
    assert_eq!(queue(&store, &line[101]).await, 101);
    assert_eq!(waiting(&store, "x").await, 299);
    for request in line.iter().filter(|request| request.token != withdrawn.token) {
        assert_eq!(give_back(&store, "x", holder).await, Released::Held);
        assert!(is_held_by(&store, "x", request.token).await);
        holder = request.token;
    }
    assert_eq!(waiting(&store, "x").await, 0);
}

#[tokio::test]
async fn a_set_waits_in_one_line_and_its_turn_is_kept_for_it() {
    let place = Place::new();
    let store = place.store();
    let (ear, subscription) = Ear::listening(&store).await;
    let (a, _) = take(&store, "a", 60_000).await;
    let (b, _) = take(&store, "b", 60_000).await;
    let names = Names::new([common::name("a"), common::name("b")]).unwrap();
    let mut request = AcquireRequest::new(names, rt::fresh_token(), common::ttl(60_000));
    request.place = waits("a", request.token, None).place;
    request.listener = Some(subscription.listener);
    assert_eq!(queue(&store, &request).await, 1);
    assert_eq!(place.number("SELECT count(*) FROM place"), 1);
    let _ = give_back(&store, "a", a).await;
    ear.hears_all(&[Wakeup::Turn(request.token)]).await;
    assert!(!is_free(&store, "a").await, "it is kept for the set");
    assert_eq!(queue(&store, &request).await, 1, "now it waits for the other");
    assert!(is_free(&store, "a").await, "and holds nothing meanwhile");
    let _ = give_back(&store, "b", b).await;
    ear.until(|ear| (ear.heard().len() == 2).then_some(())).await;
    assert!(matches!(acquire(&store, &request).await.unwrap(), Acquired::Granted(_)));
}
