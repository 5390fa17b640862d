//! Many contenders on one name, Fencelock beside other libraries: the parts of `--bin contended`.
//!
//! `contender` is the side of the drivers, `statistics` what their merged grants say, `peers` who
//! takes part and how, `run` one measured run, `calls` what the server did in it, `report` the
//! table and `plot` the picture.

pub mod calls;
pub mod contender;
pub mod peers;
pub mod plot;
pub mod report;
pub mod run;
pub mod statistics;
