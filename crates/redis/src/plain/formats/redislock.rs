//! bsm/redislock (Go): what its own tokens look like. Read from 0.10.0.

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static REDISLOCK: Format = named("redislock");

/// With `Options.FenceKey`, which came after 0.10.0: the lock itself is the same.
pub(crate) static REDISLOCK_FENCED: Format = named("redislock-fenced");

const fn named(name: &'static str) -> Format {
    Format {
        name,
        prefix: Some(""),
        owner: Shape::Base64Url,
        wake: Wake::Nothing,
        has_metadata: true,
    }
}
