//! The connection of one runtime: the queue before it, the task that makes it, and one call on it.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use fencelock_core::Moment;
use fencelock_store::{Outcome, StoreError, rt};
use redis::{Cmd, Value};

use super::{
    Answer, Order, Target,
    courier::Carried,
    dialling::{Dialled, Dialling},
    ears::{Channels, Ear, Hearer},
    greeting::Greeting,
    link::{Link, once},
    replica::Replica,
};
use crate::{
    error::{self, Failure},
    guard::Guard,
    script::{Allowed, Form, Question},
    tls,
};

/// The connection of one runtime.
#[derive(Debug, Default)]
pub(super) struct Lane {
    link: Mutex<Option<Arc<Link>>>,
    /// Whoever finds no connection waits here, in the order of the first polls.
    queue: rt::sync::Mutex<()>,
    waiting: AtomicUsize,
    dialling: Mutex<Dialling>,
}

impl Lane {
    /// Whether it has, or is about to have, a connection.
    pub(super) fn is_alive(&self) -> bool {
        let attempt = self.dialling().attempt.as_ref().is_some_and(|a| a.has_changed().is_ok());
        self.live().is_some() || attempt
    }

    /// Drops the connection.
    pub(super) fn give_up(&self) {
        if let Some(link) = self.slot().take() {
            link.retire();
        }
    }

    fn live(&self) -> Option<Arc<Link>> {
        let mut slot = self.slot();
        // One that was given up must end, and with it what it listens to.
        let ended = slot.take_if(|link| link.has_ended());
        let live = slot.as_ref().map(Arc::clone);
        drop((slot, ended));
        live
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Link>>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dialling(&self) -> MutexGuard<'_, Dialling> {
        self.dialling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the attempt that runs, or starts one.
    async fn connect(self: &Arc<Self>, target: &Arc<Target>) -> Dialled {
        let mut attempt = self.attempt(target);
        let ended = || Err(error::unreachable(&target.at, "the runtime that connected has ended"));
        match attempt.wait_for(Option::is_some).await {
            Ok(result) => result.clone().unwrap_or_else(ended),
            Err(_) => {
                self.dialling().attempt = None;
                ended()
            }
        }
    }

    fn attempt(
        self: &Arc<Self>,
        target: &Arc<Target>,
    ) -> rt::sync::watch::Receiver<Option<Dialled>> {
        let mut dialling = self.dialling();
        if let Some(attempt) = &dialling.attempt {
            return attempt.clone();
        }
        let (sender, receiver) = rt::sync::watch::channel(None);
        dialling.attempt = Some(receiver.clone());
        let pause = dialling.not_before.saturating_since(rt::boottime_now());
        drop(dialling);
        let (lane, target) = (Arc::clone(self), Arc::clone(target));
        // Outside of a runtime the sender is dropped, and the receiver says so.
        rt::try_spawn(async move {
            if !pause.is_zero() {
                rt::sleep(pause).await;
            }
            let result = Link::dial(&target).await;
            let link = result.as_ref().ok().map(Arc::clone);
            let mut greet = link.as_ref().map(|link| Box::pin(link.greet()));
            // Asked before anybody else can ask anything.
            let greeted = match &mut greet {
                Some(greet) => once(greet).await.is_some(),
                None => true,
            };
            lane.settle(result.as_ref().ok());
            // Nobody may be waiting any more.
            let _ = sender.send(Some(result));
            if let Some(greet) = greet.filter(|_| !greeted) {
                greet.await;
            }
            if let Some(link) = link {
                lane.greeted(&link);
            }
        });
        receiver
    }

    fn settle(&self, link: Option<&Arc<Link>>) {
        let mut dialling = self.dialling();
        dialling.attempt = None;
        match link {
            Some(link) => *self.slot() = Some(Arc::clone(link)),
            None => dialling.failed(),
        }
    }

    /// A connection counts as made only when the server has said that it is the one to ask: a
    /// replica must not be called as fast as it answers.
    fn greeted(&self, link: &Link) {
        let mut dialling = self.dialling();
        match link.known_greeting() {
            Some(greeting) if greeting.replica.is_some() => dialling.failed(),
            _ => dialling.failures = 0,
        }
    }
}

/// Counts somebody in the queue, for as long as it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One call on the way, so that whoever stops it knows how far it came.
#[derive(Debug)]
pub(crate) struct Flight<'a> {
    lane: Arc<Lane>,
    target: &'a Arc<Target>,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The connection of the request that waits for its answer.
    link: Option<Arc<Link>>,
    sent_when_suspect: bool,
    was_sent: bool,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.at)
    }
}

