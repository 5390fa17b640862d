//! Grants that count only when replicas have them, or when they are on disk.
//!
//! ```text
//!   connection of the runtime:        acquire --granted--> (...)            --> guard
//!   connection for acknowledgements:            \-> confirm.lua, WAIT n --n--/
//!                                                        \-- too few, too late --> release, error
//! ```
//! `WAIT` stops everything that comes behind it on its connection, for as long as it waits, so it
//! has one of its own (measured, one replica stopped: a second lock of the same runtime was granted
//! after 0.1 ms; on the same connection after the whole limit). `WAIT` asks for what *its own*
//! connection has written last. `confirm.lua` is such a write, behind the grant and without any
//! effect: replicas take what a server writes in its order, so whoever has it has the grant. That
//! also covers what this connection can't have written itself: a lease that another client's release
//! handed over, or that an earlier copy of a request took.
//!
//! The server that acknowledges must be the one that granted, in the same life; one that does not say
//! which life it is in has acknowledged nothing.

mod verbs;

use std::{fmt, sync::LazyLock, time::Duration};

use fencelock_core::{Incarnation, LockName, Moment};
use fencelock_store::{Outcome, StoreError, StoreErrorKind};
use redis::{Cmd, Value};

pub(crate) use self::verbs::{Asking, Confirmed};
use crate::{
    connection::{Again, Connections, Greeting, NoAnswer, Order},
    reply,
    script::{Question, Script, script},
    wire::Wire,
};

/// What to look at when replicas are missing.
const ARE_THEY_THERE: &str = "are the replicas running and connected?";

static CONFIRM: LazyLock<Script> = script!("scripts/confirm.lua");

/// When a grant counts: what has to have it besides the memory of the primary.
///
/// It makes the loss of a grant in a fail-over rarer, and is no consensus: Sentinel may promote a
/// replica that has not acknowledged, and a replica that has may restart empty. It is for one server
/// or its sentinels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Acknowledge {
    /// The primary's word.
    #[default]
    None,
    /// So many replicas have it in memory (`WAIT`).
    Replicas(u8),
    /// It is on the disk of the primary, and of so many replicas (`WAITAOF`; Redis 7.2 or newer with
    /// `appendonly yes`).
    Disk {
        /// How many replicas.
        replicas: u8,
    },
}

impl fmt::Display for Acknowledge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("nobody"),
            Self::Replicas(1) => f.write_str("a replica"),
            Self::Replicas(count) => write!(f, "{count} replicas"),
            Self::Disk { replicas: 0 } => f.write_str("the disk"),
            Self::Disk { replicas } => write!(f, "the disk and those of {replicas} replicas"),
        }
    }
}

/// How grants are acknowledged.
#[derive(Debug)]
pub(crate) struct Acknowledgement {
    level: Acknowledge,
    within: Duration,
    /// One for each runtime, too: the keeper's renewals do not wait behind what callers wait for.
    connections: Connections,
}

impl Acknowledgement {
    /// A healthy replica in another zone answers within a few milliseconds; one that takes longer
    /// than this is most likely gone, and a request has a second in all.
    pub(crate) const WITHIN: Duration = Duration::from_millis(100);
    /// Less is not a limit but a mistake; `WAIT 0` would be for ever.
    pub(crate) const WITHIN_MIN: Duration = Duration::from_millis(1);

    pub(crate) fn new(level: Acknowledge, within: Duration, connections: Connections) -> Self {
        Self { level, within, connections }
    }

    pub(crate) fn close(&self) {
        self.connections.close();
    }

