//! Latches and barriers: who came, and who went on.
//!
//! What counts as having come is noted before it is asked for, so that one who was killed in between
//! counts, too; who went on notes it afterwards. So whatever is found here did happen.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    notes::{Note, Pass},
    violation::{Rule, Violation},
};

/// What is wrong with the latches and barriers of all notes.
pub(crate) fn check(notes: &[Note]) -> Vec<Violation> {
    let mut found = latches(notes);
    found.extend(barriers(notes));
    found
}

fn latches(notes: &[Note]) -> Vec<Violation> {
    let mut steps = BTreeMap::<&str, Vec<(u64, u64)>>::new();
    for note in notes {
        if let Note::Step { latch, step, at } = note {
            steps.entry(latch).or_default().push((*step, *at));
        }
    }
    let mut found = Vec::new();
    for note in notes {
        let Note::Open { latch, count, at } = note else { continue };
        let steps = steps.get(latch.as_str()).into_iter().flatten();
        // The same step may be taken by several.
        let taken: BTreeSet<_> =
            steps.filter(|(_, asked)| asked <= at).map(|(step, _)| step).collect();
        if taken.len() < *count {
            let what = format!("{note:?} after {} steps", taken.len());
            found.push(Violation::new(Rule::Latch, what));
        }
    }
    found
}

fn barriers(notes: &[Note]) -> Vec<Violation> {
    let mut parties = BTreeMap::<&str, Vec<u64>>::new();
    for note in notes {
        if let Note::Party { barrier, at, .. } = note {
            parties.entry(barrier).or_default().push(*at);
        }
    }
    let mut meetings = BTreeMap::<(&str, u64), Vec<&Pass>>::new();
    let mut found = Vec::new();
    for note in notes {
        let Note::Pass(pass) = note else { continue };
        let came = parties.get(pass.barrier.as_str()).into_iter().flatten();
        let came = came.filter(|&&asked| asked <= pass.at).count();
        if came < pass.parties {
            found.push(Violation::new(Rule::Barrier, format!("{pass:?} after {came} came")));
        }
        meetings.entry((&pass.barrier, pass.number)).or_default().push(pass);
    }
    for meeting in meetings.values() {
        let leaders = meeting.iter().filter(|pass| pass.leads).count();
        if meeting.len() > meeting[0].parties || leaders > 1 {
            found.push(Violation::new(Rule::Barrier, format!("one meeting: {meeting:?}")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(notes: &[Note]) -> Vec<Rule> {
        check(notes).iter().map(|violation| violation.rule).collect()
    }

    fn step(step: u64, at: u64) -> Note {
        Note::Step { latch: "l".to_owned(), step, at }
    }

    fn open(at: u64) -> Note {
        Note::Open { latch: "l".to_owned(), count: 2, at }
    }

    fn party(id: u64, at: u64) -> Note {
        Note::Party { barrier: "b".to_owned(), id, at }
    }

    fn pass(number: u64, leads: bool, at: u64) -> Note {
        Note::Pass(Pass { barrier: "b".to_owned(), parties: 2, number, leads, at })
    }

    #[test]
    fn a_latch_is_open_once_all_steps_were_asked_for() {
        assert_eq!(rules(&[step(1, 1), step(2, 5), open(5)]), []);
        assert_eq!(rules(&[step(1, 1), step(2, 6), open(5)]), [Rule::Latch]);
        assert_eq!(rules(&[step(1, 1), step(1, 2), open(5)]), [Rule::Latch]);
        assert_eq!(rules(&[open(5)]), [Rule::Latch]);
    }

    #[test]
    fn a_barrier_is_passed_once_all_parties_came() {
        assert_eq!(rules(&[party(1, 1), party(2, 5), pass(7, false, 5), pass(7, true, 6)]), []);
        assert_eq!(rules(&[party(1, 1), party(2, 6), pass(7, false, 5)]), [Rule::Barrier]);
    }

    #[test]
    fn a_meeting_has_so_many_parties_and_one_leader() {
        let came = [party(1, 1), party(2, 1), party(3, 1), party(4, 1)];
        let with = |passes: &[Note]| rules(&[&came[..], passes].concat());
        let [plain, leader] = [pass(7, false, 5), pass(7, true, 5)];
        assert_eq!(with(&[plain.clone(), leader.clone(), pass(8, true, 6)]), []);
        assert_eq!(with(&[leader.clone(), leader.clone()]), [Rule::Barrier]);
        assert_eq!(with(&[plain.clone(), plain, leader]), [Rule::Barrier]);
    }
}
