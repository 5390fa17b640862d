//! The end of a subscription, and of the runtime that reads it.
#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::mpsc, thread, time::Duration};

use common::Ear;
use fencelock_sqlite::SqliteStore;

/// Longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A socket that was shut is always ready and has nothing: whoever tries again and again to read it
/// never comes to an end. It has to be seen shut before the task hears that it is over, which is a
/// matter of luck, so there are several rounds.
#[test]
fn a_runtime_ends_whose_subscription_was_dropped_while_it_slept() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("locks.db")).unwrap();
    for _ in 0..30 {
        let (give, given) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let store = store.clone();
        let reader = thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build().unwrap();
            runtime.block_on(async {
                let (_ear, subscription) = Ear::listening(&store).await;
                give.send(subscription).unwrap();
                ended.await.unwrap();
            });
            drop(runtime);
            tell.send(()).unwrap();
        });
        drop(given.recv_timeout(LIMIT).unwrap());
        end.send(()).unwrap();
        told.recv_timeout(LIMIT).expect("the runtime comes to an end");
        reader.join().unwrap();
    }
}
