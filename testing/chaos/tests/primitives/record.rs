//! What all notes of a run come to.

use std::collections::BTreeMap;

use crate::{
    holds, meetings,
    notes::{Note, Way},
    violation::{Rule, Violation},
};

/// What happened, and what should not have.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) violations: Vec<Violation>,
    /// How often each thing happened.
    counts: BTreeMap<&'static str, usize>,
    /// Failures, by what failed and how.
    failures: BTreeMap<String, usize>,
}

/// Each of them has to happen in a run that is worth anything.
const NEEDED: [&str; 6] = ["alone", "shared", "owned", "permits", "open", "pass"];

impl Record {
    pub(crate) fn of(notes: &[Note]) -> Self {
        let mut violations = meetings::check(notes);
        violations.extend(holds::by_name(notes).values().flat_map(|holds| holds::check(holds)));
        let (mut counts, mut failures) = (BTreeMap::new(), BTreeMap::new());
        for note in notes {
            if let Some(rule) = broken_by(note) {
                violations.push(Violation::new(rule, format!("{note:?}")));
            }
            if let Some(word) = word(note) {
                *counts.entry(word).or_default() += 1;
            }
            if let Note::Failed { what, kind, .. } = note {
                *failures.entry(format!("{what} {kind}")).or_default() += 1;
            }
        }
        Self { violations, counts, failures }
    }

    /// Whether each way of holding and of meeting happened.
    pub(crate) fn is_worth_it(&self) -> bool {
        NEEDED.iter().all(|word| self.counts.contains_key(word))
    }

    pub(crate) fn broke(&self, rule: Rule) -> bool {
        self.violations.iter().any(|violation| violation.rule == rule)
    }

    /// The first of the violations: one fault may make many.
    pub(crate) fn first_violations(&self) -> &[Violation] {
        &self.violations[..self.violations.len().min(SHOWN)]
    }

    /// One line for people.
    pub(crate) fn report(&self, what: &str, killed: usize, frozen: usize) {
        let mut broken = BTreeMap::<Rule, usize>::new();
        for violation in &self.violations {
            *broken.entry(violation.rule).or_default() += 1;
        }
        println!(
            "{what}: {:?}; {killed} killed, {frozen} frozen; failures {:?}; violations {broken:?}",
            self.counts, self.failures,
        );
    }
}

/// So many violations are shown.
const SHOWN: usize = 10;

/// What is wrong with one note alone.
fn broken_by(note: &Note) -> Option<Rule> {
    match note {
        Note::Broken { .. } => Some(Rule::Validity),
        Note::Failed { kind, .. } if kind == "WaitExpired" => Some(Rule::Liveness),
        Note::Failed { kind, .. } => {
            // Of a store that is busy or was not reached, and of processes that were frozen.
            let explained = ["Unavailable", "Unknown", "TooLate", "Lost"];
            (!explained.contains(&kind.as_str())).then_some(Rule::Failures)
        }
        _ => None,
    }
}

fn word(note: &Note) -> Option<&'static str> {
    Some(match note {
        Note::Grant(grant) => match grant.way {
            Way::Alone => "alone",
            Way::Shared => "shared",
            Way::Owned(_) => "owned",
            Way::Permits { .. } => "permits",
        },
        Note::Until { .. } => "renewed",
        Note::End { .. } => "ended",
        Note::Left { .. } => "left",
        Note::Step { .. } => "step",
        Note::Open { .. } => "open",
        Note::Party { .. } => "party",
        Note::Pass(_) => "pass",
        Note::Killed { .. } | Note::Closed { .. } | Note::Broken { .. } | Note::Failed { .. } => {
            return None;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(note: Note) -> Vec<Rule> {
        Record::of(&[note]).violations.iter().map(|violation| violation.rule).collect()
    }

    #[test]
    fn a_lease_that_ended_before_its_time_a_wait_in_vain_and_a_strange_failure_are_noticed() {
        let failed = |kind: &str| Note::Failed {
            what: "read".to_owned(),
            kind: kind.to_owned(),
            text: String::new(),
        };
        assert_eq!(rules(failed("Unavailable")), []);
        assert_eq!(rules(failed("WaitExpired")), [Rule::Liveness]);
        assert_eq!(rules(failed("ForeignValue")), [Rule::Failures]);
        let broken = Note::Broken { id: 1, at: 2, until: 3, why: "Taken".to_owned() };
        assert_eq!(rules(broken), [Rule::Validity]);
    }
}
