//! Several clients that want the same at the same time: each has its turn, and nobody hangs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use fencelock::{Client, MemoryStore, Released, Store};
use fencelock_quorum::QuorumStore;

const PATIENCE: Duration = Duration::from_secs(20);

/// Clients in one process of the same nodes in memory.
fn clients(nodes: usize, count: usize) -> Vec<Client> {
    let nodes: Vec<_> = (0..nodes).map(|_| MemoryStore::new()).collect();
    let client = |_| {
        let stores = nodes.iter().map(|node| Arc::new(node.another_client()) as Arc<dyn Store>);
        let store = QuorumStore::builder(stores).build().unwrap();
        Client::with_store(Arc::new(store))
    };
    (0..count).map(client).collect()
}

async fn all<T: Send + 'static>(tasks: Vec<tokio::task::JoinHandle<T>>) {
    let all = async {
        for task in tasks {
            task.await.expect("no task panics");
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("each has its turn");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_contenders_one_is_inside_and_fencing_tokens_grow() {
    for nodes in [2, 3, 5] {
        let (inside, highest) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
        let tasks = clients(nodes, 6).into_iter().map(|client| {
            let (inside, highest) = (Arc::clone(&inside), Arc::clone(&highest));
            tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = client.mutex("job").wait(PATIENCE).lock().await.expect("its turn");
                    assert_eq!(inside.fetch_add(1, SeqCst), 0, "two are inside");
                    let fence = u64::from(guard.fencing_token().expect("nodes have such"));
                    assert!(highest.swap(fence, SeqCst) < fence, "a token that is not larger");
                    tokio::task::yield_now().await;
                    assert_eq!(inside.fetch_sub(1, SeqCst), 1, "two are inside");
                    assert_eq!(guard.release().await, Released::Held);
                }
            })
        });
        all(tasks.collect()).await;
    }
}

/// The same two names in either order, and one of them twice. (node-redlock #305, redisson #1160)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_in_different_orders_do_not_block_each_other() {
    let orders = [vec!["a", "b"], vec!["b", "a"], vec!["a", "a"]];
    let tasks = clients(3, 3).into_iter().zip(orders).map(|(client, names)| {
        tokio::spawn(async move {
            for _ in 0..20 {
                let set = client.mutexes(names.clone()).wait(PATIENCE);
                let guard = set.lock().await.expect("its turn comes");
                assert_eq!(guard.release().await, Released::Held);
            }
            assert!(client.list("").await.expect("all answer").len() <= 2);
        })
    });
    all(tasks.collect()).await;
}
