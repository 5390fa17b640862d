//! Five real servers, each of its own.

use std::time::{Duration, Instant};

use fencelock::{Attempt, Client, ErrorKind, Guard, IfUsed, Initialised, Inspection, Released};
use fencelock_testkit::{Proxy, RedisServer};

const PATIENCE: Duration = Duration::from_secs(20);

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

struct Five {
    servers: Vec<RedisServer>,
    client: Client,
}

impl Five {
    async fn start() -> Self {
        let servers = servers(5).await;
        let client = connect(&servers);
        Self { servers, client }
    }

    fn kill(&self, servers: impl IntoIterator<Item = usize>) {
        for server in servers {
            self.servers[server].kill();
        }
    }
}

/// Servers that count from the start.
async fn servers(count: usize) -> Vec<RedisServer> {
    let servers: Vec<_> = (0..count).map(|_| RedisServer::start()).collect();
    for server in &servers {
        let new = Client::builder(server.url());
        let new = new.initialise(Duration::from_secs(60), IfUsed::Refuse).await;
        assert!(matches!(new, Ok(Initialised::Written { .. })), "{new:?}");
    }
    servers
}

fn connect(servers: &[RedisServer]) -> Client {
    Client::quorum_builder(servers.iter().map(RedisServer::url))
        .build()
        .expect("the urls are right")
}

async fn take(client: &Client, ttl: Duration) -> Guard {
    match client.mutex("job").ttl(ttl).try_lock().await.expect("a majority answers") {
        Attempt::Granted(guard) => guard,
        Attempt::Busy(busy) => panic!("nobody holds it: {busy:?}"),
    }
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it ends")
}

#[tokio::test]
async fn two_of_five_servers_may_die_before_during_and_after() {
    let five = Five::start().await;
    five.kill([0]);
    let guard = within(take(&five.client, millis(900))).await;
    let fence = guard.fencing_token().expect("the nodes have fencing tokens");
    five.kill([3]);
    // Past its ttl: the keeper renews it on the three that are left.
    let end = Instant::now() + millis(2_000);
    while Instant::now() < end {
        let seen = guard.deadline();
        within(guard.deadline_changed(seen)).await;
        assert!(guard.is_valid(), "{guard:?}");
    }
    let other = connect(&five.servers);
    let busy = within(other.mutex("job").try_lock()).await.expect("a majority answers");
    assert!(matches!(busy, Attempt::Busy(_)), "{busy:?}");
    assert_eq!(within(guard.release()).await, Released::Held);
    let next = within(take(&other, millis(900))).await;
    assert!(next.fencing_token() > Some(fence));
    assert_eq!(within(next.release()).await, Released::Held);
}

#[tokio::test]
async fn without_a_majority_the_error_names_each_server_in_bounded_time() {
    let five = Five::start().await;
    let guard = within(take(&five.client, millis(900))).await;
    five.kill([0, 2]);
    // A server that is there and says nothing is the worst case.
    five.servers[4].stop_signal();
    let started = Instant::now();
    let error = within(five.client.mutex("other").try_lock()).await.expect_err("two are left");
    assert!(started.elapsed() < millis(3_000), "a second is the limit of a call");
    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    let text = error.to_string();
    for server in &five.servers {
        assert!(text.contains(&server.addr()), "{} is missing: {text}", server.addr());
    }
    // The holder is told before anybody else could have it.
    within(guard.lost()).await;
    assert!(!guard.is_valid());
    five.servers[4].cont();
    // Nothing is left on those that live.
    let end = Instant::now() + PATIENCE;
    for server in [1, 3, 4] {
        let one = Client::builder(five.servers[server].url()).build().expect("the url is right");
        while !matches!(one.inspect("other").await, Ok(Inspection::Free { .. })) {
            assert!(Instant::now() < end, "it is free in time");
            tokio::time::sleep(millis(5)).await;
        }
    }
}

/// Both need both: whoever has one of them has to give it back for the other. (node-redlock,
/// redisson: each held what the other wanted)
#[tokio::test]
async fn two_contenders_on_two_nodes_never_hang() {
    let servers = servers(2).await;
    let rounds = |client: Client| async move {
        for _ in 0..20 {
            let guard = client.mutex("job").wait(PATIENCE).lock().await.expect("its turn comes");
            assert_eq!(guard.release().await, Released::Held);
        }
    };
    let (first, second) = (connect(&servers), connect(&servers));
    let both = async { tokio::join!(tokio::spawn(rounds(first)), tokio::spawn(rounds(second))) };
    let (first, second) = within(both).await;
    first.expect("no panic");
    second.expect("no panic");
}

/// Redisson's `tryLock(500 ms, 10 s)`, with one server that swallows everything: the wait is not
/// spent on it. (redisson #1175, #1292)
#[tokio::test]
async fn a_black_hole_costs_nothing_where_the_others_decide() {
    let servers = servers(5).await;
    let proxy = Proxy::before(&servers[0]);
    let mut urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    urls[0] = proxy.url();
    let client = fencelock::connect_quorum(&urls).await.expect("the urls are right");
    within(client.connect_now()).await.expect("all answer");
    proxy.blackhole();
    let mutex = client.mutex("job").ttl(Duration::from_secs(10)).wait(millis(500));
    let guard = within(mutex.lock()).await.expect("four are left");
    let left = guard.validity_left();
    assert!(left > millis(9_300), "hardly anything of the lease was waited away: {left:?}");
    assert_eq!(within(guard.release()).await, Released::Held);
    // What the black hole may have swallowed comes to nothing.
    proxy.heal();
    let behind = Client::builder(servers[0].url()).build().expect("the url is right");
    let end = Instant::now() + PATIENCE;
    while !matches!(behind.inspect("job").await, Ok(Inspection::Free { .. })) {
        assert!(Instant::now() < end, "it is free in time");
        tokio::time::sleep(millis(5)).await;
    }
}

