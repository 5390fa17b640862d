//! Three electors, one command: the leader is killed, frozen or stopped, and another one leads.

use std::time::{Duration, Instant};

use fencelock_testkit::process::{Signal, cont};
use fencelock_testkit::{Process, RedisServer, Witness, eventually};

use crate::support::{LIMIT, Place, alone, check_tokens, finish, wait_for_stderr};

const LEAD: &str =
    "echo $FENCELOCK_FENCING_TOKEN >>tokens; echo inside; while :; do sleep 0.2; done";
const TTL: Duration = Duration::from_secs(2);
/// What a busy machine may need to let a candidate wake, ask and start its command.
const SLACK: Duration = Duration::from_secs(8);

/// The electors, and how often each has led.
struct Electors<'a> {
    place: &'a Place,
    witness: &'a Witness,
    electors: Vec<(Process, usize)>,
}

impl<'a> Electors<'a> {
    fn three(place: &'a Place, witness: &'a Witness) -> Self {
        let mut electors = Self { place, witness, electors: Vec::new() };
        for _ in 0..3 {
            electors.add();
        }
        electors
    }

    /// Starts one more, and waits until it leads or waits.
    fn add(&mut self) {
        let mut command = self.place.command(&["elect", "job", "--ttl", "2s", "--"]);
        command.args(self.witness.argv("elect")).args(["sh", "-c", LEAD]);
        let mut elector = Process::spawn(command);
        if self.electors.is_empty() {
            elector.wait_for_stdout(LIMIT, "inside");
        } else {
            wait_for_stderr(&mut elector, "waiting for lock `job`");
        }
        self.electors.push((elector, 0));
    }

    /// Waits until a term begins that was not seen before: whose it is, and when it was seen.
    fn next_term(&mut self) -> (usize, Instant) {
        let mut found = None;
        eventually(LIMIT, "another term", || {
            found = self
                .electors
                .iter()
                .position(|(elector, led)| elector.stdout().matches("inside").count() > *led);
            found.is_some()
        });
        let index = found.unwrap();
        self.electors[index].1 += 1;
        (index, Instant::now())
    }

    /// Ends all, the candidates first.
    fn end(mut self, leader: usize) {
        let (last, _) = self.electors.remove(leader);
        for mut elector in self.electors.into_iter().map(|(elector, _)| elector).chain([last]) {
            elector.signal(Signal::TERM);
            let ended = finish(&mut elector);
            assert_eq!(ended.code, 143, "{ended:?}");
        }
    }
}

fn assert_in_order(place: &Place, witness: &Witness, terms: usize) {
    let verdict = witness.check();
    verdict.assert_exclusive();
    assert_eq!(verdict.entries, terms);
    assert_eq!(check_tokens(&place.read("tokens")), Ok(terms));
}

/// Goal: killed, frozen and stopped leaders are followed by exactly one, in the order of the terms.
/// Method: the witness is inside for as long as anything of a command lives.
fn leaders_are_followed(place: &Place) {
    let _turn = alone();
    let witness = place.witness("job");
    let mut electors = Electors::three(place, &witness);
    let (mut leader, _) = electors.next_term();
    let mut terms = 1;
    for _ in 0..3 {
        let (mut killed, _) = electors.electors.remove(leader);
        let at = Instant::now();
        killed.signal(Signal::KILL);
        let (next, seen) = electors.next_term();
        let took = seen.saturating_duration_since(at);
        println!("killed: followed after {took:?}, ttl {TTL:?}");
        assert!(took < TTL + SLACK, "{took:?}");
        leader = next;
        terms += 1;
        electors.add();
    }
    for _ in 0..3 {
        let (mut stopped, _) = electors.electors.remove(leader);
        let at = Instant::now();
        stopped.signal(Signal::TERM);
        let (next, seen) = electors.next_term();
        println!("stopped: followed after {:?}", seen.saturating_duration_since(at));
        let ended = finish(&mut stopped);
        assert_eq!(ended.code, 143, "{ended:?}");
        leader = next;
        terms += 1;
        electors.add();
    }
    for _ in 0..2 {
        let frozen = electors.electors[leader].0.pid();
        electors.electors[leader].0.stop();
        let (next, _) = electors.next_term();
        assert_ne!(next, leader);
        // It comes back as a candidate.
        cont(frozen);
        let frozen = &mut electors.electors[leader].0;
        wait_for_stderr(frozen, "campaigning again");
        leader = next;
        terms += 1;
    }
    electors.end(leader);
    assert_in_order(place, &witness, terms);
}

#[test]
fn a_leader_that_ends_in_any_way_is_followed_by_one_other_on_the_embedded_store() {
    leaders_are_followed(&Place::embedded());
}

#[test]
fn a_leader_that_ends_in_any_way_is_followed_by_one_other_on_redis() {
    let server = RedisServer::start();
    leaders_are_followed(&Place::on(&server));
}
