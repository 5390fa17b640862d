//! The least that all of the family share: the name is the key.

use crate::plain::{Format, Owner, Wake};

pub(crate) static PLAIN: Format =
    Format { name: "plain", prefix: Some(""), owner: Owner::Hex, wake: Wake::Nothing };
