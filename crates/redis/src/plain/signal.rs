//! The lists by which python-redis-lock wakes who waits: keys behind those of the locks, written by
//! the scripts that delete a lock, in the same step.

use std::sync::LazyLock;

use fencelock_core::LockName;

use super::Format;
use crate::{
    script::{Question, Script},
    wire::Wire,
};

/// A call of a script with these names as its keys; where the format has signals it is the second
/// script, with their lists behind the names.
pub(super) fn signalled(
    format: &Format,
    wire: &Wire,
    (script, signals): (&'static LazyLock<Script>, &'static LazyLock<Script>),
    names: &[LockName],
) -> Question {
    let Some(signal) = format.signal else { return wire.script_on(script, names.iter(), 2, 64) };
    let mut question = Question::script(signals, 2 * names.len(), (2 * names.len(), 128));
    for name in names {
        question.arg(&wire.key(name));
    }
    for name in names {
        question.arg(&[signal.as_bytes(), name.as_bytes()].concat());
    }
    question
}
