//! Who held what, and what must never have been.
//!
//! ```text
//!   a writer     |----- asked ..... from =====================| end
//!   a reader                              from ====| end         beside it: a violation
//! ```
//! A hold counts from the return of its acquire until it was given back or its validity ended,
//! whichever came first: less than what it really had, never more. So whatever is found here did
//! happen, on a starved machine, too.

use std::collections::BTreeMap;

use crate::{
    notes::{Grant, Note, Way, worker_of},
    violation::{Rule, Violation},
};

/// A hold that is over.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) grant: Grant,
    /// Until when it counts.
    pub(crate) until: u64,
}

/// What became of a grant so far.
struct Course {
    grant: Grant,
    end: Option<(u64, bool)>,
    left: bool,
}

/// When processes came to their end.
#[derive(Default)]
struct Ends {
    killed: BTreeMap<u64, u64>,
    closed: BTreeMap<u64, u64>,
}

impl Course {
    fn hold(self, ends: &Ends) -> Hold {
        let (deadline, worker) = (self.grant.until, worker_of(self.grant.id));
        let until = match self.end {
            Some((at, true)) => at,
            Some((at, false)) => at.min(deadline),
            None if self.left => deadline,
            None => {
                let killed = ends.killed.get(&worker).filter(|_| self.grant.bound);
                let ended = killed.or(ends.closed.get(&worker));
                ended.map_or(deadline, |&at| at.min(deadline))
            }
        };
        Hold { grant: self.grant, until }
    }
}

/// The holds of all notes, by name.
pub(crate) fn by_name(notes: &[Note]) -> BTreeMap<String, Vec<Hold>> {
    let mut courses = BTreeMap::<u64, Vec<Course>>::new();
    let mut ends = Ends::default();
    for note in notes {
        match note {
            Note::Grant(grant) => {
                let course = Course { grant: grant.clone(), end: None, left: false };
                courses.entry(grant.id).or_default().push(course);
            }
            Note::Until { id, until } => {
                for course in courses.entry(*id).or_default() {
                    course.grant.until = course.grant.until.max(*until);
                }
            }
            Note::End { id, at, valid } => {
                for course in courses.entry(*id).or_default() {
                    course.end = Some((*at, *valid));
                }
            }
            Note::Left { id } => {
                for course in courses.entry(*id).or_default() {
                    course.left = true;
                }
            }
            Note::Killed { worker, at } => {
                ends.killed.insert(*worker, *at);
            }
            Note::Closed { worker, at } => {
                ends.closed.insert(*worker, *at);
            }
            _ => {}
        }
    }
    let mut holds = BTreeMap::<String, Vec<Hold>>::new();
    for course in courses.into_values().flatten() {
        holds.entry(course.grant.name.clone()).or_default().push(course.hold(&ends));
    }
    holds
}

/// What is wrong with the holds of one name.
pub(crate) fn check(holds: &[Hold]) -> Vec<Violation> {
    let mut found = overlaps(holds);
    found.extend(steps_back(holds));
    found.extend(different_numbers(holds));
    found
}

/// Those who held it beside each other, and could not.
fn overlaps(holds: &[Hold]) -> Vec<Violation> {
    let mut found = Vec::new();
    walk(holds, |newcomer, there| {
        let mut used = 0_u32;
        for other in there {
            let rule = match (newcomer.grant.way, other.grant.way) {
                (Way::Shared, Way::Shared) => continue,
                (Way::Owned(one), Way::Owned(other)) if one == other => continue,
                (Way::Owned(_), Way::Owned(_)) => Rule::Owners,
                (Way::Permits { .. }, Way::Permits { permits, .. }) => {
                    used += permits;
                    continue;
                }
                _ => Rule::Alone,
            };
            found.push(Violation::new(rule, format!("{newcomer:?} beside {other:?}")));
        }
        if let Way::Permits { permits, limit } = newcomer.grant.way
            && used + permits > limit
        {
            found.push(Violation::new(Rule::Permits, format!("{newcomer:?} beside {there:?}")));
        }
    });
    found
}

