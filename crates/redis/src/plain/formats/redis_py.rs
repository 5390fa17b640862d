//! The Lock of redis-py 8 (Python).

use crate::plain::{Format, Owner};

pub(crate) static REDIS_PY: Format =
    Format { name: "redis-py", prefix: Some(""), owner: Owner::Hex, signal: None };
