//! The Lock of redis-py 8 (Python).

use crate::plain::{Format, Owner, Wake};

pub(crate) static REDIS_PY: Format =
    Format { name: "redis-py", prefix: Some(""), owner: Owner::Hex, wake: Wake::Nothing };
