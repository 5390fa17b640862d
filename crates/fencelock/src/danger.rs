//! What breaks mutual exclusion on purpose, apart from everything else.

use std::{fmt, sync::Arc};

use fencelock_core::{ForceReleaseRequest, Forced, LockName, Moment, Names};

use crate::{Error, ErrorKind, HolderView, context::Context};

/// Verbs for people who know that a holder is gone although its lease runs.
#[derive(Debug)]
pub struct Danger<'a> {
    context: &'a Arc<Context>,
}

impl<'a> Danger<'a> {
    pub(crate) fn new(context: &'a Arc<Context>) -> Self {
        Self { context }
    }

    /// Frees a name whoever holds it, and says who that was; nothing when nobody did. All who hold it
    /// together are freed of it: every reader, every permit, every step of a latch.
    ///
    /// A holder that lives goes on until its next renewal tells it: for that time two may work.
    ///
    /// # Errors
    /// `ForeignValue` when something that is not a lock sits at the key: it is left alone. `Config`
    /// for a wrong name, or that the store can't be asked.
    ///
    /// # Cancel safety
    /// A request that was sent may be carried out.
    pub async fn force_release<N>(&self, name: N) -> Result<Option<HolderView>, Error>
    where
        N: TryInto<LockName>,
        N::Error: fmt::Display,
    {
        let context = self.context;
        context.check_open()?;
        let name = name.try_into().map_err(|error| Error::config(error.to_string()))?;
        let names = Names::one(name.clone());
        let named = |error: Error| error.with_names(&names).with_store(&context.display);
        let mut request = ForceReleaseRequest::new(name);
        request.retain = context.settings.retain;
        let by = context.call_limit(Moment::NEVER);
        let asked = context.ask(context.store.force_release(&request, by)).await;
        match asked.result.map_err(|error| named(Error::from_store(error)))?.answer {
            Forced::Removed(holder) => Ok(Some(HolderView::of(&holder))),
            Forced::WasFree => Ok(None),
            Forced::Foreign(kind) => {
                let what = format!("{kind} sits at its key");
                Err(named(Error::new(ErrorKind::ForeignValue, what)))
            }
            _ => Err(named(Error::new(ErrorKind::Internal, "an answer of an unknown kind"))),
        }
    }
}
