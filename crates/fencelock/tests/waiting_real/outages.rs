//! The store forgets who listens, forgets everything, or forgets its scripts, while many wait.

use std::time::{Duration, Instant};

use fencelock_testkit::{Persistence, RedisServer, eventually};

use crate::{
    child::{Child, LIMIT},
    place::subscriptions,
};

const PROCESSES: usize = 2;
/// Of each order in each process.
const TASKS: usize = 50;

/// Two processes in each of which 50 tasks wait at the store, and 50 in a line of their own.
struct Crowd {
    holder: Child,
    children: Vec<Child>,
}

impl Crowd {
    fn behind_a_holder(server: &RedisServer, ttl: Duration) -> Self {
        let mut holder = Child::start(&server.url());
        holder.lock("a", "job", "default", ttl);
        holder.granted("a");
        let mut children: Vec<Child> =
            (0..PROCESSES).map(|_| Child::start(&server.url())).collect();
        for child in &mut children {
            child.say(format_args!("many strict {TASKS} job strict"));
            child.say(format_args!("many default {TASKS} job default"));
        }
        let places = u64::try_from(PROCESSES * (TASKS + 1)).expect("few");
        eventually(LIMIT, "all wait", || holder.waiting("job") == places);
        eventually(LIMIT, "all listen", || subscriptions(server) == PROCESSES);
        Self { holder, children }
    }

    /// Everybody has had the lock, however long it took.
    fn all_are_served(&self, what: &str) {
        let start = Instant::now();
        for child in &self.children {
            child.wait("served", "strict");
            child.wait("served", "default");
            for event in child.events() {
                assert_ne!(event.kind, "failed", "{event:?}");
            }
        }
        println!("{what}: all {} were served after {:?}", 2 * PROCESSES * TASKS, start.elapsed());
    }
}

#[test]
fn nobody_is_forgotten_when_subscriptions_are_killed() {
    let server = RedisServer::start();
    let mut crowd = Crowd::behind_a_holder(&server, LIMIT);
    for _ in 0..3 {
        server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        eventually(LIMIT, "they listen again", || subscriptions(&server) == PROCESSES);
    }
    // And once more where the release finds nobody.
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    crowd.holder.say(format_args!("release a"));
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    crowd.all_are_served("subscriptions killed");
}

#[test]
fn nobody_is_forgotten_by_a_server_that_forgot_everything() {
    let server = RedisServer::start();
    // Renewed every five seconds: it is told by then.
    let crowd = Crowd::behind_a_holder(&server, Duration::from_secs(15));
    server.kill();
    server.restart();
    // The lock went with the rest.
    crowd.all_are_served("restarted empty");
    let lost = crowd.holder.wait("lost", "a").rest;
    // Seen by the next renewal, and perhaps by then of somebody else.
    assert!(["Disappeared", "Taken"].contains(&lost.as_str()), "{lost}");
}

#[test]
fn nobody_is_forgotten_by_a_server_that_was_restarted() {
    let server = RedisServer::builder().persistence(Persistence::Aof).start();
    let mut crowd = Crowd::behind_a_holder(&server, LIMIT);
    server.restart();
    assert!(crowd.holder.is_valid("a"));
    assert!(crowd.children.iter().all(|child| child.seen("served", "strict").is_none()));
    let (_, released) = crowd.holder.release("a");
    assert_eq!(released.rest, "Held");
    crowd.all_are_served("restarted from its log");
}

#[test]
fn nobody_is_forgotten_when_scripts_are() {
    let server = RedisServer::start();
    let mut crowd = Crowd::behind_a_holder(&server, LIMIT);
    server.cli(&["SCRIPT", "FLUSH"]);
    let (_, released) = crowd.holder.release("a");
    assert_eq!(released.rest, "Held");
    for _ in 0..20 {
        server.cli(&["SCRIPT", "FLUSH"]);
    }
    crowd.all_are_served("scripts flushed");
}
