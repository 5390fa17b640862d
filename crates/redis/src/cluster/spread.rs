//! Questions about many names of a cluster: one for each slot, several at a time, and the answers
//! in the order of the names.

use std::collections::BTreeMap;

use fencelock_store::{Reply, StoreError, StoreResult};
use futures_util::{StreamExt, stream};

/// How many questions are under way at a time: enough to fill the connections of a small cluster,
/// few enough to leave room for others.
const AT_ONCE: usize = 64;

/// Things by the slot that they are in: for each slot their indices, in order.
pub(crate) fn by_slot(slots: impl Iterator<Item = u16>) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (index, slot) in slots.enumerate() {
        groups.entry(slot).or_default().push(index);
    }
    groups.into_values().collect()
}

/// Asks for each group, and puts the answers where they belong.
///
/// `missing` stands in for what a failed group did not answer; without it the first failure ends
/// all. Where every group has failed, the result is the first failure.
pub(crate) async fn gather<A: Clone, F>(
    groups: &[Vec<usize>],
    missing: Option<&A>,
    ask: impl Fn(usize) -> F,
) -> StoreResult<Vec<A>>
where
    F: Future<Output = StoreResult<Vec<A>>>,
{
    let count = groups.iter().map(Vec::len).sum();
    let mut answers: Vec<Option<A>> = vec![None; count];
    let mut last: Option<Reply<()>> = None;
    let mut failed: Option<StoreError> = None;
    let mut asked = stream::iter((0..groups.len()).map(&ask)).buffered(AT_ONCE);
    let mut number = 0;
    while let Some(result) = asked.next().await {
        let group = &groups[number];
        number += 1;
        match result {
            Ok(reply) => {
                for (index, answer) in group.iter().zip(reply.answer) {
                    answers[*index] = Some(answer);
                }
                let mut seen = Reply::new(()).of(reply.incarnation);
                seen.at = reply.at;
                last = Some(seen);
            }
            Err(error) if missing.is_none() => return Err(error),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let Some(last) = last else {
        return match failed {
            Some(error) => Err(error),
            None => Ok(Reply::new(Vec::new())),
        };
    };
    let filled: Option<Vec<A>> =
        answers.into_iter().map(|answer| answer.or_else(|| missing.cloned())).collect();
    match filled {
        Some(answers) => Ok(last.map(|()| answers)),
        None => Err(StoreError::unknown("a server answered for fewer names than it was asked")),
    }
}

#[cfg(test)]
mod tests {
    use fencelock_store::rt;

    use super::*;

    #[test]
    fn names_are_grouped_by_slot_in_their_order() {
        assert_eq!(by_slot([7, 3, 7, 9, 3].into_iter()), [vec![1, 4], vec![0, 2], vec![3]]);
        assert!(by_slot(std::iter::empty()).is_empty());
    }

    #[test]
    fn answers_come_back_in_order_and_a_failed_group_spoils_no_other() {
        let groups = [vec![1, 3], vec![0], vec![2]];
        let ask = |number: usize| async move {
            match number {
                1 => Err(StoreError::unavailable("it is down")),
                number => Ok(Reply::new(vec![number * 10, number * 10 + 1])),
            }
        };
        let reply = rt::block_on(gather(&groups, Some(&99), ask)).expect("some answered");
        assert_eq!(reply.answer, [99, 0, 20, 1]);
        assert!(rt::block_on(gather(&groups, None, ask)).is_err(), "nothing stands in");
        assert!(rt::block_on(gather(&groups[1..2], Some(&9), |_| ask(1))).is_err(), "all failed");
    }
}
