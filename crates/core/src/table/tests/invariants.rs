//! What holds after each step of any sequence of operations.
//!
//! Goal: the invariants of the protocol that concern one store. Method: look at the records before
//! and after each step, and keep a witness of what was ever granted and what had ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use proptest::{prelude::*, test_runner::TestCaseError};

use super::{
    operations::{Answer, NAMES, Step, Verb, cases, steps, story},
    *,
};
use crate::{
    Exchanged, Fence, Forced, Healed, Novelty, Raised, Record, RecordState, Released, Renewed,
    Retain, Shortened,
};

type Checked = Result<(), TestCaseError>;

/// The records that the store has not forgotten.
fn visible(table: &LockTable, now: StoreNow) -> BTreeMap<LockName, Record> {
    NAMES
        .map(name)
        .into_iter()
        .filter_map(|at| {
            let record = table.record(&at).filter(|record| !record.is_forgotten(now))?;
            Some((at, record.clone()))
        })
        .collect()
}

fn live(records: &BTreeMap<LockName, Record>, at: &LockName, now: StoreNow) -> Option<Record> {
    records.get(at).filter(|record| record.is_live(now)).cloned()
}

/// Whether the answer says that nothing was changed.
fn says_unchanged(answer: &Answer) -> bool {
    match answer {
        Answer::Acquired(Acquired::Granted(grant))
        | Answer::Exchanged(Exchanged::Granted(grant)) => grant.novelty == Novelty::Repeated,
        Answer::Renewed(Renewed::Extended { .. })
        | Answer::Shortened(Shortened::Shortened { .. })
        | Answer::Raised(Raised::Raised)
        | Answer::Healed(Healed::Healed)
        | Answer::Forced(Forced::Removed(_))
        | Answer::Released(_)
        | Answer::Tampered => false,
        _ => true,
    }
}

/// What was ever seen.
#[derive(Default)]
struct Witness {
    /// Leases that had ended, were released, or were taken away.
    ended: BTreeSet<(LockName, Token)>,
    /// The highest fencing token that anybody was told to use.
    highest: BTreeMap<LockName, FencingToken>,
    /// Who wrote which fencing token.
    writers: BTreeMap<(LockName, FencingToken), Token>,
}

impl Witness {
    fn handle_time(&mut self, records: &BTreeMap<LockName, Record>, now: StoreNow) {
        for (at, record) in records.iter().filter(|(_, record)| !record.is_live(now)) {
            if let Some(token) = record.token {
                self.ended.insert((at.clone(), token));
            }
        }
    }

    /// A lease that is not live any more after a step has ended for good.
    fn handle_change(
        &mut self,
        before: &BTreeMap<LockName, Record>,
        after: &BTreeMap<LockName, Record>,
        now: StoreNow,
    ) {
        for at in NAMES.map(name) {
            let old = live(before, &at, now).and_then(|record| record.token);
            let new = live(after, &at, now).and_then(|record| record.token);
            if let Some(token) = old.filter(|_| old != new) {
                self.ended.insert((at.clone(), token));
            }
            if let Some(token) = new.filter(|_| old != new) {
                self.ended.remove(&(at, token));
            }
        }
    }

    fn check_fence(&mut self, step: &Step, answer: &Answer) -> Checked {
        let (number, token) = match (answer, &step.verb) {
            (Answer::Acquired(Acquired::Granted(grant)), _) => match (grant.fence, grant.novelty) {
                (Fence::Token(number), Novelty::Fresh) => (number, step.token),
                _ => return Ok(()),
            },
            (Answer::Exchanged(Exchanged::Granted(grant)), Verb::Exchange { to }) => {
                match (grant.fence, grant.novelty) {
                    (Fence::Token(number), Novelty::Fresh) => (number, *to),
                    _ => return Ok(()),
                }
            }
            _ => return Ok(()),
        };
        for at in &step.names {
            let highest = self.highest.get(at).copied();
            prop_assert!(Some(number) > highest, "{number} at {at} is not above {highest:?}");
            self.highest.insert(at.clone(), number);
            let writer = self.writers.insert((at.clone(), number), token);
            prop_assert!(writer.is_none(), "{number} at {at} was granted twice");
        }
        Ok(())
    }

    /// A number that counts as written by a token never counts as written by another.
    fn check_writers(&mut self, records: &BTreeMap<LockName, Record>) -> Checked {
        for (at, record) in records.iter().filter(|(_, record)| record.fence_by_token) {
            let (Some(number), Some(token)) = (record.fencing_token, record.token) else {
                return Err(TestCaseError::fail("nothing was written by nobody"));
            };
            let writer = *self.writers.entry((at.clone(), number)).or_insert(token);
            prop_assert_eq!(writer, token, "two tokens succeeded with {} at {}", number, at);
            let highest = self.highest.entry(at.clone()).or_insert(number);
            *highest = number.max(*highest);
        }
        Ok(())
    }
}

