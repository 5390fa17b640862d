//! What the merged grants of all processes say. Nothing here reads a clock or talks to a server.
//!
//! ```text
//! owner 1   called .......... acquired ##section## releasing - released
//! owner 2      called ......................................... acquired ##...
//!                                                  |<- hand-off ->|
//! ```

use super::contender::{Grant, Span};

/// The contenders and how they are spread.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// All of them.
    pub contenders: u32,
    /// How many share a process; owners are numbered process by process.
    pub per_process: u32,
}

/// The figures of one run, of the grants that fall into its window.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Grants.
    pub grants: u64,
    /// Grants whose owner is not that of the grant before.
    pub hand_offs: u64,
    /// Grants whose owner is in another process than that of the grant before.
    pub crossings: u64,
    /// From the call of release to the next owner's return, of hand-offs.
    pub hand_off_us: Spread,
    /// From the call of acquire to its return; waits that the end cut off count until the end.
    pub wait_ms: Spread,
    /// Jain's index of the grants of each contender: 1 is even, 1/contenders is one for all.
    pub jain: f64,
    /// Critical sections that began while another one went on, in the whole run: must be 0.
    pub overlaps: u64,
    /// The median length of a critical section as it was, timers included.
    pub section_us: f64,
    /// The window's length in seconds.
    pub seconds: f64,
}

/// How figures are spread; zeros when there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Half are not above it.
    pub p50: f64,
    /// 99 of 100 are not above it.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Figures {
    /// Merges the grants, which may come in any order, and counts those acquired in the window.
    #[must_use]
    pub fn of(mut grants: Vec<Grant>, crowd: Crowd, window: Span) -> Self {
        grants.sort_unstable_by_key(|grant| grant.acquired);
        let inside = |grant: &Grant| (window.start..window.end).contains(&grant.acquired);
        let mut figures = Self {
            grants: 0,
            hand_offs: 0,
            crossings: 0,
            hand_off_us: Spread::default(),
            wait_ms: Spread::of(waits(&grants, window)),
            jain: 0.0,
            overlaps: overlaps(&grants),
            section_us: 0.0,
            seconds: nanoseconds(window.end.saturating_sub(window.start)) / 1e9,
        };
        let mut latencies = Vec::new();
        let mut sections = Vec::new();
        let mut shares = vec![0_u64; crowd.contenders as usize];
        let mut before: Option<Grant> = None;
        for grant in grants.iter().filter(|grant| inside(grant)) {
            figures.grants += 1;
            if let Some(share) = shares.get_mut(grant.owner as usize) {
                *share += 1;
            }
            sections.push(nanoseconds(grant.releasing.saturating_sub(grant.acquired)) / 1e3);
            if let Some(before) = before.filter(|before| before.owner != grant.owner) {
                figures.hand_offs += 1;
                let process = |grant: &Grant| grant.owner / crowd.per_process.max(1);
                figures.crossings += u64::from(process(&before) != process(grant));
                let latency = grant.acquired.saturating_sub(before.releasing);
                latencies.push(nanoseconds(latency) / 1e3);
            }
            before = Some(*grant);
        }
        figures.jain = jain(&shares);
        figures.hand_off_us = Spread::of(latencies);
        figures.section_us = Spread::of(sections).p50;
        figures
    }
}

impl Spread {
    /// Of some figures, by nearest rank.
    #[must_use]
    pub fn of(mut figures: Vec<f64>) -> Self {
        let Some(last) = figures.len().checked_sub(1) else { return Self::default() };
        figures.sort_by(f64::total_cmp);
        let rank = |hundredths: usize| figures[((last + 1) * hundredths).div_ceil(100) - 1];
        Self {
            mean: figures.iter().sum::<f64>() / count(figures.len() as u64),
            p50: rank(50),
            p99: rank(99),
            max: figures[last],
        }
    }
}

/// Jain's index of fairness: (sum x)² / (n · sum x²); 0 when nobody got anything.
#[must_use]
pub fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|&share| count(share)).sum();
    let squares: f64 = shares.iter().map(|&share| count(share) * count(share)).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (count(shares.len() as u64) * squares) }
}

/// How many critical sections begin before an earlier one ends. A section is counted from after
/// acquire returned to before release was called, so what is counted here is no artefact of the
/// clock. The grants are in the order of `acquired`.
fn overlaps(grants: &[Grant]) -> u64 {
    let mut busy_until = 0;
    let mut found = 0;
    for grant in grants {
        found += u64::from(grant.acquired < busy_until);
        busy_until = busy_until.max(grant.releasing);
    }
    found
}

/// The waits that ended in the window, and those it cut off: without these a contender that
/// starves would not be seen.
fn waits(grants: &[Grant], window: Span) -> Vec<f64> {
    grants
        .iter()
        .filter(|grant| grant.acquired >= window.start && grant.called < window.end)
        .map(|grant| nanoseconds(grant.acquired.min(window.end) - grant.called) / 1e6)
        .collect()
}

