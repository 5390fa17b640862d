//! The Redlock of pottery 3 (Python), on one server.

use crate::plain::{Format, Owner, Wake};

pub(crate) static POTTERY: Format =
    Format { name: "pottery", prefix: Some("redlock:"), owner: Owner::Uuid, wake: Wake::Nothing };
