//! What a quorum does when its nodes do not: away, silent, late, forgetful, of two minds.

mod ballots;
mod fencing;
mod forgetting;
mod futures;
mod lost_replies;
mod pace;
mod told;
mod world;
