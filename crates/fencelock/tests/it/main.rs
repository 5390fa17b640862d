//! The client against stores whose clock a test moves and whose failures a test plans.
//!
//! One module for each kind of `scenarios`: what went wrong for other people.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ambig;
mod awaits;
mod beside;
mod beside_cancel;
mod beside_model;
mod bounds;
mod cancel;
mod errors;
mod gathering;
mod hold;
mod keeper_scale;
mod leaving;
mod lines;
mod loss;
mod of_mutex;
mod own;
mod renew;
mod revoke;
mod run;
mod stream;
mod tickets;
mod told;
mod ttl;
mod turns;
mod waiting;
mod warped;
mod world;
