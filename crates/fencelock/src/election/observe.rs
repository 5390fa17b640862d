//! Who leads, as a stream of changes, for anybody.
//!
//! ```text
//!   look --> as before? --no--> item
//!    ^            | yes           |
//!    +-- sleep until the beat, or just after the lease ends --+
//! ```
//! The store tells its messages to those who wait in a line, and an observer does not: it looks. Each
//! look is one question about one record. It keeps nothing but what it told last, so a consumer that
//! does not poll for a while misses what came and went, and is told how it stands.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, SystemTime},
};

use fencelock_core::{FencingToken, Kind, LockName, Moment, Names};
use fencelock_store::rt;
use futures_core::Stream;

use super::Election;
use crate::{Client, Error, ErrorKind, HolderView, Inspection, RetryAdvice};

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The number of the term, which grows with each leader; nothing where the dialect has none.
    pub term: Option<FencingToken>,
    /// What the leader says of itself: text of another process, see
    /// [`display_safe`](crate::display_safe).
    pub info: String,
    /// Since when it leads, by the store's clock.
    pub since: Option<SystemTime>,
    /// The rest of what the store knows, as of the look.
    pub holder: HolderView,
}

/// How an election stands.
// One is handed out in a second, at most.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant)] // An observer has one of them at a time.
pub enum Observed {
    /// Somebody leads.
    Leader(Leader),
    /// Nobody leads.
    Vacant,
}

/// A stream of changes of who leads; the first item is how it stands now.
///
/// It looks at the store every second, less up to an eighth that is left to chance
/// ([`Observation::every`]), and once more just after the lease of the leader ends if that is
/// earlier, but never twice within 40 ms. So a change is told after one beat at most, and a leader
/// whose whole term is shorter than that may not be told at all. Nothing is asked while nobody polls
/// it.
///
/// An item is an error when the store can't say who leads: neither "the same as before" nor "nobody"
/// would be true. It is told once for each kind in a row; then come pauses that double, up to ten
/// seconds (or the beat), and the next answer is told, also when it is as before. The stream ends
/// after an error that no later look can mend: a wrong name, a closed client.
///
/// Terms come in growing order, as long as the store forgets no record.
///
/// # Examples
/// ```
/// use fencelock::Observed;
///
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let election = locks.election("scheduler");
/// let leadership = election.campaign("10.0.0.7:8080").await?;
/// let mut leaders = election.observe();
/// while let Some(observed) = leaders.next().await {
///     match observed {
///         Ok(Observed::Leader(leader)) => assert_eq!(leader.info, "10.0.0.7:8080"),
///         Ok(_) => println!("nobody leads"),
///         Err(error) => println!("it is not known who leads: {error}"),
///     }
/// #   break;
/// }
/// # drop(leadership);
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct Observation {
    state: State,
}

enum State {
    Idle(Looker),
    Looking(Pin<Box<dyn Future<Output = (Looker, Item)> + Send>>),
    Ended,
}

type Item = Result<Observed, Error>;

impl Observation {
    pub(super) fn new(client: Client, names: &Result<Names, String>) -> Self {
        let name = names.as_ref().map(|names| names.first().clone()).map_err(Clone::clone);
        let looker = Looker {
            client,
            name,
            beat: BEAT,
            told: None,
            look_at: Moment::START,
            failures: 0,
            over: false,
        };
        Self { state: State::Idle(looker) }
    }

    /// How often it looks, 50 ms to 24 h: what is shorter or longer counts as the limit. To be said
    /// before the first item is asked for.
    pub fn every(mut self, beat: Duration) -> Self {
        if let State::Idle(looker) = &mut self.state {
            looker.beat = beat.clamp(SHORTEST_BEAT, LONGEST_BEAT);
        }
        self
    }

