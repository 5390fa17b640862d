//! A latch: it opens when it was counted down often enough, and stays open until it is forgotten.
//!
//! ```text
//!   count_down    1      2      3 = count
//!   wait          .......|......|-> all that wait go on, and whoever comes later at once
//!   leases        |------ ttl, prolonged by each step -------------------| forgotten
//! ```
//! A step is a lease that nobody holds or renews: it outlives the process that took it, so nothing is
//! lost with a worker that did its part and ended. What ends it is the ttl of the latch.

use std::{fmt, time::Duration};

use fencelock_core::{
    Binding, ForeignKind, Kind, LimitSet, Mode, Moment, RetryStrategy, SetLimitRequest, Token,
};
use fencelock_store::rt;
use sha2::{Digest as _, Sha256};

use crate::{Error, ErrorKind, Inspection, Mutex, plan::Plan, possible, recipe::options};

/// The recipe for a latch. It does no I/O; its verbs do.
///
/// For "go on when all of them are done". Whoever waits holds nothing and keeps nobody out.
///
/// # How long it is remembered
/// For its [`ttl`](Latch::ttl), an hour by default, since the last step: each step prolongs those
/// before it. Then it is closed again, with no step taken, so nothing is left behind. What one use of
/// a name needs is therefore a ttl longer than the time between two steps, and than the time from the
/// last step to the last [`wait`](Latch::wait). The store remembers the count for some time longer
/// (see [`ClientBuilder::retain`](crate::ClientBuilder::retain)): who says another one is told both.
///
/// # Examples
/// ```
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let ready = locks.latch("ready", 2);
/// ready.count_down_as("loader-1").await?;
/// ready.count_down_as("loader-1").await?; // The same step.
/// assert_eq!(ready.remaining().await?, 1);
/// ready.count_down_as("loader-2").await?;
/// ready.wait().await?;
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "a recipe does nothing until one of its verbs is called"]
pub struct Latch {
    base: Mutex,
    count: u32,
}

options!(Latch: asking, wait_limit);

impl Latch {
    /// The most steps: as many as can hold one name together.
    pub const MAX_COUNT: u32 = Mode::MAX_PARTIES;

    /// Long enough for most work that is waited for, short enough that a name is soon good for
    /// another use.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(3_600);

    pub(crate) fn new(base: Mutex, count: u32) -> Self {
        Self { base: base.ttl(Self::DEFAULT_TTL), count }
    }

    /// Shuts a latch that is open, in the format of Redisson's RCountDownLatch (dialect `redisson-latch`), as
    /// `trySetCount` does there: with all its steps missing. Until then it is open for whoever waits. True when it was
    /// this call that shut it; false when it was shut before, and then it stays as it is. Sent again
    /// after a connection broke, it may say false of itself.
    ///
    /// On all other stores a latch needs no set-up: then it says false, and asks nothing.
    ///
    /// # Errors
    /// `Config` for a count out of range; `ForeignValue` when the name is something else; or that the store can't
    /// be asked. The same call again is harmless while the latch is shut.
    ///
    /// # Cancel safety
    /// A request that was sent may be carried out.
    pub async fn set_up(&self) -> Result<bool, Error> {
        let recipe = self.recipe(|count| Mode::Opening { count });
        let plan = Plan::of(&recipe)?;
        let context = recipe.context();
        if !context.store.capabilities().modes.latch_set_up {
            return Ok(false);
        }
        let (name, display) = (plan.names().first(), &context.display);
        let named = |error: Error| error.with_names(plan.names()).with_store(display);
        let request = SetLimitRequest::new(name.clone(), self.count);
        let by = context.call_limit(Moment::NEVER);
        let asked = context.ask(context.store.set_limit(&request, by)).await;
        match asked.result.map_err(|error| named(Error::from_store(error)))?.answer {
            LimitSet::Set { before, .. } => Ok(before.is_none()),
            LimitSet::Foreign(kind) => Err(named(Error::foreign(name, &kind, plan.mode()))),
            _ => Err(named(Error::new(ErrorKind::Internal, "an answer of an unknown kind"))),
        }
    }

