//! Carries requests over a connection, one after the other, in a place on the heap that is made
//! once.
//!
//! The client library's future of one request has more than a kilobyte. Inside of every call it
//! made those allocations that `malloc` does slowly, twice in the life of a lock. So it lives in a
//! loop that takes a request from a cell, sends it, and lays the answer into the cell. The loop has
//! no waker of its own: whoever has a request to send polls it.

use std::{
    fmt,
    future::{Future, poll_fn},
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use redis::{Cmd, RedisError, Value, aio::MultiplexedConnection};

/// A request that was carried, and what became of it.
pub(super) struct Carried {
    /// Given back, so that it can go out again.
    pub(super) request: Cmd,
    pub(super) reply: Result<Value, RedisError>,
}

/// Couriers of one connection that have nothing to do. Each has a clone of the connection.
#[derive(Default)]
pub(super) struct Couriers {
    idle: Mutex<Vec<Courier>>,
}

/// One courier.
struct Courier {
    round: Pin<Box<dyn Future<Output = ()> + Send>>,
    cell: Arc<Cell>,
}

/// Where a courier finds a request and lays the answer.
#[derive(Default)]
struct Cell(Mutex<Load>);

#[derive(Default)]
enum Load {
    #[default]
    Nothing,
    Request(Cmd),
    Carried(Carried),
}

/// One request on its way. The first poll puts it into the connection.
///
/// Dropped before its end, it takes its courier along: an answer to come is not waited for.
pub(super) struct Carrying<'a> {
    couriers: &'a Couriers,
    courier: Option<Courier>,
}

impl Couriers {
    /// Some more than the tasks of a busy client; the others are made anew each time.
    const IDLE_MAX: usize = 128;

    /// Sends a request with an idle courier, or with a new one.
    pub(super) fn carry(&self, connection: &MultiplexedConnection, request: Cmd) -> Carrying<'_> {
        let idle = self.idle().pop();
        let courier = idle.unwrap_or_else(|| Courier::new(connection.clone()));
        *courier.cell.load() = Load::Request(request);
        Carrying { couriers: self, courier: Some(courier) }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Courier>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Courier {
    fn new(connection: MultiplexedConnection) -> Self {
        let cell = Arc::new(Cell::default());
        Self { round: Box::pin(rounds(connection, Arc::clone(&cell))), cell }
    }
}

async fn rounds(mut connection: MultiplexedConnection, cell: Arc<Cell>) {
    loop {
        let request = poll_fn(|_| match cell.take_request() {
            Some(request) => Poll::Ready(request),
            None => Poll::Pending,
        })
        .await;
        let reply = connection.send_packed_command(&request).await;
        *cell.load() = Load::Carried(Carried { request, reply });
    }
}

impl Cell {
    fn load(&self) -> MutexGuard<'_, Load> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_request(&self) -> Option<Cmd> {
        let mut load = self.load();
        match mem::take(&mut *load) {
            Load::Request(request) => Some(request),
            other => {
                *load = other;
                None
            }
        }
    }

    fn take_carried(&self) -> Option<Carried> {
        let mut load = self.load();
        match mem::take(&mut *load) {
            Load::Carried(carried) => Some(carried),
            other => {
                *load = other;
                None
            }
        }
    }
}

impl Future for Carrying<'_> {
    type Output = Carried;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Carried> {
        let Some(courier) = &mut self.courier else { return Poll::Pending };
        // It never ends by itself.
        let _ = courier.round.as_mut().poll(context);
        let Some(carried) = courier.cell.take_carried() else { return Poll::Pending };
        let courier = self.courier.take();
        let mut idle = self.couriers.idle();
        if idle.len() < Couriers::IDLE_MAX {
            idle.extend(courier);
        }
        Poll::Ready(carried)
    }
}

impl fmt::Debug for Couriers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Couriers").field("idle", &self.idle().len()).finish()
    }
}
