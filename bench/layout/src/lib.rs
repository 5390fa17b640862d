//! What the layout experiment is made of: a server of its own, the candidates, the timed rounds.
//!
//! A library only so that the tests of the scripts can start a server in the same way as the program.

#![forbid(unsafe_code)]

pub mod candidate;
pub mod measure;
pub mod server;
