//! Waiting for a lock: what is shown meanwhile, and how a signal ends it.
//!
//! ```text
//!   lock ... busy -> "waiting for lock ..."  ... holder changes ... granted -> guard
//!                            |                                      error   -> 75, 69, ...
//!                            +--- a signal: taken back, 128 + n
//! ```

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fencelock::{BusyView, Names, Wait};

use crate::console::Console;
use crate::context::Context;
use crate::failure::Failure;
use crate::hold::{self, Hold, Manner};
use crate::interrupt::Interrupts;
use crate::names;
use crate::span;
use crate::view;

/// Waits for the lock that `mutex` describes, for as long as the settings say, and takes it in this
/// manner; alone without one.
///
/// # Errors
/// It was not to be had; a signal came, and whatever may have been granted is being given back.
pub(crate) async fn acquire(
    context: &Context,
    mutex: fencelock::Mutex,
    manner: Option<Manner>,
    names: &Names,
    store: &str,
    interrupts: &Interrupts,
) -> Result<Hold, Failure> {
    if context.store.is_memory() {
        context.console.notice(&format!(
            "{store} is seen by this process alone: {} keeps nobody else out",
            shown(names)
        ));
    }
    let waiting = Arc::new(Waiting {
        console: Arc::clone(&context.console),
        what: shown(names),
        store: store.to_owned(),
        since: SystemTime::now(),
        told: Mutex::new(None),
    });
    let told = Arc::clone(&waiting);
    let mutex = match &context.settings.wait {
        None => mutex.wait(Wait::Forever),
        Some(wait) if wait.value.is_zero() => mutex.wait(Wait::Never),
        Some(wait) => mutex.wait(Wait::For(wait.value)),
    };
    let never = context.settings.wait.as_ref().is_some_and(|wait| wait.value.is_zero());
    let mutex = if never { mutex } else { mutex.on_busy(move |busy| told.busy(busy)) };
    let end = tokio::select! {
        biased;
        signal = interrupts.interrupted() => Err(interrupted(&context.console, names, signal)),
        answer = hold::take(mutex, manner) => answer.map_err(|error| refused(context, names, store, &error)),
        () = waiting.refresh() => unreachable!("the refreshing of a line has no end"),
    };
    context.console.clear_transient();
    end
}

/// The names as messages call them.
pub(crate) fn shown(names: &Names) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let plural = if names.len() == 1 { "lock" } else { "locks" };
    format!("{plural} {}", quoted.join(", "))
}

/// The end of a command that a signal ended.
pub(crate) fn interrupted(
    console: &Console,
    names: &Names,
    signal: std::io::Result<rustix::process::Signal>,
) -> Failure {
    let signal = match signal {
        Ok(signal) => signal.as_raw(),
        Err(error) => return Failure::internal(format!("signals can't be read: {error}")),
    };
    console.clear_transient();
    console.notice(&format!("stopped by signal {signal} while waiting for {}", shown(names)));
    Failure::silent(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}

fn refused(context: &Context, names: &Names, store: &str, error: &fencelock::Error) -> Failure {
    let failure = match error.holder() {
        Some(holder) if error.is_wait_expired() => {
            let waited = match &context.settings.wait {
                Some(wait) if !wait.value.is_zero() => {
                    format!(" after waiting {}", span::show(wait.value))
                }
                _ => String::new(),
            };
            // The library's error does not say which of several names it was: each may be free.
            let one_of = if names.len() == 1 { "" } else { "one of " };
            context.failure_to_take(error).with_message(format!(
                "{one_of}{} is busy{waited}: held by {}{} in {store}; wait longer with --wait, or \
                 look with `fencelock show{} {}`",
                shown(names),
                view::who(holder),
                since(holder.since),
                context.store.typed(),
                names::typed(names),
            ))
        }
        _ => context.failure_to_take(error),
    };
    failure.with_conflict_code(context.settings.conflict_exit_code)
}

fn since(since: Option<SystemTime>) -> String {
    since.map_or(String::new(), |since| format!(" since {}", view::rfc3339(since)))
}

/// What is shown while a lock is busy.
struct Waiting {
    console: Arc<Console>,
    what: String,
    store: String,
    since: SystemTime,
    /// The line about the present holder.
    told: Mutex<Option<String>>,
}

impl Waiting {
    /// Off a terminal the first holder is worth one line; on one the line follows the holder.
    fn busy(&self, busy: &BusyView) {
        let holder = view::who(&busy.holder);
        let place = busy.position.map_or(String::new(), |position| {
            format!(", place {} of {}", position.place, position.waiting)
        });
        // What changes is in front: a narrow terminal shows no more.
        let line = format!(
            "waiting for {}{place}: held by {holder}{} [{}]",
            self.what,
            since(busy.holder.since),
            self.store
        );
        let Ok(mut told) = self.told.lock() else { return };
        let first = told.is_none();
        *told = Some(line.clone());
        drop(told);
        if self.console.is_terminal() {
            self.show(&line);
        } else if first {
            self.console.notice(&line);
        }
    }

    fn show(&self, line: &str) {
        let waited = self.since.elapsed().unwrap_or_default();
        self.console.transient(&format!("fencelock: [{}] {line}", span::show(waited)));
    }

    /// Shows once a second that the waiting goes on. Never ends.
    async fn refresh(&self) {
        if !self.console.is_terminal() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(REFRESH_EVERY).await;
            let line = self.told.lock().ok().and_then(|told| told.clone());
            if let Some(line) = line {
                self.show(&line);
            }
        }
    }
}

const REFRESH_EVERY: Duration = Duration::from_secs(1);
