//! What threads wait for and do not hold: a latch, a barrier.

use super::{common::options, wrap::blocking};
use crate::{BarrierPass, Error};

blocking! {
    /// Opens when it was counted down often enough: [`fencelock::Latch`](crate::Latch) for threads.
    ///
    /// # Examples
    /// ```
    /// let locks = fencelock::blocking::connect("memory:")?;
    /// let ready = locks.latch("ready", 1);
    /// ready.count_down_as("loader-1")?;
    /// ready.wait()?;
    /// assert_eq!(ready.remaining()?, 0);
    /// # Ok::<(), fencelock::Error>(())
    /// ```
    #[derive(Clone)]
    #[must_use = "a recipe does nothing until one of its verbs is called"]
    pub struct Latch of crate::Latch;
    gets {
        fn count() -> u32;
    }
    waits {
        fn set_up() -> Result<bool, Error>;
        fn count_down() -> Result<(), Error>;
        fn count_down_as(step: impl AsRef<[u8]>) -> Result<(), Error>;
        fn wait() -> Result<(), Error>;
        fn remaining() -> Result<u32, Error>;
    }
}

options!(Latch of crate::Latch: asking, wait_limit);

blocking! {
    /// Nobody goes on until all parties are there: [`fencelock::Barrier`](crate::Barrier) for threads.
    ///
    /// # Examples
    /// ```
    /// let locks = fencelock::blocking::connect("memory:")?;
    /// let step = locks.barrier("step", 2);
    /// let other = step.clone();
    /// let other = std::thread::spawn(move || other.wait());
    /// let one = step.wait()?;
    /// let other = other.join().expect("it does not panic")?;
    /// assert!(one.is_leader() != other.is_leader());
    /// # Ok::<(), fencelock::Error>(())
    /// ```
    #[derive(Clone)]
    #[must_use = "a recipe does nothing until its verb is called"]
    pub struct Barrier of crate::Barrier;
    gets {
        fn parties() -> u32;
    }
    waits {
        fn wait() -> Result<BarrierPass, Error>;
    }
}

options!(Barrier of crate::Barrier: asking, wait_limit);
