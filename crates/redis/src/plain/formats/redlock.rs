//! node-redlock, redlock-universal (Node), rslock, redlock-rs (Rust) and redlock-rb, on one server.

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static REDLOCK: Format = Format {
    name: "redlock",
    prefix: Some(""),
    owner: Shape::Hex,
    wake: Wake::Nothing,
    has_metadata: false,
};
