//! Many readers or one writer: a catalogue that is read while nobody rebuilds it.
//!
//! `cargo run --example rwlock [STORE]`

use std::time::Duration;

use fencelock::{Client, Error, RwLock, fenced::check_read};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let store = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = fencelock::connect(store).await?;
    example(&locks).await
}

/// Three readers at once, then a writer that reads what it wrote.
pub(crate) async fn example(locks: &Client) -> Result<(), Error> {
    let catalogue = locks.rwlock("catalogue").ttl(Duration::from_secs(10));

    let readers: Vec<_> =
        (0..3).map(|reader| tokio::spawn(read(catalogue.clone(), reader))).collect();
    for reader in readers {
        reader.await.expect("no reader panics")?;
    }

    let late = catalogue.read().await?;
    let late_number = late.shared_token().expect("the store has numbers");
    drop(late);

    let writer = catalogue.wait(Duration::from_secs(30)).write().await?;
    let highest = writer.fencing_token();
    println!("rebuilt, as writer {highest:?}");

    // It goes on as a reader, and no other writer was in between.
    let reader = writer.downgrade().await?;
    let number = reader.shared_token().expect("the same number");
    println!("looked at by number {number}, which may: {:?}", check_read(highest, number));
    println!("a reader from before may not: {:?}", check_read(highest, late_number));
    assert!(check_read(highest, late_number).is_stale());

    reader.release().await;
    Ok(())
}

async fn read(catalogue: RwLock, reader: u32) -> Result<(), Error> {
    // The work is dropped when the lease of this reader is lost; those of the others go on.
    let work = |held: fencelock::ReadHeld| async move {
        println!("reader {reader} reads under number {:?}", held.shared_token());
    };
    catalogue.run_read(work).await
}
