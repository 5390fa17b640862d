//! The plain family: a string with a ttl, compared before it is changed: what redislock, redsync,
//! redlock, redis-py and many others use. Both sides exclude each other on the same key.
//!
//! A [`Format`] says where a library has that key and how it writes a token; other clients' values
//! are any bytes. There is no fencing token, no metadata, and nothing is remembered of a lock that
//! was released. A key without a ttl is held by somebody for ever.

mod acquire;
mod exchange_token;
mod fenced;
mod force_release;
mod format;
pub(crate) mod formats;
mod heal;
mod inspect;
mod list;
mod release;
mod renew;
mod shorten;
mod wake;

use std::sync::Arc;

use self::{
    acquire::acquire,
    exchange_token::exchange_token,
    force_release::force_release,
    heal::heal,
    inspect::{inspect, reach},
    list::list,
    release::release,
    renew::renew,
    shorten::shorten,
};
use crate::{hearing, keys::KeyMapping, plug::Plug, wire::Wire};
use fencelock_core::{
    AcquireRequest, Acquired, ExchangeRequest, Exchanged, ForceReleaseRequest, Forced, HealRequest,
    Healed, InspectRequest, Inspection, ListRequest, Moment, Page, ReleaseRequest, Released,
    RenewRequest, Renewed, ShortenRequest, Shortened,
};
use fencelock_store::{BoxFuture, Capabilities, Hints, StoreError, Subscription, WakeupSink};

pub(crate) use self::{
    fenced::{FenceKey, REDISLOCK as REDISLOCK_FENCED},
    format::Format,
    wake::Wake,
};

/// Verbs that are a function of the module, `verb(format, wire, request, by)`.
macro_rules! verbs_of_format {
    ($($verb:ident($($request:ident: &$asked:ty)?) -> $answer:ty;)*) => {$(
        fn $verb<'a>(
            &'a self,
            wire: &'a Wire,
            $($request: &'a $asked,)?
            by: Moment,
        ) -> crate::plug::Call<'a, $answer> {
            Box::pin($verb(self, wire, $($request,)? by))
        }
    )*};
}

impl Plug for Format {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::bare(self.name);
        can.metadata = self.has_metadata;
        match self.wake {
            Wake::Nothing => {}
            // Its spinning registries say nothing.
            Wake::Channels => (can.wakeups, can.hints) = (true, Hints::Some),
            Wake::List(_) => (can.wakeups, can.hints) = (true, Hints::All),
        }
        can
    }

    fn listen<'a>(
        &'a self,
        wire: &'a Wire,
        sink: Arc<dyn WakeupSink>,
        by: Moment,
    ) -> BoxFuture<'a, Result<Subscription, StoreError>> {
        let listening = match self.wake {
            Wake::Channels | Wake::List(_) => hearing::listen(wire, sink, by),
            Wake::Nothing => Err(self.refuse(wire, "wakeups")),
        };
        Box::pin(std::future::ready(listening))
    }

    fn keys(&self, prefix: Option<&str>) -> Result<KeyMapping, String> {
        let Some(prefix) = prefix.or(self.prefix) else {
            return Err(format!(
                "the {} dialect needs a key prefix: that of the application's configuration, in Spring \
                 the registry key",
                self.name
            ));
        };
        let of_registry = format!("{prefix}:");
        let prefix = match self.wake {
            Wake::Channels if prefix.contains(['*', '?', '[', ']']) => {
                let what = "a registry key with * ? [ or ] would be a pattern where Spring listens";
                return Err(what.to_owned());
            }
            Wake::Channels => &of_registry,
            _ => prefix,
        };
        KeyMapping::after(prefix).ok_or_else(|| "a key prefix has at most 128 bytes".to_owned())
    }

    verbs_of_format!(
        reach() -> ();
        acquire(request: &AcquireRequest) -> Acquired;
        renew(batch: &[RenewRequest]) -> Vec<Renewed>;
        release(request: &ReleaseRequest) -> Released;
        inspect(request: &InspectRequest) -> Inspection;
        list(request: &ListRequest) -> Page;
        force_release(request: &ForceReleaseRequest) -> Forced;
        shorten(request: &ShortenRequest) -> Shortened;
        exchange_token(request: &ExchangeRequest) -> Exchanged;
        heal(request: &HealRequest) -> Healed;
    );
}

#[cfg(test)]
pub(crate) mod tests;
