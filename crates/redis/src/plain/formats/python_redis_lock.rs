//! python-redis-lock 4 (Python), whose waiters block on a list beside the lock.

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static PYTHON_REDIS_LOCK: Format = Format {
    name: "python-redis-lock",
    prefix: Some("lock:"),
    owner: Shape::Base64,
    wake: Wake::List("lock-signal:"),
    has_metadata: false,
};
