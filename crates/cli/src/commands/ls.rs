//! `ls`: the locks that are held.

use fencelock::{HolderView, Inspection, LockName};

use crate::args::Ls;
use crate::context::{self, Context};
use crate::failure::Failure;
use crate::names;
use crate::view::{self, Record};

pub(super) fn execute(arguments: &Ls) -> Result<u8, Failure> {
    let context = Context::load(arguments)?;
    let prefix = names::prefix(arguments.prefix.as_deref(), arguments.name.spelling())?;
    let client = context.store.open()?;
    context::block_on(async {
        let dialect = client.capabilities().dialect;
        let seen = client.list(&prefix).await;
        context::close(client).await;
        let held: Vec<(LockName, HolderView)> = seen
            .map_err(|error| context.failure(&error))?
            .into_iter()
            .filter_map(|(name, seen)| match seen {
                Inspection::Held(holder) => Some((name, holder)),
                _ => None,
            })
            .filter(|(name, _)| dialect != "plain" || !is_native_key(name, &prefix))
            .collect();
        if context.settings.json {
            let lines =
                held.iter().map(|(name, holder)| Record::held(name, holder, dialect).to_line());
            view::print(&lines.collect::<String>())?;
        } else {
            view::print(&view::list(&held))?;
        }
        Ok(0)
    })
}

/// Whether this is a key of the native dialect: a string as any other to the plain one, but nobody's
/// lock there. Who asks for just these names gets them.
fn is_native_key(name: &LockName, prefix: &[u8]) -> bool {
    name.as_bytes().starts_with(NATIVE_KEYS) && !prefix.starts_with(NATIVE_KEYS)
}

const NATIVE_KEYS: &[u8] = b"fencelock:";
