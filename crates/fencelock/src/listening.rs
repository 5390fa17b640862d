//! Where this process hears what its store has to tell: one subscription for each runtime.
//!
//! ```text
//!   store -- wakeup for a token --> Ear -- route --> Mail of whoever waits for that token
//!                                       \-------> the lease of that token: asked back, waited for
//! ```
//! Messages are hints: whoever waits has a timer too, and asks. A subscription that breaks is made
//! again by the next who waits, and all others are woken to ask once.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fencelock_core::{HandOff, ListenerId, Moment, Renewed, Token, Ttl, Wakeup};
use fencelock_store::{Clock, StoreErrorKind, Subscription, WakeupSink, rt};

use crate::{cell::LeaseCell, context::Context};

/// The subscriptions of a client.
#[derive(Default)]
pub(crate) struct Ears {
    slots: Mutex<HashMap<rt::RuntimeId, Slot>>,
}

enum Slot {
    /// Its drop ends the subscription.
    Live { ear: Arc<Ear>, _subscription: Subscription },
    /// The store would not have it; asked again after this moment.
    Deaf(Moment),
    /// It is being asked: the sender goes when that has ended.
    Opening(rt::sync::watch::Receiver<()>),
}

/// After a refusal, which is a matter of rights, and after a failure.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
const FAILED_PAUSE: Duration = Duration::from_millis(200);

impl Ears {
    fn slots(&self) -> MutexGuard<'_, HashMap<rt::RuntimeId, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ear of this runtime, if there is one.
    pub(crate) fn live(&self) -> Option<Arc<Ear>> {
        let runtime = rt::runtime_id()?;
        match self.slots().get(&runtime) {
            Some(Slot::Live { ear, .. }) if !ear.is_broken() => Some(Arc::clone(ear)),
            _ => None,
        }
    }

    /// The ear of this runtime. Nothing where the store can't be listened to, or not now.
    ///
    /// A task of its own asks the store: whoever waits for that may be dropped, or forgotten.
    pub(crate) async fn open(&self, context: &Arc<Context>, by: Moment) -> Option<Arc<Ear>> {
        let runtime = rt::runtime_id().filter(|_| context.store.capabilities().wakeups)?;
        let mut opened = {
            let mut slots = self.slots();
            match slots.get(&runtime) {
                Some(Slot::Live { ear, .. }) if !ear.is_broken() => return Some(Arc::clone(ear)),
                Some(Slot::Deaf(until)) if context.clock.now() < *until => return None,
                Some(Slot::Opening(opened)) => opened.clone(),
                _ => {
                    let (done, opened) = rt::sync::watch::channel(());
                    let old = slots.insert(runtime, Slot::Opening(opened.clone()));
                    drop(slots);
                    drop(old);
                    let context = Arc::clone(context);
                    let opening = Opening { context, runtime, slot: None, _done: done };
                    rt::try_spawn(opening.run(by));
                    opened
                }
            }
        };
        // It ends with an error: nothing is ever sent.
        let _ended = opened.changed().await;
        self.live()
    }

    /// How many runtimes listen.
    fn count(&self) -> usize {
        self.slots().values().filter(|slot| matches!(slot, Slot::Live { .. })).count()
    }

    /// For whom messages may come.
    fn routes(&self) -> usize {
        let ears: Vec<_> = self.slots().values().filter_map(Slot::ear).collect();
        ears.iter().map(|ear| ear.routes().len()).sum()
    }

    /// Ends all subscriptions, and wakes whoever waits.
    pub(crate) fn close(&self) {
        let slots = std::mem::take(&mut *self.slots());
        for slot in slots.values() {
            if let Slot::Live { ear, .. } = slot {
                ear.broken();
            }
        }
    }
}

/// A subscription on its way. However that ends, another may be tried afterwards.
struct Opening {
    context: Arc<Context>,
    runtime: rt::RuntimeId,
    slot: Option<Slot>,
    _done: rt::sync::watch::Sender<()>,
}

