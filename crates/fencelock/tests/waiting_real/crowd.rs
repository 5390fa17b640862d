//! Ten thousand tasks that wait in one process.

use std::time::Duration;

use fencelock_testkit::{RedisServer, eventually};

use crate::child::{Child, LIMIT};

const TASKS: u64 = 10_000;
/// In which no heart-beat is due, on a machine that is not starved.
const SILENCE: Duration = Duration::from_secs(3);
/// A generous bound; the figure is printed.
const BYTES_A_TASK: u64 = 3 * 1024;

#[test]
fn ten_thousand_tasks_wait_for_one_name() {
    wait_for(1);
}

#[test]
fn ten_thousand_tasks_wait_for_a_thousand_names() {
    wait_for(1_000);
}

fn wait_for(names: u64) {
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
    child.say(format_args!("park all {TASKS} {names}"));
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
    let each = after.saturating_sub(before) / TASKS;

    let mut count = || Counts::of(&mut connection);
    let first = count();
    std::thread::sleep(SILENCE);
    let second = count();
    let scripts = second.scripts - first.scripts;
    // The first INFO counts itself when it is over.
    let commands = second.commands - first.commands - 1;
    println!(
        "{TASKS} tasks wait for {names} names: {each} bytes each beyond the task (its future has \
         {future}); {} connections; {commands} commands, {scripts} of them questions, in {SILENCE:?}",
        second.clients
    );
    assert!(each < BYTES_A_TASK, "{each} bytes");
    assert_eq!(second.clients, 3, "the holder, the waiters, and who counts");
    // The heart-beat of those who wait at the store comes every ten seconds at the most.
    assert!(scripts <= names, "{scripts} questions");

    for name in 0..names {
        holder.say(format_args!("release held{name}"));
    }
    child.wait("served", "all");
    assert!(child.events().iter().all(|event| event.kind != "failed"), "{}", child.shown());
}

struct Counts {
    commands: u64,
    scripts: u64,
    clients: u64,
}

impl Counts {
    fn of(connection: &mut redis::Connection) -> Self {
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
