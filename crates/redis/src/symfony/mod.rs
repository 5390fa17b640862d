//! Symfony Lock since 5.2 (PHP): a sorted set of those who hold, by the ends of their leases on the server's
//! clock, and a member that says that one of them writes. Nobody is told anything: its waiters ask again.

mod acquire;
mod exchange_token;
mod inspect;
mod keep;
mod take_back;

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged,
    ForceReleaseRequest, Forced, HealRequest, Healed, InspectRequest, Inspection, ListRequest,
    Moment, Page, ReleaseRequest, Released, RenewRequest, Renewed, ShortenRequest, Shortened,
    Token,
};
use fencelock_store::{Capabilities, Modes};

use self::{
    acquire::{acquire, heal},
    exchange_token::exchange_token,
    inspect::{inspect, list, reach},
    keep::{downgrade, renew, shorten},
    take_back::{force_release, release},
};
use crate::{
    keys::KeyMapping,
    plug::{Plug, verbs},
    shape::Shape,
};

/// The sorted set of Symfony's RedisStore.
#[derive(Debug)]
pub(crate) struct Symfony;

/// How a token stands in the set.
const SHAPE: Shape = Shape::Base64;

fn member(token: &Token) -> Vec<u8> {
    SHAPE.write(token)
}

impl Plug for Symfony {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::bare("symfony");
        can.modes = Modes::EXCLUSIVE;
        (can.modes.shared, can.modes.downgrade) = (true, true);
        can
    }

    fn keys(&self, prefix: Option<&str>) -> Result<KeyMapping, String> {
        let prefix = prefix.unwrap_or_default();
        KeyMapping::after(prefix).ok_or_else(|| "a key prefix has at most 128 bytes".to_owned())
    }

    verbs!(
        reach() -> ();
        acquire(request: &AcquireRequest) -> Acquired;
        renew(batch: &[RenewRequest]) -> Vec<Renewed>;
        release(request: &ReleaseRequest) -> Released;
        inspect(request: &InspectRequest) -> Inspection;
        list(request: &ListRequest) -> Page;
        force_release(request: &ForceReleaseRequest) -> Forced;
        shorten(request: &ShortenRequest) -> Shortened;
        exchange_token(request: &ExchangeRequest) -> Exchanged;
        downgrade(request: &DowngradeRequest) -> Downgraded;
        heal(request: &HealRequest) -> Healed;
    );
}
