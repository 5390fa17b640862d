//! go-redsync/redsync 4 (Go), on one server.

use crate::plain::{Format, Owner, Wake};

pub(crate) static REDSYNC: Format =
    Format { name: "redsync", prefix: Some(""), owner: Owner::Base64, wake: Wake::Nothing };