/// Runs a sequence, and checks what holds for each step.
fn run(
    steps: &[Step],
    check: impl Fn(&mut Witness, &Step, &Answer, &Seen<'_>) -> Checked,
) -> Checked {
    let mut table = table();
    let mut witness = Witness::default();
    let mut micros = 1_000_000_000;
    for (index, step) in steps.iter().enumerate() {
        micros += u64::try_from(step.pause.as_micros()).expect("a pause of seconds");
        let now = at(micros);
        let before = visible(&table, now);
        witness.handle_time(&before, now);
        let answer = step.apply(&mut table, now);
        let after = visible(&table, now);
        let seen = Seen { table: &table, before: &before, after: &after, now };
        check(&mut witness, step, &answer, &seen).map_err(|error| {
            TestCaseError::fail(format!("{error}: {answer:?} after {}", story(steps, index)))
        })?;
        witness.handle_change(&before, &after, now);
    }
    Ok(())
}

struct Seen<'a> {
    table: &'a LockTable,
    before: &'a BTreeMap<LockName, Record>,
    after: &'a BTreeMap<LockName, Record>,
    now: StoreNow,
}

fn refusals_change_nothing(step: &Step, answer: &Answer, seen: &Seen<'_>) -> Checked {
    if says_unchanged(answer) {
        prop_assert_eq!(seen.before, seen.after, "refused, and changed all the same");
    }
    for at in NAMES.map(name).iter().filter(|at| !step.touches(at)) {
        prop_assert_eq!(seen.before.get(at), seen.after.get(at), "{} was not asked for", at);
    }
    Ok(())
}

fn only_its_holder_changes_a_live_lease(step: &Step, seen: &Seen<'_>) -> Checked {
    let by_hand = matches!(step.verb, Verb::Force | Verb::Plant | Verb::Delete);
    for at in NAMES.map(name) {
        let Some(lease) = live(seen.before, &at, seen.now) else { continue };
        if lease.token == Some(step.token) || by_hand {
            continue;
        }
        prop_assert_eq!(Some(&lease), seen.after.get(&at), "{} is not the holder", step.token);
    }
    Ok(())
}

fn ends_move_only_as_the_verb_says(step: &Step, seen: &Seen<'_>) -> Checked {
    for at in NAMES.map(name) {
        let Some(old) = live(seen.before, &at, seen.now) else { continue };
        let Some(new) = live(seen.after, &at, seen.now) else { continue };
        match step.verb {
            Verb::Renew | Verb::Exchange { .. } => prop_assert!(new.end >= old.end),
            Verb::Shorten => prop_assert!(new.end <= old.end),
            _ => prop_assert_eq!(new.end, old.end),
        }
    }
    Ok(())
}

