//! What every command that talks to a store begins with: settings, standard error, the store.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fencelock::{Client, ErrorKind, QuorumBuilder};

use crate::args::Flags;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hold::Manner;
use crate::names;
use crate::notes;
use crate::settings::{Layer, Settings, Sourced};
use crate::span;
use crate::store::Store;
use crate::waiting;

/// The surroundings of one command.
#[derive(Debug)]
pub(crate) struct Context {
    /// What is set.
    pub(crate) settings: Settings,
    /// Standard error.
    pub(crate) console: Arc<Console>,
    /// Where the locks are.
    pub(crate) store: Store,
}

impl Context {
    /// Reads everything that is set and chooses the store. Nothing is sent anywhere.
    ///
    /// # Errors
    /// Something that is set is wrong.
    pub(crate) fn load(flags: &dyn Flags) -> Result<Self, Failure> {
        let mut layer = Layer::default();
        flags.add_to(&mut layer);
        let settings = Settings::load(layer)?;
        let console = Arc::new(Console::new(settings.level));
        notes::show_on(&console);
        let store = Store::choose(&settings)?;
        Ok(Self { settings, console, store })
    }

    /// The failure for what the library says of a lock that was to be taken.
    ///
    /// Some settings are found to be wrong only there (a file system that can't keep locks, too much
    /// metadata): where they stand decides the exit code, as for all others.
    pub(crate) fn failure_to_take(&self, error: &fencelock::Error) -> Failure {
        let failure = Failure::of_library(error);
        if let (Some(kept), Some(Sourced { value: Manner::Permits { limit, .. }, origin })) =
            (error.kept_limit(), &self.settings.manner)
        {
            let message = self.limit_differs(error, *limit, kept);
            return failure.with_message(message).with_code(origin.exit());
        }
        if error.kind() == ErrorKind::CrossSlot {
            return failure.with_message(cross_slot(error));
        }
        let typed = self.store.is_typed()
            || self.settings.meta.iter().any(|pair| pair.origin.exit() == Exit::Usage);
        if error.kind() == ErrorKind::Config && !typed {
            return failure.with_code(Exit::Config);
        }
        failure
    }

    /// The library's advice is a call, and what ends the use of a limit is to be said with it.
    fn limit_differs(&self, error: &fencelock::Error, limit: u32, kept: u32) -> String {
        let what = error.names().map_or_else(|| "the lock".to_owned(), waiting::shown);
        let store = error.store().map_or_else(String::new, |store| format!(" in {store}"));
        let typed = error.names().map_or_else(String::new, names::typed);
        format!(
            "{what}{store} has {kept} permits, and --limit says {limit}: everybody says the same, so \
             use --limit {kept}; the store forgets the number when nobody holds the lock and somebody \
             takes it alone, as in `fencelock run{} {typed} -- true`",
            self.store.typed()
        )
    }

    /// The failure for what the library says of anything else.
    pub(crate) fn failure(&self, error: &fencelock::Error) -> Failure {
        let failure = self.failure_to_take(error);
        match failure.message() {
            // Of a renewal or a release it would be a frightening thing to say.
            Some(message) if error.is_unknown() && message.contains(GIVEN_BACK) => {
                let message = message.replace(GIVEN_BACK, "; whether it was done is unknown");
                failure.with_message(message)
            }
            _ => failure,
        }
    }

    /// Checks that a lease of this span can be had from the store.
    ///
    /// # Errors
    /// It is longer than any on a quorum.
    pub(crate) fn check_lease(&self, span: Option<&Sourced<Duration>>) -> Result<(), Failure> {
        let most = QuorumBuilder::MAX_TTL;
        match span {
            Some(Sourced { value, origin }) if self.store.is_quorum() && *value > most => {
                Err(origin.fail(&format!(
                    "is at most {} on a quorum, not {}: a server that restarted has to be kept out \
                     for as long as the longest lock",
                    span::show(most),
                    span::show(*value)
                )))
            }
            _ => Ok(()),
        }
    }

    /// The ttl that was set, or the default.
    pub(crate) fn ttl(&self) -> Duration {
        self.settings.ttl.as_ref().map_or(TTL_DEFAULT, |ttl| ttl.value)
    }
}

/// The library's advice has calls in it, which nobody can type.
fn cross_slot(error: &fencelock::Error) -> String {
    let what = error.names().map_or_else(|| "the locks".to_owned(), waiting::shown);
    let store = error.store().map_or_else(String::new, |store| format!(" in {store}"));
    format!(
        "{what}{store} are in different slots of the cluster, and can't be taken in one step: give \
         their names the same text in braces, as in `{{order}}:a` and `{{order}}:b`, or take them \
         one inside the other, always in the same order, as in `run A -- fencelock run B -- COMMAND`"
    )
}

/// Runs a command's I/O to its end, on this thread.
///
/// # Errors
/// What the command says; also when the system gives no event loop.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("no event loop: {error}")))?;
    let end = runtime.block_on(work);
    // A step of a store that hangs must not keep the process.
    runtime.shutdown_background();
    end
}

/// Lets the client give back what it still holds, for a limited time.
pub(crate) async fn close(client: Client) {
    // Longer than that nobody waits for a store that does not answer: leases end by themselves.
    close_within(client, CLOSE_WITHIN).await;
}

/// The same within another time.
pub(crate) async fn close_within(client: Client, limit: Duration) {
    let _ = tokio::time::timeout(limit, client.close()).await;
}

/// What the library says of every request whose fate is unknown.
const GIVEN_BACK: &str = "; what may have been granted is being given back";
/// The lease when nobody says otherwise: long enough for a store to be restarted under it.
pub(crate) const TTL_DEFAULT: Duration = Duration::from_secs(30);
/// From the contract: a release is tried for at most two seconds.
pub(crate) const CLOSE_WITHIN: Duration = Duration::from_secs(2);