    /// Takes one step. On a latch that is open it does nothing.
    ///
    /// # Errors
    /// As [`Mutex::lock`], but it waits for nobody: only for a store that does not answer, for as
    /// long as the wait of the recipe. `Config` for a count out of range or another one than
    /// the store keeps. `Unknown` when nobody knows whether the step was taken: with
    /// [`Latch::count_down_as`] the same call again is harmless.
    ///
    /// # Cancel safety
    /// A step that was sent may be taken, and is not taken back: others may have gone on because of
    /// it.
    pub async fn count_down(&self) -> Result<(), Error> {
        self.step(rt::fresh_token()).await
    }

    /// Takes the step of this name: however often it is called, also by several processes, it counts
    /// once.
    ///
    /// # Errors
    /// As [`Latch::count_down`].
    ///
    /// # Cancel safety
    /// As [`Latch::count_down`]; the same call again is harmless.
    pub async fn count_down_as(&self, step: impl AsRef<[u8]>) -> Result<(), Error> {
        let digest =
            Sha256::new_with_prefix(b"fencelock latch step:").chain_update(step).finalize();
        let mut bytes = [0; Token::BYTES];
        bytes.copy_from_slice(&digest[..Token::BYTES]);
        self.step(Token::from_bytes(bytes)).await
    }

    /// Waits until it is open.
    ///
    /// # Errors
    /// As [`Mutex::lock`]; `Config` for a count out of range or another one than the store keeps.
    ///
    /// # Cancel safety
    /// Safe: nothing is granted.
    pub async fn wait(&self) -> Result<(), Error> {
        let recipe = self.recipe(|count| Mode::Opening { count });
        let plan = Plan::of(&recipe)?;
        let guard = recipe.granted(&plan).await?;
        if guard.cell().fixed.stray.is_none() {
            guard.let_go();
        }
        // Else a late copy of the question may take a place: the release of the guard withdraws it.
        Ok(())
    }

    /// How many steps are missing; zero when it is open. What was true when the store looked.
    ///
    /// # Errors
    /// `Config` for a wrong name or count, or another count than the store keeps; `ForeignValue` when
    /// the name is another kind of lock; or that the store can't be asked.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn remaining(&self) -> Result<u32, Error> {
        let recipe = self.recipe(|count| Mode::Opening { count });
        let plan = Plan::of(&recipe)?;
        let named =
            |error: Error| error.with_names(plan.names()).with_store(&recipe.context().display);
        let name = plan.names().first();
        let foreign = |kind: &ForeignKind| named(Error::foreign(name, kind, plan.mode()));
        let is_set_up = recipe.context().store.capabilities().modes.latch_set_up;
        match recipe.client().inspect(name.clone()).await? {
            Inspection::Held(holder) if holder.kind != Kind::Latch => {
                Err(foreign(&ForeignKind::Kind(holder.kind.as_str().into())))
            }
            Inspection::Held(holder) => {
                let sharing = holder.sharing.unwrap_or_default();
                if is_set_up {
                    // How many steps it had is not kept.
                    return Ok(sharing.limit.unwrap_or_default().saturating_sub(sharing.used));
                }
                match sharing.limit {
                    Some(kept) if kept != self.count => {
                        Err(named(Error::limit_differs(plan.mode(), kept)))
                    }
                    _ => Ok(self.count.saturating_sub(sharing.used)),
                }
            }
            Inspection::Foreign(kind) => Err(foreign(&kind)),
            Inspection::Free { .. } if is_set_up => Ok(0),
            Inspection::Free { .. } => Ok(self.count),
        }
    }

    /// How many steps open it, as this recipe says.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    async fn step(&self, token: Token) -> Result<(), Error> {
        let mut recipe = self.recipe(|count| Mode::CountDown { count });
        recipe = recipe.unattended().bind(Binding::Unbound);
        if recipe.retry.is_none() {
            // It waits in no line: there is nobody to wait for.
            recipe.retry = Some(RetryStrategy::default());
        }
        let plan = Plan::of(&recipe)?.with_token(token);
        match recipe.granted(&plan).await {
            Ok(guard) => {
                guard.let_go();
                Ok(())
            }
            Err(error) if error.is_unknown() => {
                Err(error
                    .with_hint("the step may have been taken; `count_down_as` can be repeated"))
            }
            Err(error) => Err(error),
        }
    }

    fn recipe(&self, mode: impl FnOnce(u32) -> Mode) -> Mutex {
        self.base.in_mode(possible::checked(mode(self.count)))
    }
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch").field("base", &self.base).field("count", &self.count).finish()
    }
}
