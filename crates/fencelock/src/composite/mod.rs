//! Several locks of different kinds, and of different stores, as one.
//!
//! ```text
//!   part 1 --granted--> part 2 --granted--> ... --> guard
//!      \__ busy, an error, a wait that ends, a drop: what was taken is given back, the last one first
//! ```
//! Parts are taken one after the other in an order that is the same for everybody: by store, then by
//! name. Each part is of *one* name, also where a recipe has several: a set that a store takes in one
//! step has no place in such an order, and two composites could wait for each other in a circle. While
//! it waits for a part, a composite holds those before it.

mod guard;
mod part;

use std::{fmt, future::Future};

use fencelock_core::Moment;

pub use self::{
    guard::{CompositeGuard, CompositeHeld},
    part::{HeldPart, Part},
};
use crate::{Attempt, Error, Mutex, Wait, run, stream::streams, taken::Taken, telemetry::Running};

/// The recipe for several locks as one. It does no I/O; its verbs do.
///
/// The parts bring their options (ttl, renewal, ...); how long it waits is its own affair.
///
/// # What is not promised
/// It is taken step by step: somebody else may see the first parts busy while the last is waited for.
/// That no two composites wait for each other in a circle needs that all of them call the same stores
/// by the same urls, and that nobody waits for one of the parts while holding another by other means.
/// Mutexes of one store that are always taken together are better off with
/// [`Client::mutexes`](crate::Client::mutexes): one step, one fencing token.
///
/// # Examples
/// ```
/// use fencelock::Part;
///
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let job = locks.all_of([
///     Part::from(locks.mutex("job:42")),
///     Part::read(&locks.rwlock("catalogue")),
///     Part::permits(&locks.semaphore("gpu", 4), 2),
/// ]);
/// let guard = job.lock().await?;
/// assert!(guard.is_valid() && guard.parts().count() == 3);
/// assert_eq!(guard.release().await, fencelock::Released::Held);
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "a recipe does nothing until one of its verbs is called"]
pub struct Composite {
    parts: Vec<Part>,
    wait: Wait,
}

streams!(Composite: run(CompositeHeld) as run_stream, run_try_stream);

impl Composite {
    /// The most names of one composite: each is a question, and a lease to be renewed.
    pub const MAX_PARTS: usize = 64;

    pub(crate) fn new(parts: Vec<Part>) -> Self {
        Self { parts, wait: Wait::default() }
    }

    /// How long [`Composite::lock`] and [`Composite::run`] wait for all parts together. For ever by
    /// default; the waits of the parts do not count.
    pub fn wait(self, wait: impl Into<Wait>) -> Self {
        Self { wait: wait.into(), ..self }
    }

    /// Waits for all parts and takes them.
    ///
    /// # Errors
    /// As the verbs of the parts; `Config` for no parts, too many, or one name twice; `Lost` when a
    /// part was lost while the others were waited for. What was taken is given back.
    ///
    /// # Cancel safety
    /// Dropping the future gives back what was taken, the last part first, as [`Mutex::lock`] does for
    /// one.
    pub async fn lock(&self) -> Result<CompositeGuard, Error> {
        let recipes = self.recipes()?;
        let end = match (self.wait.span(), recipes.first()) {
            (Some(span), Some(first)) if !span.is_zero() => {
                Some(first.context().clock.now().saturating_add(span))
            }
            (Some(_), _) => Some(Moment::START),
            _ => None,
        };
        let first_clock = recipes.first().map(|recipe| recipe.context().clock.clone());
        let mut taken = Taken::default();
        for mut recipe in recipes {
            recipe.wait = match (end, &first_clock) {
                // A wait that is over is one try, as any other wait of no time.
                (Some(end), Some(clock)) => Wait::For(end.saturating_since(clock.now())),
                _ => Wait::Forever,
            };
            match recipe.lock().await {
                Ok(guard) => taken.push(guard),
                Err(error) if error.is_wait_expired() => {
                    taken.roll_back().await;
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        CompositeGuard::of(taken)
    }

    /// Tries to take each part, once; busy when one of them is, and nothing is held then.
    ///
    /// # Errors
    /// As [`Composite::lock`], but busy is an answer.
    ///
    /// # Cancel safety
    /// As [`Composite::lock`].
    pub async fn try_lock(&self) -> Result<Attempt<CompositeGuard>, Error> {
        let mut taken = Taken::default();
        for recipe in self.recipes()? {
            match recipe.try_lock().await? {
                Attempt::Granted(guard) => taken.push(guard),
                Attempt::Busy(busy) => {
                    taken.roll_back().await;
                    return Ok(Attempt::Busy(busy));
                }
            }
        }
        CompositeGuard::of(taken).map(Attempt::Granted)
    }

    /// Waits for all parts, does the work, and gives them back: see [`Mutex::run`].
    ///
    /// # Errors
    /// As [`Composite::lock`] and [`Mutex::run`].
    ///
    /// # Cancel safety
    /// As [`Mutex::run`].
    pub async fn run<F, Fut, T>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce(CompositeHeld) -> Fut,
        Fut: Future<Output = T>,
    {
        let running = self.running();
        let result = running.span().within(self.run_held(work)).await;
        running.ended(result)
    }

    async fn run_held<F, Fut, T>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce(CompositeHeld) -> Fut,
        Fut: Future<Output = T>,
    {
        let guard = self.lock().await?;
        let held = guard.held();
        let work = || work(held.clone());
        let output = run::scoped_in(guard.around(), work, || held.loss(), held.lost()).await;
        let output = output.map_err(|reason| guard.error(reason))?;
        guard.finish(output).await
    }

    /// One span around the acquires of all parts and the work.
    pub(crate) fn running(&self) -> Running {
        Running::of_all(self.parts.iter().map(Part::recipe))
    }

    /// One recipe for each name, in the order in which they are taken.
    fn recipes(&self) -> Result<Vec<Mutex>, Error> {
        let mut recipes = Vec::new();
        for part in &self.parts {
            recipes.extend(part.recipes()?);
        }
        if recipes.is_empty() || recipes.len() > Self::MAX_PARTS {
            let (most, count) = (Self::MAX_PARTS, recipes.len());
            return Err(Error::config(format!("1 to {most} names are taken as one, not {count}")));
        }
        recipes.sort_by(|one, other| part::place_of(one).cmp(&part::place_of(other)));
        let twice =
            recipes.windows(2).find(|pair| part::place_of(&pair[0]) == part::place_of(&pair[1]));
        match twice.and_then(|pair| pair[0].names.as_ref().ok()) {
            None => Ok(recipes),
            Some(names) => {
                let what = "it is in two parts: one would wait for the other";
                Err(Error::config(what).with_names(names))
            }
        }
    }
}

impl fmt::Debug for Composite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Composite").field("parts", &self.parts).field("wait", &self.wait).finish()
    }
}
