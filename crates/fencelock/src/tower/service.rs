//! The service that the layer makes.

use std::{
    fmt,
    future::{Future, ready},
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use fencelock_core::LockName;
use tower_service::Service;

use super::{Carry, LockError, LockLayer};

/// A service whose requests are done under locks: see the [module](super).
pub struct LockService<S, F> {
    inner: S,
    layer: LockLayer<F>,
}

/// A response that is on its way. Dropping it drops the work, and gives the lock back.
pub type LockFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, LockError<E>>> + Send>>;

impl<S, F> LockService<S, F> {
    pub(super) fn new(inner: S, layer: LockLayer<F>) -> Self {
        Self { inner, layer }
    }
}

impl<S, F, R, N> Service<R> for LockService<S, F>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
    F: Fn(&R) -> Option<N>,
    N: TryInto<LockName>,
    N::Error: fmt::Display,
    R: Carry + Send + 'static,
{
    type Response = S::Response;
    type Error = LockError<S::Error>;
    type Future = LockFuture<S::Response, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(LockError::Inner)
    }

    fn call(&mut self, mut request: R) -> Self::Future {
        // The very service that said it is ready goes along with the request: a clone may not be.
        let another = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, another);
        let Some(name) = (self.layer.name)(&request) else {
            let response = inner.call(request);
            return Box::pin(async move { response.await.map_err(LockError::Inner) });
        };
        let name = match name.try_into() {
            Ok(name) => name,
            Err(why) => return Box::pin(ready(Err(LockError::Name(why.to_string())))),
        };
        let mutex = self.layer.mutex(name);
        Box::pin(async move {
            let work = mutex.run(move |held| {
                request.carry(held);
                inner.call(request)
            });
            work.await.map_err(LockError::Lock)?.map_err(LockError::Inner)
        })
    }
}

// Not derived: that would ask the closure to be cloned.
impl<S: Clone, F> Clone for LockService<S, F> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S: fmt::Debug, F> fmt::Debug for LockService<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockService").field("inner", &self.inner).finish_non_exhaustive()
    }
}
