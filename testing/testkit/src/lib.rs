//! What the tests of Fencelock are made of: real servers, clocks that move, a network that fails,
//! processes that die, and a witness that stands outside of every lock store.
//!
//! Everything here panics with a sentence instead of returning errors: a test has nothing better
//! to do with a broken bench. It depends on no other crate of the workspace, so that no bug of
//! theirs can hide in it, and it needs Linux (`/proc`, `PDEATHSIG`, `LD_PRELOAD`).
#![deny(unsafe_code)]

mod acceptor;
pub mod certificates;
pub mod clock;
pub mod fake;
pub mod monitor;
pub mod port;
pub mod process;
pub mod proxy;
pub mod redis;
mod resp;
mod sys;
pub mod witness;

pub use certificates::{Authority, Certificate};
pub use clock::ServerClock;
pub use fake::{FakeServer, Reply};
pub use monitor::{Monitor, Seen};
pub use process::{Process, eventually, process_exists};
pub use proxy::Proxy;
pub use redis::{
    Persistence, RedisCluster, RedisClusterBuilder, RedisServer, RedisServerBuilder, Replicated,
};
pub use witness::Witness;
