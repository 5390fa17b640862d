//! The mutex of redis-semaphore 5 (Node).

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static REDIS_SEMAPHORE: Format = Format {
    name: "redis-semaphore",
    prefix: Some("mutex:"),
    owner: Shape::Uuid,
    wake: Wake::Nothing,
    has_metadata: false,
};
