//! A subscription: the socket of one process, and the task that reads it.
//!
//! ```text
//!   listening --subscription dropped--> over
//!       |
//!       +--runtime ends, folder vanishes, sink panics--> broken, said once
//! ```
//! The task sleeps until the kernel has something for it: a message, or that the socket's file or
//! its folder was removed or moved.

use std::{
    io,
    mem::MaybeUninit,
    net::Shutdown,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use fencelock_store::{StoreError, Subscription, WakeupSink, rt};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::{
    message::{self, BUFFER_BYTES},
    wake_folder::Seat,
};

/// Begins to read the socket, in the caller's runtime.
pub(crate) fn listen(
    seat: Seat,
    socket: std::os::unix::net::UnixDatagram,
    sink: Arc<dyn WakeupSink>,
) -> Result<Subscription, StoreError> {
    let failed = |error| {
        StoreError::unsupported("this runtime waits for no sockets: build it with I/O")
            .with_source(error)
    };
    let socket = rt::datagram(socket).map_err(failed)?;
    let watch = Watch::of(&seat);
    let listener = seat.listener;
    let state = Arc::new(State {
        over: AtomicBool::new(false),
        news: rt::sync::Notify::new(),
        socket,
        seat,
    });
    let ear = Ear { sink, state: Arc::clone(&state) };
    let end = End(state);
    if !rt::try_spawn(async move { ear.read(watch).await }) {
        return Err(StoreError::unavailable("the runtime is shutting down"));
    }
    Ok(Subscription::new(listener, end))
}

struct State {
    /// Dropped, or broken: the sink is told nothing more.
    over: AtomicBool,
    news: rt::sync::Notify,
    socket: rt::net::UnixDatagram,
    seat: Seat,
}

impl State {
    /// Whether this ended it.
    fn end(&self) -> bool {
        let was_over = self.over.swap(true, Ordering::AcqRel);
        self.seat.leave();
        if self.seat.is_ours() {
            // Whoever has found it already shall not send where nobody reads.
            let _ = self.socket.shutdown(Shutdown::Both);
        }
        !was_over
    }
}

/// Ends a subscription on drop.
struct End(Arc<State>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
        self.0.news.notify_one();
    }
}

/// Says that it is broken when it ends by itself.
struct Ear {
    sink: Arc<dyn WakeupSink>,
    state: Arc<State>,
}

impl Ear {
    async fn read(self, watch: Option<Watch>) {
        let state = &self.state;
        let mut buffer = [0; BUFFER_BYTES];
        // The folder may have vanished before it was watched.
        if !state.seat.is_there() {
            return;
        }
        loop {
            // Not `recv`: once the socket was shut it never ends and never yields, since such a socket
            // is always ready and yet has nothing (https://github.com/tokio-rs/tokio/issues/1679).
            let ready = rt::select! {
                ready = state.socket.readable() => ready,
                () = state.news.notified() => return,
                () = changed(watch.as_ref()) => {
                    if state.seat.is_there() {
                        continue;
                    }
                    return;
                }
            };
            // Before the socket is shut this is set.
            if ready.is_err() || state.over.load(Ordering::Acquire) {
                return;
            }
            let length = match state.socket.try_recv(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => return,
            };
            if let Some(wakeup) = message::decode(&buffer[..length]) {
                self.sink.wake(wakeup);
            }
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        if self.state.end() {
            self.sink.broken();
        }
    }
}

/// Hears of the end of the socket's file and of its folder. There are few of these for each user
/// (128): without one, a folder that vanishes goes unnoticed, and waiters have their timers.
struct Watch(rt::net::AsyncFd<OwnedFd>);

impl Watch {
    fn of(seat: &Seat) -> Option<Self> {
        let made = || {
            let notices = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let gone = WatchFlags::ATTRIB | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
            for path in seat.paths() {
                inotify::add_watch(&notices, path, gone)?;
            }
            rt::watched(notices)
        };
        made()
            .inspect_err(|error| tracing::debug!(%error, "the folder can't be watched"))
            .ok()
            .map(Self)
    }

    /// Waits for a notice, whichever.
    async fn notice(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let read = |notices: &rt::net::AsyncFd<OwnedFd>| {
                let mut buffer = [MaybeUninit::<u8>::uninit(); 1024];
                let (read, _) = rustix::io::read(notices.get_ref(), &mut buffer)?;
                Ok(read.len())
            };
            if let Ok(read) = ready.try_io(read) {
                return read.map(|_| ());
            }
        }
    }
}

/// Never, where nothing is watched.
async fn changed(watch: Option<&Watch>) {
    match watch {
        Some(watch) if watch.notice().await.is_ok() => {}
        _ => std::future::pending().await,
    }
}
