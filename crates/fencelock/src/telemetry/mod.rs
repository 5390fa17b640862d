//! What is measured and traced: the calls that the rest of the library makes.
//!
//! ```text
//!   lock(), try_lock(), enqueue()   Acquiring: one span, one measurement, however it ends
//!     | the first busy answer       contended, and one more that waits, until it ends
//!     v
//!   guard                           MeterCell: how long it was held, whether it was lost
//!   run()                           Running: one span around the acquire and the work
//! ```
//! Each part has two siblings, `enabled.rs` and `disabled.rs`: with a feature off its types are
//! empty, its functions do nothing, and no clock is read for them. No label and no field ever has
//! a token: it is a secret.

mod acquiring;
mod metrics;
mod running;
mod spans;

#[cfg(feature = "metrics")]
pub use self::metrics::describe_metrics;
pub(crate) use self::{
    acquiring::Acquiring,
    metrics::{Class, Meter, MeterCell},
    running::Running,
};
