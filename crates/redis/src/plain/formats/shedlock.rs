//! The Redis provider of ShedLock 7 (Java); its default release compares nothing.

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static SHEDLOCK: Format = Format {
    name: "shedlock",
    prefix: Some("job-lock:default:"),
    owner: Shape::Uuid,
    wake: Wake::Nothing,
    has_metadata: false,
};
