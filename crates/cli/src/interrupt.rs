//! The signals that end a wait. On Linux they are those of `child`, which `run` hands on to its command
//! later; elsewhere a signal just ends the process, and the lease ends by itself.

#[cfg(target_os = "linux")]
pub(crate) use crate::child::Signals as Interrupts;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::{future, io};

    use rustix::process::Signal;

    /// No signals.
    #[derive(Debug)]
    pub(crate) struct Interrupts;

    impl Interrupts {
        /// Takes over nothing.
        pub(crate) fn install() -> io::Result<Self> {
            Ok(Self)
        }

        /// Never ends: the default action of the signal ends the process.
        pub(crate) async fn interrupted(&self) -> io::Result<Signal> {
            future::pending().await
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::Interrupts;
