//! A primary and its replica, and Sentinels that promote the other when one fails.

use fencelock_testkit::{RedisServerBuilder, Replicated};

use crate::{
    APART, SHORT, between,
    crew::Work,
    grants, lag,
    ledger::Order,
    world::{Fault, World, run},
};

/// A service that fails over: its primary is killed while its replica does not follow, and comes back
/// empty; or is frozen, and comes back as it was.
fn failing<'a>(service: &'a Replicated, url: String, hundredths: u64) -> World<'a> {
    World::new(url, Order::RealTime)
        .between(between(hundredths))
        .fault(Fault::new("kill -9 of the primary, ahead of its replica", || {
            let old = service.primary();
            lag::kill_ahead_of(old, service.replicas()[0]);
            service.await_failover_from(old.port());
            old.restart();
            service.settle();
        }))
        .fault(Fault::new("the primary is frozen until it is none", || {
            let old = service.primary();
            old.stop_signal();
            service.await_failover_from(old.port());
            old.cont();
            service.settle();
        }))
}

/// A3 is broken: grants that had not reached the replica are forgotten. Leans on the clock of the
/// promoted replica, which is that of the primary here: it must not be behind by more than the time
/// since the last forgotten grant, which is what the fail-over took. And on that each grant is asked
/// of the store.
#[test]
fn tokens_grow_over_fail_overs_that_forget_grants() {
    let service = Replicated::start(1);
    let work = Work::new(grants(30)).ttl(SHORT).strict_fifo();
    run(&failing(&service, service.url(), 30), &work);
}

/// A2 is broken: the clocks of the two servers are five seconds apart, so every fail-over is a step
/// of the clock, and of two the one is back. Leans on acknowledged grants with as many replicas as
/// there are: whatever was granted is known to the one that is promoted, and its number with it. On
/// no clock.
#[test]
fn acknowledged_tokens_grow_over_fail_overs_to_a_clock_that_is_behind() {
    let service = Replicated::start_with(1, 3, true, RedisServerBuilder::clock);
    service.servers()[0].clock().advance(APART);
    service.settle();
    let url = format!("{}?replicas=1", service.url());
    let work = Work::new(grants(10)).ttl(SHORT).strict_fifo();
    run(&failing(&service, url, 10), &work);
}
