//! A place in the line that the caller keeps, and waits for as often as it likes.

use std::fmt;

use crate::{
    Error, ErrorKind, Guard, Mutex, Position,
    plan::Plan,
    run,
    telemetry::Acquiring,
    waiting::{Place, Watch},
};

/// A place in the line at the store, as [`Mutex::enqueue`] takes it.
///
/// Dropping it gives the place up, and what may have been granted to it. Unlike a `lock()` that is
/// made anew in each round of a `select!`, it keeps its place while nobody polls it; but the
/// heart-beat that keeps the place needs a call of [`Queued::granted`] at least every half minute,
/// and a grant has to be taken up by one within its claim (half a second, or the ttl if that is
/// shorter), or it goes to the next.
#[must_use = "dropping it gives up the place"]
pub struct Queued<G = Guard> {
    mutex: Mutex,
    plan: Plan,
    place: Place,
    /// It was free at once.
    granted: Option<Guard>,
    wrap: Wrap<G>,
    /// From taking the place until the grant.
    acquiring: Acquiring,
}

/// How the guard becomes that of another primitive.
type Wrap<G> = Box<dyn Fn(Guard) -> G + Send + Sync>;

impl<G> Queued<G> {
    /// Takes a place, if there is a line.
    pub(crate) async fn begin(
        mutex: &Mutex,
        wrap: impl Fn(Guard) -> G + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let (context, plan) = (mutex.context(), Plan::of(mutex)?);
        run::check_waiting(context, plan.names(), plan.mode())?;
        if !context.store.capabilities().queue {
            let what = "this store or dialect has no line to wait in";
            return Err(Error::new(ErrorKind::Unsupported, what)
                .with_names(plan.names())
                .with_store(&context.display));
        }
        let mut acquiring = Acquiring::begin(context, &plan, mutex.class);
        let span = acquiring.span();
        let mut place = Place::new(context, &plan);
        let mut watch = Watch::new(mutex, &plan, mutex.wait.span(), &mut acquiring);
        let granted = span.within(place.take(&mut watch)).await;
        let granted = match granted.transpose() {
            // It is placed, and waits from now on.
            None => None,
            Some(result) => {
                let result = result.and_then(|guard| plan.above_floor(guard));
                Some(acquiring.waited(result)?)
            }
        };
        let (mutex, wrap) = (mutex.clone(), Box::new(wrap));
        Ok(Self { mutex, plan, place, granted, wrap, acquiring })
    }

    /// Waits until the lock is granted; for as long as the handle's `wait` allows, each time.
    ///
    /// # Errors
    /// As [`Mutex::lock`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future keeps the place, and a grant that came meanwhile for its claim.
    pub async fn granted(&mut self) -> Result<G, Error> {
        if let Some(guard) = self.granted.take() {
            return Ok((self.wrap)(guard));
        }
        let (span, wait) = (self.acquiring.span(), self.mutex.wait.span());
        let mut watch = Watch::new(&self.mutex, &self.plan, wait, &mut self.acquiring);
        let guard = span.within(self.place.granted(&mut watch)).await?;
        // A wait that expired keeps its place: only a grant ends the acquire.
        let granted = self.plan.above_floor(guard);
        self.acquiring.waited(granted).map(&self.wrap)
    }

    /// Where in the line it was when the store was last asked. Nothing once it is granted.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.place.position()
    }
}

impl<G> fmt::Debug for Queued<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queued")
            .field("names", self.plan.names())
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}
