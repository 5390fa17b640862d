//! One connection and what is known of it.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use fencelock_core::Moment;
use fencelock_store::{Outcome, StoreErrorKind, rt};
use redis::{Cmd, Value, aio::MultiplexedConnection};

use super::{
    Stands, Target,
    courier::{Carried, Carrying, Couriers},
    ears::Ears,
    greeting::Greeting,
    replica::Replica,
    settings,
    shortcut::Shortcut,
};
use crate::{
    error::{self, Failure},
    reply,
    script::Known,
    url::Place,
};

/// A connection. The task that drives it ends with the last clone of `connection`, those of the
/// couriers among them.
#[derive(Debug)]
pub(super) struct Link {
    number: u64,
    connection: MultiplexedConnection,
    couriers: Couriers,
    ended: Arc<AtomicBool>,
    ears: Arc<Ears>,
    /// Since when a request has gone unanswered, on the store's clock; 0 when none has.
    silent_since: AtomicU64,
    greeting: OnceLock<Greeting>,
    greeted: rt::sync::Notify,
    known: Known,
    shortcut: Arc<Shortcut>,
    stands: Stands,
    /// The restart guard found that its server counts; it does for the life of the connection.
    counts: AtomicBool,
}

/// Set when the driver of a connection drops it: at the end of the stream or of the runtime.
#[derive(Debug)]
struct Ended(Arc<AtomicBool>, Arc<Ears>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.end();
    }
}

impl Link {
    /// The longest that making one connection may take: a host that swallows packets, or that
    /// accepts and never answers the greeting.
    const DIAL_WITHIN: Duration = Duration::from_secs(5);
    /// Requests that wait to be written, before callers wait for their turn instead.
    const QUEUE: usize = 1_024;
    /// How long a silent connection is given before another is made beside it.
    const SILENCE: Duration = Duration::from_millis(250);

    pub(super) async fn dial(target: &Target) -> Result<Arc<Self>, Failure> {
        let destination = target.route.destination(&target.url, &target.at).await?;
        let limit = target.route.dial_within(Self::DIAL_WITHIN);
        // Where a sentinel named it: what is wrong there, another answer may set right.
        let named = |failure: Failure| Failure {
            retire: failure.retire || target.route.must_be_primary(),
            ..failure
        };
        let link = Self::connect(target, &destination.place, limit).await.map_err(named)?;
        if target.route.must_be_primary() {
            let said = rt::timeout(limit, link.prove(&target.at)).await;
            said.unwrap_or_else(|| Err(error::unreachable(&target.at, "no answer in time")))
                .map_err(named)?;
        }
        target.route.take(&destination, &link, &target.at).map_err(|failure| {
            // What was closed is not asked for again.
            if failure.kind == StoreErrorKind::Closed { failure } else { named(failure) }
        })?;
        Ok(link)
    }

