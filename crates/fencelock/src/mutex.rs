//! The recipe for a lock: names and options. It does no I/O; its verbs do.

use std::{collections::BTreeMap, fmt, future::Future, sync::Arc, time::Duration};

use fencelock_core::{Binding, FencingToken, Mode, Names, RetryStrategy};

use crate::{
    BusyView, Client, Error, Guard, Held, Queued,
    attempt::Tried,
    context::Context,
    plan::Plan,
    policy::Policy,
    run,
    telemetry::{Acquiring, Class, Running},
    waiting,
};

/// How long a caller is willing to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Wait {
    /// One try.
    Never,
    /// So long, for everything: connecting, asking and pausing. Zero is one try.
    For(Duration),
    /// Until the lock is granted.
    #[default]
    Forever,
}

/// In which order waiters are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Order {
    /// First come, first served inside a process; processes take turns.
    #[default]
    Turns,
    /// First come, first served among all.
    Strict,
    /// None.
    Barging,
}

impl Wait {
    /// How long; nothing for ever.
    pub(crate) const fn span(self) -> Option<Duration> {
        match self {
            Self::Never => Some(Duration::ZERO),
            Self::For(span) => Some(span),
            Self::Forever => None,
        }
    }
}

impl From<Duration> for Wait {
    fn from(wait: Duration) -> Self {
        Self::For(wait)
    }
}

/// Who renews a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Renew {
    /// The keeper, from the grant until the guard is gone.
    #[default]
    Auto,
    /// Nobody, but for calls of [`Guard::renew`].
    Manual,
}

/// The answer of one try. There are two: a third would have to be looked at by every caller.
#[derive(Debug)]
#[must_use]
#[allow(clippy::large_enum_variant)] // Looked at once, and not kept.
pub enum Attempt<G = Guard> {
    /// The lock is ours.
    Granted(G),
    /// Somebody else holds it.
    Busy(BusyView),
}

impl<G> Attempt<G> {
    /// The guard, if there is one.
    pub fn granted(self) -> Option<G> {
        match self {
            Self::Granted(guard) => Some(guard),
            Self::Busy(_) => None,
        }
    }

    /// The same answer with another kind of guard.
    pub(crate) fn map<H>(self, wrap: impl FnOnce(G) -> H) -> Attempt<H> {
        match self {
            Self::Granted(guard) => Attempt::Granted(wrap(guard)),
            Self::Busy(busy) => Attempt::Busy(busy),
        }
    }
}

/// A lock that excludes everybody else, or several taken all or nothing.
///
/// It is not re-entrant: whoever locks a name twice waits for itself. Within [`Mutex::run`] that is
/// noticed at once (`AlreadyHeld`).
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let invoice = locks.mutex("invoice:42").ttl(Duration::from_secs(10)).wait(Duration::from_secs(3));
/// let receipt = invoice.run(|held| async move { format!("paid once, as {:?}", held.fencing_token()) }).await?;
/// assert!(receipt.starts_with("paid once"));
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "a recipe does nothing until one of its verbs is called"]
pub struct Mutex {
    client: Client,
    /// A wrong name is told by the first verb.
    pub(crate) names: Result<Names, String>,
    /// How it is held; that of the other primitives, which are built on this recipe. A wrong number
    /// is told by the first verb, too.
    pub(crate) mode: Result<Mode, String>,
    /// It excludes some who hold it together, so that a store that can't have those won't do.
    pub(crate) needs_sharing: bool,
    pub(crate) ttl: Duration,
    pub(crate) wait: Wait,
    /// How tries are spaced, where the caller said so: then no place in a line is taken.
    pub(crate) retry: Option<RetryStrategy>,
    pub(crate) order: Order,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) label: Option<String>,
    pub(crate) renewal: Renew,
    pub(crate) policy: Policy,
    pub(crate) binding: Option<Binding>,
    pub(crate) floor: Option<FencingToken>,
    pub(crate) require_fencing: bool,
    pub(crate) on_busy: Option<OnBusy>,
    pub(crate) class: Class,
}

type OnBusy = Arc<dyn Fn(&BusyView) + Send + Sync>;

impl Mutex {
    /// Short enough that a dead holder is missed soon, long enough for two renewals to fail.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(30);

    pub(crate) fn new(client: Client, names: Result<Names, String>) -> Self {
        Self {
            client,
            names,
            mode: Ok(Mode::Exclusive),
            needs_sharing: false,
            ttl: Self::DEFAULT_TTL,
            wait: Wait::default(),
            retry: None,
            order: Order::default(),
            metadata: BTreeMap::new(),
            label: None,
            renewal: Renew::default(),
            policy: Policy::default(),
            binding: None,
            floor: None,
            require_fencing: false,
            on_busy: None,
            class: Class::default(),
        }
    }

