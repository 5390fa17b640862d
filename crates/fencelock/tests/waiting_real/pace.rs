//! How long it takes until the next process has the lock, over a network that takes its time.

use std::time::{Duration, Instant};

use fencelock_testkit::{Proxy, RedisServer};

use crate::child::Child;

const ROUNDS: usize = 40;

/// Goal: a hand-off takes the release to the server and a message from it, and nothing else.
/// Method: two processes take turns through a proxy, and the median of their hand-offs is compared
/// with the round trips of the same minute. With a slow network a second round trip would show
/// however busy the machine is; the figure of a fast one is printed.
#[test]
fn a_hand_off_takes_one_round_trip() {
    let _figure = measure(Duration::from_millis(1), Duration::from_millis(20));
    let trips = measure(Duration::from_millis(20), Duration::from_millis(100));
    assert!(trips < 1.6, "{trips}");
}

/// Each way takes so long, and a holder keeps the lock for `hold`: long enough for the other to be
/// in line again.
fn measure(one_way: Duration, hold: Duration) -> f64 {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    proxy.delay_requests(one_way);
    proxy.delay_replies(one_way);
    let mut children = [Child::plain(&proxy.url()), Child::plain(&proxy.url())];
    for child in &mut children {
        child.say(format_args!("bounce all {ROUNDS} job {}", hold.as_millis()));
    }
    let round_trip = median(round_trips(&proxy));
    let mut grants = Vec::new();
    for (process, child) in children.iter().enumerate() {
        for grant in child.wait("bounced", "all").rest.split(' ') {
            let numbers: Vec<u64> =
                grant.split(':').map(|word| word.parse().expect("a number")).collect();
            let [token, acquired, releasing] = numbers[..] else { panic!("{grant}") };
            grants.push((token, process, acquired, releasing));
        }
    }
    grants.sort_unstable();
    let mut hand_offs = Vec::new();
    for pair in grants.windows(2) {
        let ((_, from, _, releasing), (_, to, acquired, _)) = (pair[0], pair[1]);
        assert!(acquired > releasing, "{pair:?}");
        if from != to {
            hand_offs.push(Duration::from_nanos(acquired - releasing));
        }
    }
    assert!(hand_offs.len() > ROUNDS / 2, "they took turns: {} times", hand_offs.len());
    let hand_off = median(hand_offs);
    let trips = hand_off.as_secs_f64() / round_trip.as_secs_f64();
    println!("a hand-off takes {hand_off:?}, a round trip {round_trip:?}: {trips:.2} round trips");
    trips
}

fn round_trips(proxy: &Proxy) -> Vec<Duration> {
    let mut connection =
        redis::Client::open(proxy.url()).and_then(|client| client.get_connection()).expect("one");
    let mut ping = || {
        let start = Instant::now();
        let _: String = redis::cmd("PING").query(&mut connection).expect("a pong");
        start.elapsed()
    };
    (0..ROUNDS).map(|_| ping()).collect()
}

fn median(mut spans: Vec<Duration>) -> Duration {
    spans.sort_unstable();
    spans[spans.len() / 2]
}
