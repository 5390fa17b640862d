//! Streams that are dropped at every poll, and what is left of them.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use fencelock::{Error, Released, blocking};
use futures_util::{Stream, StreamExt as _, stream};

use crate::forms::{PATIENCE, Pair, Stores, TTL, until};

/// When nothing has woken a stream for so long, it waits for somebody else.
const QUIET: Duration = Duration::from_millis(25);
const MOST_POLLS: usize = 24;

/// Rings when a stream was woken.
struct Woken(mpsc::Sender<()>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let _nobody_looks = self.0.send(());
    }
}

/// How far a stream came.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    /// It was dropped in the middle.
    Dropped,
    Ended,
}

/// Polls so often, each time when it was woken or nothing happens any more, and drops it.
fn poll_then_drop<T>(
    mut items: impl Stream<Item = Result<T, Error>> + Unpin,
    polls: usize,
    mut before: impl FnMut(usize),
) -> Came {
    let (ring, rings) = mpsc::channel();
    let waker = Waker::from(Arc::new(Woken(ring)));
    for poll in 0..polls {
        before(poll);
        match Pin::new(&mut items).poll_next(&mut Context::from_waker(&waker)) {
            Poll::Ready(None) => return Came::Ended,
            Poll::Ready(Some(item)) => drop(item.expect("nothing fails")),
            Poll::Pending => {
                let _quiet = rings.recv_timeout(QUIET);
            }
        }
    }
    Came::Dropped
}

/// The other client has the lock at once, and nothing is left of the first.
fn is_free(pair: &Pair, what: &str) {
    let guard = pair.other.mutex("job").ttl(TTL).wait(PATIENCE).lock();
    assert_eq!(guard.expect(what).release(), Released::Held, "{what}");
    until(&format!("nothing is left: {what}: {:?}", pair.own), || {
        let shown = format!("{:?}", pair.own);
        ["leases: 0", "pending: 0", "lines: 0", "routes: 0"].iter().all(|none| shown.contains(none))
    });
}

/// Items that pause in between, and say when their stream is gone.
fn items(gone: &Arc<AtomicBool>) -> impl Stream<Item = u32> + Unpin + use<> {
    struct Gone(Arc<AtomicBool>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let gone = Gone(Arc::clone(gone));
    Box::pin(stream::unfold((0, gone), |(number, gone)| async move {
        tokio::task::yield_now().await;
        (number < 3).then_some((number, (number + 1, gone)))
    }))
}

#[test]
fn a_stream_dropped_at_any_poll_leaves_nothing_on_every_store() {
    let stores = Stores::answering_within(Duration::from_secs(1));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.unwrap();
    let _inside = runtime.enter();
    for pair in &stores.pairs {
        let mutex = pair.own.as_async().mutex("job").ttl(TTL);
        for polls in 0..MOST_POLLS {
            let what = format!("{} polls {polls}", pair.own.store_display());
            let gone = Arc::new(AtomicBool::new(false));
            let came = poll_then_drop(mutex.run_stream(|_held| items(&gone)), polls, |_| {});
            assert!(polls == 0 || gone.load(Ordering::SeqCst) || came == Came::Dropped, "{what}");
            is_free(pair, &what);
            if came == Came::Ended {
                break;
            }
            assert!(polls + 1 < MOST_POLLS, "it ends: {what}");
        }
    }
}

#[test]
fn a_stream_dropped_while_it_waits_leaves_no_place_on_every_store() {
    let stores = Stores::answering_within(Duration::from_secs(1));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.unwrap();
    let _inside = runtime.enter();
    for pair in &stores.pairs {
        let mutex = pair.own.as_async().mutex("job").ttl(TTL);
        for release_at in [0, 1, 3, usize::MAX] {
            for polls in 0..7 {
                let what = format!("{} {release_at} of {polls}", pair.own.store_display());
                let mut holder = Some(pair.taken_by_other("job"));
                let items = mutex.run_stream(|_held| stream::iter(1..=3).chain(stream::pending()));
                let came = poll_then_drop(items, polls, |poll| {
                    if poll == release_at {
                        let released = holder.take().map(blocking::Guard::release);
                        assert_eq!(released, Some(Released::Held));
                    }
                });
                assert_eq!(came, Came::Dropped, "{what}");
                if let Some(guard) = holder {
                    until("no place is left", || pair.waiting("job") == 0);
                    assert_eq!(guard.release(), Released::Held, "{what}");
                }
                is_free(pair, &what);
            }
        }
    }
}
