//! The conformance suite: what every store must do.