fn nanoseconds(span: u64) -> f64 {
    count(span)
}

/// Exact below 2^53, which is 104 days in nanoseconds.
#[allow(clippy::cast_precision_loss)]
fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: Crowd = Crowd { contenders: 4, per_process: 2 };
    const ALL: Span = Span { start: 0, end: 1_000_000_000 };

    /// In microseconds.
    fn grant(owner: u32, called: u64, acquired: u64, releasing: u64) -> Grant {
        Grant {
            owner,
            called: called * 1_000,
            acquired: acquired * 1_000,
            releasing: releasing * 1_000,
            released: (releasing + 1) * 1_000,
        }
    }

    #[test]
    fn only_a_change_of_owner_is_a_hand_off() {
        let grants = vec![grant(0, 0, 10, 20), grant(0, 20, 30, 40), grant(1, 0, 47, 50)];
        let figures = Figures::of(grants, PAIR, ALL);
        assert_eq!((figures.grants, figures.hand_offs, figures.crossings), (3, 1, 0));
        assert_eq!(figures.hand_off_us.max, 7.0, "from the release of the grant before");
    }

    #[test]
    fn grants_of_several_processes_are_merged_by_time() {
        let grants = vec![grant(0, 0, 10, 20), grant(0, 20, 50, 60), grant(2, 0, 30, 40)];
        let figures = Figures::of(grants, PAIR, ALL);
        assert_eq!((figures.hand_offs, figures.crossings), (2, 2));
        assert_eq!(figures.hand_off_us.mean, 10.0);
        assert_eq!(figures.section_us, 10.0);
    }

    #[test]
    fn a_section_inside_another_overlaps_and_one_right_after_does_not() {
        let apart = vec![grant(0, 0, 10, 20), grant(1, 0, 20, 30)];
        assert_eq!(Figures::of(apart, PAIR, ALL).overlaps, 0);
        let together = vec![grant(0, 0, 10, 20), grant(1, 0, 19, 30)];
        assert_eq!(Figures::of(together, PAIR, ALL).overlaps, 1);
        let inside_a_long_one = vec![grant(0, 0, 10, 90), grant(1, 0, 20, 30), grant(2, 0, 40, 50)];
        assert_eq!(Figures::of(inside_a_long_one, PAIR, ALL).overlaps, 2);
    }

    #[test]
    fn overlaps_before_the_window_count_too() {
        let window = Span { start: 500_000, end: 1_000_000 };
        let grants = vec![grant(0, 0, 10, 20), grant(1, 0, 15, 30)];
        let figures = Figures::of(grants, PAIR, window);
        assert_eq!((figures.grants, figures.overlaps), (0, 1));
    }

    #[test]
    fn the_window_takes_its_start_and_leaves_its_end() {
        let window = Span { start: 10_000, end: 50_000 };
        let grants =
            vec![grant(0, 0, 9, 9), grant(1, 0, 10, 11), grant(0, 9, 49, 49), grant(1, 11, 50, 51)];
        let figures = Figures::of(grants, PAIR, window);
        assert_eq!((figures.grants, figures.hand_offs), (2, 1));
        assert!((figures.seconds - 40e-6).abs() < 1e-12);
    }

    #[test]
    fn a_wait_that_the_end_cuts_off_counts_until_the_end() {
        let window = Span { start: 0, end: 100_000 };
        let grants = vec![grant(0, 0, 10, 20), grant(1, 0, 5_000, 5_001)];
        let figures = Figures::of(grants, PAIR, window);
        assert_eq!(figures.wait_ms.max, 0.1);
        let late = vec![grant(0, 0, 10, 20), grant(1, 100, 5_000, 5_001)];
        assert_eq!(Figures::of(late, PAIR, window).wait_ms.max, 0.01, "called at the end");
    }

    #[test]
    fn jain_is_one_when_even_and_one_of_n_when_one_has_all() {
        assert_eq!(jain(&[5, 5, 5, 5]), 1.0);
        assert_eq!(jain(&[9, 0, 0, 0]), 0.25);
        assert_eq!(jain(&[0, 0]), 0.0);
        assert!((jain(&[1, 3]) - 0.8).abs() < 1e-12);
    }

    #[test]
    fn who_got_nothing_lowers_the_index() {
        let grants = vec![grant(0, 0, 10, 20), grant(1, 0, 30, 40)];
        assert_eq!(Figures::of(grants, PAIR, ALL).jain, 0.5, "two of four");
    }

    #[test]
    fn ranks_are_nearest_ranks() {
        let spread = Spread::of((1..=200).map(f64::from).collect());
        assert_eq!((spread.p50, spread.p99, spread.max, spread.mean), (100.0, 198.0, 200.0, 100.5));
        let one = Spread::of(vec![7.0]);
        assert_eq!((one.p50, one.p99, one.max), (7.0, 7.0, 7.0));
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
