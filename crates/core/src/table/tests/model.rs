//! A naive model: it keeps the leases that were ever granted at each name, and answers from the
//! last of them. It has no records, no states and no memory that ends.

use std::{collections::BTreeMap, string::String, vec::Vec};

use proptest::prelude::*;

use super::{
    operations::{Answer, Step, Verb, cases, steps, story},
    *,
};
use crate::{
    Exchanged, Forced, Healed, NotHeld, Novelty, Raised, Refusal, Released, Renewed, Retain,
    Shortened,
};

/// A lease that was granted at some time.
struct Past {
    token: Token,
    end: u64,
    released: bool,
}

#[derive(Default)]
struct History {
    leases: BTreeMap<LockName, Vec<Past>>,
    now: u64,
}

impl History {
    fn last(&self, at: &LockName) -> Option<&Past> {
        self.leases.get(at)?.last()
    }

    fn live(&self, at: &LockName) -> Option<&Past> {
        self.last(at).filter(|past| !past.released && past.end > self.now)
    }

    fn all_live_for(&self, names: &Names, token: Token) -> bool {
        names.iter().all(|at| self.live(at).is_some_and(|past| past.token == token))
    }

    fn any_known(&self, names: &Names, token: Token) -> bool {
        names.iter().any(|at| self.last(at).is_some_and(|past| past.token == token))
    }

    fn why_not(&self, names: &Names, token: Token) -> Option<NotHeld> {
        let missing = |at: &&LockName| self.live(at).is_none_or(|past| past.token != token);
        names.iter().find(missing).map(|at| match self.last(at) {
            None => NotHeld::Absent,
            Some(past) if past.token != token => NotHeld::Taken,
            Some(past) if past.released => NotHeld::Released,
            Some(_) => NotHeld::Expired,
        })
    }

    fn grant(&mut self, names: &Names, token: Token, span: Duration) {
        let end = self.after(span);
        for at in names {
            let past = Past { token, end, released: false };
            self.leases.entry(at.clone()).or_default().push(past);
        }
    }

    fn after(&self, span: Duration) -> u64 {
        self.now + u64::try_from(span.as_micros()).expect("a short ttl")
    }

    fn each_last(&mut self, names: &Names, change: impl Fn(&mut Past)) {
        for at in names {
            if let Some(past) = self.leases.get_mut(at).and_then(|list| list.last_mut()) {
                change(past);
            }
        }
    }

    /// What the table must say, without the numbers; and what happens.
    fn apply(&mut self, step: &Step, now: StoreNow) -> Option<String> {
        self.now = now.lease.as_micros();
        let (names, token, span) = (&step.names, step.token, step.ttl.as_duration());
        let too_far = |offset: &Option<i64>| offset.is_some_and(|offset| offset > 10_000_000);
        Some(match &step.verb {
            Verb::Acquire { floor, proposed, deadline } => {
                let late = deadline.is_some_and(|offset| offset < 0);
                if self.all_live_for(names, token) {
                    "again".into()
                } else if self.any_known(names, token) {
                    format!("{:?}", Refusal::TokenRetired)
                } else if late {
                    format!("{:?}", Refusal::DeadlinePassed)
                } else if let Some(at) = names.iter().find(|at| self.live(at).is_some()) {
                    format!("busy {at}")
                } else if too_far(floor) || too_far(proposed) {
                    format!("{:?}", Refusal::FenceAhead)
                } else {
                    self.grant(names, token, span);
                    "granted".into()
                }
            }
            Verb::Renew => self.moved(names, token, span, u64::max),
            Verb::Shorten => self.moved(names, token, span, u64::min),
            Verb::Release => self.release(names, token),
            Verb::Exchange { to } => {
                if self.all_live_for(names, *to) {
                    return Some("again".into());
                }
                if self.any_known(names, *to) {
                    return Some(format!("{:?}", Refusal::TokenRetired));
                }
                if let Some(why) = self.why_not(names, token) {
                    return Some(format!("{why:?}"));
                }
                let end = self.after(span);
                for at in names {
                    let list = self.leases.get_mut(at).expect("it is live");
                    let end = list.last().map_or(end, |past| past.end.max(end));
                    list.push(Past { token: *to, end, released: false });
                }
                "granted".into()
            }
            Verb::Force => {
                let at = names.first();
                if self.live(at).is_none() {
                    return Some("free".into());
                }
                let now = self.now;
                self.each_last(&Names::one(at.clone()), |past| past.end = now);
                "removed".into()
            }
            Verb::Heal(offset) => {
                let released = |at: &LockName| {
                    self.last(at).is_some_and(|past| past.released && past.token == token)
                };
                let others = |at: &&LockName| self.live(at).is_some_and(|past| past.token != token);
                if names.iter().any(released) {
                    format!("{:?}", Refusal::TokenRetired)
                } else if let Some(at) = names.iter().find(others) {
                    format!("busy {at}")
                } else if too_far(offset) {
                    format!("{:?}", Refusal::FenceAhead)
                } else {
                    for at in names {
                        if self.live(at).is_none() {
                            self.grant(&Names::one(at.clone()), token, span);
                        }
                    }
                    "healed".into()
                }
            }
            // Numbers are the matter of the invariants.
            Verb::Raise(_) => return self.why_not(names, token).map(|why| format!("{why:?}")),
            Verb::Plant | Verb::Delete => return None,
        })
    }

