//! One attempt to acquire: one token, sent until the store gives an answer to it.
//!
//! The releaser is armed before the request is first polled. However the attempt ends, other than
//! by a guard or by an answer that says for certain that there is no lease, its `Drop` sends a
//! release in the same runtime (which the store gets after the request, by rule 6 of the Contract)
//! and hands the token to the keeper, which makes sure.
//!
//! A lost answer is asked for again with the *same* token: the store then says whether it was
//! granted. After a definite answer the token is never used again.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, Acquired, Busy, Fence, Grant, HandOff, Mode, Moment, PlaceRequest, Queued,
    Refusal, ReleaseRequest, StoreTime, min_validity,
};
use fencelock_store::{Outcome, Reply, StoreError, rt};

use crate::{
    Error, ErrorKind, Guard,
    cell::{Fixed, Granted, LeaseCell, Stray},
    context::{Asked, Context},
    keeper::{Copies, Job},
    listening::Ear,
    plan::{Manner, Plan},
    possible,
};

/// How one question ended.
#[derive(Debug)]
pub(crate) enum Tried {
    Granted(Guard),
    Busy(Busy),
    /// The same, with a place in the line at the store; and the store's time of that.
    Queued(Queued, Option<StoreTime>),
    /// For a reason that may pass: with time left, try again.
    Failed(Error),
    /// The token of the request is used up: with time left, try again with another one.
    UsedUp(Error),
}

