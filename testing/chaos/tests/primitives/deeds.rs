//! What a task does: one thing after the other, each drawn at random.

use std::{sync::Arc, time::Duration};

use fencelock::{Attempt, Binding, Client, Error, Part, Renew, RetryStrategy};
use fencelock_chaos::{Random, boottime_ns};

use crate::{
    hold::{Circumstances, Held, Noted},
    notes::{Note, Notebook, Pass, first_of},
    worker::Doing,
};

/// Names that are held by writers, readers and owners.
pub(crate) const LOCKS: [&str; 3] = ["lock-0", "lock-1", "lock-2"];

/// Names that have permits, and how many.
pub(crate) const SEMAPHORES: [(&str, u32); 2] = [("permits-0", 3), ("permits-1", 5)];

/// Owners of re-entrant holds, in whatever process.
const OWNERS: [&str; 2] = ["job-0", "job-1"];

/// How long anybody waits for a lock: longer than all the others may need, each a few times.
pub(crate) const WAIT: Duration = Duration::from_secs(120);

/// How long the parties of a meeting wait for each other, and others for a latch.
const MEETING_WAIT: Duration = Duration::from_millis(1_000);

/// The ttls of leases. The shortest end while their holders are frozen, or work on.
const TTLS: [Duration; 3] = [Duration::from_millis(300), Duration::from_millis(800), LONGEST_TTL];
pub(crate) const LONGEST_TTL: Duration = Duration::from_millis(1_500);

/// Latches are remembered for so long, and barriers keep who passed for as long at most.
const LATCH_TTL: Duration = Duration::from_secs(60);
const BARRIER_TTL: Duration = Duration::from_secs(4);

/// For so long all tasks meet at the same name.
const ROUND_NS: u64 = 1_500_000_000;

/// One of the things that happen at the same time in a process.
pub(crate) struct Task {
    pub(crate) client: Client,
    pub(crate) notes: Arc<Notebook>,
    pub(crate) random: Random,
    pub(crate) next_id: u64,
    pub(crate) forces: bool,
    pub(crate) doing: Doing,
}

