//! The mutex of DistributedLock.Redis 1 (.NET), on one server.

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static DISTRIBUTED_LOCK_NET: Format = Format {
    name: "distributed-lock-net",
    prefix: Some(""),
    owner: Shape::Hex,
    wake: Wake::Nothing,
    has_metadata: false,
};
