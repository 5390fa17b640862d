//! `show`: who holds a lock. A name in two dialects is two locks, so both are looked at,
//! and the one that was not asked for only if the user may.

use fencelock::{Client, ErrorKind, ForeignKind, Inspection, LockName};

use crate::args::Show;
use crate::context::{self, Context};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::names;
use crate::settings::Dialect;
use crate::view::{self, Record};

/// What is known of one name over all dialects, the better for the one who asks last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Finding {
    Held,
    Free,
    Foreign,
}

pub(super) fn execute(arguments: &Show) -> Result<u8, Failure> {
    let context = Context::load(arguments)?;
    let names = names::parse_all(&arguments.names, arguments.name.spelling())?;
    let clients = context
        .store
        .dialects()
        .into_iter()
        .map(|dialect| Ok((dialect, context.store.open_in(dialect)?)))
        .collect::<Result<Vec<(Dialect, Client)>, Failure>>()?;
    context::block_on(async {
        let mut worst = Finding::Held;
        for name in &names {
            worst = worst.max(show(&context, &clients, name).await?);
        }
        for (_, client) in clients {
            context::close(client).await;
        }
        Ok(match worst {
            Finding::Held => 0,
            Finding::Free => Exit::Free.code(),
            Finding::Foreign => Exit::Busy.code(),
        })
    })
}

/// Shows one name in all dialects.
async fn show(
    context: &Context,
    clients: &[(Dialect, Client)],
    name: &LockName,
) -> Result<Finding, Failure> {
    let mut finding = None;
    let mut free = None;
    for (position, (dialect, client)) in clients.iter().enumerate() {
        let seen = match client.inspect(name).await {
            Ok(seen) => seen,
            // A user for one dialect has no right to the keys of the other, which nobody asked for.
            Err(error) if position > 0 && error.kind() == ErrorKind::Denied => {
                let failure = context.failure(&error);
                let other = dialect.name();
                context
                    .console
                    .detail(|| format!("not looked up in the {other} dialect: {failure}"));
                continue;
            }
            Err(error) => return Err(context.failure(&error)),
        };
        let dialect = client.capabilities().dialect;
        match seen {
            Inspection::Held(holder) => {
                finding = Some(Finding::Held);
                let store = client.store_display();
                view::print(&if context.settings.json {
                    Record::held(name, &holder, dialect).to_line()
                } else {
                    view::show(name, &holder, dialect, &store)
                })?;
            }
            Inspection::Foreign(kind) => {
                // In a dialect that was not asked for, any value of the user's own looks like this.
                if position == 0 {
                    finding.get_or_insert(Finding::Foreign);
                }
                say_foreign(context, client, name, &kind, position == 0);
            }
            Inspection::Free { fencing_token } if position == 0 => {
                free = Some((dialect, fencing_token.map(|token| token.as_u64())));
            }
            _ => {}
        }
    }
    if let (None, Some((dialect, fencing_token))) = (finding, free) {
        if context.settings.json {
            view::print(&Record { fencing_token, ..Record::free(name, dialect) }.to_line())?;
        } else {
            view::print(&format!("lock `{name}` is free\n"))?;
        }
    }
    Ok(finding.unwrap_or(Finding::Free))
}

fn say_foreign(
    context: &Context,
    client: &Client,
    name: &LockName,
    kind: &ForeignKind,
    asked: bool,
) {
    let store = client.store_display();
    let message = format!("lock `{name}` in {store}: {kind} is at its key, which is left alone");
    if asked {
        context.console.error(&format!("{message}; it may be a lock of another program: use another name, or remove it yourself \
             if nothing uses it"));
    } else {
        context.console.detail(|| message);
    }
}
