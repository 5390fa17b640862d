//! One multiplexed connection for each runtime, made when it is first needed and made again when it
//! breaks.
//!
//! ```text
//!            first call                 reply            silence for two calls, end of stream
//!   (none) ------------> dialling --------------> link ------------------------------> (none)
//!              ^            | refused               \-- first silence: suspect
//!              +--- pause --+
//! ```
//!
//! A connection dies with the runtime that drives it, hence one for each (a *lane*). Dialling is a
//! task of its own, so that a caller with little time, or one that gives up, neither stops it nor
//! starts a second one. Callers wait in one queue and put their request into the connection before
//! the next one may, which keeps the order of their first polls.
//!
//! RESP3 is spoken because only there the client library says, before the next request, that a
//! connection has ended: that request goes out on a fresh one and nobody hears of it.

mod admission;
mod answer;
mod courier;
mod dialling;
mod ears;
mod greeting;
mod lane;
mod link;
mod replica;
mod route;
mod sentinels;
mod settings;
mod shortcut;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fencelock_core::Moment;
use fencelock_store::{Clock, Outcome, StoreError, StoreErrorKind, rt};
use redis::Value;

pub(crate) use self::{
    answer::{Answer, NoAnswer},
    ears::{Channels, Ear, Hearer},
    greeting::Greeting,
    lane::{Arrived, Flight},
    shortcut::Shortcut,
};
use self::{
    lane::{Departed, Lane},
    route::Route,
};
use crate::{
    error::{self, Failure},
    guard::Guard,
    notice,
    script::{Admission, Allowed, Form, Question},
    url::{Place, RedisUrl},
};

/// Whether a request may go out a second time after the first copy may have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// The store sees by the token that it is a copy.
    Harmless,
    /// A copy could do harm.
    Never,
}

/// Whether a request must not overtake those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It stays on a connection that has fallen silent, behind what was sent there: a release must
    /// not overtake its acquire.
    Behind,
    /// It may go out on a fresh connection.
    Any,
}

/// All connections to one server of a store.
pub(crate) struct Connections {
    lanes: Mutex<Vec<(rt::RuntimeId, Arc<Lane>)>>,
    target: Arc<Target>,
    closed: AtomicBool,
}

/// How a server stands to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// It has all names, it or the replica that takes its place.
    Alone,
    /// It has the names of some slots.
    InACluster,
}

/// Where connections lead to.
pub(crate) struct Target {
    url: RedisUrl,
    route: Route,
    stands: Stands,
    /// How messages call the server.
    pub(crate) at: String,
    /// What is known of its scripts.
    allowed: Allowed,
    shortcut: Arc<Shortcut>,
    /// Who may be granted something, where that is limited.
    guard: Option<Guard>,
}

impl Connections {
    /// Up to this, a timer that stands still while the machine is suspended is exact enough: it is
    /// what `Clock::until` sleeps between two looks at the clock.
    const ONE_TIMER: Duration = Duration::from_secs(1);
    /// The most runtimes with a connection of their own; one more takes the place of the oldest.
    const LANES_MAX: usize = 256;

    /// Those to a server that has all names.
    pub(crate) fn new(url: &RedisUrl, guard: Option<Guard>) -> Result<Self, StoreError> {
        Self::to(url, Stands::Alone, guard)
    }

    /// Those to one server of a cluster.
    pub(crate) fn in_a_cluster(url: &RedisUrl) -> Result<Self, StoreError> {
        Self::to(url, Stands::InACluster, None)
    }

    fn to(url: &RedisUrl, stands: Stands, guard: Option<Guard>) -> Result<Self, StoreError> {
        let at = url.to_string();
        // What is wrong with the settings is said before the first call.
        let _usable = match &url.place {
            Place::Sentinels(service) => {
                let sentinel = service.url(url, &service.sentinels[0]);
                settings::client(&sentinel, &sentinel.place, &at)?
            }
            place => settings::client(url, place, &at)?,
        };
        Ok(Self {
            lanes: Mutex::default(),
            target: Arc::new(Target {
                url: url.clone(),
                route: Route::new(url),
                stands,
                at,
                allowed: Allowed::default(),
                shortcut: Arc::default(),
                guard,
            }),
            closed: AtomicBool::new(false),
        })
    }

