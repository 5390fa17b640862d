//! Symfony Lock before 5.2 (PHP); later versions keep a sorted set, which is another format.

use crate::plain::{Format, Owner, Wake};

pub(crate) static SYMFONY_STRING: Format =
    Format { name: "symfony-string", prefix: Some(""), owner: Owner::Base64, wake: Wake::Nothing };