    /// How long the store keeps the lease unless it is renewed: 10 ms to 24 h. A holder that dies
    /// is missed after this; a longer one survives longer outages of the store.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// How long [`Mutex::lock`] and [`Mutex::run`] wait for everything. For ever by default.
    pub fn wait(self, wait: impl Into<Wait>) -> Self {
        Self { wait: wait.into(), ..self }
    }

    /// Polls: how tries are spaced while somebody else holds the lock.
    ///
    /// Without this a caller waits in a line at the store, asks seldom, and is served in order; only
    /// where a store or dialect has no line it polls, as [`RetryStrategy::default`] says.
    pub fn retry(self, retry: RetryStrategy) -> Self {
        Self { retry: Some(retry), ..self }
    }

    /// First come, first served, among all waiters of all processes: each has its own place at the
    /// store, and the lock is never passed on inside a process.
    ///
    /// Without this it is so inside a process, and the processes take turns.
    pub fn strict_fifo(self) -> Self {
        Self { order: Order::Strict, ..self }
    }

    /// No order: a lock that is free is taken by whoever asks first, though others wait longer.
    /// More throughput under contention, and nothing against starvation.
    pub fn barging(self) -> Self {
        Self { order: Order::Barging, ..self }
    }

    /// Says something of the holder. Keys are not empty and do not begin with `!`; all together
    /// have at most 1 KiB when written.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// What the holder calls itself, for people.
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..self }
    }

    /// Who renews the lease.
    pub fn renewal(self, renewal: Renew) -> Self {
        Self { renewal, ..self }
    }

    /// How long the lock stays held at least, counted from the grant: whoever releases or drops the
    /// guard earlier leaves the lease to the rest of this time, without renewing it. Zero, the
    /// default, gives it back at once; at most 24 h.
    ///
    /// For work that is started on several machines by clocks that differ: a job that takes a
    /// second, under a `min_hold` of more than the clocks can differ by, is not done once more by
    /// the machine whose clock is behind, as long as it does not wait for the lock.
    ///
    /// It prolongs nothing by itself: when the process is killed, the lease ends with its ttl. It
    /// makes a lease independent of this process, so [`Mutex::bind`] has no effect.
    /// [`Guard::release_now`] is the way out.
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.policy.min_hold = min_hold;
        self
    }

    /// How long the lock is held at most, counted from the grant: validity ends then, whatever is
    /// renewed, and the lock is lost ([`LossReason::MaxHold`](crate::LossReason::MaxHold)) and given
    /// back. At least 10 ms. A holder that hangs does not keep others out for ever.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.policy.max_hold = Some(max_hold);
        self
    }

    /// The keeper renews the lease only while the holder says that it gets on: when
    /// [`Guard::report_progress`] (or [`Held::report_progress`]) was not called for so long,
    /// renewals stop. A report in time starts them again; otherwise the lock is lost
    /// ([`LossReason::NoProgress`](crate::LossReason::NoProgress)) when validity ends: at most this
    /// and the ttl after the last report. The grant counts as a report.
    pub fn progress_within(mut self, span: Duration) -> Self {
        self.policy.progress_within = Some(span);
        self
    }

    /// Tells the store that nobody renews the lease, so that nobody asks for it back in vain: for a
    /// lease that is [left](Guard::leak) or [handed on](Guard::detach). Also turns renewal off.
    pub fn unattended(mut self) -> Self {
        self.policy.unattended = true;
        Self { renewal: Renew::Manual, ..self }
    }

    /// What the lease ends with besides its ttl, where the store can see processes (the embedded
    /// file). By default that is this process.
    pub fn bind(self, binding: Binding) -> Self {
        Self { binding: Some(binding), ..self }
    }

    /// The highest fencing token that the guarded resource has seen: the grant gets a larger one,
    /// also when the store forgot.
    pub fn floor(self, floor: FencingToken) -> Self {
        Self { floor: Some(floor), ..self }
    }

    /// Fails, before anything is sent, where the dialect has no fencing tokens.
    pub fn require_fencing(self) -> Self {
        Self { require_fencing: true, ..self }
    }

    /// Is called while waiting: at the first busy answer, and whenever the holder or the place in
    /// the line is another.
    pub fn on_busy(self, on_busy: impl Fn(&BusyView) + Send + Sync + 'static) -> Self {
        Self { on_busy: Some(Arc::new(on_busy)), ..self }
    }

    /// Which locks this one is counted with: the label `class` of all that is measured with the
    /// feature `metrics`; `default`, unless it is said. Without that feature it does nothing.
    ///
    /// A class is a word of the program, such as `invoice`, and never comes from its data: each
    /// class has series of its own for as long as the process lives. Names of locks are no labels,
    /// for the same reason.
    pub fn class(self, class: &'static str) -> Self {
        Self { class: Class::new(class), ..self }
    }

    /// Waits for the lock and takes it.
    ///
    /// # Errors
    /// `WaitExpired` with the holder, when the wait ends; `AlreadyHeld` inside a [`Mutex::run`] of
    /// the same name; `Unavailable` when the store was never reached for two seconds (or the wait,
    /// if that is shorter), or could not be asked at the end of the wait; `Unknown` when its last
    /// answer is missing. What is wrong with settings, rights or foreign values is told at once.
    ///
    /// # Cancel safety
    /// Dropping the future gives back what may have been granted: at once where the store answers,
    /// by the keeper otherwise. Its place in the line of this process goes to the next.
    ///
    /// A future that is neither polled nor dropped (`std::mem::forget`, a runtime that nobody runs)
    /// keeps its turn, and a lock that was passed to it stays held: the tasks of this process that
    /// wait for the same name behind it go on when their `wait` ends. Other processes do not wait
    /// for one that was not granted the lock.
    pub async fn lock(&self) -> Result<Guard, Error> {
        let plan = Plan::of(self)?;
        self.granted(&plan).await
    }

    /// Takes a place in the line at the store, which the caller keeps: for a `select!` in a loop,
    /// where a `lock()` that is made anew would go to the end of the line each time.
    ///
    /// # Errors
    /// As [`Mutex::lock`]; `Unsupported` where the store or dialect has no line.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn enqueue(&self) -> Result<Queued, Error> {
        Queued::begin(self, |guard| guard).await
    }

    /// Tries to take the lock, once, for at most the request timeout of the client.
    ///
    /// # Errors
    /// As [`Mutex::lock`], but busy is an answer.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn try_lock(&self) -> Result<Attempt, Error> {
        let plan = Plan::of(self)?;
        run::check_trying(self.context(), plan.names(), plan.mode())?;
        let mut acquiring = Acquiring::begin(self.context(), &plan, self.class);
        let trying = acquiring.span().within(waiting::try_once(self.context(), &plan));
        let result = trying.await.and_then(|tried| match tried {
            Tried::Granted(guard) => plan.above_floor(guard).map(Tried::Granted),
            other => Ok(other),
        });
        match acquiring.tried(result)? {
            Tried::Granted(guard) => Ok(Attempt::Granted(guard)),
            Tried::Busy(busy) => Ok(Attempt::Busy(BusyView::of(&busy))),
            Tried::Queued(queued, _) => Ok(Attempt::Busy(BusyView::of(&queued.busy))),
            Tried::Failed(error) | Tried::UsedUp(error) => Err(error),
        }
    }

    /// Waits for the lock, does the work, and gives the lock back: also when the work panics or
    /// this future is dropped.
    ///
    /// When the lock is lost, the work is dropped at its next await and the result is an error of
    /// kind `Lost`. That needs the runtime to poll it: work that blocks, or that was spawned
    /// elsewhere, must look at [`Held::is_valid`] itself.
    ///
    /// # Errors
    /// As [`Mutex::lock`]; `Lost` when the lock was lost before the work was done, or the release
    /// found it taken.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, then gives the lock back through the keeper.
    pub async fn run<F, Fut, T>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        let running = Running::begin(self);
        let work = async {
            let guard = self.lock().await?;
            running.granted(guard.own_fence());
            run::run(guard, work).await
        };
        let result = running.span().within(work).await;
        running.ended(result)
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        self.client.context()
    }

    /// Waits for what a plan of this recipe says.
    pub(crate) async fn granted(&self, plan: &Plan) -> Result<Guard, Error> {
        run::check_waiting(self.context(), plan.names(), plan.mode())?;
        let mut acquiring = Acquiring::begin(self.context(), plan, self.class);
        let waiting = acquiring.span().within(waiting::lock(self, plan, &mut acquiring));
        let result = waiting.await.and_then(|guard| plan.above_floor(guard));
        acquiring.waited(result)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The same recipe, wrong where it has several names.
    pub(crate) fn of_one_name(mut self, what: &str) -> Self {
        if self.names.as_ref().is_ok_and(|names| names.len() > 1) {
            self.names = Err(format!("{what} has one name; several names are one mutex"));
        }
        self
    }

    /// The recipe of another primitive that is built on this one. Each waiter has a place of its own
    /// at the store: a lease that others may join is not passed on inside a process.
    pub(crate) fn in_mode(&self, mode: Result<Mode, String>) -> Self {
        let mut recipe = self.clone();
        recipe.mode = mode;
        recipe.needs_sharing = true;
        if recipe.order == Order::Turns {
            recipe.order = Order::Strict;
        }
        recipe
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex")
            .field("names", &self.names)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .field("retry", &self.retry)
            .field("renewal", &self.renewal)
            .finish_non_exhaustive()
    }
}
