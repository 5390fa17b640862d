//! The only file of the library that knows the async runtime, reads clocks and draws random
//! numbers.
//!
//! Everything else asks here, so that another runtime, or a simulated one, is a change of one file.

use std::{
    cell::RefCell,
    future::Future,
    io,
    os::fd::OwnedFd,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Condvar, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use fencelock_core::{ListenerId, Moment, StoreTime, Token};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Channels and signals between tasks.
pub mod sync {
    pub use tokio::sync::{
        Mutex, MutexGuard, Notify, OnceCell, OwnedMutexGuard, broadcast, mpsc, oneshot, watch,
    };
}

/// Sockets and other descriptors, as tasks wait for them.
pub mod net {
    pub use tokio::{io::unix::AsyncFd, net::UnixDatagram};
}

pub use tokio::{pin, select, task_local};

/// Now, on the clock that runs during suspend.
#[must_use]
pub fn boottime_now() -> Moment {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    // Elsewhere the monotonic clock already counts suspended time, or nothing does.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    Moment::from_nanos(nanos(clock_gettime(clock)))
}

/// Now, on the clock that stands still during suspend.
#[must_use]
pub fn monotonic_now() -> Moment {
    Moment::from_nanos(nanos(clock_gettime(ClockId::Monotonic)))
}

/// Now, on the wall clock, in microseconds since 1970. It may be stepped: only for fencing tokens
/// and for people.
#[must_use]
pub fn wall_now() -> StoreTime {
    StoreTime::from_micros(nanos(clock_gettime(ClockId::Realtime)) / 1_000)
}

fn nanos(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// Sleeps on the runtime's timer.
pub async fn sleep(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Lets other tasks of the runtime go first.
pub async fn yield_now() {
    tokio::task::yield_now().await;
}

/// Runs a future for at most a span; `None` when that was too short.
pub async fn timeout<F: Future>(span: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(span, future).await.ok()
}

/// Runs a future until another ends; `None` when the other was first.
pub async fn first<F: Future>(future: F, other: impl Future<Output = ()>) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = other => None,
    }
}

/// Polls a future once; its output, if it ended at once.
pub async fn once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Starts a task in the runtime of the caller. Outside a runtime it returns `false` and the future
/// is dropped.
pub fn try_spawn(future: impl Future<Output = ()> + Send + 'static) -> bool {
    match tokio::runtime::Handle::try_current() {
        Ok(handle) => {
            handle.spawn(future);
            true
        }
        Err(_) => false,
    }
}

/// Runs a blocking step on the runtime's threads for such; `None` when the runtime shuts down or
/// the step panicked.
pub async fn blocking<T: Send + 'static>(step: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(step).await.ok()
}

/// Starts a blocking step on the threads for such of the caller's runtime, at once: also where a
/// task never lets the runtime do anything else. Outside a runtime it returns `false` and the step
/// is dropped.
pub fn try_spawn_blocking(step: impl FnOnce() + Send + 'static) -> bool {
    match tokio::runtime::Handle::try_current() {
        Ok(handle) => {
            handle.spawn_blocking(step);
            true
        }
        Err(_) => false,
    }
}

/// A socket that tasks of the caller's runtime can wait for. It must not block.
///
/// # Errors
/// Outside a runtime, and in one that waits for no descriptors.
pub fn datagram(socket: std::os::unix::net::UnixDatagram) -> io::Result<net::UnixDatagram> {
    registered(|| net::UnixDatagram::from_std(socket))
}

/// Another descriptor that tasks of the caller's runtime can wait for. It must not block.
///
/// # Errors
/// Outside a runtime, and in one that waits for no descriptors.
pub fn watched(descriptor: OwnedFd) -> io::Result<net::AsyncFd<OwnedFd>> {
    // Deprecated for types that may lie about their descriptor; this one owns it.
    #[allow(deprecated)]
    registered(|| net::AsyncFd::with_interest(descriptor, tokio::io::Interest::READABLE))
}

/// A runtime that was built without I/O can't be asked whether it was: it panics.
fn registered<T>(register: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(register))
        .unwrap_or_else(|_| Err(io::Error::other("the runtime was built without I/O")))
}

/// How long ago a moment of the system's wall clock was; nothing for the future.
#[must_use]
pub fn wall_age(moment: std::time::SystemTime) -> Option<Duration> {
    std::time::SystemTime::now().duration_since(moment).ok()
}

/// Runs a future to its end on a runtime of its own, which ends with it: for tests and for threads
/// that have none. Must not be called from inside a task.
///
/// # Panics
/// When the system has no room for a runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    // A caller without a runtime has nothing else to run on.
    #[allow(clippy::expect_used)]
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system gives a runtime");
    runtime.block_on(future)
}

/// Which runtime the caller is in; nothing outside of one.
#[must_use]
pub fn runtime_id() -> Option<tokio::runtime::Id> {
    tokio::runtime::Handle::try_current().ok().map(|handle| handle.id())
}