    /// Waits for the next change; nothing when there will be none.
    ///
    /// # Cancel safety
    /// Safe: a look that was begun goes on with the next call.
    pub async fn next(&mut self) -> Option<Result<Observed, Error>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Observation {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        loop {
            match &mut self.state {
                State::Looking(looking) => {
                    let (looker, item) = ready!(looking.as_mut().poll(cx));
                    self.state = if looker.over { State::Ended } else { State::Idle(looker) };
                    return Poll::Ready(Some(item));
                }
                State::Ended => return Poll::Ready(None),
                State::Idle(_) => {
                    if let State::Idle(looker) = std::mem::replace(&mut self.state, State::Ended) {
                        self.state = State::Looking(Box::pin(looker.change()));
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Idle(_) => "idle",
            State::Looking(_) => "looking",
            State::Ended => "ended",
        };
        f.debug_tuple("Observation").field(&state).finish()
    }
}

/// What tells one item from the next.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Leader { term: Option<FencingToken>, token_hash: Option<String>, info: String },
    Vacant,
    Failure(ErrorKind),
}

struct Looker {
    client: Client,
    name: Result<LockName, String>,
    beat: Duration,
    told: Option<Told>,
    look_at: Moment,
    failures: u32,
    over: bool,
}

impl Looker {
    /// Looks until there is something new to tell.
    async fn change(mut self) -> (Self, Item) {
        loop {
            self.client.clock().sleep_until(self.look_at).await;
            let item = self.look().await;
            let told = tellable(&item);
            if self.told.as_ref() != Some(&told) {
                self.told = Some(told);
                return (self, item);
            }
        }
    }

    /// Looks once, and says when to look again.
    async fn look(&mut self) -> Item {
        let name = self.name.clone().map_err(|what| {
            self.over = true;
            Error::config(what)
        })?;
        let seen = self.client.inspect(name.clone()).await.and_then(|seen| match seen {
            Inspection::Held(holder) => Ok(Some(holder)),
            Inspection::Free { .. } => Ok(None),
            Inspection::Foreign(kind) => {
                let what = format!("{kind} sits at its key: it can't be said who leads");
                Err(Error::new(ErrorKind::ForeignValue, what)
                    .with_names(&Names::one(name))
                    .with_store(&self.client.context().display))
            }
        });
        let (pause, lease_end) = match &seen {
            Ok(holder) => {
                self.failures = 0;
                (self.beat, holder.as_ref().and_then(|holder| holder.remaining))
            }
            Err(error) => {
                self.over = is_final(error);
                self.failures = self.failures.saturating_add(1);
                (failure_pause(self.beat, self.failures), None)
            }
        };
        let pause = next_look(pause, lease_end, rt::chance());
        self.look_at = self.client.clock().now().saturating_add(pause);
        // A leader is alone: a reader or a permit of the same name leads nobody.
        let leads = |holder: &HolderView| holder.kind == Kind::Lock && holder.sharing.is_none();
        let leading = seen?.filter(leads);
        Ok(leading.map_or(Observed::Vacant, |holder| Observed::Leader(leader(holder))))
    }
}

fn leader(holder: HolderView) -> Leader {
    Leader {
        term: holder.fencing_token,
        info: holder.metadata.get(Election::INFO_KEY).cloned().unwrap_or_default(),
        since: holder.since,
        holder,
    }
}

fn tellable(item: &Item) -> Told {
    match item {
        Ok(Observed::Leader(Leader { term, info, holder, .. })) => {
            Told::Leader { term: *term, token_hash: holder.token_hash.clone(), info: info.clone() }
        }
        Ok(Observed::Vacant) => Told::Vacant,
        Err(error) => Told::Failure(error.kind()),
    }
}

/// Whether no later look can be answered. Rights and foreign values are mended while somebody
/// watches; a closed client is closed.
fn is_final(error: &Error) -> bool {
    let can_be_mended = matches!(error.kind(), ErrorKind::Denied | ErrorKind::ForeignValue);
    error.retry() == RetryAdvice::Never && !can_be_mended
}

/// Longer with each failure in a row.
fn failure_pause(beat: Duration, failures: u32) -> Duration {
    let doubled = beat.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    doubled.min(LONGEST_FAILURE_PAUSE.max(beat))
}

/// How long until the next look: the pause, less a share of it, or a little after the lease's end.
fn next_look(pause: Duration, lease_end: Option<Duration>, chance: u32) -> Duration {
    let share = f64::from(chance) / f64::from(u32::MAX);
    let pause = pause.saturating_sub((pause / 8).mul_f64(share));
    let after_lease = AFTER_LEASE_END.saturating_add(AFTER_LEASE_END.mul_f64(share));
    let lease_end = lease_end.map_or(Duration::MAX, |left| left.saturating_add(after_lease));
    pause.min(lease_end).max(SHORTEST_PAUSE)
}

/// Soon for a router that follows the leader, and a thousand observers ask a thousand questions a
/// second.
const BEAT: Duration = Duration::from_secs(1);
/// Twenty looks a second: more would be a poll loop.
const SHORTEST_BEAT: Duration = Duration::from_millis(50);
const LONGEST_BEAT: Duration = Duration::from_secs(24 * 3_600);
/// Below seven eighths of the shortest beat: no answer makes an observer look more often.
const SHORTEST_PAUSE: Duration = Duration::from_millis(40);
/// The first in line asks when the lease ends, and is the leader a round trip later.
const AFTER_LEASE_END: Duration = Duration::from_millis(10);
/// A store that is away is not asked more often by many observers than by one.
const LONGEST_FAILURE_PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_look_comes_after_the_beat_or_the_lease_and_never_too_soon() {
        assert_eq!(next_look(millis(800), None, 0), millis(800));
        assert_eq!(next_look(millis(800), None, u32::MAX), millis(700));
        assert_eq!(next_look(millis(800), Some(millis(300)), 0), millis(310));
        assert_eq!(next_look(millis(800), Some(millis(300)), u32::MAX), millis(320));
        assert_eq!(next_look(millis(800), Some(millis(790)), 0), millis(800));
        assert_eq!(next_look(millis(800), Some(Duration::ZERO), 0), SHORTEST_PAUSE);
        assert_eq!(next_look(millis(40), None, u32::MAX), SHORTEST_PAUSE);
        assert_eq!(
            next_look(LONGEST_BEAT, Some(Duration::MAX), 7),
            next_look(LONGEST_BEAT, None, 7)
        );
    }

    #[test]
    fn pauses_after_failures_double_up_to_a_limit() {
        let pauses: Vec<u64> = [1, 2, 3, 4, 5, u32::MAX]
            .map(|failures| failure_pause(BEAT, failures).as_secs())
            .to_vec();
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
        assert_eq!(failure_pause(millis(60_000), 9), millis(60_000));
    }
}
