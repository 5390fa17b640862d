//! The least that all of the family share: the name is the key.

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static PLAIN: Format = Format {
    name: "plain",
    prefix: Some(""),
    owner: Shape::Hex,
    wake: Wake::Nothing,
    has_metadata: false,
};