/// A request that is about to be sent.
pub(super) struct Departed {
    pub(super) link: Arc<Link>,
    pub(super) request: Cmd,
    pub(super) by_text: bool,
}

/// What came back for a request that was sent.
pub(crate) struct Arrived {
    pub(super) link: Arc<Link>,
    pub(super) by_text: bool,
    pub(super) reply: Result<Value, redis::RedisError>,
}

/// What the server answered, or how the connection failed.
type Sent = Result<Answer, Failure>;

/// Whether the server refused a request because another has its key. That is known to a replica,
/// too, and it has not done anything.
fn is_redirection(value: &Value) -> bool {
    matches!(value, Value::ServerError(refused) if refused.code() == "MOVED")
}

impl<'a> Flight<'a> {
    pub(super) fn new(lane: Arc<Lane>, target: &'a Arc<Target>) -> Self {
        Self { lane, target, progress: Mutex::default() }
    }

    /// How messages call the server.
    pub(crate) fn at(&self) -> &str {
        &self.target.at
    }

    /// Who may be granted something, where that is limited.
    pub(super) fn guard(&self) -> Option<&'a Guard> {
        self.target.guard.as_ref()
    }

    /// What is known of the server's scripts.
    pub(crate) fn allowed(&self) -> &Allowed {
        &self.target.allowed
    }

    /// Begins to listen on the connection of the last request, which was to subscribe.
    pub(super) fn listen(
        &self,
        kind: Channels,
        channel: &[u8],
        hearer: Arc<dyn Hearer>,
    ) -> Option<Ear> {
        let link = self.progress().link.clone()?;
        Ear::new(&link, kind, channel, hearer)
    }

    /// The connection of the last request leads to the wrong server, and all others with it.
    pub(crate) fn retire(&self) {
        let link = self.progress().link.clone();
        if let Some(link) = link {
            link.retire();
            self.target.route.leave(Some(&link));
        }
    }

    /// Nothing of the request is on its way any more, unless an earlier copy may be.
    pub(super) fn was_refused(&self, may_be_done: bool) {
        let mut progress = self.progress();
        progress.was_sent = may_be_done;
        progress.link = None;
    }

    /// Sends one request and waits for the answer.
    ///
    /// # Errors
    /// The outer one: it was not sent. The inner one: the connection broke after that, or may have.
    pub(super) async fn send(&self, question: &mut Question, form: Form) -> Result<Sent, Failure> {
        match self.depart_in(question, form)? {
            Some(Departed { link, request, by_text }) => {
                let carried = link.send(request).await;
                question.take_back(carried.request, by_text);
                self.arrive(&link, question, by_text, carried.reply).await
            }
            None => Box::pin(self.send_in_turn(question, form)).await,
        }
    }

    /// The common case: a connection is there, and nobody waits for one. Nothing where it is not so.
    ///
    /// # Errors
    /// The connection is known to lead to a server that is too old.
    pub(super) fn depart_at_once(
        &self,
        question: &mut Question,
    ) -> Result<Option<Departed>, Failure> {
        self.depart_in(question, Form::Usual)
    }

    fn depart_in(&self, question: &mut Question, form: Form) -> Result<Option<Departed>, Failure> {
        // What goes behind an ASKING is rare, and has its own way.
        if self.lane.waiting.load(Ordering::Acquire) != 0 || question.asking {
            return Ok(None);
        }
        let Some(link) = self.usable(question.order) else { return Ok(None) };
        self.check(&link, question)?;
        if !self.is_admitted(&link, question) {
            return Ok(None);
        }
        self.depart(&link);
        let (request, by_text) = question.on(link.known(), self.allowed(), form);
        Ok(Some(Departed { link, request, by_text }))
    }

    /// The answer in a reply, where it has one and nothing else is to be done.
    ///
    /// # Errors
    /// The reply, where it is not so.
    pub(super) fn answer_at_once(
        &self,
        link: &Link,
        question: &Question,
        by_text: bool,
        reply: Result<Value, redis::RedisError>,
    ) -> Result<Answer, Result<Value, redis::RedisError>> {
        match (reply, link.known_greeting()) {
            (Ok(value), Some(greeting))
                if !matches!(value, Value::ServerError(_)) && greeting.is_usable() =>
            {
                link.heard();
                question.learn(link.known(), by_text, &value);
                Ok(Answer::new(value, greeting.clone(), by_text, link))
            }
            (reply, _) => Err(reply),
        }
    }

    /// The same where a connection must be made, or somebody waits for one.
    async fn send_in_turn(&self, question: &mut Question, form: Form) -> Result<Sent, Failure> {
        let waiting = Waiting::new(&self.lane.waiting);
        let turn = self.lane.queue.lock().await;
        let link = match self.usable(question.order) {
            Some(link) => link,
            None => self.lane.connect(self.target).await?,
        };
        if link.has_ended() {
            // It was given up, or broke, as soon as it was made: nothing was sent.
            let failure = error::unreachable(self.at(), "the connection broke");
            return Err(Failure { retire: true, ..failure });
        }
        self.check(&link, question)?;
        self.admit(&link, question).await?;
        self.depart(&link);
        let (request, by_text) = question.on(link.known(), self.allowed(), form);
        let mut carrying: Pin<Box<dyn Future<Output = Carried> + Send + '_>> = match question.asking
        {
            true => Box::pin(link.send_asking(request)),
            false => Box::pin(link.send(request)),
        };
        // Into the connection before the next in the queue may.
        let early = once(&mut carrying).await;
        drop((turn, waiting));
        let carried = match early {
            Some(carried) => carried,
            None => carrying.await,
        };
        question.take_back(carried.request, by_text);
        self.arrive(&link, question, by_text, carried.reply).await
    }

    fn usable(&self, order: Order) -> Option<Arc<Link>> {
        let link = self.lane.live()?;
        let silent = order == Order::Any && link.is_suspect() && link.is_silent(rt::boottime_now());
        (!silent).then_some(link)
    }

    fn check(&self, link: &Link, question: &Question) -> Result<(), Failure> {
        let is_in_the_way = |greeting: &&Greeting| {
            !greeting.is_enough_for(question) && !greeting.may_redirect(question)
        };
        match link.known_greeting().filter(is_in_the_way).and_then(|said| said.refusal(self.at())) {
            Some(refusal) => {
                if refusal.retire {
                    link.retire();
                }
                Err(refusal)
            }
            None => Ok(()),
        }
    }

    /// Waits for something on a connection for which nothing was sent yet.
    pub(super) fn leans_on(&self, link: &Arc<Link>) {
        let mut progress = self.progress();
        progress.sent_when_suspect = link.is_suspect();
        progress.link = Some(Arc::clone(link));
    }

    fn depart(&self, link: &Arc<Link>) {
        let mut progress = self.progress();
        progress.sent_when_suspect = link.is_suspect();
        progress.was_sent = true;
        progress.link = Some(Arc::clone(link));
    }

    pub(super) async fn arrive(
        &self,
        link: &Arc<Link>,
        question: &Question,
        by_text: bool,
        reply: Result<Value, redis::RedisError>,
    ) -> Result<Sent, Failure> {
        match reply {
            Ok(value) => {
                link.heard();
                question.learn(link.known(), by_text, &value);
                let greeting = link.greeting().await;
                let is_enough = greeting.is_enough_for(question);
                if let Some(replica) = greeting.unbelieved(question) {
                    if !is_redirection(&value) {
                        return Err(self.by_a_replica(link, replica).await);
                    }
                    return Ok(Ok(Answer::new(value, greeting, by_text, link)));
                }
                // An old server may understand a request by chance; it must not hold a lock.
                match greeting.refusal(self.at()).filter(|_| !is_enough) {
                    Some(refusal) if matches!(value, Value::ServerError(_)) => Err(refusal),
                    Some(refusal) => Err(Failure { outcome: Outcome::Unknown, ..refusal }),
                    None => Ok(Ok(Answer::new(value, greeting, by_text, link))),
                }
            }
            Err(error) => {
                link.retire();
                tracing::debug!(store = self.at(), %error, "the connection to the store broke");
                Ok(Err(error::from_transport(&error, self.at())))
            }
        }
    }

    /// The failure of a request that a replica answered, whatever it said: what is true there was
    /// true at the primary some time ago.
    async fn by_a_replica(&self, link: &Arc<Link>, replica: &Replica) -> Failure {
        // What can't be written was not done, if the server was what it is before and after.
        let outcome = match link.is_still(replica).await {
            true => Outcome::NotDone,
            false => Outcome::Unknown,
        };
        self.retire();
        Failure { outcome, ..replica.refusal(self.at()) }
    }

    /// The error of a call whose time is over.
    pub(super) fn overdue(&self, now: Moment) -> StoreError {
        let progress = self.progress();
        if let Some(link) = &progress.link {
            link.unanswered(progress.sent_when_suspect, now);
        }
        match (progress.was_sent, &self.target.url.tls) {
            (false, Some(_)) => tls::overdue(self.at()),
            (was_sent, _) => error::overdue(self.at(), was_sent),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