    /// Waits until what was granted at this name is acknowledged; `by` leaves a quarter of the time
    /// for what has to be done when it is not.
    ///
    /// # Errors
    /// `NotAcknowledged`, or why it can't be asked for. The grant stands.
    async fn confirm(
        &self,
        wire: &Wire,
        name: &LockName,
        life: Option<&Incarnation>,
        by: Moment,
    ) -> Result<(), StoreError> {
        let now = wire.clock.now();
        let within = self.within.min(by.saturating_since(now) / 4 * 3);
        let (end, by) = (by, now.saturating_add(within));
        // The limit is that of the replicas: the server may need longer to say what they did.
        let heard_by = by.saturating_add(end.saturating_since(by) / 2);
        let missing = |says: &str| self.missing(within, says);
        let mut question = wire.script_on(&CONFIRM, std::iter::once(name), 0, 0);
        let failed = |no_answer: NoAnswer| self.failed(within, no_answer.into());
        let written = self.connections.answer(&mut question, &wire.clock, heard_by).await;
        let written = written.map_err(failed)?;
        if reply::number(&written.value) != Ok(1) {
            return Err(missing("the lease has ended meanwhile"));
        }
        let life = life.ok_or_else(|| self.nameless(within, &written.greeting))?;
        let mut question = self.wait(by.saturating_since(wire.clock.now()));
        let counted = self.connections.answer(&mut question, &wire.clock, heard_by).await;
        let counted = counted.map_err(failed)?;
        let Some(own) = &counted.greeting.incarnation else {
            return Err(self.nameless(within, &counted.greeting));
        };
        // A write on one connection, and the count on another, say nothing about each other.
        if written.connection != counted.connection || own != life {
            return Err(missing("the connection to it broke meanwhile"));
        }
        self.judge(&counted.value).map_err(|says| missing(&says))
    }

    fn wait(&self, limit: Duration) -> Question {
        let mut command = Cmd::with_capacity(4, 48);
        match self.level {
            Acknowledge::Disk { replicas } => command.arg("WAITAOF").arg(1).arg(replicas),
            Acknowledge::Replicas(count) => command.arg("WAIT").arg(count),
            Acknowledge::None => command.arg("WAIT").arg(0),
        };
        // Zero would be for ever.
        command.arg(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1));
        Question::command(command, Again::Never, Order::Any)
    }

    /// Whether it is enough; what there is, when it is not.
    fn judge(&self, counted: &Value) -> Result<(), String> {
        let number = |value| {
            reply::number(value).map_err(|_| "it answered something that is no count".to_owned())
        };
        let (enough, says) = match self.level {
            Acknowledge::Disk { replicas } => {
                let [own, others] = reply::list(counted).unwrap_or_default() else {
                    return Err("it answered something that is not two counts".to_owned());
                };
                let (own, others) = (number(own)?, number(others)?);
                let says = match (own, others >= i64::from(replicas)) {
                    (1.., _) => format!("{others} of them have it; {ARE_THEY_THERE}"),
                    (_, true) => "its own disk does not have it".to_owned(),
                    (_, false) => format!(
                        "its own disk does not have it, nor more than {others} of them; \
                         {ARE_THEY_THERE}"
                    ),
                };
                (own >= 1 && others >= i64::from(replicas), says)
            }
            Acknowledge::Replicas(count) => {
                let replicas = number(counted)?;
                let says = format!("{replicas} of them answered in time; {ARE_THEY_THERE}");
                (replicas >= i64::from(count), says)
            }
            Acknowledge::None => (true, String::new()),
        };
        if enough { Ok(()) } else { Err(says) }
    }

    /// What an acknowledgement that could not be asked for comes to.
    fn failed(&self, within: Duration, error: StoreError) -> StoreError {
        let of_disk = matches!(self.level, Acknowledge::Disk { .. });
        match error.kind() {
            StoreErrorKind::Denied | StoreErrorKind::Closed => error,
            StoreErrorKind::Config | StoreErrorKind::Protocol if of_disk => {
                let message = format!(
                    "{} can't say when a grant is on its disk; that needs redis 7.2 or newer with \
                     appendonly yes",
                    self.connections.at()
                );
                StoreError::new(StoreErrorKind::Config, Outcome::NotDone, message)
                    .with_source(error)
            }
            _ => self.missing(within, "it could not be asked").with_source(error),
        }
    }

    /// The error for a server of which nobody knows whether it is the one that granted.
    fn nameless(&self, within: Duration, greeting: &Greeting) -> StoreError {
        if !greeting.is_denied {
            return self.missing(within, "it did not say who it is");
        }
        let message = format!(
            "{} does not say which life of it granted, so that nothing it acknowledges counts; \
             grant +info",
            self.connections.at()
        );
        StoreError::new(StoreErrorKind::Denied, Outcome::NotDone, message)
    }

    fn missing(&self, within: Duration, says: &str) -> StoreError {
        let (at, level) = (self.connections.at(), self.level);
        let message =
            format!("{at} granted, but {level} did not acknowledge it within {within:?}: {says}");
        StoreError::new(StoreErrorKind::NotAcknowledged, Outcome::Unknown, message)
    }
}
