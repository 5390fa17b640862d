//! Where a connection leads, and which of them still lead to the right server.
//!
//! ```text
//!   redis://, redis+unix://   one place, always
//!   redis+sentinel://         where the sentinels say that the primary is, asked for each connection
//! ```
//! All connections of a store lead to one server at a time. When one of them is seen to lead to the
//! wrong one (it answers READONLY, it says that it is a replica, the sentinels name another), all
//! are given up: none is kept across a change of role, not even an idle one, since the old primary
//! may come back and grant locks until it hears that it is none any more.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fencelock_store::{Outcome, StoreErrorKind};

use super::{link::Link, sentinels::Sentinels};
use crate::{
    error::{self, Failure},
    script::Question,
    url::{Place, RedisUrl},
};

/// The way to the server.
#[derive(Debug)]
pub(super) struct Route {
    sentinels: Option<Sentinels>,
    /// Counts the times that somebody asked for the way.
    asked: AtomicU64,
    leads: Mutex<Leads>,
}

/// Where the connections lead that are in use.
#[derive(Debug, Default)]
struct Leads {
    place: Option<Place>,
    /// The question about the way that was answered with this place.
    since: u64,
    /// Counts the times that all connections were given up because of the role of their server.
    left: u64,
    links: Vec<Weak<Link>>,
    /// None is made any more.
    closed: bool,
}

/// A place to connect to, as it was known when it was asked for.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    pub(super) place: Place,
    asked: u64,
    /// How often connections had been given up when it was asked for.
    left: u64,
}

impl Route {
    /// The longest that one attempt to connect to what a sentinel named may take. A primary that is
    /// frozen or gone takes connections, or swallows them; the next question to the sentinels may
    /// name another.
    const PRIMARY_WITHIN: Duration = Duration::from_secs(1);
    /// How long to wait before what led to the wrong server is sent again.
    pub(super) const PAUSE: Duration = Duration::from_millis(20);

    pub(super) fn new(url: &RedisUrl) -> Self {
        let sentinels = match &url.place {
            Place::Sentinels(service) => Some(Sentinels::new(service, url)),
            Place::Tcp(..) | Place::Unix(_) | Place::Cluster(_) => None,
        };
        Self { sentinels, asked: AtomicU64::new(0), leads: Mutex::default() }
    }

    /// Where the next connection leads.
    ///
    /// # Errors
    /// No sentinel knows, or all was closed.
    pub(super) async fn destination(
        &self,
        url: &RedisUrl,
        at: &str,
    ) -> Result<Destination, Failure> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let left = match &*self.leads() {
            Leads { closed: true, .. } => return Err(error::closed(at)),
            leads => leads.left,
        };
        let place = match &self.sentinels {
            Some(sentinels) => sentinels.primary().await?,
            None => url.place.clone(),
        };
        Ok(Destination { place, asked, left })
    }

    /// How long one attempt to connect may take, at most.
    pub(super) fn dial_within(&self, otherwise: Duration) -> Duration {
        if self.sentinels.is_some() { Self::PRIMARY_WITHIN.min(otherwise) } else { otherwise }
    }

    /// Whether a server must have said that it is the primary before anything is asked of it. What
    /// a URL names is asked at once, and its first answer counts only with what it says of itself.
    pub(super) fn must_be_primary(&self) -> bool {
        self.sentinels.is_some()
    }

    /// Takes a new connection into use, and gives up those that lead elsewhere.
    ///
    /// # Errors
    /// A newer answer led elsewhere meanwhile, or all connections were given up since it was begun:
    /// what its server said of its role may be older than that. Or all was closed.
    pub(super) fn take(
        &self,
        destination: &Destination,
        link: &Arc<Link>,
        at: &str,
    ) -> Result<(), Failure> {
        let mut leads = self.leads();
        if leads.closed {
            return Err(error::closed(at));
        }
        let elsewhere = leads.place.as_ref().is_some_and(|place| *place != destination.place);
        // What a URL names says what it is behind this, not before.
        let is_stale = self.must_be_primary() && destination.left != leads.left;
        if is_stale || elsewhere && destination.asked < leads.since {
            return Err(error::unreachable(at, "the primary is another since"));
        }
        let left = if elsewhere { std::mem::take(&mut leads.links) } else { Vec::new() };
        leads.place = Some(destination.place.clone());
        leads.since = leads.since.max(destination.asked);
        leads.links.retain(|link| link.strong_count() > 0);
        leads.links.push(Arc::downgrade(link));
        drop(leads);
        give_up(&left);
        Ok(())
    }

    /// Gives up all connections for good, and those that are being made.
    pub(super) fn close(&self) {
        let mut leads = self.leads();
        leads.closed = true;
        let left = std::mem::take(&mut leads.links);
        drop(leads);
        give_up(&left);
    }

    /// The server is not the one to ask: gives up all connections to it, and those that are being
    /// made. Nothing is new where it was said on a connection that had been given up before: those
    /// that were made since then have said what they are themselves.
    pub(super) fn leave(&self, said_on: Option<&Arc<Link>>) {
        let mut leads = self.leads();
        let is_news = match said_on {
            Some(link) => leads.links.iter().any(|known| known.as_ptr() == Arc::as_ptr(link)),
            None => !leads.links.is_empty(),
        };
        if !is_news {
            return;
        }
        leads.left += 1;
        let left = std::mem::take(&mut leads.links);
        drop(leads);
        give_up(&left);
    }

    /// Whether a question that failed is sent again in the same call, after so many times: where it
    /// was not carried out, or where a copy is harmless, and another server may answer. Behind a
    /// fixed address that is once, when it has just been re-pointed; with sentinels it is for as
    /// long as the caller has time.
    pub(super) fn follows(&self, failure: &Failure, question: &Question, times: u32) -> bool {
        let may_be_sent = failure.outcome == Outcome::NotDone || question.is_harmless();
        let passes = failure.kind == StoreErrorKind::Unavailable && failure.retire;
        match self.sentinels {
            Some(_) => passes && may_be_sent,
            None => passes && failure.outcome == Outcome::NotDone && times == 0,
        }
    }

    fn leads(&self) -> MutexGuard<'_, Leads> {
        // Nothing under this lock can panic half way.
        self.leads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Outside of the lock: whoever listens on a connection is told, and may ask at once.
fn give_up(links: &[Weak<Link>]) {
    links.iter().filter_map(Weak::upgrade).for_each(|link| link.retire());
}
