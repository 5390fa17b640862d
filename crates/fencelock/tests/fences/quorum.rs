//! Five servers of which a minority is killed and comes back, again and again: with what it knew, and
//! with nothing.

use std::{cell::Cell, time::Duration};

use fencelock::{Client, IfUsed, Initialised};
use fencelock_testkit::{Persistence, RedisServer};

use crate::{
    APART, between,
    crew::{Voting, Work},
    grants,
    ledger::Order,
    world::{Fault, World, run},
};

const NODES: usize = 5;

/// How many of them are no majority.
const MINORITY: usize = 2;

fn urls(servers: &[RedisServer]) -> String {
    servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(" ")
}

/// What is done to a minority, each time to the next one.
fn each_minority<'a>(servers: &'a [RedisServer], what: fn(&RedisServer)) -> impl Fn() + 'a {
    let first = Cell::new(0);
    move || {
        let first = first.replace(first.get() + MINORITY);
        (first..first + MINORITY).for_each(|node| what(&servers[node % NODES]));
    }
}

/// Two die; the next grants are those of the other three. Then they come back, and two others die.
/// Exclusion holds all the while, so the ledger is in the order of the grants.
fn dying(servers: &[RedisServer], hundredths: u64) -> World<'_> {
    let kill = each_minority(servers, RedisServer::kill);
    let restart = each_minority(servers, RedisServer::restart);
    World::new(urls(servers), Order::Strict)
        // So often that, also in the short form, a majority has been killed in turn.
        .between(between(hundredths) / 2)
        .fault(Fault::new("kill -9 of two of five", kill))
        .fault(Fault::new("they come back", restart))
}

/// Nothing is broken but time: the clocks of the servers are five seconds apart each. Leans on A3 of
/// each node, that is on `appendfsync always`, and so counts what comes back at once (quarantine 0).
/// On no clock for the order of tokens; each lease is judged by A1 on the nodes that gave it.
#[test]
fn in_a_quorum_that_remembers_tokens_grow_whatever_its_clocks_show() {
    let server = || RedisServer::builder().persistence(Persistence::Aof).clock().start();
    let servers: Vec<_> = (0..NODES).map(|_| server()).collect();
    for (server, ahead) in servers.iter().zip([3, 0, 4, 1, 2]) {
        server.clock().advance(ahead * APART);
    }
    let voting = Voting { quarantine: Some(Duration::ZERO), ..Voting::default() };
    let work = Work::new(grants(5)).ttl(Duration::from_secs(30)).voting(voting);
    run(&dying(&servers, 5), &work);
}

/// The longest lease where nodes forget: they are kept out for a second more. Long enough that no task
/// loses its lease between the grant and its line in the ledger.
const FORGETTABLE: Duration = Duration::from_secs(5);

/// A3 is broken on a minority: two servers come back empty. Leans on the quarantine for exclusion
/// (every lease that they forgot is over when they count again), and for tokens on the majority that
/// remembers. Where that has turned over since the last grant of a name, on the clocks of the nodes,
/// which are one here.
#[test]
fn in_a_quorum_of_which_two_forget_tokens_grow() {
    let server = || RedisServer::builder().persistence(Persistence::None).start();
    let servers: Vec<_> = (0..NODES).map(|_| server()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for server in &servers {
        let new = Client::builder(server.url()).initialise(FORGETTABLE, IfUsed::Refuse);
        let new = runtime.block_on(new);
        assert!(matches!(new, Ok(Initialised::Written { .. })), "{new:?}");
    }
    let voting = Voting { max_ttl: Some(FORGETTABLE), ..Voting::default() };
    let work = Work::new(grants(5)).ttl(FORGETTABLE).voting(voting);
    run(&dying(&servers, 5), &work);
}