    fn moved(
        &mut self,
        names: &Names,
        token: Token,
        span: Duration,
        pick: impl Fn(u64, u64) -> u64,
    ) -> String {
        if let Some(why) = self.why_not(names, token) {
            return format!("{why:?}");
        }
        let end = self.after(span);
        self.each_last(names, |past| past.end = pick(past.end, end));
        let left = |at| self.last(at).map_or(0, |past| past.end - self.now);
        // Of several names, the least that a renewal leaves and the most that a shorten leaves.
        let least = names.iter().map(left).min().unwrap_or(0);
        let most = names.iter().map(left).max().unwrap_or(0);
        let remaining = if pick(0, 1) == 1 { least } else { most };
        format!("{remaining} us")
    }

    fn release(&mut self, names: &Names, token: Token) -> String {
        let mut worst = 0;
        for at in names {
            let answer = match self.last(at) {
                None => 1,
                Some(past) if past.token != token => 2,
                Some(past) if past.released || past.end > self.now => 0,
                Some(_) => 1,
            };
            worst = worst.max(answer);
            if self.live(at).is_some_and(|past| past.token == token) {
                self.each_last(&Names::one(at.clone()), |past| past.released = true);
            }
        }
        ["held", "expired", "taken"][worst].into()
    }
}

/// The table's answer in the words of the model.
fn in_words(answer: &Answer) -> Option<String> {
    let grant = |grant: &Grant| match grant.novelty {
        Novelty::Fresh => "granted",
        Novelty::Repeated => "again",
    };
    Some(match answer {
        Answer::Acquired(Acquired::Granted(given))
        | Answer::Exchanged(Exchanged::Granted(given)) => grant(given).into(),
        Answer::Acquired(Acquired::Busy(busy)) | Answer::Healed(Healed::Busy(busy)) => {
            format!("busy {}", busy.name)
        }
        Answer::Acquired(Acquired::Refused(why))
        | Answer::Exchanged(Exchanged::Refused(why))
        | Answer::Healed(Healed::Refused(why)) => format!("{why:?}"),
        Answer::Renewed(Renewed::NotHeld(why))
        | Answer::Shortened(Shortened::NotHeld(why))
        | Answer::Exchanged(Exchanged::NotHeld(why))
        | Answer::Raised(Raised::NotHeld(why)) => format!("{why:?}"),
        Answer::Renewed(Renewed::Extended { remaining, .. })
        | Answer::Shortened(Shortened::Shortened { remaining }) => {
            format!("{} us", remaining.as_micros())
        }
        Answer::Released(released) => match released {
            Released::Withdrawn => "withdrawn".into(),
            Released::Held => "held".into(),
            Released::Expired => "expired".into(),
            Released::Taken => "taken".into(),
        },
        Answer::Healed(Healed::Healed) => "healed".into(),
        Answer::Forced(Forced::Removed(_)) => "removed".into(),
        Answer::Forced(Forced::WasFree) => "free".into(),
        Answer::Raised(_) => return None,
        other => format!("{other:?}"),
    })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn the_table_answers_as_the_history_of_leases_says(mut steps in steps(false)) {
        let (mut table, mut history) = (table(), History::default());
        let mut micros = 1_000_000_000;
        for index in 0..steps.len() {
            steps[index].retain = Retain::MAX;
            let step = &steps[index];
            micros += u64::try_from(step.pause.as_micros()).expect("a pause of seconds");
            let expected = history.apply(step, at(micros));
            let answer = step.apply(&mut table, at(micros));
            prop_assert_eq!(
                in_words(&answer), expected, "{} after {}",
                describe(index, &answer), story(&steps, index)
            );
        }
    }
}
