//! Symfony Lock before 5.2 (PHP); later versions keep a sorted set, which is another format.

use crate::{
    plain::{Format, Wake},
    shape::Shape,
};

pub(crate) static SYMFONY_STRING: Format = Format {
    name: "symfony-string",
    prefix: Some(""),
    owner: Shape::Base64,
    wake: Wake::Nothing,
    has_metadata: false,
};
