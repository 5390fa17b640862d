//! Whether a name that is free in the native dialect is held in another one: a name in two dialects
//! is two locks, and an answer about the one must not be read as an answer about the other.

use fencelock::{ErrorKind, Inspection, LockName};

use crate::context::{self, Context};
use crate::failure::Failure;
use crate::settings::Dialect;

/// A lock of the same name in another dialect.
pub(super) struct Other {
    /// The dialect.
    pub(super) dialect: &'static str,
    /// Where it is, in words.
    pub(super) store: String,
}

/// Looks whether somebody holds the name in another dialect than the native one, unless a dialect
/// was asked for.
///
/// # Errors
/// The store does not answer.
pub(super) async fn holds(context: &Context, name: &LockName) -> Result<Option<Other>, Failure> {
    let others = context.store.dialects().into_iter();
    for dialect in
        others.filter(|dialect| context.store.dialect().is_none() && *dialect != Dialect::NATIVE)
    {
        let client = context.store.open_in(dialect)?;
        let seen = client.inspect(name.clone()).await;
        let store = client.store_display();
        context::close(client).await;
        // A user for one dialect has no right to the keys of the other, which nobody asked for.
        if matches!(&seen, Err(error) if error.kind() == ErrorKind::Denied) {
            continue;
        }
        if let Inspection::Held(_) = seen.map_err(|error| context.failure(&error))? {
            return Ok(Some(Other { dialect: dialect.name(), store }));
        }
    }
    Ok(None)
}
