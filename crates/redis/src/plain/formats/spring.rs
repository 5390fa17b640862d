//! Spring Integration's RedisLockRegistry (Java), both lock types and both generations of channels. Its
//! values are its client id, one for a registry; ours are one for each grant, which none of its
//! registries owns.

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static SPRING: Format = Format {
    name: "spring",
    prefix: None,
    owner: Shape::Uuid,
    wake: Wake::Channels,
    has_metadata: false,
};
