//! bsm/redislock (Go): what its own tokens look like. Read from 0.10.0.

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static REDISLOCK: Format = Format {
    name: "redislock",
    prefix: Some(""),
    owner: Shape::Base64Url,
    wake: Wake::Nothing,
    has_metadata: true,
};
