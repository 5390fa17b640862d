//! Hears of a release by a list: libraries whose waiters block on one push an element when they give a
//! name back, which lives for a second.
//!
//! ```text
//!   BLMOVE list list --element--> the first noted waiter: its turn --a pause--> quench --> again
//!                    --nothing for SPELL--> does anybody wait? --no--> the end
//! ```
//! The element is put back in the step that takes it. So whoever else blocks there, of theirs as of ours, is
//! served behind us, and nothing is lost with one of ours that gives up or dies. So that the element does
//! not go round and round, it is taken away once the lock is held again: whoever holds it tells anew.

use std::{
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
    time::Duration,
};

use fencelock_core::Wakeup;
use fencelock_store::{Clock, StoreError, StoreErrorKind, rt};
use redis::{Cmd, Value};

use super::{DEAF_FOR, notes::Notes};
use crate::{
    cluster::Route,
    connection::{Again, Order},
    keys::KeyMapping,
    script::{Question, Script, script},
    servers::Servers,
};

static QUENCH: LazyLock<Script> = script!("../scripts/plain/quench.lua");

/// The longest that one question blocks: the heart-beat of this connection.
const SPELL: Duration = Duration::from_secs(5);
/// What its answer may take besides.
const ANSWER: Duration = Duration::from_secs(2);
/// Between an element and the next look: time for who was woken to ask.
const PAUSE: Duration = Duration::from_millis(20);

/// The connection that blocks for one list. It ends with this.
#[derive(Debug, Default)]
pub(super) struct Blocked(Arc<rt::sync::Notify>);

impl Drop for Blocked {
    fn drop(&mut self) {
        // Kept for it where it does not look just now.
        self.0.notify_one();
    }
}

/// What is listened to: the list that tells of a key.
pub(super) struct List {
    pub(super) list: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) route: Route,
}

/// Begins to listen, in the present runtime; nothing outside of one.
pub(super) fn listen(
    servers: Servers,
    list: List,
    notes: &Arc<Mutex<Notes>>,
    life: u64,
    clock: Clock,
) -> Option<Blocked> {
    let blocked = Blocked::default();
    let (notes, end) = (Arc::downgrade(notes), Arc::clone(&blocked.0));
    let listening = Listening { servers, list, notes, life, clock };
    let listening = async move {
        let _ = rt::first(listening.run(), end.notified()).await;
    };
    rt::try_spawn(listening).then_some(blocked)
}

struct Listening {
    servers: Servers,
    list: List,
    notes: Weak<Mutex<Notes>>,
    life: u64,
    clock: Clock,
}

impl Listening {
    async fn run(&self) {
        loop {
            let element = match self.block().await {
                Ok(element) => element,
                Err(error) => {
                    tracing::debug!(store = self.servers.at(), %error, "a list is not heard");
                    return self.fails(error.kind());
                }
            };
            let Some(notes) = self.notes.upgrade() else { return };
            if !element {
                if lock(&notes).ends_if_idle(self.life, &self.list.list) {
                    return;
                }
                continue;
            }
            let first = lock(&notes).told(self.life, &self.list.list, b"");
            drop(notes);
            for (sink, token) in first {
                sink.wake(Wakeup::Turn(token));
            }
            rt::sleep(PAUSE).await;
            self.quench().await;
        }
    }

    /// Whether there is an element.
    async fn block(&self) -> Result<bool, StoreError> {
        let mut command = Cmd::with_capacity(6, 2 * self.list.list.len() + 48);
        command.arg("BLMOVE").arg(&self.list.list[..]).arg(&self.list.list[..]);
        command.arg("LEFT").arg("LEFT").arg(SPELL.as_secs());
        let question = Question::command(command, Again::Harmless, Order::Any);
        Ok(self.ask(question, SPELL + ANSWER).await? != Value::Nil)
    }

    /// Takes an element away that is of no use any more. Whoever may not do that looks at it again and
    /// again, for a second.
    async fn quench(&self) {
        let bytes = self.list.list.len() + self.list.key.len();
        let mut question = Question::script(&QUENCH, 2, (2, bytes));
        question.arg(&self.list.key).arg(&self.list.list);
        let _ = self.ask(question, ANSWER).await;
    }

    async fn ask(&self, mut question: Question, within: Duration) -> Result<Value, StoreError> {
        question.route = self.list.route.clone();
        let by = self.clock.now().saturating_add(within);
        // Only for channels of our own.
        let none = KeyMapping::After(Vec::new());
        let answer = self.servers.answer(&mut question, &none, &self.clock, by).await?;
        Ok(answer.value)
    }

    /// Nothing is heard any more: whoever waits asks, and listens anew if that may be.
    fn fails(&self, why: StoreErrorKind) {
        let Some(notes) = self.notes.upgrade() else { return };
        let mut here = lock(&notes);
        if matches!(why, StoreErrorKind::Denied | StoreErrorKind::Unsupported) {
            here.is_deaf(self.life, self.clock.now().saturating_add(DEAF_FOR));
        }
        let told = here.unheard(self.life, &self.list.list);
        drop(here);
        for (sink, token) in told {
            sink.wake(Wakeup::Turn(token));
        }
    }
}

fn lock(notes: &Mutex<Notes>) -> std::sync::MutexGuard<'_, Notes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}
