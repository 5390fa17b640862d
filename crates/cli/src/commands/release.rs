//! `release`: gives a lock back; with `--force`, takes it away from whoever holds it.

use std::io::{self, BufRead, BufReader, Write};

use fencelock::{Client, Inspection, LockName, Names, Released, TokenLease};

use super::other::{self, Other};
use super::token;
use crate::args::Release;
use crate::context::{self, Context};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::names;
use crate::view::{self, Record};
use crate::waiting;

pub(super) fn execute(arguments: &Release) -> Result<u8, Failure> {
    let context = Context::load(arguments)?;
    let names = names::parse_all(&arguments.names, arguments.name.spelling())?;
    if arguments.force {
        if !arguments.yes {
            confirm(&names)?;
        }
        let client = context.store.open()?;
        return context::block_on(async {
            let end = force(&context, &client, &names).await;
            context::close(client).await;
            end
        });
    }
    let token = token::read(&arguments.token)?;
    let client = context.store.open()?;
    context::block_on(async {
        let lease = client.lease(names.clone(), token);
        let end = give_back(&context, &client, &lease).await;
        context::close(client).await;
        end
    })
}

/// Gives a lock back, and says so only if this call is what did it.
///
/// A store takes a second release for a copy of the first and answers it alike, so that a lost reply
/// can be repeated. For a second *call* that would be a lie: so the holder is looked at before.
async fn give_back(context: &Context, client: &Client, lease: &TokenLease) -> Result<u8, Failure> {
    let (store, names, hash) = (client.store_display(), lease.names(), lease.token_hash());
    let what = waiting::shown(names);
    let mut all_held = true;
    for name in names {
        let seen = client.inspect(name).await.map_err(|error| context.failure(&error))?;
        // Of a crowd that is too large to be told of, the release's own answer has to do.
        all_held &=
            matches!(seen, Inspection::Held(holder) if view::has(&holder, &hash) != Some(false));
    }
    let not_held = |why: &str| {
        let message = format!("the token does not hold {what} in {store}: {why}");
        Err(Failure::new(Exit::Lost, message))
    };
    // Of several names some may still be held: those are given back in any case.
    match lease.release().await.map_err(|error| context.failure(&error))? {
        Released::Held if all_held => {}
        Released::Unknown => {
            let message = format!(
                "whether {what} was given back is unknown: {store} did not answer; it is free after its \
                 ttl"
            );
            return Err(Failure::new(Exit::Unavailable, message));
        }
        Released::Taken => return not_held("somebody else holds it"),
        _ => return not_held("it has ended or was given back before"),
    }
    context.console.detail(|| format!("gave {what} back [{store}]"));
    if context.settings.json {
        let dialect = client.capabilities().dialect;
        let lines = names.iter().map(|name| {
            let token_hash = Some(Some(hash.clone()));
            Record { token_hash, ..Record::new(name, dialect) }.to_line()
        });
        view::print(&lines.collect::<String>())?;
    }
    Ok(0)
}

async fn force(context: &Context, client: &Client, names: &Names) -> Result<u8, Failure> {
    let dialect = client.capabilities().dialect;
    let store = client.store_display();
    for name in names {
        let removed = client.danger().force_release(name).await;
        let removed = removed.map_err(|error| context.failure(&error))?;
        let Some(holder) = removed else {
            refuse_other_dialects(context, name).await?;
            context.console.notice(&format!("lock `{name}` was free already [{store}]"));
            if context.settings.json {
                view::print(&Record::free(name, dialect).to_line())?;
            }
            continue;
        };
        if context.settings.json {
            view::print(&Record::held(name, &holder, dialect).to_line())?;
        } else {
            view::print(&format!(
                "took lock `{name}` away from {} [{store}]\n",
                view::who(&holder)
            ))?;
        }
    }
    Ok(0)
}

/// A name in two dialects is two locks: that the one is free must not be taken for the other.
async fn refuse_other_dialects(context: &Context, name: &LockName) -> Result<(), Failure> {
    match other::holds(context, name).await? {
        None => Ok(()),
        Some(Other { dialect, store }) => Err(Failure::usage(format!(
            "lock `{name}` in {store} is held in the {dialect} dialect, and free in the native one: \
             it was left alone; `fencelock release{} --force --dialect {dialect} {}` takes it away",
            context.store.typed(),
            names::typed([name])
        ))),
    }
}

/// Has the names typed again, at the terminal itself: standard input may be a script.
fn confirm(names: &Names) -> Result<(), Failure> {
    let terminal = std::fs::File::options().read(true).write(true).open("/dev/tty");
    let Ok(terminal) = terminal else {
        return Err(Failure::usage(
            "--force asks for the name typed again, and there is no terminal: use --yes if you are sure",
        ));
    };
    let mut lines = BufReader::new(&terminal).lines();
    for name in names {
        let question = format!(
            "fencelock: this takes lock `{name}` away from whoever holds it; type the name again: "
        );
        (&terminal).write_all(question.as_bytes()).map_err(cannot_ask)?;
        let answer = lines.next().transpose().map_err(cannot_ask)?.unwrap_or_default();
        if answer.trim_end() != name.to_string() {
            return Err(Failure::usage(format!("that is not `{name}`: nothing was changed")));
        }
    }
    Ok(())
}

#[allow(clippy::needless_pass_by_value)] // The shape that map_err wants.
fn cannot_ask(error: io::Error) -> Failure {
    Failure::internal(format!("the terminal can't be asked: {error}"))
}
