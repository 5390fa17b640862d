//! Counting: what the answers of the nodes come to, and what is said when they come to nothing.

use std::time::Duration;

use fencelock_store::{Outcome, StoreError, StoreErrorKind};

use crate::{quorum::Quorum, round::Heard};

/// The answers among what was heard, each with its node.
pub(crate) fn answers<A>(heard: &[Option<Heard<A>>]) -> impl Iterator<Item = (usize, &A)> + Clone {
    let each = heard.iter().enumerate();
    each.filter_map(|(node, heard)| Some((node, &heard.as_ref()?.as_ref().ok()?.answer)))
}

/// How many answers are of a kind.
pub(crate) fn count<A>(heard: &[Option<Heard<A>>], kind: impl Fn(&A) -> bool) -> usize {
    answers(heard).filter(|(_, answer)| kind(answer)).count()
}

/// How many nodes answered.
pub(crate) fn answered<A>(heard: &[Option<Heard<A>>]) -> usize {
    answers(heard).count()
}

/// How many nodes failed to answer.
pub(crate) fn failed<A>(heard: &[Option<Heard<A>>]) -> usize {
    heard.iter().flatten().filter(|heard| heard.is_err()).count()
}

/// How long a majority goes on: so many leases end no sooner than this.
pub(crate) fn majority(mut spans: Vec<Duration>, needed: usize) -> Duration {
    spans.sort_unstable_by(|a, b| b.cmp(a));
    spans.get(needed.saturating_sub(1)).or(spans.last()).copied().unwrap_or_default()
}

/// The value that most agree on; of several such, the first.
pub(crate) fn most_common<T: PartialEq>(values: impl Iterator<Item = T>) -> Option<T> {
    // A handful: as many as there are nodes.
    let mut counts: Vec<(usize, T)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(_, known)| *known == value) {
            Some((count, _)) => *count += 1,
            None => counts.push((1, value)),
        }
    }
    let most = counts.iter().map(|(count, _)| *count).max()?;
    counts.into_iter().find(|(count, _)| *count == most).map(|(_, value)| value)
}

/// Too few nodes answered: what each of them said.
pub(crate) fn no_quorum<A>(
    quorum: &Quorum,
    heard: &[Option<Heard<A>>],
    outcome: Outcome,
    say: impl Fn(&A) -> &'static str,
) -> StoreError {
    let mut said = Vec::with_capacity(heard.len());
    for (node, heard) in quorum.nodes.iter().zip(heard) {
        said.push(match heard {
            // Enough others had said what decided it.
            None => format!("{}: not waited for", node.at),
            Some(Ok(reply)) => format!("{}: {}", node.at, say(&reply.answer)),
            Some(Err(error)) => {
                // Some messages begin with the address anyway.
                let text = error.to_string();
                let address = node.at.split(' ').next().unwrap_or_default();
                if text.contains(address) { text } else { format!("{}: {text}", node.at) }
            }
        });
    }
    let (count, needed) = (quorum.nodes.len(), quorum.needed);
    let answered = answered(heard);
    let message =
        format!("{answered} of quorum({count}: {needed} needed) answered: {}", said.join("; "));
    let error = StoreError::new(kind(quorum, heard), outcome, message);
    // As many as are needed are there, if not for this now: the addresses are right.
    if reached(heard) >= needed { error.of_a_part() } else { error }
}

/// How many nodes said something, be it that it is too soon.
fn reached<A>(heard: &[Option<Heard<A>>]) -> usize {
    let is_there = |heard: &&Heard<A>| match heard {
        Ok(_) => true,
        Err(error) => error.is_of_a_part(),
    };
    heard.iter().flatten().filter(is_there).count()
}

/// What keeps the majority away: one and the same cause at enough nodes, or several.
fn kind<A>(quorum: &Quorum, heard: &[Option<Heard<A>>]) -> StoreErrorKind {
    let kinds = heard.iter().flatten().filter_map(|heard| heard.as_ref().err()).map(|e| e.kind());
    let common = most_common(kinds.clone());
    match common {
        None | Some(StoreErrorKind::Unavailable) => StoreErrorKind::NoQuorum,
        Some(kind) if kinds.filter(|other| *other == kind).count() > quorum.spare() => kind,
        Some(_) => StoreErrorKind::NoQuorum,
    }
}

/// Whether a request that too few nodes answered may have been carried out by any.
pub(crate) fn outcome<A>(heard: &[Option<Heard<A>>]) -> Outcome {
    let untouched = |heard: &Option<Heard<A>>| {
        heard.as_ref().is_some_and(|heard| {
            heard.as_ref().is_err_and(|error| error.outcome() == Outcome::NotDone)
        })
    };
    if heard.iter().all(untouched) { Outcome::NotDone } else { Outcome::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_lasts_as_long_as_the_last_that_it_needs() {
        let spans: Vec<_> = [5, 1, 9, 7].map(Duration::from_secs).into();
        assert_eq!(majority(spans.clone(), 1), Duration::from_secs(9));
        assert_eq!(majority(spans.clone(), 3), Duration::from_secs(5));
        assert_eq!(majority(spans, 4), Duration::from_secs(1));
        assert_eq!(majority(Vec::new(), 2), Duration::ZERO);
    }

    #[test]
    fn the_most_common_value_wins_and_of_equals_the_first() {
        assert_eq!(most_common([1, 2, 2].into_iter()), Some(2));
        assert_eq!(most_common([3, 1, 1, 3].into_iter()), Some(3));
        assert_eq!(most_common([0u8; 0].into_iter()), None);
    }
}
