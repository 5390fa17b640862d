//! What the `fenced_*` examples have in common: a holder that is paused, and the next one.

use std::{error::Error, time::Duration};

use fencelock::{Client, Guard, Renew};

/// What an example may fail with.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// The lock that all these examples use.
const NAME: &str = "fenced-example";

/// Takes the lock for a process that will be paused: by a garbage collector, a suspended machine, a
/// slow disk. It can't renew its lease then, so here nobody does; and it does not look whether it is
/// still valid before its next write, since it looked *before* the pause.
pub(crate) async fn about_to_be_paused(locks: &Client) -> Result<Guard, fencelock::Error> {
    locks
        .mutex(NAME)
        .ttl(Duration::from_millis(400))
        .renewal(Renew::Manual)
        .require_fencing()
        .lock()
        .await
}

/// Waits until the lease of the paused holder is over, and takes the lock.
pub(crate) async fn next_holder(locks: &Client) -> Result<Guard, fencelock::Error> {
    locks.mutex(NAME).wait(Duration::from_secs(60)).require_fencing().lock().await
}

/// The store of the locks: `REDIS_URL`, else a file in the temporary folder.
#[allow(dead_code)] // One example needs a Redis in any case.
pub(crate) fn store() -> String {
    std::env::var("REDIS_URL").unwrap_or_else(|_| {
        let file = std::env::temp_dir().join("fencelock-examples.db");
        format!("sqlite:{}", file.display())
    })
}
