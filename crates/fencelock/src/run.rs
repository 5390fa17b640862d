//! Scoped work: the lock is taken before, given back after, and the work is dropped when it is
//! lost.

use std::{
    future::{Future, poll_fn},
    sync::Arc,
    task::Poll,
};

use fencelock_core::{LeaseState, LossReason, Mode, Names};
use fencelock_store::rt;

use crate::{Error, ErrorKind, Guard, Held, Released, context::Context, release};

rt::task_local! {
    /// What the scoped work around the present one holds.
    static HELD_HERE: Vec<Around>;
}

/// What is held around some work.
#[derive(Clone)]
pub(crate) struct Around {
    store: Arc<str>,
    names: Names,
    mode: Mode,
}

impl Around {
    pub(crate) fn of(context: &Context, names: &Names, mode: &Mode) -> Self {
        Self { store: Arc::clone(&context.identity), names: names.clone(), mode: mode.clone() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    Waiting,
    Once,
}

/// Refuses to wait alone for names that this very task holds already.
pub(crate) fn check_nesting(context: &Context, names: &Names) -> Result<(), Error> {
    check(context, names, &Mode::Exclusive, Asks::Waiting)
}

/// Refuses to wait for names that this very task holds already, where that may never end.
pub(crate) fn check_waiting(context: &Context, names: &Names, mode: &Mode) -> Result<(), Error> {
    check(context, names, mode, Asks::Waiting)
}

/// Refuses to try for names that this very task holds already, where that can't succeed.
pub(crate) fn check_trying(context: &Context, names: &Names, mode: &Mode) -> Result<(), Error> {
    check(context, names, mode, Asks::Once)
}

fn check(context: &Context, names: &Names, mode: &Mode, asks: Asks) -> Result<(), Error> {
    let check = |held: &Vec<Around>| {
        let collides = |around: &&Around| {
            *around.store == *context.identity && is_in_the_way(&around.mode, mode, asks)
        };
        let mut around = held.iter().filter(collides);
        around.find_map(|held| {
            names.iter().find(|name| held.names.as_slice().binary_search(name).is_ok()).cloned()
        })
    };
    match HELD_HERE.try_with(check).unwrap_or_default() {
        None => Ok(()),
        Some(name) => {
            let what = format!("`{name}` is held by the work that asks for it, further out");
            Err(Error::new(ErrorKind::AlreadyHeld, what)
                .with_names(names)
                .with_store(&context.display))
        }
    }
}

/// Whether what a task holds keeps it from what it asks for.
///
/// A reader that waits inside a reader may wait for a writer that waits for the outer one, and who
/// waits for permits inside of permits may wait for somebody who does the same: both are refused. A
/// try waits for nobody. Another kind of lock is the store's to refuse.
fn is_in_the_way(held: &Mode, asked: &Mode, asks: Asks) -> bool {
    match (held, asked) {
        (held, asked) if held.kind() != asked.kind() => false,
        (Mode::Owned(held), Mode::Owned(asked)) => held != asked,
        (Mode::Shared, Mode::Shared) | (Mode::Permits { .. }, Mode::Permits { .. }) => {
            asks == Asks::Waiting
        }
        _ => true,
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
    let around = Around::of(guard.context(), guard.names(), &guard.cell().fixed.mode);
    let outcome = scoped_in(vec![around], work, state, held.lost()).await;
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
    scoped_in(vec![Around::of(context, names, &Mode::Exclusive)], work, state, lost).await
}

/// The same, where it is held in other ways.
pub(crate) async fn scoped_in<Fut: Future>(
    here: Vec<Around>,
    work: impl FnOnce() -> Fut,
    state: impl Fn() -> Option<LossReason>,
    lost: impl Future<Output = LossReason>,
) -> Result<Fut::Output, LossReason> {
    // The work is made inside the scope too, and dropped before anything is given back.
    let scoped = HELD_HERE.scope(around(here), async { work().await });
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
pub(crate) fn scoped_blocking<T>(here: Vec<Around>, work: impl FnOnce() -> T) -> T {
    HELD_HERE.sync_scope(around(here), work)
}

/// What is held inside of work that holds this, too.
fn around(here: Vec<Around>) -> Vec<Around> {
    let mut around = HELD_HERE.try_with(Clone::clone).unwrap_or_default();
    around.extend(here);
    around
}
