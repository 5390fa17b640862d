//! `revoke`: asks the holder of a lock to give it back.

use fencelock::{Client, ErrorKind, HolderView, Inspection, LockName, Names, Revoked};

use super::other::{self, Other};
use crate::args::Revoke;
use crate::context::{self, Context};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::names;
use crate::settings::{Key, Origin};
use crate::span;
use crate::view::{self, Record};

pub(super) fn execute(arguments: &Revoke) -> Result<u8, Failure> {
    let context = Context::load(arguments)?;
    let names =
        names::parse_all(std::slice::from_ref(&arguments.name), arguments.names.spelling())?;
    let client = context.store.open()?;
    context::block_on(async {
        let end = revoke(&context, &client, &names).await;
        context::close(client).await;
        end
    })
}

async fn revoke(context: &Context, client: &Client, names: &Names) -> Result<u8, Failure> {
    let name = names.first();
    let store = client.store_display();
    // Only as a flag: a setting for how long to wait for grants says nothing of giving back.
    let typed = |origin: &Origin| matches!(origin, Origin::Flag(Key::Wait));
    let wait = context.settings.wait.as_ref().filter(|wait| typed(&wait.origin));
    let answer = match wait {
        None => client.revoke(name.clone()).await,
        Some(wait) => client.revoke_within(name.clone(), wait.value).await,
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return Err(refused(context, client, name, &error).await),
    };
    match answer {
        Revoked::Requested(holder) => {
            print(context, client, name, Some(&holder))?;
            let who = view::who(&holder);
            match wait {
                None => {
                    say(context, &format!("asked {who} for lock `{name}` [{store}]"))?;
                    Ok(0)
                }
                Some(wait) => Err(Failure::new(
                    Exit::Busy,
                    format!(
                        "lock `{name}` in {store} is still held by {who} {} after it was asked back; \
                         the request stands: wait longer with --wait, or look with `fencelock \
                         show{} {}`",
                        span::show(wait.value),
                        context.store.typed(),
                        names::typed([name])
                    ),
                )),
            }
        }
        Revoked::Released => {
            if let Some(holder) = who_could_not_be_asked(context, client, name).await? {
                print(context, client, name, Some(&holder))?;
                return Err(Failure::new(
                    Exit::Busy,
                    format!(
                        "lock `{name}` in {store} was given back by all who could be asked, and is \
                         still held by {}: not all of their leases are renewed, and those end by \
                         themselves",
                        view::who(&holder)
                    ),
                ));
            }
            print(context, client, name, None)?;
            say(context, &format!("lock `{name}` was given back [{store}]"))?;
            Ok(0)
        }
        Revoked::WasFree => {
            refuse_other_dialects(context, name).await?;
            print(context, client, name, None)?;
            say(context, &format!("lock `{name}` is free: there is nobody to ask [{store}]"))?;
            Ok(0)
        }
        Revoked::Unattended(holder) => Err(unattended(context, name, &holder, &store)),
        _ => Err(Failure::internal("the library gave an answer that this program does not know")),
    }
}

/// Who holds the lock still, beside those who gave it back: leases that nobody renews have nobody who
/// could be asked.
async fn who_could_not_be_asked(
    context: &Context,
    client: &Client,
    name: &LockName,
) -> Result<Option<HolderView>, Failure> {
    let seen = client.inspect(name.clone()).await.map_err(|error| context.failure(&error))?;
    Ok(match seen {
        Inspection::Held(holder) if holder.sharing.is_some() && view::is_left(&holder) => {
            Some(holder)
        }
        _ => None,
    })
}

fn unattended(context: &Context, name: &LockName, holder: &HolderView, store: &str) -> Failure {
    let ends = holder.remaining.map_or("it never ends by itself".to_owned(), |left| {
        format!("it ends by itself in {}", span::show(left))
    });
    Failure::usage(format!(
        "lock `{name}` in {store} can't be asked back: nobody renews it, so nobody would hear it; {ends}, \
         and `fencelock release{} {}` gives it back, with its token or --force",
        context.store.typed(),
        names::typed([name])
    ))
}

/// A name in two dialects is two locks, and whoever holds the other one can't be asked either.
async fn refuse_other_dialects(context: &Context, name: &LockName) -> Result<(), Failure> {
    match other::holds(context, name).await? {
        None => Ok(()),
        Some(Other { dialect, store }) => Err(Failure::usage(format!(
            "lock `{name}` in {store} is held in the {dialect} dialect, whose holders can't be asked \
             back"
        ))),
    }
}

/// The failure for what the library says. A lock that can't be asked for because it is none is
/// one that is busy.
async fn refused(
    context: &Context,
    client: &Client,
    name: &LockName,
    error: &fencelock::Error,
) -> Failure {
    let failure = context.failure(error);
    if error.kind() == ErrorKind::Unsupported
        && let Ok(Inspection::Foreign(_)) = client.inspect(name.clone()).await
    {
        return failure.with_code(Exit::Busy);
    }
    failure
}

/// The lock as an object: with whoever still holds it.
fn print(
    context: &Context,
    client: &Client,
    name: &LockName,
    holder: Option<&HolderView>,
) -> Result<(), Failure> {
    if !context.settings.json {
        return Ok(());
    }
    let dialect = client.capabilities().dialect;
    let record = match holder {
        Some(holder) => Record::held(name, holder, dialect),
        None => Record::free(name, dialect),
    };
    view::print(&record.to_line())
}

fn say(context: &Context, sentence: &str) -> Result<(), Failure> {
    if context.settings.json { Ok(()) } else { view::print(&format!("{sentence}\n")) }
}
