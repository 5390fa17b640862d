//! The course of `elect`: term after term, until the command or somebody ends it.

use std::time::Duration;

use fencelock::Mutex;

use super::restart::{Next, Pauses, Restart};
use crate::args::Elect;
use crate::child::{Minder, Serves, Signals};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::names;
use crate::run::{self, Asked, Holding};
use crate::settings::{OnLost, Settings};
use crate::span;
use crate::waiting;

/// Runs the command whenever this one is the leader; the answer is the exit code.
///
/// # Errors
/// It was never elected, the command could not be started, or it ended and nothing begins again.
pub(crate) fn execute(arguments: &Elect) -> Result<u8, Failure> {
    let mut context = Context::load(arguments)?;
    for_elections(&mut context.settings);
    let spelling = arguments.name.spelling();
    let names = names::parse_all(std::slice::from_ref(&arguments.election), spelling)?;
    let restart = Restart::of(arguments.restart.as_deref())?;
    let asked = Asked { names: &names, spelling, manner: None, command: &arguments.command };
    run::play(&context, asked, Serves::Many, async |holding, minder, signals| {
        let mut election = holding.client.election(names.first().clone());
        if arguments.allow_unfenced {
            election = election.allow_unfenced();
        }
        // What is published comes with the other metadata: see `--meta`.
        Candidate { holding, mutex: election.mutex(""), restart }.lead(minder, signals).await
    })
}

/// Settings for all commands can say what makes no sense here: a candidate waits until it is elected,
/// and leads for as long as it can; and a leader that runs on when it is none is no election.
fn for_elections(settings: &mut Settings) {
    settings.wait = None;
    settings.conflict_exit_code = None;
    settings.min_hold = None;
    settings.max_hold = None;
    settings.on_lost = OnLost::Term;
}

struct Candidate<'a> {
    holding: &'a Holding<'a>,
    mutex: Mutex,
    restart: Restart,
}

impl Candidate<'_> {
    async fn lead(&self, minder: &mut Minder, signals: &Signals) -> Result<u8, Failure> {
        let clock = self.holding.client.clock();
        let console = &self.holding.context.console;
        let what = waiting::shown(self.holding.asked.names);
        let mut pauses = Pauses::default();
        let mut has_led = false;
        loop {
            let began = clock.now();
            let pause = match self.holding.hold(self.mutex.clone(), minder, signals).await {
                Ok(ended) => {
                    has_led = true;
                    let end = self.holding.conclude(&ended);
                    match self.restart.after(&ended) {
                        Next::End => return end,
                        Next::Campaign => Duration::ZERO,
                        Next::CampaignAfterPause => {
                            let status = ended.outcome.status;
                            console.notice(&format!("{what}: the command ended by {status}"));
                            pauses.after(clock.now().saturating_since(began))
                        }
                    }
                }
                // The store was there before: what ails it may pass, and the others wait for it too.
                Err(failure) if has_led && failure.code() == Exit::Unavailable.code() => {
                    console.error(failure.message().unwrap_or_default());
                    pauses.after(Duration::ZERO)
                }
                Err(failure) => return Err(failure),
            };
            self.rest(pause, signals).await?;
        }
    }

    /// Lets others lead for a while.
    async fn rest(&self, pause: Duration, signals: &Signals) -> Result<(), Failure> {
        let (console, names) = (&self.holding.context.console, self.holding.asked.names);
        let what = waiting::shown(names);
        console.notice(&match pause {
            Duration::ZERO => format!("{what}: campaigning again"),
            _ => format!("{what}: campaigning again in {}", span::show(pause)),
        });
        let clock = self.holding.client.clock();
        let end = clock.now().saturating_add(pause);
        tokio::select! {
            biased;
            signal = signals.interrupted() => Err(waiting::interrupted(console, names, signal)),
            () = clock.sleep_until(end) => Ok(()),
        }
    }
}
