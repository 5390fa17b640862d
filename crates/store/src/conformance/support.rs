//! Short ways to ask a store, for the cases.

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

use fencelock_core::{
    AcquireRequest, Acquired, ExchangeRequest, Exchanged, Fence, FencingToken, ForceReleaseRequest,
    Forced, Grant, HealRequest, Healed, Holder, InspectRequest, Inspection, LockName, Metadata,
    Moment, Names, Novelty, Proof, Queued, RaiseFenceRequest, Raised, ReleaseRequest, Released,
    RenewRequest, Renewed, RevokeRequest, Revoked, ShortenRequest, Shortened, Token, Ttl,
};

use crate::{Outcome, Store, StoreError, StoreErrorKind, StoreResult, rt};

/// The ttl of most leases in the suite: far longer than any case takes.
pub(super) const MINUTE: Duration = Duration::from_secs(60);

pub(super) const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(super) fn ttl(span: Duration) -> Ttl {
    Ttl::new(span).expect("a ttl within the limits")
}

pub(super) fn name(bytes: impl AsRef<[u8]>) -> LockName {
    LockName::new(bytes).expect("a name within the limits")
}

pub(super) fn names(list: &[&str]) -> Names {
    Names::new(list.iter().map(name)).expect("a set within the limits")
}

pub(super) fn metadata(bytes: impl Into<Vec<u8>>) -> Metadata {
    Metadata::new(bytes).expect("metadata within the limits")
}

pub(super) fn token() -> Token {
    rt::fresh_token()
}

pub(super) fn request(names: impl Into<Names>, token: Token) -> AcquireRequest {
    AcquireRequest::new(names, token, ttl(MINUTE))
}

pub(super) fn above(fencing_token: FencingToken, by: u64) -> FencingToken {
    FencingToken::new(fencing_token.as_u64() + by).expect("within the range")
}

/// Asks with enough time, and takes an answer for granted.
#[allow(async_fn_in_trait)] // Not public: each future is awaited where it was made.
pub(super) trait Ask: Store {
    fn by(&self) -> Moment {
        self.clock().now().saturating_add(secs(30))
    }

    async fn ask_acquire(&self, request: &AcquireRequest) -> Acquired {
        self.acquire(request, self.by()).await.expect("the store answers an acquire").answer
    }

    async fn try_take(&self, names: impl Into<Names>, token: Token) -> Acquired {
        self.ask_acquire(&request(names, token)).await
    }

    async fn take(&self, names: impl Into<Names>, token: Token) -> Grant {
        self.take_as(&request(names, token)).await
    }

    async fn take_as(&self, request: &AcquireRequest) -> Grant {
        match self.ask_acquire(request).await {
            Acquired::Granted(grant) => {
                assert_eq!(grant.novelty, Novelty::Fresh, "{} was not free", request.names);
                grant
            }
            other => panic!("{} was not granted: {other:?}", request.names),
        }
    }

    /// Takes a name, and returns its fencing token. Only for stores with such.
    async fn take_fenced(&self, names: impl Into<Names>, token: Token) -> FencingToken {
        fenced(&self.take(names, token).await)
    }

    async fn renew_for(&self, names: impl Into<Names>, token: Token, span: Duration) -> Renewed {
        let batch = [RenewRequest::new(names, token, ttl(span))];
        let mut answers = self.ask_renew(&batch).await;
        assert_eq!(answers.len(), 1, "a batch of one has one answer");
        answers.remove(0)
    }

    async fn ask_renew(&self, batch: &[RenewRequest]) -> Vec<Renewed> {
        self.renew(batch, self.by()).await.expect("the store answers a renewal").answer
    }

    async fn shorten_to(&self, names: impl Into<Names>, token: Token, span: Duration) -> Shortened {
        let request = ShortenRequest::new(names, token, ttl(span));
        self.shorten(&request, self.by()).await.expect("the store answers a shorten").answer
    }

    async fn give_back(&self, names: impl Into<Names>, token: Token) -> Released {
        let request = ReleaseRequest::new(names, token);
        self.release(&request, self.by()).await.expect("the store answers a release").answer
    }

    async fn exchange(&self, names: impl Into<Names>, from: Token, to: Token) -> Exchanged {
        self.ask_exchange(&ExchangeRequest::new(names, from, to, ttl(MINUTE))).await
    }

    async fn ask_exchange(&self, request: &ExchangeRequest) -> Exchanged {
        self.exchange_token(request, self.by()).await.expect("the store answers an exchange").answer
    }

