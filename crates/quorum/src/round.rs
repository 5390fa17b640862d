//! One question to all nodes at the same time.
//!
//! All calls are polled with the first poll of the caller, so each node gets its requests in the
//! order of the callers' first polls (rule 6 of the Contract). Whoever waits leaves when enough is
//! known, or is dropped; the calls that are left go on in a task of the same runtime, and what
//! becomes of them is told to [`Late`]: also that the runtime ended before they did.

use std::{future::poll_fn, sync::Arc, task::Poll};

use fencelock_store::{BoxFuture, Reply, StoreError, rt};

/// What became of one call: an answer, or that there is none.
pub(crate) type Heard<A> = Result<Reply<A>, StoreError>;

/// Told what becomes of a call that nobody waits for any more.
pub(crate) trait Late<A>: Send + Sync + 'static {
    /// The call of one node ended.
    fn ended(&self, node: usize, heard: &Heard<A>);
}

/// For questions whose late answers change nothing.
pub(crate) struct Ignored;

impl<A> Late<A> for Ignored {
    fn ended(&self, _: usize, _: &Heard<A>) {}
}

/// One call to each node, or to some of them.
pub(crate) struct Round<A: Send + 'static> {
    calls: Vec<Option<BoxFuture<'static, Heard<A>>>>,
    heard: Vec<Option<Heard<A>>>,
    late: Arc<dyn Late<A>>,
    /// Whether all that comes from now on is told to `late`, too.
    telling: bool,
}

impl<A: Send + 'static> Round<A> {
    /// A call for each node; nothing, for a node that is not asked.
    pub(crate) fn new(
        calls: impl Iterator<Item = Option<BoxFuture<'static, Heard<A>>>>,
        late: Arc<dyn Late<A>>,
    ) -> Self {
        let calls: Vec<_> = calls.collect();
        let heard = calls.iter().map(|_| None).collect();
        Self { calls, heard, late, telling: false }
    }

    /// Says of a node that was not asked why not.
    pub(crate) fn note(&mut self, node: usize, why: StoreError) {
        self.heard[node] = Some(Err(why));
    }

    /// What is known by now, by node.
    pub(crate) fn heard(&self) -> &[Option<Heard<A>>] {
        &self.heard
    }

    /// The verdict has fallen: from now on each answer is told to [`Late`] as it comes.
    pub(crate) fn tell(&mut self) {
        self.telling = true;
    }

    /// Goes on until enough is known, or everything.
    pub(crate) async fn until(&mut self, enough: impl Fn(&[Option<Heard<A>>]) -> bool) {
        poll_fn(|context| {
            // All of them, also when the first few are enough: each request has to be on its way.
            let calls = self.calls.iter_mut().zip(&mut self.heard).enumerate();
            for (node, (call, heard)) in calls {
                let Some(running) = call else { continue };
                if let Poll::Ready(ended) = running.as_mut().poll(context) {
                    if self.telling {
                        self.late.ended(node, &ended);
                    }
                    *heard = Some(ended);
                    *call = None;
                }
            }
            if enough(&self.heard) || self.calls.iter().all(Option::is_none) {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }

    /// Puts the requests on their way and waits for none: everything is told to [`Late`].
    pub(crate) async fn send_off(mut self) {
        self.tell();
        self.until(|_| true).await;
    }
}

impl<A: Send + 'static> Drop for Round<A> {
    fn drop(&mut self) {
        let calls = std::mem::take(&mut self.calls).into_iter().enumerate();
        let calls: Vec<_> = calls.filter_map(|(node, call)| Some((node, call?))).collect();
        if !calls.is_empty() {
            let rest = Rest { calls, late: Arc::clone(&self.late) };
            // Outside a runtime the rest is dropped, which says so to `late`.
            rt::try_spawn(rest.run());
        }
    }
}

/// The calls that nobody waits for.
struct Rest<A: Send + 'static> {
    calls: Vec<(usize, BoxFuture<'static, Heard<A>>)>,
    late: Arc<dyn Late<A>>,
}

impl<A: Send + 'static> Rest<A> {
    async fn run(mut self) {
        poll_fn(|context| {
            let late = &self.late;
            self.calls.retain_mut(|(node, call)| match call.as_mut().poll(context) {
                Poll::Ready(ended) => {
                    late.ended(*node, &ended);
                    false
                }
                Poll::Pending => true,
            });
            if self.calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl<A: Send + 'static> Drop for Rest<A> {
    fn drop(&mut self) {
        for (node, call) in self.calls.drain(..) {
            drop(call);
            let ended = StoreError::unknown("the runtime ended before the node answered");
            self.late.ended(node, &Err(ended));
        }
    }
}
