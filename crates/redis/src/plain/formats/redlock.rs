//! node-redlock, redlock-universal (Node), rslock, redlock-rs (Rust) and redlock-rb, on one server.

use crate::plain::{Format, Owner, Wake};

pub(crate) static REDLOCK: Format =
    Format { name: "redlock", prefix: Some(""), owner: Owner::Hex, wake: Wake::Nothing };
