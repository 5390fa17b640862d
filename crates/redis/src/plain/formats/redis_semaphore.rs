//! The mutex of redis-semaphore 5 (Node).

use crate::plain::{Format, Owner, Wake};

pub(crate) static REDIS_SEMAPHORE: Format = Format {
    name: "redis-semaphore",
    prefix: Some("mutex:"),
    owner: Owner::Uuid,
    wake: Wake::Nothing,
};