fn success_means_all_names(step: &Step, answer: &Answer, seen: &Seen<'_>) -> Checked {
    let holder = match (answer, &step.verb) {
        (Answer::Exchanged(Exchanged::Granted(_)), Verb::Exchange { to }) => *to,
        (Answer::Acquired(Acquired::Granted(_)), _)
        | (Answer::Renewed(Renewed::Extended { .. }), _)
        | (Answer::Shortened(Shortened::Shortened { .. }), _)
        | (Answer::Raised(Raised::Raised), _)
        | (Answer::Healed(Healed::Healed), _) => step.token,
        (Answer::Released(Released::Held), _) => {
            for at in &step.names {
                prop_assert!(live(seen.after, at, seen.now).is_none(), "{} is not free", at);
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    for at in &step.names {
        let lease = live(seen.after, at, seen.now);
        prop_assert_eq!(lease.and_then(|record| record.token), Some(holder), "at {}", at);
    }
    Ok(())
}

fn nothing_comes_back(witness: &Witness, step: &Step, answer: &Answer, seen: &Seen<'_>) -> Checked {
    let ended = |at: &LockName| witness.ended.contains(&(at.clone(), step.token));
    match answer {
        Answer::Renewed(Renewed::Extended { .. })
        | Answer::Shortened(Shortened::Shortened { .. })
        | Answer::Raised(Raised::Raised)
        | Answer::Exchanged(Exchanged::Granted(Grant { novelty: Novelty::Fresh, .. })) => {
            for at in &step.names {
                prop_assert!(!ended(at), "{} had ended at {}", step.token, at);
            }
        }
        Answer::Acquired(Acquired::Granted(Grant { novelty: Novelty::Fresh, .. })) => {
            for at in &step.names {
                let remembered = seen.before.get(at).and_then(|record| record.token);
                prop_assert_ne!(remembered, Some(step.token), "a retired token at {}", at);
            }
        }
        Answer::Healed(Healed::Healed) => {
            for at in &step.names {
                let released = seen.before.get(at).is_some_and(|record| {
                    record.state == RecordState::Free && record.token == Some(step.token)
                });
                prop_assert!(!released, "a released token was healed at {}", at);
            }
        }
        _ => {}
    }
    Ok(())
}

/// The same request again, a moment later: the same answer, and nothing changes.
fn copies_are_harmless(step: &Step, answer: &Answer, seen: &Seen<'_>) -> Checked {
    const MOMENT: Duration = Duration::from_micros(3);
    let later = StoreNow::same(seen.now.lease.saturating_add(MOMENT));
    let mut table = seen.table.clone();
    let before = visible(&table, later);
    if before.len() < seen.after.len() {
        // Something was forgotten in between: then the deadline of a request is what counts.
        return Ok(());
    }
    let again = step.apply(&mut table, later);
    match (answer, &again) {
        (
            Answer::Acquired(Acquired::Granted(first)),
            Answer::Acquired(Acquired::Granted(second)),
        )
        | (
            Answer::Exchanged(Exchanged::Granted(first)),
            Answer::Exchanged(Exchanged::Granted(second)),
        ) => {
            prop_assert_eq!(first.fence, second.fence);
            prop_assert_eq!(second.novelty, Novelty::Repeated);
            prop_assert_eq!(first.remaining - second.remaining, MOMENT);
        }
        (
            Answer::Acquired(Acquired::Granted(first))
            | Answer::Exchanged(Exchanged::Granted(first)),
            _,
        ) => {
            prop_assert!(first.remaining <= MOMENT, "a copy was answered {:?}", again);
        }
        (Answer::Released(first), Answer::Released(second)) => prop_assert_eq!(first, second),
        (Answer::Healed(Healed::Healed), second) => {
            prop_assert_eq!(answer, second);
            return Ok(());
        }
        // The numbers of a raise move with the clock of the test, so that one is no copy.
        _ => return Ok(()),
    }
    prop_assert_eq!(before, visible(&table, later), "a copy changed something");
    Ok(())
}

/// What the protocol asks of whoever proposes numbers: none below the clock, once records may have
/// been forgotten.
fn proposals_follow_the_clock(mut steps: Vec<Step>) -> Vec<Step> {
    for step in &mut steps {
        match &mut step.verb {
            Verb::Acquire { proposed, .. } => *proposed = None,
            Verb::Raise(offset) => *offset = (*offset).max(0),
            Verb::Heal(offset) => *offset = None,
            _ => {}
        }
    }
    steps
}

fn records_are_kept(mut steps: Vec<Step>) -> Vec<Step> {
    for step in &mut steps {
        step.retain = Retain::MAX;
    }
    steps
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_is_refused_changes_nothing(steps in steps(true)) {
        run(&steps, |_, step, answer, seen| refusals_change_nothing(step, answer, seen))?;
    }

    #[test]
    fn a_live_lease_is_changed_by_its_own_token_only(steps in steps(true)) {
        run(&steps, |_, step, _, seen| {
            only_its_holder_changes_a_live_lease(step, seen)?;
            ends_move_only_as_the_verb_says(step, seen)
        })?;
    }

    #[test]
    fn success_is_on_all_names(steps in steps(true)) {
        run(&steps, |_, step, answer, seen| success_means_all_names(step, answer, seen))?;
    }

    #[test]
    fn no_ended_or_released_lease_comes_back(steps in steps(true)) {
        run(&steps, nothing_comes_back_with)?;
    }

    #[test]
    fn a_request_that_is_sent_again_is_harmless(steps in steps(true)) {
        run(&steps, |_, step, answer, seen| copies_are_harmless(step, answer, seen))?;
    }

    #[test]
    fn fencing_tokens_grow_and_are_unique(steps in steps(false).prop_map(records_are_kept)) {
        run(&steps, |witness, step, answer, seen| {
            witness.check_fence(step, answer)?;
            witness.check_writers(seen.after)
        })?;
    }

    #[test]
    fn fencing_tokens_grow_though_records_are_forgotten(
        steps in steps(false).prop_map(proposals_follow_the_clock)
    ) {
        run(&steps, |witness, step, answer, seen| {
            witness.check_fence(step, answer)?;
            witness.check_writers(seen.after)
        })?;
    }
}

fn nothing_comes_back_with(
    witness: &mut Witness,
    step: &Step,
    answer: &Answer,
    seen: &Seen<'_>,
) -> Checked {
    nothing_comes_back(witness, step, answer, seen)
}
