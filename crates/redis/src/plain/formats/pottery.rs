//! The Redlock of pottery 3 (Python), on one server.

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static POTTERY: Format = Format {
    name: "pottery",
    prefix: Some("redlock:"),
    owner: Shape::Uuid,
    wake: Wake::Nothing,
    has_metadata: false,
};