/// Tries once. Ends at `limit`.
pub(crate) async fn attempt(
    context: &Arc<Context>,
    plan: &Plan,
    limit: Moment,
) -> Result<Tried, Error> {
    context.keeper.start()?;
    let mut armed = Armed::new(context, plan.fresh_request(), plan.manner);
    armed.hear_with(context.ears.live());
    let mut pause = FIRST_PAUSE;
    loop {
        if context.is_closed() {
            // It was closed while this call waited.
            context.check_open()?;
        }
        let now = context.clock.now();
        let asked = armed.send(now, context.call_limit_from(now, limit)).await;
        match asked.result {
            Ok(reply) => {
                let received = asked.received.unwrap_or_else(|| context.clock.now());
                return Ok(match armed.answered(reply, asked.sent, received)? {
                    Tried::UsedUp(error) => Tried::Failed(error),
                    tried => tried,
                });
            }
            Err(error) => {
                let passing = error.is_passing();
                let next = context.clock.now().saturating_add(pause);
                if !passing || !armed.is_uncertain() || next >= limit {
                    return armed.failed(error).map(Tried::Failed);
                }
                context.clock.sleep_until(next).await;
                pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Between copies of one request, while the connection is being restored.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A token whose lease, or whose place in a line, should there be one, is given back on drop.
pub(crate) struct Armed {
    context: Arc<Context>,
    request: AcquireRequest,
    manner: Manner,
    ear: Option<Arc<Ear>>,
    /// How many copies may be carried out without our seeing the answer.
    copies: u32,
    /// The token has a place in the line.
    placed: bool,
    /// One of them went out without a limit on the store's clock.
    unlimited: bool,
    /// The latest limit of the others.
    deadline: Option<StoreTime>,
    /// When the last of them ends as a call.
    last_by: Moment,
}

impl Armed {
    pub(crate) fn new(context: &Arc<Context>, request: AcquireRequest, manner: Manner) -> Self {
        Self {
            context: Arc::clone(context),
            request,
            manner,
            ear: None,
            copies: 0,
            placed: false,
            unlimited: false,
            deadline: None,
            last_by: Moment::START,
        }
    }

    /// What the store has to tell of this token is heard there.
    pub(crate) fn hear_with(&mut self, ear: Option<Arc<Ear>>) {
        self.request.listener = ear.as_ref().and_then(|ear| ear.listener());
        self.ear = ear.filter(|_| self.request.listener.is_some());
    }

    /// Asks for a place in the line, should the lock be busy.
    pub(crate) fn wish(&mut self, place: PlaceRequest, reserve: u32) {
        self.request.place = Some(place);
        self.request.reserve = reserve;
    }

    pub(crate) const fn request(&self) -> &AcquireRequest {
        &self.request
    }

    pub(crate) const fn is_placed(&self) -> bool {
        self.placed
    }

    /// Gives up a place that holds nothing and whose token is used up: once, in this runtime, and
    /// without the keeper. Should it fail, the place lapses.
    pub(crate) fn leave(mut self) {
        if self.copies > 0 || !self.placed || self.context.is_forked() {
            return;
        }
        let mut release = ReleaseRequest::new(self.request.names.clone(), self.request.token);
        release.retain = self.request.retain;
        let context = Arc::clone(&self.context);
        let by = context.clock.now().saturating_add(context.settings.request_timeout);
        self.placed = !rt::try_spawn(async move {
            let _it_lapses_otherwise = context.ask(context.store.release(&release, by)).await;
        });
    }

    pub(crate) async fn send(&mut self, now: Moment, by: Moment) -> Asked<Acquired> {
        self.request.deadline = self.context.store_deadline(by);
        self.unlimited |= self.request.deadline.is_none();
        self.deadline = self.deadline.max(self.request.deadline);
        self.last_by = self.last_by.max(by);
        // Counted before the request can leave: from here on it may be carried out.
        self.copies += 1;
        let context = &self.context;
        let asked = context.ask_at(now, context.store.acquire(&self.request, by)).await;
        let certain = match &asked.result {
            Ok(_) => true,
            Err(error) => error.outcome() == Outcome::NotDone,
        };
        if certain {
            self.copies -= 1;
        }
        asked
    }

    fn is_uncertain(&self) -> bool {
        self.copies > 0
    }

    /// What an answer comes to.
    pub(crate) fn answered(
        &mut self,
        reply: Reply<Acquired>,
        sent: Moment,
        received: Moment,
    ) -> Result<Tried, Error> {
        let what = match reply.answer {
            Acquired::Granted(grant) => return self.granted(&grant, sent, received),
            Acquired::Busy(busy) => {
                self.placed = false;
                return Ok(Tried::Busy(busy));
            }
            Acquired::Queued(queued) => {
                self.placed = true;
                return Ok(Tried::Queued(queued, reply.at));
            }
            Acquired::Foreign(foreign) => {
                return Err(self.named(Error::foreign(
                    &foreign.name,
                    &foreign.kind,
                    &self.request.mode,
                )));
            }
            Acquired::Refused(Refusal::FenceAhead) => {
                return Err(self.error(ErrorKind::FenceAhead, Refusal::FenceAhead.to_string()));
            }
            Acquired::Refused(refusal @ (Refusal::QueueFull | Refusal::CrowdFull)) => {
                return Err(self.error(ErrorKind::QueueFull, refusal.to_string()));
            }
            Acquired::Refused(Refusal::LimitDiffers { limit }) => {
                return Err(self.named(Error::limit_differs(&self.request.mode, limit)));
            }
            Acquired::Refused(Refusal::Impossible) => {
                let what = possible::refusal(&self.request.mode);
                return Err(self.named(Error::config(what)));
            }
            Acquired::Refused(Refusal::TokenRetired) if self.counts_once() => {
                let what = "it belongs to a use of this name that is over";
                return Err(self.error(ErrorKind::TooLate, what));
            }
            Acquired::Refused(refusal @ Refusal::DeadlinePassed) => {
                return Ok(Tried::Failed(self.error(ErrorKind::TooLate, refusal.to_string())));
            }
            Acquired::Refused(refusal) => {
                // What is known as ended has no place any more.
                self.placed = false;
                refusal.to_string()
            }
            _ => return Err(self.error(ErrorKind::Internal, "an answer of an unknown kind")),
        };
        Ok(Tried::UsedUp(self.error(ErrorKind::TooLate, what)))
    }

    fn granted(&mut self, grant: &Grant, sent: Moment, now: Moment) -> Result<Tried, Error> {
        // From here on there is a lease: until the guard has it, a drop gives it back.
        self.copies += 1;
        self.placed = false;
        if self.is_too_late(grant.remaining, sent, now) {
            let what =
                format!("it was granted, but answered after {:?}", now.saturating_since(sent));
            return Ok(Tried::UsedUp(self.error(ErrorKind::TooLate, what)));
        }
        if let Fence::Behind(_) = grant.fence {
            return Err(self.error(ErrorKind::Internal, "the fencing token was not written"));
        }
        let granted = Granted {
            ttl: self.request.ttl,
            left: grant.remaining,
            sent,
            answered: now,
            claim: None,
            fencing_token: grant.fence.token(),
            last_fence: grant.last_fence,
            waited_for: grant.waiting > 0,
        };
        self.guard(granted).map(Tried::Granted)
    }

    /// The lease was handed over, as a message says that was heard at `heard`: `left` counts from
    /// the question of `sent`. Nothing when too little is left: then the store has to be asked.
    pub(crate) fn handed(
        &mut self,
        hand_off: &HandOff,
        left: Duration,
        sent: Moment,
        heard: Moment,
    ) -> Result<Option<Guard>, Error> {
        let now = self.context.clock.now();
        if self.is_too_late(left, sent, now) {
            return Ok(None);
        }
        self.copies += 1;
        self.placed = false;
        let granted = Granted {
            ttl: self.request.ttl,
            left,
            sent,
            answered: heard,
            claim: Some(hand_off.claim),
            fencing_token: hand_off.fencing_token,
            last_fence: hand_off.last_fence,
            waited_for: hand_off.waiting > 0,
        };
        self.guard(granted).map(Some)
    }

    fn is_too_late(&self, left: Duration, sent: Moment, now: Moment) -> bool {
        let deadline = self.context.settings.drift.deadline(left, sent);
        now.saturating_add(min_validity(self.request.ttl)) >= deadline
    }

    fn guard(&mut self, granted: Granted) -> Result<Guard, Error> {
        let request = &self.request;
        let until = self.last_by.saturating_add(request.ttl.into());
        let stray = (self.copies > 1).then(|| Stray { copies: self.copies(), until });
        let fixed = Fixed {
            names: request.names.clone(),
            token: request.token,
            retain: request.retain,
            renewal: self.manner.renewal,
            binding: request.binding.clone(),
            process: self.context.process,
            metadata: request.metadata.clone(),
            stray,
            policy: self.manner.policy,
            mode: request.mode.clone(),
        };
        let context = &self.context;
        let (drift, clock) = (context.settings.drift, context.clock.clone());
        let cell = Arc::new(LeaseCell::new(fixed, granted, drift, clock));
        if let Some(ear) = &self.ear {
            let _first = cell.route.set(ear.attend(&cell));
        }
        let guard = Guard::new(Arc::clone(context), cell)?;
        self.copies = 0;
        Ok(guard)
    }

    /// What a failure to ask comes to: an error that may pass, or one that does not.
    pub(crate) fn failed(&self, error: StoreError) -> Result<Error, Error> {
        let passing = error.is_passing();
        let unknown = self.is_uncertain();
        let error = self.context.store_error(error).with_names(&self.request.names);
        debug_assert!(unknown || error.kind() != ErrorKind::Unknown, "the copies were counted");
        if passing { Ok(error) } else { Err(error) }
    }

    /// Whether another token would count as another: a step of a latch, a party of a barrier.
    fn counts_once(&self) -> bool {
        matches!(self.request.mode, Mode::CountDown { .. } | Mode::Meeting { .. })
    }

    fn error(&self, kind: ErrorKind, what: impl Into<String>) -> Error {
        self.named(Error::new(kind, what))
    }

    fn named(&self, error: Error) -> Error {
        error.with_names(&self.request.names).with_store(&self.context.display)
    }

    fn copies(&self) -> Copies {
        match self.copies {
            0 => Copies::None,
            count => {
                let deadline = if self.unlimited { None } else { self.deadline };
                Copies::Some { count, deadline }
            }
        }
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        if (self.copies == 0 && !self.placed) || self.context.is_forked() {
            return;
        }
        // A step that was taken stays: others may have gone on because of it.
        if matches!(self.request.mode, Mode::CountDown { .. }) {
            return;
        }
        let mut release = ReleaseRequest::new(self.request.names.clone(), self.request.token);
        release.retain = self.request.retain;
        take_back(&self.context, release, self.copies(), self.last_by, self.request.ttl.into());
    }
}

/// The place of one release among those that run in the runtimes of users.
struct TakingBack(Arc<Context>);

impl TakingBack {
    /// A dropped acquire may leave one behind for as long as a request takes; more of them than
    /// this at once say that the store does not answer.
    const MAX: usize = 128;

    fn begin(context: &Arc<Context>) -> Option<Self> {
        let place = Self(Arc::clone(context));
        // Counted also when it is too many: the drop of the place takes it off again.
        (context.taking_back.fetch_add(1, Ordering::Relaxed) < Self::MAX).then_some(place)
    }
}

impl Drop for TakingBack {
    fn drop(&mut self) {
        self.0.taking_back.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Gives back what may have been granted: at once in this runtime, and by the keeper until it is
/// certain.
pub(crate) fn take_back(
    context: &Arc<Context>,
    release: ReleaseRequest,
    copies: Copies,
    last_by: Moment,
    ttl: Duration,
) {
    // Outside a runtime there is nothing to do here, and with so many under way nothing would be
    // sooner for it; the keeper does it anyway.
    if let Some(place) = TakingBack::begin(context) {
        let by = context.clock.now().saturating_add(context.settings.request_timeout);
        let request = release.clone();
        rt::try_spawn(async move {
            let here = &place.0;
            let _the_keeper_looks_at_its_own = here.ask(here.store.release(&request, by)).await;
        });
    }
    context.keeper.push(Job::of_request(release, copies, last_by.saturating_add(ttl)));
}
