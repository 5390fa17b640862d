//! Spans of the crate `tracing`, with the feature of that name.

#[cfg(not(feature = "tracing"))]
mod disabled;
#[cfg(feature = "tracing")]
mod enabled;

#[cfg(not(feature = "tracing"))]
pub(super) use self::disabled::Span;
#[cfg(feature = "tracing")]
pub(super) use self::enabled::Span;