impl Opening {
    async fn run(mut self, by: Moment) {
        let context = &self.context;
        let ear = Arc::new(Ear::new(context.clock.clone()));
        let sink = Arc::clone(&ear) as Arc<dyn WakeupSink>;
        self.slot = Some(match context.store.listen(sink, by).await {
            Ok(subscription) => {
                // Before anybody can ask for it.
                let _first = ear.listener.set(subscription.listener);
                Slot::Live { ear, _subscription: subscription }
            }
            Err(error) => {
                let refused =
                    matches!(error.kind(), StoreErrorKind::Denied | StoreErrorKind::Unsupported);
                tracing::debug!(store = %context.display, %error, "no wakeups for the moment");
                let pause = if refused { REFUSED_PAUSE } else { FAILED_PAUSE };
                Slot::Deaf(context.clock.now().saturating_add(pause))
            }
        });
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if self.context.is_forked() {
            return;
        }
        let now = self.context.clock.now();
        let mut slots = self.context.ears.slots();
        // Runtimes that have ended took their subscriptions along, or wait for none any more.
        let gone: Vec<_> = slots.extract_if(|_, slot| slot.is_over(now)).collect();
        let old = slots.remove(&self.runtime);
        // A client that was closed meanwhile has no subscriptions.
        if let Some(slot) = self.slot.take_if(|_| old.is_some()) {
            slots.insert(self.runtime, slot);
        }
        drop(slots);
        // Their drop goes to the store: not under the lock.
        drop((gone, old));
    }
}

impl fmt::Debug for Ears {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runtimes, routes) = (self.count(), self.routes());
        f.debug_struct("Ears").field("runtimes", &runtimes).field("routes", &routes).finish()
    }
}

impl Slot {
    fn ear(&self) -> Option<Arc<Ear>> {
        match self {
            Self::Live { ear, .. } => Some(Arc::clone(ear)),
            _ => None,
        }
    }

    fn is_over(&self, now: Moment) -> bool {
        match self {
            Self::Live { ear, .. } => ear.is_broken(),
            Self::Deaf(until) => now >= *until,
            Self::Opening(_) => false,
        }
    }
}

/// Hears for one runtime.
pub(crate) struct Ear {
    clock: Clock,
    process: u32,
    listener: OnceLock<ListenerId>,
    routes: Mutex<HashMap<Token, Route>>,
    broken: AtomicBool,
}

/// Whom a message is for.
enum Route {
    Waiter(Arc<Mail>),
    Holder(Weak<LeaseCell>),
}

impl Ear {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            process: rt::process_id(),
            listener: OnceLock::new(),
            routes: Mutex::default(),
            broken: AtomicBool::new(false),
        }
    }

    fn routes(&self) -> MutexGuard<'_, HashMap<Token, Route>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What requests name so that this ear is told.
    pub(crate) fn listener(&self) -> Option<ListenerId> {
        self.listener.get().copied().filter(|_| !self.is_broken())
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Messages for the token go to this mail, until the route is dropped.
    pub(crate) fn expect(self: &Arc<Self>, token: Token, mail: &Arc<Mail>) -> Routed {
        self.routes().insert(token, Route::Waiter(Arc::clone(mail)));
        Routed { ear: Arc::clone(self), token, waits: true }
    }

    /// Messages for a lease that was granted, until the route is dropped.
    pub(crate) fn attend(self: &Arc<Self>, cell: &Arc<LeaseCell>) -> Routed {
        let token = cell.fixed.token;
        self.routes().insert(token, Route::Holder(Arc::downgrade(cell)));
        Routed { ear: Arc::clone(self), token, waits: false }
    }
}

/// Waits until a lease is asked back; for ever, when nobody does.
///
/// Whoever waits for that wants to know it at once, so the store is asked to tell: in a task of its
/// own, since this one may be dropped at any time. Without it the next renewal brings the news.
pub(crate) async fn revoked(context: &Arc<Context>, cell: &Arc<LeaseCell>) {
    if !cell.shared.is_revoked() && cell.route.get().is_none() {
        rt::try_spawn(listen_for(Arc::clone(context), Arc::clone(cell)));
    }
    cell.revoked().await;
}

/// Where this runtime is to be told of a lease that was granted before anybody listened, for the
/// next renewal to say. Nothing where it is told already, or can't be.
pub(crate) async fn begin(context: &Arc<Context>, cell: &Arc<LeaseCell>) -> Option<ListenerId> {
    if cell.route.get().is_some() || !cell.terms.begin_to_listen() {
        return None;
    }
    let by = context.call_limit(cell.deadline());
    let ear = context.ears.open(context, by).await?;
    let listener = ear.listener()?;
    cell.route.set(ear.attend(cell)).is_ok().then_some(listener)
}

