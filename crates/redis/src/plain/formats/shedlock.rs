//! The Redis provider of ShedLock 7 (Java); its default release compares nothing.

use crate::plain::{Format, Owner, Wake};

pub(crate) static SHEDLOCK: Format = Format {
    name: "shedlock",
    prefix: Some("job-lock:default:"),
    owner: Owner::Uuid,
    wake: Wake::Nothing,
};
