//! What a wire format is to the store: its keys, what it can do, and a form of each verb.
//!
//! ```text
//!   RedisStore --> Plug: native | plain family | formats of other libraries --> Wire --> server
//! ```
//! A format says only what it has. Whatever it does not say is refused with the name of the format,
//! never left out in silence.

use std::{fmt, sync::Arc};

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged,
    ForceReleaseRequest, Forced, HealRequest, Healed, InspectRequest, Inspection, LimitSet,
    ListRequest, Moment, Page, RaiseFenceRequest, Raised, ReleaseRequest, Released, RenewRequest,
    Renewed, RevokeRequest, Revoked, SetLimitRequest, ShortenRequest, Shortened,
};
use fencelock_store::{BoxFuture, Capabilities, StoreError, StoreResult, Subscription, WakeupSink};

use crate::{keys::KeyMapping, plain::FenceKey, wire::Wire};

/// The answer to a verb.
pub(crate) type Call<'a, A> = BoxFuture<'a, StoreResult<A>>;

/// A wire format. Its verbs keep the Contract of [`Store`](fencelock_store::Store), as far as
/// [`Plug::capabilities`] says that they can.
pub(crate) trait Plug: fmt::Debug + Send + Sync {
    /// What the format can express; among it the format's name.
    fn capabilities(&self) -> Capabilities;

    /// How names become keys, with the prefix that was asked for, if one was.
    ///
    /// # Errors
    /// What is wrong about the prefix.
    fn keys(&self, prefix: Option<&str>) -> Result<KeyMapping, String>;

    /// Where the counter of a lock is, by the pattern that was asked for, if one was; nothing in formats that
    /// have none, or have it in one place.
    ///
    /// # Errors
    /// What is wrong about the pattern, or that there is no place for one.
    fn fence_key(&self, pattern: Option<&str>) -> Result<Option<FenceKey>, String> {
        match pattern {
            None => Ok(None),
            Some(_) => {
                let name = self.capabilities().dialect;
                Err(format!("fence_key is for the redislock-fenced dialect, not for {name}"))
            }
        }
    }

    /// Whether it has a marker for a restart guard.
    fn has_marker(&self) -> bool {
        false
    }

    /// Looks at nothing, which proves that scripts may be run.
    fn reach<'a>(&'a self, wire: &'a Wire, by: Moment) -> Call<'a, ()>;

    fn acquire<'a>(
        &'a self,
        wire: &'a Wire,
        request: &'a AcquireRequest,
        by: Moment,
    ) -> Call<'a, Acquired>;

    fn renew<'a>(
        &'a self,
        wire: &'a Wire,
        batch: &'a [RenewRequest],
        by: Moment,
    ) -> Call<'a, Vec<Renewed>>;

    fn release<'a>(
        &'a self,
        wire: &'a Wire,
        request: &'a ReleaseRequest,
        by: Moment,
    ) -> Call<'a, Released>;

    fn inspect<'a>(
        &'a self,
        wire: &'a Wire,
        request: &'a InspectRequest,
        by: Moment,
    ) -> Call<'a, Inspection>;

    fn list<'a>(&'a self, wire: &'a Wire, request: &'a ListRequest, by: Moment) -> Call<'a, Page>;

    fn force_release<'a>(
        &'a self,
        wire: &'a Wire,
        request: &'a ForceReleaseRequest,
        by: Moment,
    ) -> Call<'a, Forced>;

    fn shorten<'a>(
        &'a self,
        wire: &'a Wire,
        _: &'a ShortenRequest,
        _: Moment,
    ) -> Call<'a, Shortened> {
        self.lacks(wire, "way to shorten a lease")
    }

    fn exchange_token<'a>(
        &'a self,
        wire: &'a Wire,
        _: &'a ExchangeRequest,
        _: Moment,
    ) -> Call<'a, Exchanged> {
        self.lacks(wire, "way to exchange the token of a lease")
    }

    fn downgrade<'a>(
        &'a self,
        wire: &'a Wire,
        _: &'a DowngradeRequest,
        _: Moment,
    ) -> Call<'a, Downgraded> {
        self.lacks(wire, "way to make a lease a shared one")
    }

    fn set_limit<'a>(
        &'a self,
        wire: &'a Wire,
        _: &'a SetLimitRequest,
        _: Moment,
    ) -> Call<'a, LimitSet> {
        self.lacks(wire, "limit that can be changed")
    }

    fn raise_fence<'a>(
        &'a self,
        wire: &'a Wire,
        _: &'a RaiseFenceRequest,
        _: Moment,
    ) -> Call<'a, Raised> {
        self.lacks(wire, "fencing tokens")
    }

    fn heal<'a>(&'a self, wire: &'a Wire, _: &'a HealRequest, _: Moment) -> Call<'a, Healed> {
        self.lacks(wire, "way to heal a lease, so no node of a quorum can speak it")
    }

    fn revoke<'a>(&'a self, wire: &'a Wire, _: &'a RevokeRequest, _: Moment) -> Call<'a, Revoked> {
        self.lacks(wire, "way to ask for a lease back")
    }

    fn listen<'a>(
        &'a self,
        wire: &'a Wire,
        _: Arc<dyn WakeupSink>,
        _: Moment,
    ) -> BoxFuture<'a, Result<Subscription, StoreError>> {
        let refused = self.refuse(wire, "wakeups");
        Box::pin(std::future::ready(Err(refused)))
    }

    /// Why something that was asked for can't be had; or that the store is closed.
    fn refuse(&self, wire: &Wire, what: &str) -> StoreError {
        if let Err(closed) = wire.connections.check_open() {
            return closed;
        }
        let name = self.capabilities().dialect;
        StoreError::unsupported(format!("the {name} dialect of redis has no {what}"))
    }

    /// The first of what a caller would rely on and this format can't keep.
    ///
    /// # Errors
    /// `Unsupported` when any of it is asked for; `Closed`.
    fn check(&self, wire: &Wire, asked: &[(bool, &str)]) -> Result<(), StoreError> {
        wire.connections.check_open()?;
        match asked.iter().find(|(is_asked, _)| *is_asked) {
            None => Ok(()),
            Some((_, what)) => Err(self.refuse(wire, what)),
        }
    }
}

/// Refuses a verb.
trait Lacks {
    fn lacks<'a, A: Send + 'a>(&self, wire: &Wire, what: &str) -> Call<'a, A>;
}

impl<P: Plug + ?Sized> Lacks for P {
    fn lacks<'a, A: Send + 'a>(&self, wire: &Wire, what: &str) -> Call<'a, A> {
        Box::pin(std::future::ready(Err(self.refuse(wire, what))))
    }
}

/// Verbs that are a function of the module, `verb(wire, request, by)`.
macro_rules! verbs {
    ($($verb:ident($($request:ident: &$asked:ty)?) -> $answer:ty;)*) => {$(
        fn $verb<'a>(
            &'a self,
            wire: &'a $crate::wire::Wire,
            $($request: &'a $asked,)?
            by: Moment,
        ) -> $crate::plug::Call<'a, $answer> {
            Box::pin($verb(wire, $($request,)? by))
        }
    )*};
}

pub(crate) use verbs;
