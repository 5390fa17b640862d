//! `init`: says of Redis servers that they are new, so that their restart guard lets them count at
//! once. Each server is asked by itself, all at the same time; of a quorum some may be away. One that
//! is empty while others of the same call hold locks has to be asked for twice: see `fellows`.

use std::collections::BTreeMap;
use std::time::Duration;

use fencelock::{IfUsed, Initialised, QuorumBuilder};
use serde::Serialize;

use super::fellows::{self, Fellow};
use crate::args::Init;
use crate::context::{self, Context};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::{self, Dialect};
use crate::span;
use crate::view::{self, escape_invisible, millis};

/// What became of one server, as a line of JSON. Its fields are a contract.
#[derive(Debug, Serialize)]
struct Line {
    /// The URL, without its password.
    store: String,
    /// `initialised`, `unchanged`, `refused` or `failed`.
    state: &'static str,
    /// The longest ttl that it counts for.
    max_ttl_ms: Option<u64>,
    /// When it counts by itself, where it was refused.
    counts_in_ms: Option<u64>,
    /// Why it failed.
    error: Option<String>,
}

impl Line {
    /// Prints it, where JSON is wanted.
    fn print(&self, context: &Context) -> Result<(), Failure> {
        if !context.settings.json {
            return Ok(());
        }
        // Text and numbers: nothing that JSON does not have.
        let json = serde_json::to_string(self).unwrap_or_default();
        view::print(&format!("{}\n", escape_invisible(&json)))
    }
}

pub(super) fn execute(arguments: &Init) -> Result<u8, Failure> {
    let context = Context::load(arguments)?;
    let max_ttl = match &arguments.max_ttl {
        None => MAX_TTL_DEFAULT,
        Some(text) => settings::ttl(text)
            .map_err(|sentence| Failure::usage(format!("--max-ttl {sentence}")))?,
    };
    if let Some(local) = context.store.nodes().iter().find(|node| !node.is_remote()) {
        return Err(Failure::usage(format!(
            "`{}` forgets nothing that needs a guard, so it is not initialised: only Redis servers \
             are, name them with --store",
            local.shown()
        )));
    }
    let if_used = if arguments.yes { IfUsed::Accept } else { IfUsed::Refuse };
    context::block_on(async {
        let suspects = match if_used {
            IfUsed::Refuse => fellows::suspects(&context, max_ttl).await,
            _ => BTreeMap::new(),
        };
        let dialect = context.store.dialect().unwrap_or(Dialect::NATIVE);
        let nodes = context.store.nodes().iter().enumerate();
        let asked: Vec<_> = nodes
            .map(|(position, node)| {
                let asked = match suspects.get(&position) {
                    Some(fellow) => Err(fellow.clone()),
                    None => {
                        let builder = context.store.builder(node, dialect);
                        Ok(tokio::spawn(builder.initialise(max_ttl, if_used)))
                    }
                };
                (node.shown(), asked)
            })
            .collect();
        let mut worst = None;
        for (store, asked) in asked {
            let code = match asked {
                Err(fellow) => Some(refuse(&context, store, &fellow)?),
                Ok(asked) => {
                    let answer = asked.await.map_err(|error| {
                        Failure::internal(format!("{store} was not asked: {error}"))
                    })?;
                    report(&context, store, &answer)?
                }
            };
            if let Some(code) = code {
                worst.get_or_insert(code);
            }
        }
        // It has been explained already, server by server.
        worst.map_or(Ok(0), |code| Err(Failure::silent(code)))
    })
}

/// Tells of a server that looks new among servers that are not; the exit code.
fn refuse(context: &Context, store: String, fellow: &Fellow) -> Result<u8, Failure> {
    let locks =
        if fellow.locks == 1 { "a lock".to_owned() } else { format!("{} locks", fellow.locks) };
    let text = format!(
        "{store}: not initialised: it is empty, while {} holds {locks}; if it lost its data, let it \
         wait until it counts by itself; if it is new, or nobody holds a lock that it may have \
         forgotten, use --yes",
        fellow.store
    );
    let line = Line { store, state: "refused", max_ttl_ms: None, counts_in_ms: None, error: None };
    line.print(context)?;
    context.console.error(&text);
    Ok(Exit::Busy.code())
}

/// Tells what became of one server; the exit code where it does not count now.
fn report(
    context: &Context,
    store: String,
    answer: &Result<Initialised, fencelock::Error>,
) -> Result<Option<u8>, Failure> {
    let mut line =
        Line { store, state: "failed", max_ttl_ms: None, counts_in_ms: None, error: None };
    let mut code = None;
    let text = match answer {
        Ok(Initialised::Written { max_ttl }) => {
            (line.state, line.max_ttl_ms) = ("initialised", Some(millis(*max_ttl)));
            format!(
                "initialised: it counts from now on, for a ttl of at most {}",
                span::show(*max_ttl)
            )
        }
        Ok(Initialised::Already { max_ttl }) => {
            (line.state, line.max_ttl_ms) = ("unchanged", Some(millis(*max_ttl)));
            format!("initialised already, for a ttl of at most {}", span::show(*max_ttl))
        }
        Ok(Initialised::Restarted { counts_in }) if counts_in.is_zero() => {
            line.state = "unchanged";
            "in use since before its last restart, which is long ago: it counts by its uptime"
                .to_owned()
        }
        Ok(Initialised::Restarted { counts_in }) => {
            (line.state, line.counts_in_ms) = ("refused", Some(millis(*counts_in)));
            code = Some(Exit::Busy.code());
            format!(
                "was in use before it restarted, and locks that it forgot may still be held: it \
                 counts by itself in {}, or at once with --yes if nobody holds any",
                span::show(*counts_in)
            )
        }
        Ok(_) => {
            return Err(Failure::internal("the library gave an answer that is not known here"));
        }
        Err(error) => {
            let failure = match error.kind() {
                fencelock::ErrorKind::Config => context.store.unusable(error),
                _ => context.failure(error),
            };
            code = Some(failure.code());
            let message = failure.message().unwrap_or_default().to_owned();
            line.error = Some(message.clone());
            message
        }
    };
    line.print(context)?;
    match (answer, code) {
        (Err(_), _) => context.console.error(&text),
        (_, Some(_)) => context.console.error(&format!("{}: {text}", line.store)),
        (_, None) if !context.settings.json => view::print(&format!("{}: {text}\n", line.store))?,
        _ => {}
    }
    Ok(code)
}

/// The longest ttl on a quorum, unless a program was built with another.
const MAX_TTL_DEFAULT: Duration = QuorumBuilder::MAX_TTL;
