//! A service of `tower` whose requests are done under locks, named by the request.
//!
//! `cargo run -p fencelock --example tower [STORE]`

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use fencelock::{Held, tower::LockLayer};
use http::{Request, StatusCode};
use tokio::sync::Mutex;
use tower::{Layer, ServiceExt, service_fn};

mod shown;

use shown::{Outcome, shown};

#[tokio::main]
async fn main() -> Outcome {
    example(&std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned())).await
}

pub(crate) async fn example(store: &str) -> Outcome {
    let locks = fencelock::connect(store).await?;
    let balances = Arc::new(Mutex::new(BTreeMap::<String, u64>::new()));

    // Reads, waits, and writes what it read plus one: wrong, unless one is done after the other.
    let accounts = Arc::clone(&balances);
    let deposit = service_fn(move |request: Request<()>| {
        let accounts = Arc::clone(&accounts);
        async move {
            let account = request.uri().path().to_owned();
            let balance = accounts.lock().await.get(&account).copied().unwrap_or(0);
            tokio::task::yield_now().await;
            accounts.lock().await.insert(account, balance + 1);
            Ok::<_, Infallible>(request.extensions().get::<Held>().is_some())
        }
    });
    let layer = LockLayer::new(locks.clone(), |request: &Request<()>| {
        request.uri().path().strip_prefix("/accounts/").map(|id| format!("account:{id}"))
    })
    .recipe(|mutex| mutex.wait(Duration::from_secs(60)));
    let service = layer.layer(deposit);

    let request = || Request::post("/accounts/7").body(());
    let (mut deposits, mut held) = (tokio::task::JoinSet::new(), true);
    for _ in 0..20 {
        deposits.spawn(service.clone().oneshot(request()?));
    }
    while let Some(deposit) = deposits.join_next().await {
        held &= deposit??;
    }
    let balance = balances.lock().await.get("/accounts/7").copied();
    shown(held && balance == Some(20), "none of 20 deposits at the same time was overwritten")?;

    let _elsewhere = locks.mutex("account:7").lock().await?;
    let hasty = layer.recipe(|mutex| mutex.wait(Duration::ZERO)).layer(service);
    let status = hasty.oneshot(request()?).await.err().and_then(|error| error.status());
    shown(status == Some(StatusCode::LOCKED), "a busy account is answered with 423")
}
