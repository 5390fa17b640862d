//! Measurements through the facade of the crate `metrics`, with the feature of that name.

#[cfg(not(feature = "metrics"))]
mod disabled;
#[cfg(feature = "metrics")]
mod enabled;

#[cfg(not(feature = "metrics"))]
pub(crate) use self::disabled::{Class, Meter, MeterCell, Timer, Waiting};
#[cfg(feature = "metrics")]
pub use self::enabled::describe_metrics;
#[cfg(feature = "metrics")]
pub(crate) use self::enabled::{Class, Meter, MeterCell, Timer, Waiting};
