//! A stream under a lock: two sources, one after the other, and nobody else imports meanwhile.
//!
//! `cargo run --example stream [STORE]`

use std::time::Duration;

use fencelock::{Attempt, Error};
use futures_util::{Stream, StreamExt as _, stream};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let store = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    example(&store).await
}

pub(crate) async fn example(store: &str) -> Result<(), Error> {
    let locks = fencelock::connect(store).await?;
    let lock = locks.mutex("import").ttl(Duration::from_secs(10));

    // Nothing is locked before the first poll.
    let mut rows = lock.run_stream(|held| {
        let both = source("old").chain(source("new"));
        both.map(move |row| (row, held.fencing_token()))
    });

    let mut imported = 0;
    while let Some(row) = rows.next().await {
        // A loss is the last item; the source was dropped before it was told.
        let (row, fencing_token) = row?;
        // Also between the items, and in the second source: it is held until the stream ends.
        assert!(matches!(lock.try_lock().await?, Attempt::Busy(_)));
        println!("{row}, with fencing token {fencing_token:?}");
        imported += 1;
    }
    assert_eq!(imported, 6);

    // It ended, so the lock is free; whoever stops earlier drops the stream.
    let guard = lock.try_lock().await?.granted().expect("it is free");
    guard.release().await;
    locks.close().await;
    Ok(())
}

/// The rows of a system that takes its time.
fn source(name: &'static str) -> impl Stream<Item = String> {
    stream::iter(1..=3).then(move |row| async move {
        tokio::time::sleep(Duration::from_millis(10)).await;
        format!("row {row} of the {name} system")
    })
}
