//! The Lock of redis-py 8 (Python).

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static REDIS_PY: Format = Format {
    name: "redis-py",
    prefix: Some(""),
    owner: Shape::Hex,
    wake: Wake::Nothing,
    has_metadata: false,
};
