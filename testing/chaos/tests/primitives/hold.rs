//! A guard of any kind, and what its holder notes of it.
//!
//! ```text
//!   asked -> grant (note) -> work, and note each renewal -> end (note) -> release, drop, ...
//! ```
//! The end is noted before anything is sent, as validity ends then.

use std::{sync::Arc, time::Duration};

use fencelock::{
    CompositeGuard, Error, Guard, LossReason, Permit, ReadGuard, ReentrantGuard, Released,
    WriteGuard,
};
use fencelock_chaos::boottime_ns;

use crate::notes::{Grant, Note, Notebook, Way};

/// A guard of any kind.
pub(crate) enum Held {
    Mutex(Guard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permit(Permit),
    Owned(ReentrantGuard),
    All(CompositeGuard),
}

/// Calls the same method of whatever it is.
macro_rules! each {
    ($held:expr, $guard:ident => $call:expr) => {
        match $held {
            Held::Mutex($guard) => $call,
            Held::Read($guard) => $call,
            Held::Write($guard) => $call,
            Held::Permit($guard) => $call,
            Held::Owned($guard) => $call,
            Held::All($guard) => $call,
        }
    };
}

impl Held {
    fn validity_left(&self) -> Duration {
        each!(self, guard => guard.validity_left())
    }

    async fn lost(&self) -> LossReason {
        each!(self, guard => guard.lost().await)
    }

    async fn release(self) -> Released {
        each!(self, guard => guard.release().await)
    }

    /// Renews it by hand.
    async fn renew(&self, ttl: Duration) -> Result<(), Error> {
        each!(self, guard => guard.renew(ttl).await)
    }

    /// Leaves it held for its ttl. Nothing for several locks and for the
    /// holds of an owner, which can't be left.
    async fn leave(self) -> Option<Result<(), Error>> {
        Some(match self {
            Self::Mutex(guard) => guard.leak().await.map(drop),
            Self::Read(guard) => guard.leak().await.map(drop),
            Self::Write(guard) => guard.leak().await.map(drop),
            Self::Permit(guard) => guard.leak().await.map(drop),
            Self::Owned(_) | Self::All(_) => return None,
        })
    }

    /// What of it is held how, and with which number.
    fn parts(&self, owner: u8, limit: impl Fn(&str) -> u32) -> Vec<(String, Way, u64)> {
        let number = |token: Option<fencelock::FencingToken>| token.map(|token| token.as_u64());
        let (name, way, number) = match self {
            Self::Mutex(guard) => (guard.name(), Way::Alone, number(guard.fencing_token())),
            Self::Write(guard) => (guard.name(), Way::Alone, number(guard.fencing_token())),
            Self::Owned(guard) => (guard.name(), Way::Owned(owner), number(guard.fencing_token())),
            Self::Read(guard) => {
                let number = guard.shared_token().map(|token| token.as_u64());
                (guard.name(), Way::Shared, number)
            }
            Self::Permit(guard) => {
                let limit = limit(&guard.name().to_string());
                let way = Way::Permits { permits: guard.permits(), limit };
                (guard.name(), way, guard.number())
            }
            Self::All(guard) => {
                let parts = guard.parts().map(|part| {
                    let name = part.name().to_string();
                    let shared = part.shared_token().map(|token| token.as_u64());
                    match (part.permits(), shared, number(part.fencing_token())) {
                        (0, Some(shared), _) => (name, Way::Shared, Some(shared)),
                        (0, None, alone) => (name, Way::Alone, alone),
                        (permits, ..) => {
                            // The number of a part that is permits is not told.
                            let way = Way::Permits { permits, limit: limit(&name) };
                            (name, way, None)
                        }
                    }
                });
                return parts.map(|(name, way, number)| (name, way, number.unwrap_or(0))).collect();
            }
        };
        vec![(name.to_string(), way, number.expect("native locks have one"))]
    }
}

/// What is known of a hold besides its guard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    pub(crate) id: u64,
    /// Before it was asked for.
    pub(crate) asked: u64,
    /// Whose it is, if it is re-entrant.
    pub(crate) owner: u8,
    /// Whether it ends with its process.
    pub(crate) bound: bool,
    /// What it was asked for with.
    pub(crate) ttl: Duration,
    /// Whether it ends by itself, though its guard be forgotten.
    pub(crate) ends: bool,
}

/// A hold that was noted.
pub(crate) struct Noted {
    held: Held,
    pub(crate) of: Circumstances,
    notes: Arc<Notebook>,
    /// Until when validity was known to last.
    until: u64,
}

