//! The order of `strict_fifo()` among processes, and what a line of many processes costs.

use std::time::Duration;

use fencelock_testkit::{RedisServer, eventually};

use crate::{
    child::{Child, Event, LIMIT},
    crowd::Counts,
    place::{Place, subscriptions},
};

/// Waiters in processes, each at its place: `w0` is the first to come, in the first process.
struct Line {
    holder: Child,
    processes: Vec<Child>,
    waiters: usize,
}

impl Line {
    /// They come one after the other, each to the next process.
    fn behind_a_holder(url: &str, processes: usize, waiters: usize) -> Self {
        let mut holder = Child::plain(url);
        holder.lock("a", "job", "default", LIMIT);
        holder.granted("a");
        let mut processes: Vec<_> = (0..processes).map(|_| Child::plain(url)).collect();
        for number in 0..waiters {
            let at = number % processes.len();
            processes[at].lock(&format!("w{number}"), "job", "strict", LIMIT);
            let here = number as u64 + 1;
            eventually(LIMIT, "it has its place", || holder.waiting("job") == here);
        }
        Self { holder, processes, waiters }
    }

    fn process(&self, number: usize) -> &Child {
        &self.processes[number % self.processes.len()]
    }

    /// Gives the lock from each to the next, but those who are gone; their grants in order.
    fn serve(&mut self, is_gone: impl Fn(usize) -> bool) -> Vec<Event> {
        assert_eq!(self.holder.release("a").1.rest, "Held");
        let mut grants = Vec::new();
        for number in (0..self.waiters).filter(|number| !is_gone(*number)) {
            let id = format!("w{number}");
            grants.push(self.process(number).granted(&id));
            let at = number % self.processes.len();
            assert_eq!(self.processes[at].release(&id).1.rest, "Held");
        }
        grants
    }
}

/// In the order of the line; so the numbers grow, too.
fn assert_in_order(grants: &[Event]) {
    for pair in grants.windows(2) {
        let [one, next] = pair else { unreachable!() };
        assert!(one.at < next.at && one.token() < next.token(), "{one:?}, then {next:?}");
    }
}

/// Goal: who came first is served first, whichever process it is in. Method: each comes when the one before
/// has its place, and writes down when it was granted, by the clock of the machine.
#[test]
fn waiters_of_four_processes_are_served_in_the_order_in_which_they_came() {
    for place in Place::both() {
        let mut line = Line::behind_a_holder(&place.url(), 4, 40);
        let grants = line.serve(|_| false);
        assert_eq!(grants.len(), 40, "{}", place.kind());
        assert_in_order(&grants);
    }
}

/// Goal: the dead are passed over, and the order of the living stays. Method: of the processes, each of which
/// has one waiter, every fifth is killed; five hundred in the long form.
#[test]
fn those_behind_killed_processes_keep_their_order() {
    let many = if std::env::var_os("FENCELOCK_SOAK").is_some() { 500 } else { 30 };
    let server = RedisServer::start();
    let mut line = Line::behind_a_holder(&server.url(), many, many);
    eventually(LIMIT, "they listen", || subscriptions(&server) == many);
    let is_killed = |number: usize| number % 5 == 2;
    let killed = (0..many).filter(|number| is_killed(*number));
    let killed = killed.map(|number| line.process(number).kill()).count();
    eventually(LIMIT, "the server sees closed sockets", || subscriptions(&server) == many - killed);
    assert_in_order(&line.serve(is_killed));
}

/// Goal: a hand-over costs at most two requests, and waiting nothing but the heart-beat, however many wait.
#[test]
fn a_thousand_waiters_of_ten_processes_cost_two_requests_each() {
    const PROCESSES: u64 = 10;
    const EACH: u64 = 100;
    /// Of a waiter at the store.
    const HEART_BEAT: Duration = Duration::from_secs(10);
    let server = RedisServer::start();
    let mut connection = server.connect();
    let mut holder = Child::plain(&server.url());
    holder.lock("a", "job", "default", Duration::from_secs(600));
    holder.granted("a");
    let mut processes: Vec<_> = (0..PROCESSES).map(|_| Child::plain(&server.url())).collect();
    for process in &mut processes {
        process.say(format_args!("many all {EACH} job strict"));
    }
    eventually(LIMIT, "all wait", || holder.waiting("job") == PROCESSES * EACH);
    eventually(LIMIT, "all listen", || subscriptions(&server) as u64 == PROCESSES);
    let mut before = Counts::of(&mut connection);
    assert_eq!(before.clients, PROCESSES + 2, "one of each process, the holder, and who counts");
    // Those that began to listen last ask once more, so that their place says where they do.
    eventually(LIMIT, "nobody asks any more", || {
        let asked = before.scripts;
        before = Counts::of(&mut connection);
        before.scripts == asked
    });
    let began = holder.release("a").0;
    let last =
        processes.iter().map(|process| process.wait("served", "all")).max_by_key(|end| end.at);
    let took = last.expect("there are some").after(&began);
    let asked = Counts::of(&mut connection).scripts - before.scripts;
    println!("{} hand-overs in {took:?}, {asked} requests", PROCESSES * EACH);
    let beats = PROCESSES * EACH * (1 + took.as_secs() / HEART_BEAT.as_secs());
    let late = if took < HEART_BEAT / 2 { 0 } else { beats };
    assert!(asked <= 2 * PROCESSES * EACH + 1 + late, "{asked} requests in {took:?}");
}
