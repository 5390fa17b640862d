//! go-redsync/redsync 4 (Go), on one server.

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static REDSYNC: Format = Format {
    name: "redsync",
    prefix: Some(""),
    owner: Shape::Base64,
    wake: Wake::Nothing,
    has_metadata: false,
};