    /// How messages call the server.
    pub(crate) fn at(&self) -> &str {
        &self.target.at
    }

    /// What is known of its commands for plain strings.
    pub(crate) fn shortcut(&self) -> &Shortcut {
        &self.target.shortcut
    }

    /// Who may be granted something, where that is limited.
    pub(crate) fn guard(&self) -> Option<&Guard> {
        self.target.guard.as_ref()
    }

    /// Refuses calls after the end.
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(error::closed(self.at()).into());
        }
        Ok(())
    }

    /// Gives up all connections, since they lead to the wrong server; the next call makes another.
    pub(crate) fn leave(&self) {
        self.target.route.leave(None);
    }

    /// Gives up all connections; those of calls that still run end with them.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.target.route.close();
        for (_, lane) in self.lanes().drain(..) {
            lane.give_up();
        }
    }

    /// Asks one question within its time.
    pub(crate) async fn answer(
        &self,
        question: &mut Question,
        clock: &Clock,
        by: Moment,
    ) -> Result<Answer, NoAnswer> {
        let left = self.left(clock, by)?;
        let flight = Flight::new(self.lane()?, &self.target);
        let mut first = None;
        // The common case: one request, one answer that says something, one look at the clock, not
        // two as in `Clock::until`. Everything else is on the heap, so that this does not carry its
        // size about.
        if left <= Self::ONE_TIMER
            && let Some(departed) = flight.depart_at_once(question)?
        {
            let Departed { link, request, by_text } = departed;
            let Some(carried) = rt::timeout(left, link.send(request)).await else {
                return Err(flight.overdue(clock.now()).into());
            };
            question.take_back(carried.request, by_text);
            match flight.answer_at_once(&link, question, by_text, carried.reply) {
                Ok(answer) => return Ok(answer),
                Err(reply) => first = Some(Arrived { link, by_text, reply }),
            }
        }
        let asked = self.follow(question, &flight, first);
        match Box::pin(clock.until(by, asked)).await {
            Some(result) => result.map_err(NoAnswer::from),
            None => Err(flight.overdue(clock.now()).into()),
        }
    }

    /// Begins to listen to a channel that nobody else knows yet, on the connection of this runtime.
    pub(crate) async fn listen(
        &self,
        kind: Channels,
        channel: &[u8],
        hearer: Arc<dyn Hearer>,
        clock: &Clock,
        by: Moment,
    ) -> Result<Ear, NoAnswer> {
        self.left(clock, by)?;
        let flight = Flight::new(self.lane()?, &self.target);
        // First, whether anything can come: whose scripts may not publish would wait in vain for
        // what nobody may say. Nobody listens yet.
        let mut probe = redis::Cmd::with_capacity(3, 64);
        probe.arg(kind.publish()).arg(channel).arg("");
        let _ = self.told(&flight, probe, clock, by).await?;
        self.subscribe(&flight, kind, (channel, hearer), clock, by).await
    }

    /// The same to a channel of others, on which nothing of ours is said.
    pub(crate) async fn hear(
        &self,
        kind: Channels,
        channel: &[u8],
        hearer: Arc<dyn Hearer>,
        clock: &Clock,
        by: Moment,
    ) -> Result<Ear, NoAnswer> {
        self.left(clock, by)?;
        let flight = Flight::new(self.lane()?, &self.target);
        self.subscribe(&flight, kind, (channel, hearer), clock, by).await
    }

    async fn subscribe(
        &self,
        flight: &Flight<'_>,
        kind: Channels,
        (channel, hearer): (&[u8], Arc<dyn Hearer>),
        clock: &Clock,
        by: Moment,
    ) -> Result<Ear, NoAnswer> {
        let mut command = redis::Cmd::with_capacity(2, 64);
        command.arg(kind.subscribe()).arg(channel);
        let answer = self.told(flight, command, clock, by).await?;
        if !matches!(answer.value, Value::Push { .. }) {
            return Err(error::odd(self.at(), "something that confirms no subscription").into());
        }
        let ear = flight.listen(kind, channel, hearer);
        ear.ok_or_else(|| error::unreachable(self.at(), "the connection broke").into())
    }

    /// Asks for one step of a subscription. Whatever became of it: nobody else knows the channel.
    async fn told(
        &self,
        flight: &Flight<'_>,
        command: redis::Cmd,
        clock: &Clock,
        by: Moment,
    ) -> Result<Answer, NoAnswer> {
        // A server that does not count yet may hand over what it should not: such messages are no
        // grants, so nobody listens to it.
        let mut question =
            Question::command(command, Again::Harmless, Order::Any).admission(Admission::Counted);
        match Box::pin(clock.until(by, self.follow(&mut question, flight, None))).await {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(failure)) => {
                if failure.kind == StoreErrorKind::Denied {
                    notice::once(self.at(), notice::NO_CHANNELS);
                }
                Err(Failure { outcome: Outcome::NotDone, ..failure }.into())
            }
            None => Err(flight.overdue(clock.now()).into()),
        }
    }

    /// Asks, and follows the primary to where it is now: what was refused because of the role of
    /// the server is sent again, on a connection that is made anew.
    async fn follow(
        &self,
        question: &mut Question,
        flight: &Flight<'_>,
        mut first: Option<Arrived>,
    ) -> Result<Answer, Failure> {
        let (mut times, mut resent) = (0, false);
        loop {
            match question.ask(flight, first.take()).await {
                Ok(answer) => return Ok(Answer { resent: answer.resent || resent, ..answer }),
                Err(failure) if self.target.route.follows(&failure, question, times) => {
                    resent |= failure.outcome == Outcome::Unknown;
                    flight.was_refused(resent);
                    tracing::debug!(store = self.at(), why = failure.message, "asking again");
                    if times > 0 {
                        rt::sleep(Route::PAUSE).await;
                    }
                    times += 1;
                }
                Err(failure) if resent => {
                    return Err(Failure { outcome: Outcome::Unknown, ..failure });
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// How much time a call has.
    fn left(&self, clock: &Clock, by: Moment) -> Result<Duration, StoreError> {
        self.check_open()?;
        match by.saturating_since(clock.now()) {
            Duration::ZERO => Err(error::overdue(self.at(), false)),
            left => Ok(left),
        }
    }

    /// The connection of this runtime.
    fn lane(&self) -> Result<Arc<Lane>, StoreError> {
        let Some(id) = rt::runtime_id() else {
            let message = format!("{} was asked outside of a tokio runtime", self.at());
            return Err(StoreError::new(StoreErrorKind::Config, Outcome::NotDone, message));
        };
        let mut lanes = self.lanes();
        if let Some((_, lane)) = lanes.iter().find(|(known, _)| *known == id) {
            return Ok(Arc::clone(lane));
        }
        // A new runtime is rare: the time to look which ones have ended.
        lanes.retain(|(_, lane)| lane.is_alive());
        if lanes.len() >= Self::LANES_MAX {
            lanes.remove(0);
        }
        let lane = Arc::new(Lane::default());
        lanes.push((id, Arc::clone(&lane)));
        Ok(lane)
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<(rt::RuntimeId, Arc<Lane>)>> {
        // Nothing under this lock can panic half way.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lanes = self.lanes().len();
        f.debug_struct("Connections").field("at", &self.at()).field("runtimes", &lanes).finish()
    }
}

/// Sends one request as often as its nature allows; what became of the first copy may be known
/// already.
///
/// # Errors
/// Whatever the server answers is an answer here, errors too.
pub(crate) async fn ask(
    flight: &Flight<'_>,
    question: &mut Question,
    form: Form,
    mut first: Option<Arrived>,
) -> Result<Answer, Failure> {
    let mut resent = false;
    loop {
        let sent = match first.take() {
            Some(Arrived { link, by_text, reply }) => {
                flight.arrive(&link, question, by_text, reply).await
            }
            None => flight.send(question, form).await,
        };
        match sent {
            Ok(Ok(answer)) => return Ok(Answer { resent, ..answer }),
            // Once: a connection that breaks twice within one call is more than bad luck.
            Ok(Err(_)) if question.again == Again::Harmless && !resent => resent = true,
            Ok(Err(failure)) => return Err(failure),
            // This copy was not sent, but an earlier one may have been carried out.
            Err(failure) if resent => {
                return Err(Failure { outcome: Outcome::Unknown, ..failure });
            }
            Err(failure) => return Err(failure),
        }
    }
}
