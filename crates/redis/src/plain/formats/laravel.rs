//! The RedisLock of Laravel's cache (PHP), behind the prefixes of its configuration.

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static LARAVEL: Format = Format {
    name: "laravel",
    prefix: None,
    owner: Shape::Hex,
    wake: Wake::Nothing,
    has_metadata: false,
};
