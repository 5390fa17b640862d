//! The RedisLock of Laravel's cache (PHP), behind the prefixes of its configuration.

use crate::plain::{Format, Owner, Wake};

pub(crate) static LARAVEL: Format =
    Format { name: "laravel", prefix: None, owner: Owner::Hex, wake: Wake::Nothing };