/// Names a runtime.
pub type RuntimeId = tokio::runtime::Id;

/// Starts a named thread with a runtime of its own, which runs one future to its end.
///
/// # Errors
/// When the system gives no thread, or no runtime.
pub fn spawn_thread(
    name: &str,
    future: impl FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send + 'static,
) -> io::Result<thread::JoinHandle<()>> {
    let runtime = Owned(Some(tokio::runtime::Builder::new_current_thread().enable_all().build()?));
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        if let Some(runtime) = &runtime.0 {
            runtime.block_on(future());
        }
    })
}

/// A runtime on a thread of its own, for threads that have none: it drives sockets and timers, while
/// each caller polls its own future.
///
/// So a caller may itself be a task of another runtime: it blocks that runtime's thread, and nothing
/// here runs on it. Clones share the thread, which ends with the last of them.
#[derive(Clone, Debug)]
pub struct Driver(Arc<Driven>);

#[derive(Debug)]
struct Driven {
    handle: tokio::runtime::Handle,
    process: u32,
    /// The thread waits for its drop.
    stop: Option<sync::oneshot::Sender<std::convert::Infallible>>,
}

impl Driver {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no thread, or no runtime.
    pub fn start(name: &str) -> io::Result<Self> {
        let runtime =
            Owned(Some(tokio::runtime::Builder::new_current_thread().enable_all().build()?));
        let handle = runtime.0.as_ref().map(|runtime| runtime.handle().clone());
        let handle = handle.ok_or_else(|| io::Error::other("the runtime is gone"))?;
        let (stop, stopped) = sync::oneshot::channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Some(runtime) = &runtime.0 {
                let _dropped = runtime.block_on(stopped);
            }
        })?;
        let process = process_id();
        Ok(Self(Arc::new(Driven { handle, process, stop: Some(stop) })))
    }

    /// Runs a future to its end in the calling thread, which sleeps while there is nothing to do.
    /// `None` in the child of a fork, where the thread is not, when the future is not ready at once.
    pub fn wait<F: Future>(&self, future: F) -> Option<F::Output> {
        // In this order, so that the future is dropped inside too.
        let _entered = self.0.handle.enter();
        // Inside a task the budget of that task would count, and once it is used up nothing here
        // would ever be ready again.
        let mut future = std::pin::pin!(tokio::task::unconstrained(future));
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Some(output);
            }
            if self.is_forked() {
                return None;
            }
            bell.wait();
        }
    }

    /// Whether this is the child of a fork, where the thread is not.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        self.0.process != process_id()
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        if self.process != process_id() {
            // Telling would write to a descriptor that is shared with the parent.
            std::mem::forget(self.stop.take());
        }
    }
}

/// What a waiting thread listens to. Not `thread::park`: its one token belongs to the user.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    news: Condvar,
}

impl Bell {
    fn wait(&self) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let rung = self.news.wait_while(rung, |rung| !*rung);
        *rung.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.news.notify_one();
    }
}

/// A runtime whose drop waits for nothing. The plain drop panics inside another runtime, which is
/// where it ends up when the system gives no thread for it.
struct Owned(Option<tokio::runtime::Runtime>);

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The id of this process. In a child of a fork it is the child's, so that comparing it tells copies
/// from what belongs here; far cheaper than the system call of [`std::process::id`] on Linux.
#[must_use]
pub fn process_id() -> u32 {
    crate::sys::process_id()
}

/// A fresh token.
///
/// Drawn from a generator of the ChaCha family that each thread seeds from the operating system,
/// and seeds again after a fork, so that no two processes ever share a stream.
#[must_use]
pub fn fresh_token() -> Token {
    let mut bytes = [0; Token::BYTES];
    with_generator(|generator| generator.fill_bytes(&mut bytes));
    Token::from_bytes(bytes)
}

/// A fresh address for wakeups.
#[must_use]
pub fn fresh_listener() -> ListenerId {
    ListenerId::from_u64(with_generator(|generator| generator.next_u64()))
}

/// A random number for jitter.
#[must_use]
pub fn chance() -> u32 {
    with_generator(|generator| generator.next_u32())
}

fn with_generator<T>(draw: impl FnOnce(&mut StdRng) -> T) -> T {
    thread_local! {
        static GENERATOR: RefCell<Option<(u32, StdRng)>> = const { RefCell::new(None) };
    }
    GENERATOR.with_borrow_mut(|slot| {
        let process = process_id();
        match slot {
            Some((owner, generator)) if *owner == process => draw(generator),
            _ => {
                let (_, generator) = slot.insert((process, seeded()));
                draw(generator)
            }
        }
    })
}

fn seeded() -> StdRng {
    let mut seed = [0; 32];
    // Without randomness there are no secrets, and a lock whose token can be guessed is no lock.
    #[allow(clippy::expect_used)]
    getrandom::fill(&mut seed).expect("the operating system gives random bytes");
    StdRng::from_seed(seed)
}