/// What is wished for.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Mutex(&'static str),
    Read(&'static str),
    Write(&'static str),
    Owned(&'static str, u8),
    Permits((&'static str, u32), u32),
    All,
}

/// How it is asked for.
#[derive(Clone, Copy, Debug)]
struct Terms {
    ttl: Duration,
    renewal: Renew,
    max_hold: Option<Duration>,
    bound: bool,
    barging: bool,
    polling: bool,
}

/// The recipe, with these terms.
macro_rules! on_terms {
    ($recipe:expr, $terms:expr) => {{
        let terms: Terms = $terms;
        let mut recipe = $recipe.ttl(terms.ttl).wait(WAIT).renewal(terms.renewal);
        if let Some(max_hold) = terms.max_hold {
            recipe = recipe.max_hold(max_hold);
        }
        if !terms.bound {
            recipe = recipe.bind(Binding::Unbound);
        }
        if terms.barging {
            recipe = recipe.barging();
        }
        if terms.polling {
            recipe = recipe.retry(RetryStrategy::default());
        }
        recipe
    }};
}

/// Waits or tries, as told, and says what guard it is.
macro_rules! wait_or_try {
    ($recipe:expr, $lock:ident, $try_lock:ident, $once:expr, $held:path) => {
        if $once {
            match $recipe.$try_lock().await? {
                Attempt::Granted(guard) => Ok(Some($held(guard))),
                Attempt::Busy(_) => Ok(None),
            }
        } else {
            $recipe.$lock().await.map(|guard| Some($held(guard)))
        }
    };
}

impl Task {
    /// Does one thing.
    pub(crate) async fn act(&mut self) {
        if self.forces && self.random.below(8) == 0 {
            return self.force().await;
        }
        let lock = self.lock();
        match self.random.below(20) {
            0..3 => self.hold(Wish::Read(lock)).await,
            3 => self.hold(Wish::Mutex(lock)).await,
            4..6 => self.hold(Wish::Write(lock)).await,
            6..8 => self.hold_twice().await,
            8..10 => self.downgrade().await,
            10..14 => self.hold_permits().await,
            14..16 => self.hold(Wish::All).await,
            16..18 => self.latch().await,
            _ => self.barrier().await,
        }
    }

    /// It does nothing at the moment.
    pub(crate) fn rest(&self) {
        self.says(String::new());
    }

    /// For whoever wonders why this does not come to an end.
    fn says(&self, what: String) {
        let first = first_of(self.next_id);
        self.doing.lock().expect("no task panics").insert(first, what);
    }

    fn lock(&mut self) -> &'static str {
        LOCKS[self.pick(LOCKS.len())]
    }

    fn pick(&mut self, count: usize) -> usize {
        let below = u64::try_from(count).expect("a few");
        usize::try_from(self.random.below(below)).expect("a few")
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn terms(&mut self) -> Terms {
        let ttl = TTLS[self.pick(TTLS.len())];
        let is_manual = self.random.below(4) == 0;
        Terms {
            ttl,
            renewal: if is_manual { Renew::Manual } else { Renew::Auto },
            max_hold: (self.random.below(8) == 0).then_some(Duration::from_millis(400)),
            bound: self.random.below(4) > 0,
            barging: self.random.below(16) == 0,
            polling: self.random.below(16) == 0,
        }
    }

    async fn hold(&mut self, wish: Wish) {
        if let Some(hold) = self.take(wish).await {
            self.keep(hold).await;
        }
    }

    async fn hold_permits(&mut self) {
        let semaphore = SEMAPHORES[self.pick(SEMAPHORES.len())];
        let permits = 1 + u32::try_from(self.random.below(u64::from(semaphore.1))).expect("a few");
        self.hold(Wish::Permits(semaphore, permits)).await;
    }

    /// Takes a lock as an owner, and once more.
    async fn hold_twice(&mut self) {
        let wish = Wish::Owned(self.lock(), u8::try_from(self.pick(OWNERS.len())).expect("two"));
        let Some(mut outer) = self.take(wish).await else { return };
        outer.work(self.millis(0, 20)).await;
        if let Some(inner) = self.take(wish).await {
            self.keep(inner).await;
        }
        self.keep(outer).await;
    }

    async fn downgrade(&mut self) {
        let wish = Wish::Write(self.lock());
        let Some(mut writer) = self.take(wish).await else { return };
        writer.work(self.millis(0, 20)).await;
        let id = self.id();
        match writer.downgrade(id).await {
            Some(Ok(reader)) => self.keep(reader).await,
            Some(Err(error)) => self.fail("downgrade", &error),
            None => {}
        }
    }

    /// Asks, in some manner, and gives up or takes what is granted.
    async fn take(&mut self, wish: Wish) -> Option<Noted> {
        let (terms, manner, id) = (self.terms(), self.random.below(10), self.id());
        let (once, impatient) = (manner < 2, (2..4).contains(&manner));
        let patience = self.millis(0, 30);
        let (notes, asked) = (Arc::clone(&self.notes), boottime_ns());
        self.says(format!(
            "{id}: asks for {wish:?}, {terms:?}, once: {once}, gives up: {impatient}"
        ));
        let asking = ask(&self.client, wish, terms, once);
        let outcome = if impatient {
            // Whatever it had got is given back.
            tokio::time::timeout(patience, asking).await.ok()?
        } else {
            asking.await
        };
        let held = match outcome {
            Ok(held) => held?,
            Err(error) => {
                self.fail(wish.word(), &error);
                return None;
            }
        };
        // Only a file that is shared on this machine knows of processes.
        let is_near = self.client.capabilities().binding;
        let of = Circumstances {
            id,
            asked,
            owner: wish.owner(),
            bound: terms.bound && is_near,
            ttl: terms.ttl,
            ends: terms.renewal == Renew::Manual || terms.max_hold.is_some(),
        };
        Some(Noted::new(held, of, notes, limit))
    }

    /// Works with what is held, and ends it in some manner.
    async fn keep(&mut self, mut hold: Noted) {
        let is_long = self.random.below(12) == 0;
        let span = if is_long { self.millis(200, 900) } else { self.millis(0, 40) };
        self.says(format!("{}: holds it", hold.of.id));
        hold.work(span / 2).await;
        if self.random.below(4) == 0 {
            hold.renew().await;
        }
        hold.work(span / 2).await;
        match self.random.below(24) {
            0 if hold.of.ends => hold.forget(),
            1 if hold.of.ttl < LONGEST_TTL => hold.leave().await,
            2..8 => {
                hold.end();
                drop(hold);
            }
            _ => hold.release().await,
        }
    }

    async fn latch(&mut self) {
        self.says("a latch".to_owned());
        let round = boottime_ns() / ROUND_NS;
        let count = 2 + u32::try_from(round % 3).expect("a few");
        let name = format!("latch-{round}");
        let latch = self.client.latch(name.clone(), count).ttl(LATCH_TTL).wait_limit(MEETING_WAIT);
        let patience = self.millis(0, 1_500);
        let outcome = if self.random.below(2) == 0 {
            let open = tokio::time::timeout(patience, latch.wait()).await;
            if let Ok(Ok(())) = open {
                let count = usize::try_from(count).expect("a few");
                self.notes.write(&[Note::Open { latch: name, count, at: boottime_ns() }]);
            }
            open
        } else if self.random.below(2) == 0 {
            // One of few steps, which others take, too.
            let step = self.random.below(4);
            self.notes.write(&[Note::Step { latch: name, step, at: boottime_ns() }]);
            tokio::time::timeout(patience, latch.count_down_as(step.to_string())).await
        } else {
            let step = self.id();
            self.notes.write(&[Note::Step { latch: name, step, at: boottime_ns() }]);
            tokio::time::timeout(patience, latch.count_down()).await
        };
        if let Ok(Err(error)) = outcome {
            self.fail("latch", &error);
        }
    }

    async fn barrier(&mut self) {
        self.says("a barrier".to_owned());
        let round = boottime_ns() / ROUND_NS;
        let parties = 2 + u32::try_from(round % 2).expect("a few");
        let name = format!("barrier-{round}");
        let barrier = self.client.barrier(name.clone(), parties);
        let barrier = barrier.ttl(BARRIER_TTL).wait_limit(MEETING_WAIT);
        let patience = self.millis(0, 1_500);
        let (id, at) = (self.id(), boottime_ns());
        self.notes.write(&[Note::Party { barrier: name.clone(), id, at }]);
        match tokio::time::timeout(patience, barrier.wait()).await {
            Ok(Ok(pass)) => self.notes.write(&[Note::Pass(Pass {
                barrier: name,
                parties: usize::try_from(parties).expect("a few"),
                number: pass.number().expect("native locks have one"),
                leads: pass.is_leader(),
                at: boottime_ns(),
            })]),
            Ok(Err(error)) => self.fail("barrier", &error),
            Err(_) => {}
        }
    }

    /// What a worker must not do.
    async fn force(&mut self) {
        let name = match self.random.below(2) {
            0 => self.lock(),
            _ => SEMAPHORES[self.pick(SEMAPHORES.len())].0,
        };
        let _ = self.client.danger().force_release(name).await;
    }

    fn fail(&self, what: &str, error: &Error) {
        let meets = ["latch", "barrier"].contains(&what);
        if meets && error.is_wait_expired() {
            // Too few came.
            return;
        }
        let (what, kind) = (what.to_owned(), format!("{:?}", error.kind()));
        self.notes.write(&[Note::Failed { what, kind, text: error.to_string() }]);
    }

    fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.random.below(most - least + 1))
    }
}

impl Wish {
    const fn word(self) -> &'static str {
        match self {
            Self::Mutex(_) => "mutex",
            Self::Read(_) => "read",
            Self::Write(_) => "write",
            Self::Owned(..) => "owned",
            Self::Permits(..) => "permits",
            Self::All => "all",
        }
    }

    const fn owner(self) -> u8 {
        match self {
            Self::Owned(_, owner) => owner,
            _ => 0,
        }
    }
}

/// Asks for it: what is held then, or nothing where it was busy at the one try.
async fn ask(client: &Client, wish: Wish, terms: Terms, once: bool) -> Result<Option<Held>, Error> {
    match wish {
        Wish::Mutex(name) => {
            wait_or_try!(on_terms!(client.mutex(name), terms), lock, try_lock, once, Held::Mutex)
        }
        Wish::Read(name) => {
            wait_or_try!(on_terms!(client.rwlock(name), terms), read, try_read, once, Held::Read)
        }
        Wish::Write(name) => {
            wait_or_try!(on_terms!(client.rwlock(name), terms), write, try_write, once, Held::Write)
        }
        Wish::Owned(name, owner) => {
            let recipe = on_terms!(client.reentrant(name, OWNERS[usize::from(owner)]), terms);
            wait_or_try!(recipe, lock, try_lock, once, Held::Owned)
        }
        Wish::Permits((name, limit), permits) => {
            let semaphore = on_terms!(client.semaphore(name, limit), terms);
            let permit = if once {
                match semaphore.try_acquire_many(permits).await? {
                    Attempt::Granted(permit) => permit,
                    Attempt::Busy(_) => return Ok(None),
                }
            } else {
                semaphore.acquire_many(permits).await?
            };
            Ok(Some(Held::Permit(permit)))
        }
        Wish::All => {
            let [first, second, _] = LOCKS.map(|name| on_terms!(client.rwlock(name), terms));
            let [(name, limit), _] = SEMAPHORES;
            let semaphore = on_terms!(client.semaphore(name, limit), terms);
            let parts = [Part::permits(&semaphore, 2), Part::write(&second), Part::read(&first)];
            wait_or_try!(client.all_of(parts).wait(WAIT), lock, try_lock, once, Held::All)
        }
    }
}

/// How many permits a name has.
fn limit(name: &str) -> u32 {
    let of_name = SEMAPHORES.into_iter().find(|(semaphore, _)| *semaphore == name);
    of_name.map_or(0, |(_, limit)| limit)
}