/// One server's answer is lost and another two are held by somebody: the lock is busy, and what was
/// granted unseen is gone within a second. (redisson #1606)
#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_gone_when_the_ballot_is() {
    let servers = servers(5).await;
    let proxy = Proxy::before(&servers[2]);
    let mut urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    urls[2] = proxy.url();
    let client = fencelock::connect_quorum(&urls).await.expect("the urls are right");
    within(client.connect_now()).await.expect("all answer");
    let mut held = Vec::new();
    for server in &servers[..2] {
        let one = Client::builder(server.url()).build().expect("the url is right");
        held.push(within(take(&one, Duration::from_secs(30))).await);
    }
    proxy.drop_replies();
    let attempt = within(client.mutex("job").try_lock()).await.expect("four answer");
    assert!(matches!(attempt, Attempt::Busy(_)), "{attempt:?}");
    let behind = Client::builder(servers[2].url()).build().expect("the url is right");
    let end = Instant::now() + millis(1_000);
    while !matches!(behind.inspect("job").await, Ok(Inspection::Free { .. })) {
        assert!(Instant::now() < end, "it is free within a second");
        tokio::time::sleep(millis(5)).await;
    }
    assert!(held.iter().all(Guard::is_valid), "nobody else was touched");
}

/// A restarted server without persistence has forgotten the lease: it is healed, and until no old
/// lease can run it is granted nothing new on.
#[tokio::test]
async fn a_restarted_server_is_healed_and_counts_for_nothing_new() {
    let five = Five::start().await;
    let client = &five.client;
    within(client.connect_now()).await.expect("all answer");
    let guard = within(take(client, millis(1_500))).await;
    five.servers[0].kill();
    five.servers[0].restart();
    let one = Client::builder(five.servers[0].url()).build().expect("the url is right");
    let end = Instant::now() + PATIENCE;
    loop {
        if let Ok(Inspection::Held(holder)) = one.inspect("job").await {
            assert_eq!(holder.fencing_token, guard.fencing_token());
            break;
        }
        assert!(Instant::now() < end, "it is healed in time");
        assert!(guard.is_valid(), "{guard:?}");
        tokio::time::sleep(millis(5)).await;
    }
    five.kill([1, 2]);
    assert!(guard.is_valid(), "three are left, the healed one among them");
    let error = within(client.mutex("new").try_lock()).await.expect_err("two may be counted");
    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    assert!(error.to_string().contains("counts again in"), "{error}");
    assert_eq!(within(guard.release()).await, Released::Held);
}

/// On how many servers somebody listens.
fn listened_to(servers: &[RedisServer]) -> usize {
    let is_one = |server: &&RedisServer| {
        format!("{:?}", server.cli(&["CLIENT", "LIST"])).contains(" sub=1 ")
    };
    servers.iter().filter(is_one).count()
}

/// How many places there are on all servers.
async fn places(servers: &[RedisServer]) -> u32 {
    let mut places = 0;
    for server in servers {
        let one = Client::builder(server.url()).build().expect("the url is right");
        if let Inspection::Held(holder) = one.inspect("job").await.expect("it answers") {
            places += holder.waiting;
        }
    }
    places
}

async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so().await {
        assert!(Instant::now() < end, "it comes about that {what}");
        tokio::time::sleep(millis(5)).await;
    }
}

/// Goal: a waiter whose subscriptions broke listens again, and is served. Method: they are killed,
/// at one server and at all, and once more around the release. (A server that takes too long at
/// that moment is not listened to: a majority is enough.)
#[tokio::test]
async fn a_waiter_is_served_after_its_subscriptions_were_killed() {
    let servers = servers(3).await;
    let (holder, waiter) = (connect(&servers), connect(&servers));
    let ttl = Duration::from_secs(60);
    let guard = within(take(&holder, ttl)).await;
    let mutex = waiter.mutex("job").ttl(ttl);
    let waiting = tokio::spawn(async move { mutex.lock().await.expect("its turn comes") });
    let kill = |server: &RedisServer| drop(server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]));
    until("it listens", async || listened_to(&servers) >= 2).await;
    kill(&servers[1]);
    until("it listens again", async || listened_to(&servers) >= 2).await;
    servers.iter().for_each(kill);
    until("it listens once more", async || listened_to(&servers) >= 2).await;
    servers.iter().for_each(kill);
    assert_eq!(within(guard.release()).await, Released::Held);
    servers.iter().for_each(kill);
    let guard = within(waiting).await.expect("no panic");
    assert_eq!(within(guard.release()).await, Released::Held);
}

#[tokio::test]
async fn a_waiter_is_told_though_a_server_dies_and_leaves_no_place() {
    let servers = servers(3).await;
    let (holder, waiter) = (connect(&servers), connect(&servers));
    let ttl = Duration::from_secs(60);
    let guard = within(take(&holder, ttl)).await;
    let mutex = waiter.mutex("job").ttl(ttl);
    let waiting = tokio::spawn(async move { mutex.lock().await.expect("its turn comes") });
    until("it has places", async || within(places(&servers)).await >= 2).await;
    servers[0].kill();
    let left = &servers[1..];
    until("it listens to those that are left", async || listened_to(left) == 2).await;
    assert_eq!(within(guard.release()).await, Released::Held);
    let guard = within(waiting).await.expect("no panic");
    until("its places are gone", async || within(places(left)).await == 0).await;
    assert_eq!(within(guard.release()).await, Released::Held);
}
