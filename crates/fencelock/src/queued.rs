//! A place in the line that the caller keeps, and waits for as often as it likes.

use std::fmt;

use crate::{
    Error, Guard, Mutex, Position,
    plan::Plan,
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
pub struct Queued {
    mutex: Mutex,
    plan: Plan,
    place: Place,
    /// It was free at once.
    granted: Option<Guard>,
    /// From taking the place until the grant.
    acquiring: Acquiring,
}

impl Queued {
    pub(crate) async fn take(mutex: &Mutex, plan: Plan) -> Result<Self, Error> {
        let mut acquiring = Acquiring::begin(mutex.context(), &plan, mutex.class);
        let span = acquiring.span();
        let mut place = Place::new(mutex.context(), &plan);
        let mut watch = Watch::new(mutex, &plan, mutex.wait.span(), &mut acquiring);
        let granted = span.within(place.take(&mut watch)).await;
        let granted = match granted.transpose() {
            // It is placed, and waits from now on.
            None => None,
            Some(result) => Some(acquiring.waited(result)?),
        };
        Ok(Self { mutex: mutex.clone(), plan, place, granted, acquiring })
    }

    /// Waits until the lock is granted; for as long as the handle's `wait` allows, each time.
    ///
    /// # Errors
    /// As [`Mutex::lock`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future keeps the place, and a grant that came meanwhile for its claim.
    pub async fn granted(&mut self) -> Result<Guard, Error> {
        if let Some(guard) = self.granted.take() {
            return Ok(guard);
        }
        let (span, wait) = (self.acquiring.span(), self.mutex.wait.span());
        let mut watch = Watch::new(&self.mutex, &self.plan, wait, &mut self.acquiring);
        let guard = span.within(self.place.granted(&mut watch)).await?;
        // A wait that expired keeps its place: only a grant ends the acquire.
        self.acquiring.waited(Ok(guard))
    }

    /// Where in the line it was when the store was last asked. Nothing once it is granted.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.place.position()
    }
}

impl fmt::Debug for Queued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queued")
            .field("names", self.plan.names())
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}
