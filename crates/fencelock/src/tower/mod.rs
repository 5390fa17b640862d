//! A layer of `tower` that does each request under a lock, whose name comes from the request.
//!
//! ```text
//!   poll_ready: as the inner service says
//!   call:       no name ------------------------------------------------> inner --> response
//!               a name --> wait for the lock --> inner, with `Held` --> release --> response
//!                              | too long              | lost
//!                              v                       v
//!                           LockError               LockError, and the inner future is dropped
//! ```
//! The lock is held from before the inner service is called until its response *future* has ended,
//! and it is given back before the response goes on: who sees the response can take the lock. A
//! body that is streamed after that is not under the lock. For work in a body, take the lock in the
//! handler and let the stream own the guard.
//!
//! A request that waits keeps the inner service that was ready for it, so limits of the inner
//! service count it; put a limit outside of this layer to bound how many wait.
//!
//! # Examples
//! ```
//! use fencelock::{Held, tower::LockLayer};
//! use http::Request;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = fencelock::connect("memory:").await?;
//! let layer = LockLayer::new(locks, |request: &Request<()>| {
//!     request.uri().path().strip_prefix("/invoices/").map(|id| format!("invoice:{id}"))
//! });
//! let service = layer.layer(service_fn(|request: Request<()>| async move {
//!     let held = request.extensions().get::<Held>().cloned();
//!     Ok::<_, std::convert::Infallible>(held.and_then(|held| held.fencing_token()))
//! }));
//! assert!(service.clone().oneshot(Request::get("/invoices/42").body(())?).await?.is_some());
//! assert!(service.oneshot(Request::get("/health").body(())?).await?.is_none());
//! # Ok(()) }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```

mod carry;
mod error;
mod service;

use std::{fmt, sync::Arc, time::Duration};

use fencelock_core::LockName;
use tower_layer::Layer;

pub use self::{
    carry::Carry,
    error::LockError,
    service::{LockFuture, LockService},
};
use crate::{Client, Mutex};

/// Puts a lock around each request of a service: see the [module](self).
pub struct LockLayer<F> {
    client: Client,
    name: Arc<F>,
    recipe: Arc<dyn Fn(Mutex) -> Mutex + Send + Sync>,
}

impl<F> LockLayer<F> {
    /// How long a request waits for its lock, unless [`LockLayer::recipe`] says otherwise: less
    /// than callers and the proxies before a service mostly wait for an answer.
    pub const DEFAULT_WAIT: Duration = Duration::from_secs(5);

    /// `name` says which lock a request needs; nothing for one that needs none.
    ///
    /// Two requests with one name are done one after the other, on all machines that share the
    /// store. A name that is taken from a request is as long and as strange as its sender likes: one
    /// that can't be the name of a lock is [`LockError::Name`].
    pub fn new<R, N>(client: Client, name: F) -> Self
    where
        F: Fn(&R) -> Option<N>,
        N: TryInto<LockName>,
        N::Error: fmt::Display,
    {
        Self { client, name: Arc::new(name), recipe: Arc::new(|mutex| mutex) }
    }

    /// Changes the recipe of each lock: its ttl, how long a request waits, how long it may take at
    /// most.
    ///
    /// ```
    /// # use fencelock::tower::LockLayer;
    /// # use std::time::Duration;
    /// # fn example(locks: fencelock::Client) {
    /// let layer = LockLayer::new(locks, |path: &String| Some(path.clone()))
    ///     .recipe(|mutex| mutex.wait(Duration::from_secs(1)).max_hold(Duration::from_secs(20)));
    /// # }
    /// ```
    #[must_use]
    pub fn recipe(self, recipe: impl Fn(Mutex) -> Mutex + Send + Sync + 'static) -> Self {
        Self { recipe: Arc::new(recipe), ..self }
    }

    fn mutex(&self, name: LockName) -> Mutex {
        (self.recipe)(self.client.mutex(name).wait(Self::DEFAULT_WAIT))
    }
}

impl<S, F> Layer<S> for LockLayer<F> {
    type Service = LockService<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        LockService::new(inner, self.clone())
    }
}

// Not derived: that would ask the closure to be cloned.
impl<F> Clone for LockLayer<F> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            name: Arc::clone(&self.name),
            recipe: Arc::clone(&self.recipe),
        }
    }
}

impl<F> fmt::Debug for LockLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockLayer").field("client", &self.client).finish_non_exhaustive()
    }
}
