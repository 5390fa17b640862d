//! How libraries wake who waits: written or published by the scripts that delete a lock, in the same
//! step.

use std::sync::LazyLock;

use fencelock_core::{LockName, Names, Token};

use super::{Format, formats::PYTHON_REDIS_LOCK};
use crate::{
    cluster::slot_of,
    hearing::{ByKey, Told},
    keys::KeyMapping,
    script::{Question, Script},
    wire::Wire,
};

/// What a release does besides deleting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Nothing: who waits asks again and again.
    Nothing,
    /// A list with one element for a second, whose key is this and the name: python-redis-lock.
    List(&'static str),
    /// The key, on both channels of its registry: Spring. The prefix of the keys is the registry key
    /// and a colon.
    Channels,
}

impl Wake {
    /// Whether a name and what wakes its waiters are in different slots of a cluster.
    pub(super) fn is_apart(self, wire: &Wire, names: &Names) -> bool {
        let Self::List(list) = self else { return false };
        let signal = |name: &LockName| slot_of(&list_of(list, name));
        names.iter().any(|name| wire.slot(name).is_some_and(|slot| slot != signal(name)))
    }
}

/// The forms of a script that deletes, one for each way to wake.
pub(super) struct Deleting {
    pub(super) alone: &'static LazyLock<Script>,
    pub(super) signals: &'static LazyLock<Script>,
    pub(super) publishes: &'static LazyLock<Script>,
}

impl Deleting {
    /// A call of the form for this format, with the keys of these names and then the arguments of the
    /// script.
    pub(super) fn question(
        &self,
        format: &Format,
        wire: &Wire,
        names: &[LockName],
        arguments: &[&[u8]],
    ) -> Question {
        let mut question = match format.wake {
            Wake::Nothing => wire.script_on(self.alone, names.iter(), 2, 64),
            Wake::Channels => wire.script_on(self.publishes, names.iter(), 3, 192),
            Wake::List(list) => {
                let count = 2 * names.len();
                let mut question = Question::script(self.signals, count, (count, 128));
                for name in names {
                    question.arg(&wire.key(name));
                    if let Some(slot) = wire.slot(name) {
                        question.route.with(&names[0], name, slot);
                    }
                }
                for name in names {
                    question.arg(&list_of(list, name));
                }
                question
            }
        };
        for argument in arguments {
            question.arg(argument);
        }
        if format.wake == Wake::Channels {
            question.arg(registry(&wire.keys));
        }
        question
    }
}

/// The channels on which Spring's registries say that a name is free: of the newer generation one for
/// each lock, of the older one for all of a registry.
pub(super) fn spring_channels(wire: &Wire, name: &LockName, _: &Token) -> ByKey {
    let key = wire.key(name);
    let of_registry = [registry(&wire.keys), b"-channel"].concat();
    let of_lock = [&of_registry[..], b":", &key].concat();
    let of_registry = Told { only: Some(key.clone()), ..Told::on(of_registry) };
    (key, vec![Told::on(of_lock), of_registry])
}

fn list_of(list: &str, name: &LockName) -> Vec<u8> {
    [list.as_bytes(), name.as_bytes()].concat()
}

/// The list by which python-redis-lock says that a name is free.
pub(super) fn python_list(wire: &Wire, name: &LockName, _: &Token) -> ByKey {
    let Wake::List(list) = PYTHON_REDIS_LOCK.wake else { return (wire.key(name), Vec::new()) };
    (wire.key(name), vec![Told::by_list(list_of(list, name))])
}

/// The registry key: the prefix without its colon.
fn registry(keys: &KeyMapping) -> &[u8] {
    let (KeyMapping::After(prefix) | KeyMapping::Prefixed(prefix)) = keys;
    prefix.strip_suffix(b":").unwrap_or(prefix)
}