/// Calls `look` at each start, with those who hold it then.
fn walk<'h>(holds: &'h [Hold], mut look: impl FnMut(&'h Hold, &[&'h Hold])) {
    let mut starts: Vec<_> = holds.iter().filter(|hold| hold.grant.from < hold.until).collect();
    starts.sort_by_key(|hold| hold.grant.from);
    let mut there: Vec<&Hold> = Vec::new();
    for hold in starts {
        // An end at the same instant came before.
        there.retain(|other| other.until > hold.grant.from);
        look(hold, &there);
        there.push(hold);
    }
}

/// Those who asked after a grant was known, and got no larger number. Holds of one owner may have
/// the same.
fn steps_back(holds: &[Hold]) -> Vec<Violation> {
    let told = || holds.iter().filter(|hold| hold.grant.number > 0);
    let mut asked: Vec<_> = told().collect();
    asked.sort_by_key(|hold| hold.grant.asked);
    let mut known: Vec<_> = told().collect();
    known.sort_by_key(|hold| hold.grant.from);
    let mut known = known.into_iter().peekable();
    // The largest number so far, of each owner and of all others.
    let mut largest = BTreeMap::<Option<u8>, &Hold>::new();
    let mut found = Vec::new();
    for hold in asked {
        while let Some(before) = known.next_if(|before| before.grant.from <= hold.grant.asked) {
            let best = largest.entry(owner(before)).or_insert(before);
            if before.grant.number > best.grant.number {
                *best = before;
            }
        }
        for (whose, before) in &largest {
            let may_be_same = whose.is_some() && *whose == owner(hold);
            let (earlier, later) = (before.grant.number, hold.grant.number);
            if later < earlier || later == earlier && !may_be_same {
                let what = format!("{hold:?} came after {before:?}");
                found.push(Violation::new(Rule::Numbers, what));
            }
        }
    }
    found
}

/// Holds of one owner at the same time that have not the same number.
fn different_numbers(holds: &[Hold]) -> Vec<Violation> {
    let mut found = Vec::new();
    walk(holds, |newcomer, there| {
        let same_owner =
            |other: &&&Hold| owner(newcomer).is_some() && owner(newcomer) == owner(other);
        for other in there.iter().filter(same_owner) {
            if other.grant.number != newcomer.grant.number {
                let what = format!("{newcomer:?} beside {other:?}");
                found.push(Violation::new(Rule::OneWriter, what));
            }
        }
    });
    found
}