    async fn raise(&self, names: impl Into<Names>, token: Token, to: FencingToken) -> Raised {
        let request = RaiseFenceRequest::new(names, token, to);
        self.raise_fence(&request, self.by()).await.expect("the store answers a raise").answer
    }

    async fn ask_heal(&self, request: &HealRequest) -> Healed {
        self.heal(request, self.by()).await.expect("the store answers a heal").answer
    }

    async fn look(&self, at: &LockName) -> Inspection {
        let request = InspectRequest::new(at.clone());
        self.inspect(&request, self.by()).await.expect("the store answers an inspect").answer
    }

    async fn force(&self, at: &LockName) -> Forced {
        let request = ForceReleaseRequest::new(at.clone());
        self.force_release(&request, self.by()).await.expect("the store answers a force").answer
    }

    async fn ask_revoke(&self, at: &LockName) -> Revoked {
        let request = RevokeRequest::new(at.clone());
        self.revoke(&request, self.by()).await.expect("the store answers a revoke").answer
    }

    /// Takes a place in the line of the first busy name, or says that it is still wanted; and
    /// checks which one it is.
    async fn queue(&self, request: &AcquireRequest, position: u32) -> Queued {
        match self.ask_acquire(request).await {
            Acquired::Queued(queued) => {
                assert_eq!(queued.position, position, "the place of {}: {queued:?}", request.token);
                queued
            }
            other => panic!("there was no place for {}: {other:?}", request.token),
        }
    }

    /// The grant that was handed to a waiter, as its next question finds it.
    async fn fetch(&self, request: &AcquireRequest) -> Grant {
        match self.ask_acquire(request).await {
            Acquired::Granted(grant) => {
                assert_eq!(
                    grant.novelty,
                    Novelty::Repeated,
                    "{} was not handed over",
                    request.names
                );
                grant
            }
            other => panic!("{} was not handed over: {other:?}", request.names),
        }
    }

    async fn holder(&self, at: &LockName) -> Holder {
        match self.look(at).await {
            Inspection::Held(holder) => holder,
            other => panic!("{at} is not held: {other:?}"),
        }
    }

    /// Checks who holds a name, and returns how long the lease has left.
    async fn assert_held_by(&self, at: &LockName, token: Token) -> Duration {
        let holder = self.holder(at).await;
        assert_eq!(holder.proof, Some(Proof::from(token)), "{at} is held by another token");
        holder.remaining.expect("a lease ends")
    }

    async fn assert_free(&self, at: &LockName) {
        let seen = self.look(at).await;
        assert!(matches!(seen, Inspection::Free { .. }), "{at} is not free: {seen:?}");
    }
}

impl<S: Store> Ask for S {}

/// The fencing token of a grant that must have one.
#[track_caller]
pub(super) fn fenced(grant: &Grant) -> FencingToken {
    match grant.fence {
        Fence::Token(fencing_token) => fencing_token,
        other => panic!("the grant has no fencing token: {other:?}"),
    }
}

/// Checks that a request was refused for want of a capability, and certainly not carried out.
#[track_caller]
pub(super) fn assert_unsupported<A: std::fmt::Debug>(result: Result<A, StoreError>) {
    assert_error(result, StoreErrorKind::Unsupported);
}

/// Checks the kind of a failure of something that was certainly not done.
#[track_caller]
pub(super) fn assert_error<A: std::fmt::Debug>(
    result: Result<A, StoreError>,
    kind: StoreErrorKind,
) {
    match result {
        Ok(answer) => panic!("expected an error of the kind {kind:?}, not {answer:?}"),
        Err(error) => {
            assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotDone), "{error}");
            assert!(!error.to_string().is_empty(), "an error says what happened");
        }
    }
}

/// Takes the answer out of a result that must be one.
#[track_caller]
pub(super) fn answered<A>(result: StoreResult<A>) -> A {
    result.expect("the store answers").answer
}

/// Polls a future once and drops it, as a caller that changed its mind.
pub(super) async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Runs futures at the same time, until all have ended.
pub(super) async fn all_at_once<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> =
        futures.into_iter().map(|future| (Box::pin(future), None::<F::Output>)).collect();
    poll_fn(|context| {
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ended) = future.as_mut().poll(context) {
                *output = Some(ended);
            }
        }
        if running.iter().all(|(_, output)| output.is_some()) {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

/// Runs work on a runtime of its own, on a thread of its own, and waits until both are gone.
pub(super) async fn on_another_runtime<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    rt::blocking(move || rt::block_on(work)).await.expect("the work ends without a panic")
}