/// Has the store tell this runtime of a lease that was granted before anybody listened.
async fn listen_for(context: Arc<Context>, cell: Arc<LeaseCell>) {
    let Some(listener) = begin(&context, &cell).await else { return };
    let mut request = cell.renew_request();
    request.listener = Some(listener);
    // A renewal never shortens, and this one is not meant to prolong.
    request.ttl = Ttl::MIN;
    let by = context.call_limit(cell.deadline());
    if !cell.renewal_sent(request.ttl, by) {
        return;
    }
    let batch = [request];
    let asked = context.ask(context.store.renew(&batch, by)).await;
    let answer = asked.result.ok().and_then(|reply| reply.answer.into_iter().next());
    if let Some(Renewed::Extended { waiting, revoked, .. }) = answer {
        cell.learn(waiting, revoked);
    }
}

impl WakeupSink for Ear {
    fn wake(&self, wakeup: Wakeup) {
        let routes = self.routes();
        match routes.get(&wakeup.token()) {
            Some(Route::Waiter(mail)) => {
                let mail = Arc::clone(mail);
                drop(routes);
                mail.deliver(wakeup, self.clock.now());
            }
            Some(Route::Holder(cell)) => {
                let cell = cell.upgrade();
                drop(routes);
                match (cell, wakeup) {
                    (Some(cell), Wakeup::Revoked(_)) => cell.set_revoked(),
                    (Some(cell), Wakeup::Waiting(_)) => cell.set_waited_for(),
                    _ => {}
                }
            }
            // Whoever waited has gone, and gives back what it is granted.
            None => {}
        }
    }

    fn broken(&self) {
        self.broken.store(true, Ordering::Release);
        let mails: Vec<_> = self.routes().values().filter_map(Route::mail).collect();
        for mail in mails {
            mail.lose_connection();
        }
    }
}

impl Route {
    fn mail(&self) -> Option<Arc<Mail>> {
        match self {
            Self::Waiter(mail) => Some(Arc::clone(mail)),
            Self::Holder(_) => None,
        }
    }
}

/// Keeps a route for as long as it lives.
pub(crate) struct Routed {
    ear: Arc<Ear>,
    token: Token,
    waits: bool,
}

impl Routed {
    pub(crate) fn ear(&self) -> &Arc<Ear> {
        &self.ear
    }
}

impl Drop for Routed {
    fn drop(&mut self) {
        if self.ear.process != rt::process_id() {
            // Forked: whoever had the lock at that moment is not here.
            return;
        }
        let mut routes = self.ear.routes();
        // The lease of a waiter's token has taken the route over.
        let same = |route: &Route| self.waits == matches!(route, Route::Waiter(_));
        let own = routes.get(&self.token).is_some_and(same);
        let route = if own { routes.remove(&self.token) } else { None };
        drop(routes);
        drop(route);
    }
}

/// What came for one waiter.
#[derive(Default)]
pub(crate) struct Mail {
    letters: Mutex<Letters>,
    news: rt::sync::Notify,
}

/// All that came since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Letters {
    /// The lease was handed over; and when the message came.
    pub(crate) granted: Option<(HandOff, Moment)>,
    /// It makes sense to ask now.
    pub(crate) ask: bool,
    /// How often that was said.
    pub(crate) turns: u32,
    /// It makes sense to ask then.
    pub(crate) next: Option<Moment>,
}

impl Mail {
    fn letters(&self) -> MutexGuard<'_, Letters> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, wakeup: Wakeup, now: Moment) {
        let mut letters = self.letters();
        match wakeup {
            Wakeup::Granted(hand_off) => letters.granted = Some((hand_off, now)),
            Wakeup::Turn(_) => {
                letters.ask = true;
                letters.turns = letters.turns.saturating_add(1);
            }
            Wakeup::Next(_, left) => letters.next = Some(now.saturating_add(left)),
            _ => return,
        }
        drop(letters);
        self.news.notify_one();
    }

    fn lose_connection(&self) {
        self.letters().ask = true;
        self.news.notify_one();
    }

    /// Takes what came.
    pub(crate) fn take(&self) -> Letters {
        std::mem::take(&mut *self.letters())
    }

    /// Waits until something came since the last call that ended.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }
}
