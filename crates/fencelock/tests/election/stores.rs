//! Elections on real stores: what observers see is what leaders had, and hand-overs need no lease to
//! end.

use std::{
    ops::ControlFlow::{Break, Continue},
    time::{Duration, Instant},
};

use fencelock::{Client, ErrorKind, FencingToken, Inspection, Observed, connect_quorum};
use fencelock_testkit::RedisServer;
use tokio::sync::{mpsc, watch};

use crate::world::secs;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const ROUNDS: usize = 2;

/// A term as somebody knows it.
type Term = (Option<FencingToken>, String);

async fn within<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} has no end"))
}

/// Goal: an observer sees every leader, in the order of the terms, with what it said of itself.
/// Method: three candidates with clients of their own lead in turn, each until the observer has told
/// its term. (Of a grant that came too late for its candidate only the observer knows.)
async fn three_candidates_and_an_observer(clients: [Client; 4]) {
    let [observer, candidates @ ..] = clients;
    let what = observer.store_display();
    let mut observation = observer.election("job").observe().every(Duration::from_millis(50));
    let (led, mut leaders) = mpsc::unbounded_channel::<Term>();
    let (tell, told) = watch::channel::<Vec<Term>>(Vec::new());
    let mut tasks = Vec::new();
    for (number, client) in candidates.into_iter().enumerate() {
        let (election, led, told) =
            (client.election("job").ttl(secs(3)), led.clone(), told.clone());
        tasks.push(tokio::spawn(async move {
            let mut rounds = 0;
            let info = format!("candidate {number}");
            let lead = election.lead(info, |leading| {
                rounds += 1;
                // On a busy machine a term may be lost before it is told: then there is one more.
                let end = rounds >= ROUNDS;
                let (led, mut told) = (led.clone(), told.clone());
                async move {
                    let own = (leading.term(), leading.info().to_owned());
                    told.wait_for(|told| told.contains(&own)).await.unwrap();
                    led.send(own).unwrap();
                    if end { Break(()) } else { Continue(()) }
                }
            });
            lead.await.unwrap();
        }));
    }
    let watching = async {
        loop {
            // On a busy machine a look may fail: that is an item of its own, and the stream goes on.
            let item = observation.next().await.expect("a stream");
            if let Ok(Observed::Leader(leader)) = item {
                assert!(leader.since.is_some(), "{what}: a term tells its time");
                tell.send_modify(|told| told.push((leader.term, leader.info)));
            }
        }
    };
    let leading = async {
        for task in tasks {
            within("a candidate", task).await.unwrap();
        }
    };
    tokio::select! {
        () = watching => unreachable!("it has no end"),
        () = leading => {}
    }
    let had: Vec<Term> = std::iter::from_fn(|| leaders.try_recv().ok()).collect();
    assert!(had.len() >= 3, "{what}: {had:?}");
    let mut seen = told.borrow().clone();
    assert!(seen.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{what}: {seen:?}");
    seen.dedup();
    seen.retain(|term| had.contains(term));
    assert_eq!(seen, had, "{what}");
    assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0), "{what}: {seen:?}");
    assert!(matches!(observer.inspect("job").await.unwrap(), Inspection::Free { .. }), "{what}");
}

/// Four clients, as four processes would have them.
fn four(connect: impl Fn() -> Client) -> [Client; 4] {
    std::array::from_fn(|_| connect())
}

#[tokio::test]
async fn an_observer_sees_every_leader_in_the_order_of_the_terms_on_redis() {
    let server = RedisServer::start();
    let clients = four(|| Client::builder(server.url()).build().unwrap());
    three_candidates_and_an_observer(clients).await;
}

#[tokio::test]
async fn an_observer_sees_every_leader_in_the_order_of_the_terms_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    three_candidates_and_an_observer(four(|| Client::builder(&url).build().unwrap())).await;
}

#[tokio::test]
async fn an_observer_sees_every_leader_in_the_order_of_the_terms_on_a_quorum() {
    let servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    let mut clients = Vec::new();
    for server in &servers {
        let builder = Client::builder(server.url());
        builder.initialise(secs(60), fencelock::IfUsed::Accept).await.unwrap();
    }
    for _ in 0..4 {
        let urls = servers.iter().map(|server| server.url());
        clients.push(connect_quorum(urls).await.unwrap());
    }
    three_candidates_and_an_observer(clients.try_into().unwrap()).await;
}

#[tokio::test]
async fn a_leader_that_resigns_is_followed_long_before_its_lease_would_end() {
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite:{}", folder.path().join("locks.db").display());
    for url in [server.url(), file] {
        let clients = four(|| Client::builder(&url).build().unwrap());
        let ttl = secs(600);
        let mut leadership = clients[0].election("job").ttl(ttl).campaign("0").await.unwrap();
        let mut worst = Duration::ZERO;
        for round in 1..12_usize {
            let candidate = clients[round % 4].election("job").ttl(ttl);
            let next = tokio::spawn(async move {
                let leadership = candidate.campaign(round.to_string()).await.unwrap();
                (leadership, Instant::now())
            });
            within("its place", async {
                let held = |seen| matches!(seen, Inspection::Held(holder) if holder.waiting == 1);
                while !held(clients[0].inspect("job").await.unwrap()) {
                    // The file answers at once: nothing else here would let the candidate run.
                    tokio::task::yield_now().await;
                }
            })
            .await;
            let resigned = Instant::now();
            let before = leadership.term();
            leadership.resign().await;
            let (next, at) = within("the next", next).await.unwrap();
            assert!(next.term() > before);
            worst = worst.max(at.saturating_duration_since(resigned));
            leadership = next;
        }
        println!("{}: the next led after {worst:?} at worst", clients[0].store_display());
    }
}

#[tokio::test]
async fn where_there_are_no_terms_an_election_is_refused_unless_that_is_allowed() {
    let server = RedisServer::start();
    let client = || Client::builder(server.url()).dialect("plain").build().unwrap();
    let (one, other) = (client(), client());
    let error = one.election("job").campaign("").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let election = one.election("job").allow_unfenced();
    // Nor can anything be published there.
    assert_eq!(election.campaign("a").await.unwrap_err().kind(), ErrorKind::Unsupported);
    let leadership = election.campaign("").await.unwrap();
    assert!(leadership.is_leader() && leadership.term().is_none());
    let mut observation = other.election("job").observe().every(Duration::from_millis(50));
    let item = within("an item", observation.next()).await.unwrap().unwrap();
    assert!(matches!(item, Observed::Leader(leader) if leader.term.is_none()));
    // Two terms of one process are told apart all the same.
    leadership.resign().await;
    let item = within("an item", observation.next()).await.unwrap().unwrap();
    assert_eq!(item, Observed::Vacant);
    let _again = election.campaign("").await.unwrap();
    let item = within("an item", observation.next()).await.unwrap().unwrap();
    assert!(matches!(item, Observed::Leader(_)));
}