    async fn connect(
        target: &Target,
        place: &Place,
        limit: Duration,
    ) -> Result<Arc<Self>, Failure> {
        let ended = Arc::new(AtomicBool::new(false));
        let ears = Arc::new(Ears::new());
        let witness = Ended(Arc::clone(&ended), Arc::clone(&ears));
        // The driver owns this closure, and drops it when it ends.
        let listener = move |info: redis::PushInfo| -> Result<(), redis::aio::SendError> {
            if !witness.1.push(&info) {
                witness.0.store(true, Ordering::Release);
                witness.1.end();
            }
            Ok(())
        };
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limit))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(Self::QUEUE)
            .set_push_sender(listener);
        let Target { url, at, .. } = target;
        let client = settings::client(url, place, at)?;
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        let connection = connection.map_err(|error| settings::failure(url, place, &error, at))?;
        // Another server may answer now, or the same with other rights.
        target.allowed.forget();
        target.shortcut.forget();
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Ok(Arc::new(Self {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            connection,
            couriers: Couriers::default(),
            ended,
            ears,
            silent_since: AtomicU64::new(0),
            greeting: OnceLock::new(),
            greeted: rt::sync::Notify::new(),
            known: Known::default(),
            shortcut: Arc::clone(&target.shortcut),
            stands: target.stands,
            counts: AtomicBool::new(false),
        }))
    }

    /// Asks the server who it is. The first poll puts the question into the connection, so that
    /// what is sent after it is also answered after it.
    pub(super) async fn greet(&self) {
        if self.known_greeting().is_some() {
            return;
        }
        let greeting = self.introduction().await;
        let _ = self.greeting.set(greeting);
        self.greeted.notify_waiters();
    }

    /// Who the server says it is, now. One that does not say is taken as it is.
    async fn introduction(&self) -> Greeting {
        let mut info = Cmd::with_capacity(3, 32);
        info.arg("INFO").arg("server").arg("replication");
        let mut reply = self.send(info).await.reply;
        if let Ok(Value::ServerError(_)) = reply {
            // Servers that are too old know one section at a time.
            let mut info = Cmd::with_capacity(2, 16);
            info.arg("INFO").arg("server");
            reply = self.send(info).await.reply;
        }
        if let Ok(info) = &reply {
            self.shortcut.learn(info);
        }
        let is_denied = matches!(&reply, Ok(Value::ServerError(no)) if no.code() == "NOPERM");
        let greeting = reply.ok().and_then(|value| Greeting::read(&value)).unwrap_or_default();
        let is_misplaced = greeting.is_misplaced && self.stands == Stands::Alone;
        Greeting { heard: rt::boottime_now(), is_denied, is_misplaced, ..greeting }
    }

    /// Whether a replica is what it was: then nothing was written to it in between.
    pub(super) async fn is_still(&self, replica: &Replica) -> bool {
        // What was refused before anything else needs no look, but is too rare to tell it apart.
        replica.wrote_nothing() && self.introduction().await.replica.as_ref() == Some(replica)
    }

    /// Makes the server say that it is a primary, before anything is asked of it.
    async fn prove(&self, at: &str) -> Result<(), Failure> {
        self.greet().await;
        let greeting = self.greeting().await;
        if let Some(refusal) = greeting.refusal(at) {
            return Err(refusal);
        }
        if greeting.is_primary {
            return Ok(());
        }
        // Rights without INFO.
        let mut role = Cmd::with_capacity(1, 8);
        role.arg("ROLE");
        match self.send(role).await.reply {
            Ok(Value::ServerError(refused)) => {
                let text = refused.details().unwrap_or_default();
                Err(error::from_server(refused.code(), text, at))
            }
            Ok(value) => match reply::list(&value).ok().and_then(<[Value]>::first) {
                Some(role) if reply::bytes(role) == Ok(b"master") => Ok(()),
                _ => Err(error::unreachable(at, "what the sentinels named is not a primary")),
            },
            Err(error) => Err(error::from_transport(&error, at)),
        }
        .map_err(|failure| Failure { outcome: Outcome::NotDone, ..failure })
    }

    /// What the server said of itself. It was asked first, so this waits for a task, not for the
    /// network.
    pub(super) async fn greeting(&self) -> Greeting {
        // Nearly always: registering for the news costs more than the look.
        if let Some(greeting) = self.greeting.get() {
            return greeting.clone();
        }
        Box::pin(self.greeting_to_come()).await
    }

    async fn greeting_to_come(&self) -> Greeting {
        loop {
            let mut greeted = pin!(self.greeted.notified());
            greeted.as_mut().enable();
            if let Some(greeting) = self.greeting.get() {
                return greeting.clone();
            }
            greeted.await;
        }
    }

    pub(super) fn known_greeting(&self) -> Option<&Greeting> {
        self.greeting.get()
    }

    /// Whether the restart guard has let requests pass here.
    pub(super) fn counts(&self) -> bool {
        self.counts.load(Ordering::Acquire)
    }

    pub(super) fn count(&self) {
        self.counts.store(true, Ordering::Release);
    }

    /// Sends a request. The first poll puts it into the connection.
    pub(super) fn send(&self, request: Cmd) -> Carrying<'_> {
        self.couriers.carry(&self.connection, request)
    }

    /// The same behind an ASKING, in one write, so that nothing comes between the two.
    pub(super) async fn send_asking(&self, request: Cmd) -> Carried {
        let mut asking = redis::pipe();
        asking.cmd("ASKING").add_command(request.clone());
        let reply = self.connection.clone().send_packed_commands(&asking, 1, 1).await;
        let reply = reply.map(|mut replies| replies.pop().unwrap_or(Value::Nil));
        Carried { request, reply }
    }

    /// What tells it from all others of this process.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The scripts that the server knows.
    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Marks it as not to be used again. Who listens here will not be told anything more.
    pub(super) fn retire(&self) {
        self.ended.store(true, Ordering::Release);
        self.ears.end();
    }

    /// Who listens on it.
    pub(super) fn ears(&self) -> &Ears {
        &self.ears
    }

    /// An answer came.
    pub(super) fn heard(&self) {
        if self.is_suspect() {
            self.silent_since.store(0, Ordering::Relaxed);
        }
    }

    /// Whether a request has gone unanswered, and nothing was heard since.
    pub(super) fn is_suspect(&self) -> bool {
        self.silent_since.load(Ordering::Relaxed) != 0
    }

    /// Whether it has been silent for so long that another should be made.
    pub(super) fn is_silent(&self, now: Moment) -> bool {
        match self.silent_since.load(Ordering::Relaxed) {
            0 => false,
            since => now.saturating_since(Moment::from_nanos(since)) >= Self::SILENCE,
        }
    }

    /// A request went unanswered; one that was sent when the connection was suspect already ends
    /// it, if it had its time.
    pub(super) fn unanswered(&self, sent_when_suspect: bool, now: Moment) {
        if sent_when_suspect && self.is_silent(now) {
            self.retire();
        } else if !self.is_suspect() {
            self.silent_since.store(now.as_nanos().max(1), Ordering::Relaxed);
        }
    }
}

/// Polls a future once, and gives it back with what it had to say.
pub(super) async fn once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    poll_fn(|context| match std::pin::Pin::new(&mut *future).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