impl Noted {
    pub(crate) fn new(
        held: Held,
        of: Circumstances,
        notes: Arc<Notebook>,
        limit: impl Fn(&str) -> u32,
    ) -> Self {
        let from = boottime_ns();
        let until = later(from, held.validity_left());
        let grant = |(name, way, number)| {
            let Circumstances { id, asked, bound, .. } = of;
            Note::Grant(Grant { id, name, way, number, asked, from, until, bound })
        };
        let grants: Vec<_> = held.parts(of.owner, limit).into_iter().map(grant).collect();
        notes.write(&grants);
        Self { held, of, notes, until }
    }

    /// Works, until the work is done or the lease is lost, and notes what is seen of renewals.
    pub(crate) async fn work(&mut self, span: Duration) {
        let end = later(boottime_ns(), span);
        loop {
            let now = boottime_ns();
            if now >= end {
                return;
            }
            let step = Duration::from_nanos(end - now).min(LOOK);
            if let Ok(reason) = tokio::time::timeout(step, self.held.lost()).await {
                self.judge(matches!(reason, LossReason::Expired | LossReason::MaxHold), &reason);
                return;
            }
            self.note_renewal();
        }
    }

    /// Renews by hand: a failure is none of this test, what it says of the lease is.
    pub(crate) async fn renew(&mut self) {
        if self.held.renew(self.of.ttl).await.is_ok() {
            self.note_renewal();
        }
    }

    fn note_renewal(&mut self) {
        let (now, left) = (boottime_ns(), self.held.validity_left());
        let until = later(now, left);
        // The clock is read before the validity, so what is not renewed seems to move a little.
        if !left.is_zero() && until > later(self.until, NOISE) {
            self.until = until;
            self.notes.write(&[Note::Until { id: self.of.id, until }]);
        }
    }

    /// Notes when the store says that a lease is over which should last.
    fn judge(&self, is_explained: bool, why: &dyn std::fmt::Debug) {
        let at = boottime_ns();
        if !is_explained && at < self.until {
            let (id, until, why) = (self.of.id, self.until, format!("{why:?}"));
            self.notes.write(&[Note::Broken { id, at, until, why }]);
        }
    }

    /// Notes that it is over now.
    pub(crate) fn end(&mut self) {
        self.note_renewal();
        let at = boottime_ns();
        let valid = !self.held.validity_left().is_zero();
        self.notes.write(&[Note::End { id: self.of.id, at, valid }]);
    }

    pub(crate) async fn release(mut self) {
        self.end();
        let (id, until, notes) = (self.of.id, self.until, Arc::clone(&self.notes));
        let released = self.held.release().await;
        let at = boottime_ns();
        // Where it may have been sent twice it is unknown.
        let is_denied = matches!(released, Released::Taken | Released::Expired);
        if is_denied && at < until {
            let why = format!("released: {released:?}");
            notes.write(&[Note::Broken { id, at, until, why }]);
        }
    }

    /// Leaves it to its ttl.
    pub(crate) async fn leave(mut self) {
        if matches!(self.held, Held::All(_) | Held::Owned(_)) {
            return self.release().await;
        }
        self.note_renewal();
        let (id, notes, at) = (self.of.id, Arc::clone(&self.notes), boottime_ns());
        let valid = !self.held.validity_left().is_zero();
        match self.held.leave().await {
            Some(Ok(())) => notes.write(&[Note::Left { id }]),
            // It was given back, or was not ours any more.
            _ => notes.write(&[Note::End { id, at, valid }]),
        }
    }

    /// Forgets the guard: nobody gives it back.
    pub(crate) fn forget(self) {
        std::mem::forget(self.held);
    }

    /// Becomes a reader, where it is the writer.
    pub(crate) async fn downgrade(mut self, id: u64) -> Option<Result<Self, Error>> {
        self.end();
        let Self { held: Held::Write(guard), of, notes, .. } = self else { return None };
        let reader = match guard.downgrade().await {
            Ok(reader) => reader,
            Err(error) => return Some(Err(error)),
        };
        let of = Circumstances { id, ..of };
        Some(Ok(Self::new(Held::Read(reader), of, notes, |_| 0)))
    }
}

/// How often a holder looks whether its lease was renewed.
const LOOK: Duration = Duration::from_millis(40);

/// No renewal prolongs a lease by as little.
const NOISE: Duration = Duration::from_millis(1);

fn later(moment: u64, span: Duration) -> u64 {
    moment.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
