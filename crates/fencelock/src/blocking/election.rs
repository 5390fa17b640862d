//! Elections, for threads.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use fencelock_core::{FencingToken, LockName, LossReason};
use fencelock_store::rt;

use super::{Guard, Held, Mutex, in_child::InChild as _, scope, wrap::blocking};
use crate::{Error, Observed, Released, Wait, election::Campaigns};

blocking! {
    /// One leader among many: [`fencelock::Election`](crate::Election) for threads.
    ///
    /// # Examples
    /// ```
    /// use std::ops::ControlFlow;
    ///
    /// let locks = fencelock::blocking::connect("memory:")?;
    /// let election = locks.election("scheduler");
    /// let term = election.lead("10.0.0.7:8080", |leading| ControlFlow::Break(leading.term()))?;
    /// assert!(term.is_some());
    /// # Ok::<(), fencelock::Error>(())
    /// ```
    #[derive(Clone)]
    #[must_use = "a recipe does nothing until one of its verbs is called"]
    pub struct Election of crate::Election;
    settings {
        fn ttl(ttl: Duration);
        fn wait(wait: impl Into<Wait>);
        fn metadata(key: impl Into<String>, value: impl Into<String>);
        fn label(label: impl Into<String>);
        fn allow_unfenced();
    }
    grants {
        fn campaign(info: impl Into<String>) -> Leadership;
    }
}

impl Election {
    /// As [`fencelock::Election::mutex`](crate::Election::mutex).
    pub fn mutex(&self, info: impl Into<String>) -> Mutex {
        Mutex::of(self.inner.mutex(info), &self.driver)
    }

    /// Campaigns, does the work in this thread while it leads, resigns when the work returns, and does
    /// all that again until it breaks: see [`fencelock::Election::lead`](crate::Election::lead).
    ///
    /// Nothing can stop work that blocks: when the leadership is lost it goes on, and somebody else may
    /// lead. So it looks at [`Leading::is_leader`] between its steps, and returns
    /// [`Continue`](ControlFlow::Continue) when that is over.
    ///
    /// # Errors
    /// As [`fencelock::Election::lead`](crate::Election::lead): `Lost` when the work broke and did
    /// not lead any more.
    pub fn lead<T>(
        &self,
        info: impl Into<String>,
        mut work: impl FnMut(Leading) -> ControlFlow<T>,
    ) -> Result<T, Error> {
        let info: Arc<str> = Arc::from(info.into());
        let campaigns = Campaigns::new(&self.inner, &info);
        loop {
            let won = self.driver.wait(campaigns.won()).unwrap_or_else(Result::in_child);
            let guard = Guard::of(won?, &self.driver);
            let mut broke = false;
            let term = scope::run(guard, |held: Held| {
                let leading = crate::Leading::new(held.inner, Arc::clone(&info));
                let flow = work(Leading::of(leading, &held.driver));
                broke = flow.is_break();
                flow
            });
            match term {
                Ok(ControlFlow::Break(value)) => return Ok(value),
                Ok(ControlFlow::Continue(())) => {}
                Err(error) if broke => return Err(error),
                Err(lost) => tracing::debug!(%lost, "campaigning again"),
            }
        }
    }

    /// Who leads, as an iterator of changes: [`fencelock::Election::observe`](crate::Election::observe)
    /// for threads.
    pub fn observe(&self) -> Observation {
        Observation { inner: self.inner.observe(), driver: self.driver.clone(), over: false }
    }
}

blocking! {
    /// One term of a leader: [`fencelock::Leadership`](crate::Leadership) for threads. Dropping it
    /// resigns.
    #[must_use = "dropping the leadership resigns"]
    #[clippy::has_significant_drop]
    pub struct Leadership of crate::Leadership;
    gets {
        fn name() -> &LockName;
        fn term() -> Option<FencingToken>;
        fn info() -> &str;
        fn is_leader() -> bool;
        fn validity_left() -> Duration;
    }
    waits {
        fn lost() -> LossReason;
    }
    within {
        fn lost_within of lost -> LossReason;
    }
    ends {
        fn resign() -> Released;
    }
}

blocking! {
    /// What the work of a term sees of it: [`fencelock::Leading`](crate::Leading) for threads.
    #[derive(Clone)]
    pub struct Leading of crate::Leading;
    gets {
        fn term() -> Option<FencingToken>;
        fn info() -> &str;
        fn is_leader() -> bool;
        fn validity_left() -> Duration;
    }
    within {
        fn lost_within of lost -> LossReason;
    }
}

super::common::revoked_within!(Leadership);
super::common::revoked_within!(Leading);

/// Changes of who leads: [`fencelock::Observation`](crate::Observation) for threads, an iterator
/// whose `next` blocks until there is one.
#[derive(Debug)]
#[must_use = "an iterator does nothing until it is asked"]
pub struct Observation {
    inner: crate::Observation,
    driver: rt::Driver,
    over: bool,
}

impl Observation {
    /// As [`fencelock::Observation::every`](crate::Observation::every).
    pub fn every(self, beat: Duration) -> Self {
        Self { inner: self.inner.every(beat), ..self }
    }

    /// Blocks until the next change, for at most so long; nothing when there was none until then, or
    /// there will be none. A look that was begun goes on with the next call.
    pub fn next_within(&mut self, span: Duration) -> Option<Result<Observed, Error>> {
        self.driver.wait(rt::timeout(span, self.inner.next())).flatten().flatten()
    }
}

impl Iterator for Observation {
    type Item = Result<Observed, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.driver.wait(self.inner.next()).unwrap_or_else(|| {
            // Told once: in the child of a fork there is nothing to come.
            self.over = true;
            Some(Result::in_child())
        });
        self.over |= next.is_none();
        next
    }
}
