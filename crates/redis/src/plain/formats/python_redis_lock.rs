//! python-redis-lock 4 (Python), whose waiters block on a list beside the lock.

use crate::plain::{Format, Owner};

pub(crate) static PYTHON_REDIS_LOCK: Format = Format {
    name: "python-redis-lock",
    prefix: Some("lock:"),
    owner: Owner::Base64,
    signal: Some("lock-signal:"),
};