fn owner(hold: &Hold) -> Option<u8> {
    match hold.grant.way {
        Way::Owned(owner) => Some(owner),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notes::first_id;

    const PERMITS: Way = Way::Permits { permits: 2, limit: 3 };

    fn grant(worker: u64, way: Way, number: u64, from: u64, until: u64) -> Grant {
        let (id, name) = (first_id(worker, 0) + number, "k".to_owned());
        Grant { id, name, way, number, asked: from - 1, from, until, bound: false }
    }

    fn rules(notes: &[Note]) -> Vec<Rule> {
        let found: Vec<_> = by_name(notes).values().flat_map(|holds| check(holds)).collect();
        found.iter().map(|violation| violation.rule).collect()
    }

    fn two(one: Way, other: Way) -> Vec<Rule> {
        rules(&[Note::Grant(grant(1, one, 1, 10, 20)), Note::Grant(grant(2, other, 2, 19, 30))])
    }

    #[test]
    fn those_who_fit_hold_it_together_and_others_one_after_the_other() {
        assert_eq!(two(Way::Shared, Way::Shared), []);
        let one = Way::Permits { permits: 1, limit: 3 };
        assert_eq!(two(one, PERMITS), []);
        let after = [
            Note::Grant(grant(1, Way::Alone, 1, 10, 20)),
            Note::Grant(grant(2, Way::Owned(1), 2, 20, 30)),
            Note::Grant(grant(3, Way::Owned(2), 3, 30, 40)),
        ];
        assert_eq!(rules(&after), []);
    }

    #[test]
    fn nobody_is_beside_one_who_holds_it_alone() {
        for way in [Way::Alone, Way::Shared, Way::Owned(1)] {
            assert_eq!(two(Way::Alone, way), [Rule::Alone]);
        }
        assert_eq!(two(Way::Shared, Way::Alone), [Rule::Alone]);
        assert_eq!(two(Way::Shared, Way::Owned(1)), [Rule::Alone]);
    }

    #[test]
    fn owners_are_not_beside_each_other_and_the_holds_of_one_have_one_number() {
        assert_eq!(two(Way::Owned(1), Way::Owned(2)), [Rule::Owners]);
        assert_eq!(two(Way::Owned(1), Way::Owned(1)), [Rule::OneWriter]);
        let mut again = grant(2, Way::Owned(1), 1, 15, 30);
        again.asked = 14;
        assert_eq!(
            rules(&[Note::Grant(grant(1, Way::Owned(1), 1, 10, 20)), Note::Grant(again)]),
            []
        );
    }

    #[test]
    fn permits_are_at_most_the_limit_at_each_instant() {
        assert_eq!(two(PERMITS, PERMITS), [Rule::Permits]);
        let ended = Note::End { id: first_id(1, 0) + 1, at: 19, valid: true };
        let notes = [
            Note::Grant(grant(1, PERMITS, 1, 10, 20)),
            ended,
            Note::Grant(grant(2, PERMITS, 2, 19, 30)),
        ];
        assert_eq!(rules(&notes), []);
    }

    #[test]
    fn who_asked_after_a_grant_has_the_larger_number() {
        for number in [6, 7] {
            let notes = [
                Note::Grant(grant(1, Way::Alone, 7, 10, 20)),
                Note::Grant(grant(2, Way::Shared, number, 30, 40)),
            ];
            assert_eq!(rules(&notes), [Rule::Numbers]);
        }
        // It was asked for before the other one was known to be granted.
        let mut early = grant(2, Way::Shared, 6, 30, 40);
        early.asked = 9;
        let notes = [Note::Grant(grant(1, Way::Alone, 7, 10, 20)), Note::Grant(early)];
        assert_eq!(rules(&notes), []);
    }

    #[test]
    fn another_owner_and_another_one_alone_have_no_number_twice() {
        for way in [Way::Owned(2), Way::Alone] {
            let notes = [
                Note::Grant(grant(1, Way::Owned(1), 7, 10, 20)),
                Note::Grant(grant(2, way, 7, 30, 40)),
            ];
            assert_eq!(rules(&notes), [Rule::Numbers]);
        }
    }

    #[test]
    fn a_hold_lasts_as_long_as_it_is_valid_and_not_given_back() {
        let id = first_id(1, 0) + 1;
        let until = |notes: &[Note], bound: bool| {
            let mut first = grant(1, Way::Alone, 1, 10, 20);
            first.bound = bound;
            let mut all = vec![Note::Grant(first)];
            all.extend_from_slice(notes);
            by_name(&all)["k"][0].until
        };
        let killed = Note::Killed { worker: 1, at: 15 };
        let renewed = Note::Until { id, until: 40 };
        assert_eq!(until(&[], false), 20);
        assert_eq!(until(std::slice::from_ref(&renewed), false), 40);
        assert_eq!(until(&[renewed.clone(), Note::End { id, at: 30, valid: true }], false), 30);
        // The deadline that it had at the end was not noted.
        assert_eq!(until(&[Note::End { id, at: 30, valid: true }], false), 30);
        assert_eq!(until(&[Note::End { id, at: 30, valid: false }], false), 20);
        assert_eq!(until(std::slice::from_ref(&killed), false), 20);
        assert_eq!(until(std::slice::from_ref(&killed), true), 15);
        assert_eq!(until(&[Note::Closed { worker: 1, at: 16 }], false), 16);
        assert_eq!(until(&[Note::Closed { worker: 2, at: 16 }], false), 20);
        assert_eq!(until(&[Note::Left { id }, killed], true), 20);
    }
}
