//! Names that several hold together, behind sentinels: a fail-over keeps every hold that was
//! replicated, and what they keep out.

mod support;

use fencelock_core::{
    AcquireRequest, Acquired, Grant, Inspection, Mode, Owner, ReleaseRequest, Released,
    RenewRequest, Renewed, Token,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::Store;
use fencelock_testkit::Replicated;
use support::{inspect, name, store_at, token, ttl, within};

/// How long a whole fail-over may take on a starved machine.
const FAILOVER_MS: u64 = 60_000;

fn owned(owner: &str) -> Mode {
    Mode::Owned(Owner::new(owner.as_bytes()).expect("an owner"))
}

async fn ask(store: &RedisStore, at: &str, token: Token, mode: &Mode) -> Acquired {
    let mut request = AcquireRequest::new(name(at), token, ttl(300_000));
    request.mode = mode.clone();
    store.acquire(&request, within(store, FAILOVER_MS)).await.expect("a primary answers").answer
}

async fn take(store: &RedisStore, at: &str, token: Token, mode: &Mode) -> Grant {
    match ask(store, at, token, mode).await {
        Acquired::Granted(grant) => grant,
        other => panic!("{at} by {mode:?}: {other:?}"),
    }
}

async fn release(store: &RedisStore, at: &str, token: Token) -> Released {
    let request = ReleaseRequest::new(name(at), token);
    store.release(&request, within(store, FAILOVER_MS)).await.expect("a primary answers").answer
}

/// Goal: a hold beside others outlives the primary that granted it, with its number, and still keeps
/// out whom it should. Method: two holds of each kind, replicated; the primary is killed.
#[tokio::test]
async fn every_hold_of_several_outlives_a_fail_over() {
    let service = Replicated::start(1);
    let store = store_at(&service.url(), Dialect::Native);
    let permits = Mode::Permits { permits: 2, limit: 5 };
    // At each name: who may come beside them after, and who may not.
    let names = [
        ("readers", Mode::Shared, Mode::Shared, Mode::Exclusive),
        (
            "permits",
            permits,
            Mode::Permits { permits: 1, limit: 5 },
            Mode::Permits { permits: 2, limit: 5 },
        ),
        ("owned", owned("me"), owned("me"), owned("another")),
    ];
    let mut holds = Vec::new();
    for (at, mode, ..) in &names {
        for holder in [token(), token()] {
            let grant = take(&store, at, holder, mode).await;
            holds.push((*at, holder, grant.fence.token().expect("it has a number")));
        }
    }
    let old = service.primary();
    old.cli(&["WAIT", "1", "10000"]);
    old.kill();

    for (at, holder, _) in &holds {
        let renewal = [RenewRequest::new(name(at), *holder, ttl(300_000))];
        let by = within(&store, FAILOVER_MS);
        let renewed = store.renew(&renewal, by).await.expect("a primary answers").answer;
        assert!(matches!(renewed[0], Renewed::Extended { .. }), "{at}: {renewed:?}");
    }
    assert_ne!(service.primary().port(), old.port());
    for (at, _, beside, against) in &names {
        let Inspection::Held(holder) = inspect(&store, at).await else { panic!("{at} is held") };
        assert_eq!(holder.sharing.expect("by several").holders, 2, "{at}");
        let refused = ask(&store, at, token(), against).await;
        assert!(matches!(refused, Acquired::Busy(_)), "{at}: {refused:?}");
        let third = token();
        let number = take(&store, at, third, beside).await.fence.token().expect("it has one");
        let of_name = holds.iter().filter(|(held, ..)| held == at);
        let highest = of_name.map(|(.., number)| *number).max().expect("two hold it");
        match beside {
            Mode::Owned(_) => assert_eq!(number, highest, "one owner has one fencing token"),
            _ => assert!(number > highest, "{at}: {number} after {highest}"),
        }
        holds.push((at, third, number));
    }
    for (at, holder, _) in &holds {
        assert_eq!(release(&store, at, *holder).await, Released::Held, "{at}");
    }
    for (at, .., against) in &names {
        let highest =
            holds.iter().filter(|(held, ..)| held == at).map(|(.., number)| *number).max();
        let next = take(&store, at, token(), against).await;
        assert!(next.fence.token() > highest, "{at}: {next:?} after {highest:?}");
    }
}
