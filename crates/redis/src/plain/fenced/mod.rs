//! A format of the plain family with a counter beside each lock, whose number is the fencing token of
//! whoever holds it: redislock with a `FenceKey`. Read from its source after 0.10.0.
//!
//! A fresh grant, of theirs as of ours, is the next number; who asks again with the token it has is told
//! the same one. What does not touch the counter is as in the format without it.

mod acquire;
mod exchange_token;
mod force_release;
mod inspect;
mod key;

use fencelock_core::{
    AcquireRequest, Acquired, ExchangeRequest, Exchanged, Fence, FencingToken, ForceReleaseRequest,
    Forced, HealRequest, Healed, InspectRequest, Inspection, ListRequest, LockName, Moment, Page,
    ReleaseRequest, Released, RenewRequest, Renewed, ShortenRequest, Shortened,
};
use fencelock_store::Capabilities;
use redis::Value;

pub(crate) use self::key::FenceKey;
use self::{
    acquire::acquire,
    exchange_token::exchange_token,
    force_release::force_release,
    inspect::{inspect, list},
};
use super::{Format, formats};
use crate::{
    keys::KeyMapping,
    plug::{Call, Plug},
    reply::{Odd, bytes},
    script::{Question, Script},
    wire::Wire,
};

/// A format, with the counters.
#[derive(Debug)]
pub(crate) struct Fenced {
    format: &'static Format,
}

/// `Options.FenceKey` of redislock.
pub(crate) static REDISLOCK: Fenced = Fenced { format: &formats::REDISLOCK_FENCED };

impl Fenced {
    /// A call of a script about names and the counter of each.
    fn ask<'n>(
        wire: &Wire,
        script: &'static std::sync::LazyLock<Script>,
        names: impl ExactSizeIterator<Item = &'n LockName> + Clone,
    ) -> Question {
        let keys: Vec<_> = names.clone().map(|name| wire.key(name)).collect();
        let mut question = Question::script(script, 2 * keys.len(), (2 * keys.len() + 8, 256));
        for key in &keys {
            question.arg(key);
        }
        if let Some(fence) = &wire.fence_key {
            for key in &keys {
                question.arg(&fence.of(key));
            }
        }
        let first = names.clone().next();
        for (name, first) in names.zip(first.into_iter().cycle()) {
            if let Some(slot) = wire.slot(name) {
                question.route.with(first, name, slot);
            }
        }
        question
    }
}

/// A fencing token as the scripts say it; nothing where there has been none.
fn fence(value: &Value) -> Result<Option<FencingToken>, Odd> {
    let text = std::str::from_utf8(bytes(value)?).ok();
    let number = text.and_then(|text| text.parse().ok());
    Ok(number.and_then(|number| FencingToken::new(number).ok()))
}

/// The fencing token of a grant.
fn granted(value: &Value) -> Result<Fence, Odd> {
    let fence = fence(value)?.ok_or(Odd("a grant without a number"))?;
    Ok(Fence::Token(fence))
}

fn digits(fence: Option<FencingToken>) -> Vec<u8> {
    fence.map(|fence| fence.as_u64().to_string().into_bytes()).unwrap_or_default()
}

/// Verbs that are a function of this module, `verb(fenced, wire, request, by)`.
macro_rules! verbs_of_fenced {
    ($($verb:ident($request:ident: &$asked:ty) -> $answer:ty;)*) => {$(
        fn $verb<'a>(
            &'a self,
            wire: &'a Wire,
            $request: &'a $asked,
            by: Moment,
        ) -> Call<'a, $answer> {
            Box::pin($verb(self, wire, $request, by))
        }
    )*};
}

/// Verbs of the format as it is.
macro_rules! verbs_of_plain {
    ($($verb:ident($($request:ident: &$asked:ty)?) -> $answer:ty;)*) => {$(
        fn $verb<'a>(
            &'a self,
            wire: &'a Wire,
            $($request: &'a $asked,)?
            by: Moment,
        ) -> Call<'a, $answer> {
            self.format.$verb(wire, $($request,)? by)
        }
    )*};
}

impl Plug for Fenced {
    fn capabilities(&self) -> Capabilities {
        let mut can = self.format.capabilities();
        can.fencing = true;
        // Of a set their callers say which key has its counter.
        can.max_names = 1;
        can
    }

    fn keys(&self, prefix: Option<&str>) -> Result<KeyMapping, String> {
        self.format.keys(prefix)
    }

    fn fence_key(&self, pattern: Option<&str>) -> Result<Option<FenceKey>, String> {
        FenceKey::new(pattern.unwrap_or(FenceKey::DEFAULT)).map(Some)
    }

    verbs_of_fenced!(
        acquire(request: &AcquireRequest) -> Acquired;
        exchange_token(request: &ExchangeRequest) -> Exchanged;
        inspect(request: &InspectRequest) -> Inspection;
        list(request: &ListRequest) -> Page;
        force_release(request: &ForceReleaseRequest) -> Forced;
    );

    verbs_of_plain!(
        reach() -> ();
        renew(batch: &[RenewRequest]) -> Vec<Renewed>;
        release(request: &ReleaseRequest) -> Released;
        shorten(request: &ShortenRequest) -> Shortened;
        // Not with a number: each counter would go on by itself.
        heal(request: &HealRequest) -> Healed;
    );
}
