//! What the benchmarks share: interleaved pairs, medians, CPU affinity, and the table they print.
//!
//! Figures are ratios of two ways that were timed one after the other, pair by pair, in one
//! process: these machines are noisy, and what drifts hits both. Nothing here is a test.

pub mod contended;

use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};

/// The median of some figures.
///
/// # Panics
/// When there are none.
#[must_use]
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    assert!(!sorted.is_empty(), "a median needs a figure");
    sorted[sorted.len() / 2]
}

/// The figures of pairs: ours, and the ratio to the other.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    ours: Vec<f64>,
    ratios: Vec<f64>,
    cpu_ratios: Vec<f64>,
}

impl Pairs {
    /// Adds a pair.
    pub fn push(&mut self, ours: f64, other: f64) {
        self.ours.push(ours);
        self.ratios.push(ours / other);
    }

    /// Adds the server's CPU time of a pair.
    pub fn push_cpu(&mut self, ours: f64, other: f64) {
        if other > 0.0 {
            self.cpu_ratios.push(ours / other);
        }
    }

    /// The median of our figure.
    #[must_use]
    pub fn ours(&self) -> f64 {
        median(&self.ours)
    }

    /// The median ratio.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        median(&self.ratios)
    }

    /// The median ratio of the server's CPU time, where it was measured.
    #[must_use]
    pub fn cpu_ratio(&self) -> Option<f64> {
        (!self.cpu_ratios.is_empty()).then(|| median(&self.cpu_ratios))
    }
}

/// Lets a process (0: this thread) run on one core only, or on all again.
///
/// # Panics
/// When the kernel refuses.
pub fn pin(pid: i32, core: Option<usize>) {
    let mut set = CpuSet::new();
    match core {
        Some(core) => set.set(core),
        None => (0..CpuSet::MAX_CPU).for_each(|core| set.set(core)),
    }
    sched_setaffinity(rustix::process::Pid::from_raw(pid), &set).expect("the affinity is allowed");
}

/// Microseconds, for people.
#[must_use]
pub fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

/// A number from the command line: `--pairs 30`.
///
/// # Panics
/// When it is not a number.
#[must_use]
pub fn option(name: &str, default: usize) -> usize {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    match (arguments.next(), arguments.next()) {
        (Some(_), Some(value)) => value.parse().expect("a number follows the option"),
        _ => default,
    }
}

/// Words from the command line, with commas between: `--only rslock,redis-py`.
#[must_use]
pub fn words(name: &str, default: &str) -> Vec<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    let text = match (arguments.next(), arguments.next()) {
        (Some(_), Some(value)) => value,
        _ => default.to_owned(),
    };
    text.split(',').map(|word| word.trim().to_owned()).collect()
}
