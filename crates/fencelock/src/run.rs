//! Scoped work: the lock is taken before, given back after, and the work is dropped when it is
//! lost.

use std::{
    future::{Future, poll_fn},
    sync::Arc,
    task::Poll,
};

use fencelock_core::{LeaseState, LockName, LossReason, Names};
use fencelock_store::rt;

use crate::{Error, ErrorKind, Guard, Held, Released, context::Context, release};

rt::task_local! {
    /// What the scoped work around the present one holds.
    static HELD_HERE: Vec<(Arc<str>, Names)>;
}

/// Refuses names that this very task holds already: waiting for them would never end.
pub(crate) fn check_nesting(context: &Context, names: &Names) -> Result<(), Error> {
    let holds = |name: &LockName| {
        let held_here = |held: &Vec<(Arc<str>, Names)>| {
            held.iter().any(|(store, held)| {
                **store == *context.identity && held.as_slice().binary_search(name).is_ok()
            })
        };
        HELD_HERE.try_with(held_here).unwrap_or(false)
    };
    match names.iter().find(|name| holds(name)) {
        None => Ok(()),
        Some(name) => {
            let what = format!("`{name}` is held by the work that asks for it, further out");
            Err(Error::new(ErrorKind::AlreadyHeld, what)
                .with_names(names)
                .with_store(&context.display))
        }
    }
}

/// Runs work under a guard.
pub(crate) async fn run<F, Fut, T>(guard: Guard, work: F) -> Result<T, Error>
where
    F: FnOnce(Held) -> Fut,
    Fut: Future<Output = T>,
{
    let held = guard.held();
    let state = || match held.state() {
        LeaseState::Lost(reason) => Some(reason),
        _ => None,
    };
    let work = || work(held.clone());
    let outcome = scoped(guard.context(), guard.names(), work, state, held.lost()).await;
    let error = |reason: LossReason| {
        Error::lost(reason, Some(guard.age()))
            .with_names(guard.names())
            .with_store(&guard.context().display)
    };
    let output = match outcome {
        Ok(output) => output,
        // The drop of the guard gives back what the store may still have: nobody waits for that.
        Err(reason) => return Err(error(reason)),
    };
    finish(guard, output).await
}

/// Gives the lock back after the work.
pub(crate) async fn finish<T>(guard: Guard, output: T) -> Result<T, Error> {
    // Work that outlived its lease between two polls is no success.
    guard.check_live()?;
    let (age, names) = (guard.age(), guard.names().clone());
    let store = Arc::clone(&guard.context().display);
    let late = |reason| Err(Error::lost(reason, Some(age)).with_names(&names).with_store(&store));
    match release::release(guard).await {
        Released::Taken => late(LossReason::Taken),
        Released::Expired => late(LossReason::ExpiredAtStore),
        Released::Held | Released::Unknown => Ok(output),
    }
}

/// Does work that knows what is held around it, until it is done or that is lost.
pub(crate) async fn scoped<Fut: Future>(
    context: &Context,
    names: &Names,
    work: impl FnOnce() -> Fut,
    state: impl Fn() -> Option<LossReason>,
    lost: impl Future<Output = LossReason>,
) -> Result<Fut::Output, LossReason> {
    // The work is made inside the scope too, and dropped before anything is given back.
    let scoped = HELD_HERE.scope(around(context, names), async { work().await });
    rt::pin!(scoped);
    rt::pin!(lost);
    poll_fn(|cx| {
        // First the clock: after a pause of the process no step of the work may come before the
        // news of the loss, however late the timer is that tells it.
        if let Some(reason) = state() {
            return Poll::Ready(Err(reason));
        }
        if let Poll::Ready(reason) = lost.as_mut().poll(cx) {
            return Poll::Ready(Err(reason));
        }
        scoped.as_mut().poll(cx).map(Ok)
    })
    .await
}

/// The same for work that blocks its thread. Nothing can drop it when the lock is lost.
#[cfg(feature = "blocking")]
pub(crate) fn scoped_blocking<T>(context: &Context, names: &Names, work: impl FnOnce() -> T) -> T {
    HELD_HERE.sync_scope(around(context, names), work)
}

/// What is held inside of work under these names.
fn around(context: &Context, names: &Names) -> Vec<(Arc<str>, Names)> {
    let mut around = HELD_HERE.try_with(Clone::clone).unwrap_or_default();
    around.push((Arc::clone(&context.identity), names.clone()));
    around
}
