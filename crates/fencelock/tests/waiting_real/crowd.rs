//! Ten thousand tasks that wait in one process.

use std::time::Duration;

use fencelock_testkit::{Persistence, RedisServer, eventually};

use crate::{
    child::{Child, LIMIT},
    place::subscriptions,
};

const TASKS: u64 = 10_000;
/// In which no heart-beat is due, on a machine that is not starved.
const SILENCE: Duration = Duration::from_secs(3);
/// What a task costs beyond its future: by the resident memory of its process, before the tasks call
/// `lock` and when all of them wait. The figures are printed.
const BYTES_A_TASK: u64 = 1024;
/// And a name, which has a place at the store, and a line in the process.
const BYTES_A_NAME: u64 = 12 * 1024;

#[test]
fn ten_thousand_tasks_wait_for_one_name() {
    wait_for(TASKS, 1);
}

#[test]
fn ten_thousand_tasks_wait_for_a_thousand_names() {
    wait_for(TASKS, 1_000);
}

#[test]
fn five_thousand_names_with_a_waiter_each_need_one_connection() {
    wait_for(5_000, 5_000);
}

fn wait_for(tasks: u64, names: u64) {
    let server = RedisServer::start();
    // Not renewed while it is counted.
    let ttl = Duration::from_secs(600);
    let mut holder = Child::plain(&server.url());
    for name in 0..names {
        holder.lock(&format!("held{name}"), &format!("job:{name}"), "default", ttl);
    }
    for name in 0..names {
        holder.granted(&format!("held{name}"));
    }
    let mut child = Child::plain(&server.url());
    child.say(format_args!("park all {tasks} {names}"));
    let future: u64 = child.wait("parked", "all").rest.parse().expect("a number");
    let rss = |child: &mut Child| child.ask("rss", "").rest.parse::<u64>().expect("a number");
    let before = rss(&mut child);
    child.ask("begin", "");
    let mut connection = server.connect();
    eventually(LIMIT, "one waits for each name at the store", || {
        (0..names).all(|name| {
            // Nothing but its own connection is in the way of the count.
            let key = format!("fencelock:job:{name}");
            redis::cmd("TYPE").arg(key).query::<String>(&mut connection).expect("a type") == "hash"
        })
    });
    // Each tells the store where it listens, with a second question; then there is silence.
    let mut asked = 0;
    eventually(LIMIT, "all have asked", || {
        std::thread::sleep(Duration::from_millis(100));
        let before = std::mem::replace(&mut asked, Counts::of(&mut connection).scripts);
        before == asked
    });
    let after = rss(&mut child);
    let each = after.saturating_sub(before) / tasks;

    let mut count = || Counts::of(&mut connection);
    let first = count();
    std::thread::sleep(SILENCE);
    let second = count();
    let scripts = second.scripts - first.scripts;
    // The first INFO counts itself when it is over.
    let commands = second.commands - first.commands - 1;
    println!(
        "{tasks} tasks wait for {names} names: {each} bytes each beyond the task (its future has \
         {future}); {} connections; {commands} commands, {scripts} of them questions, in {SILENCE:?}",
        second.clients
    );
    let most = tasks * BYTES_A_TASK + names * BYTES_A_NAME;
    assert!(after - before < most, "{} bytes", after - before);
    assert_eq!(second.clients, 3, "the holder, the waiters, and who counts");
    // The heart-beat of those who wait at the store comes every ten seconds at the most.
    assert!(scripts <= names, "{scripts} questions");

    for name in 0..names {
        holder.say(format_args!("release held{name}"));
    }
    child.wait("served", "all");
    assert!(child.events().iter().all(|event| event.kind != "failed"), "{}", child.shown());
}

/// A holder, and a process in which ten thousand tasks wait: a tenth of them at the store, each at a
/// place of its own, the others in a line of the process. They listen once.
fn crowd_behind_a_holder(server: &RedisServer, ttl: Duration) -> (Child, Child) {
    const STRICT: u64 = TASKS / 10;
    let mut holder = Child::plain(&server.url());
    holder.lock("a", "job", "default", ttl);
    holder.granted("a");
    let mut child = Child::plain(&server.url());
    child.say(format_args!("many strict {STRICT} job strict"));
    child.say(format_args!("many default {} job default", TASKS - STRICT));
    eventually(LIMIT, "all wait", || holder.waiting("job") == STRICT + 1);
    eventually(LIMIT, "they listen", || subscriptions(server) == 1);
    let clients = Counts::of(&mut server.connect()).clients;
    assert_eq!(clients, 3, "the holder, the waiters, and who counts");
    (holder, child)
}

#[track_caller]
fn all_are_served(child: &Child) {
    for order in ["strict", "default"] {
        child.wait("served", order);
    }
    assert!(child.events().iter().all(|event| event.kind != "failed"), "{}", child.shown());
}

#[test]
fn ten_thousand_tasks_are_served_though_their_subscription_is_killed() {
    let server = RedisServer::start();
    let (mut holder, child) = crowd_behind_a_holder(&server, LIMIT);
    for _ in 0..3 {
        server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        eventually(LIMIT, "they listen again", || subscriptions(&server) == 1);
    }
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    holder.say(format_args!("release a"));
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    all_are_served(&child);
}

#[test]
fn ten_thousand_tasks_are_served_by_a_server_that_was_restarted() {
    let server = RedisServer::builder().persistence(Persistence::Aof).start();
    let (mut holder, child) = crowd_behind_a_holder(&server, LIMIT);
    server.restart();
    assert!(holder.is_valid("a") && child.seen("served", "strict").is_none());
    assert_eq!(holder.release("a").1.rest, "Held");
    all_are_served(&child);
}

#[test]
fn ten_thousand_tasks_are_served_when_their_holder_is_frozen() {
    let server = RedisServer::start();
    let (mut holder, child) = crowd_behind_a_holder(&server, Duration::from_secs(3));
    holder.freeze();
    all_are_served(&child);
    holder.thaw();
    assert!(!holder.is_valid("a"));
    holder.wait("lost", "a");
}

pub(crate) struct Counts {
    pub(crate) commands: u64,
    pub(crate) scripts: u64,
    pub(crate) clients: u64,
}

impl Counts {
    pub(crate) fn of(connection: &mut redis::Connection) -> Self {
        let info: String = redis::cmd("INFO").arg("all").query(connection).expect("a report");
        let field = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name));
            let digits = value.unwrap_or_else(|| panic!("no {name} in {info}"));
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            digits[..end].parse().expect("a number")
        };
        Self {
            commands: field("total_commands_processed:"),
            scripts: field("cmdstat_evalsha:calls="),
            clients: field("connected_clients:"),
        }
    }
}
