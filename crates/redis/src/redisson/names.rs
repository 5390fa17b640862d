//! Keys, channels and fields as Redisson writes them.

use std::sync::LazyLock;

use fencelock_core::{LockName, Token};

use crate::{
    cluster::slot_of,
    script::{Question, Script},
    shape::Shape,
    wire::Wire,
};

/// The keys of one call: the names, and behind them what is beside each.
pub(super) struct Keys<'a> {
    wire: &'a Wire,
    names: Vec<&'a LockName>,
    keys: Vec<Vec<u8>>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(wire: &'a Wire, names: impl IntoIterator<Item = &'a LockName>) -> Self {
        let names: Vec<_> = names.into_iter().collect();
        let keys = names.iter().map(|name| wire.key(name)).collect();
        Self { wire, names, keys }
    }

    /// With one more key for each name, all of them behind those that are there.
    pub(super) fn beside(mut self, key: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let more: Vec<_> = self.keys[..self.names.len()].iter().map(|name| key(name)).collect();
        self.keys.extend(more);
        self
    }

    /// The same where the format has such keys.
    pub(super) fn beside_if(self, is_asked: bool, key: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        if is_asked { self.beside(key) } else { self }
    }

    pub(super) fn names(&self) -> usize {
        self.names.len()
    }

    /// A call of a script with these keys.
    pub(super) fn ask(self, script: &'static LazyLock<Script>) -> Question {
        asking(script, &[self])
    }

    fn slot(&self) -> impl Iterator<Item = (&'a LockName, u16)> {
        self.names.iter().zip(&self.keys).map(|(name, key)| (*name, slot_of(key)))
    }
}

/// A call of a script about several sets of names, one behind the other.
pub(super) fn asking(script: &'static LazyLock<Script>, sets: &[Keys<'_>]) -> Question {
    let keys = sets.iter().map(|set| set.keys.len()).sum();
    let bytes = sets.iter().flat_map(|set| &set.keys).map(|key| key.len() + 16).sum();
    let mut question = Question::script(script, keys, (keys + 8, bytes));
    let first = sets.first().and_then(|set| set.names.first().copied());
    for set in sets {
        for key in &set.keys {
            question.arg(key);
        }
        if let Some(first) = first.filter(|_| set.wire.connections.is_cluster()) {
            for (name, slot) in set.slot() {
                question.route.with(first, name, slot);
            }
        }
    }
    question
}

/// `what:{key}`, which is in the slot of the key; braces of the key's own do that already.
pub(super) fn prefixed(what: &str, key: &[u8]) -> Vec<u8> {
    match key.contains(&b'{') {
        true => [what.as_bytes(), b":", key].concat(),
        false => [what.as_bytes(), b":{", key, b"}"].concat(),
    }
}

/// `{key}:what`, in the slot of the key.
pub(super) fn suffixed(key: &[u8], what: &str) -> Vec<u8> {
    match key.contains(&b'{') {
        true => [key, b":", what.as_bytes()].concat(),
        false => [b"{", key, b"}:", what.as_bytes()].concat(),
    }
}

/// The number of a thread that there is none of.
const NO_THREAD: &[u8] = b":0";

/// The field of a token that holds by itself.
pub(super) fn own_field(token: &Token) -> Vec<u8> {
    [&Shape::Uuid.write(token)[..], NO_THREAD].concat()
}

/// The token of such a field.
pub(super) fn token_of(field: &[u8]) -> Option<Token> {
    Shape::Uuid.read(field.strip_suffix(NO_THREAD)?)
}

/// The key of one hold of an owner, by its token.
pub(super) fn hold(key: &[u8], token: &Token) -> Vec<u8> {
    let hex = token.to_hex();
    suffixed(key, &format!("fencelock_hold:{}", String::from_utf8_lossy(&hex)))
}

/// Whether a key is beside a lock: one of ours, or of Redisson's.
pub(super) fn is_beside(key: &[u8]) -> bool {
    const BEFORE: [&[u8]; 2] = [b"redisson_lock_", b"redisson_unlock_latch:"];
    const AFTER: [&[u8]; 4] =
        [b":fencelock_hold:", b":fencelock_permits", b":fencelock_steps", b":rwlock_timeout:"];
    let has = |part: &[u8]| key.windows(part.len()).any(|window| window == part);
    BEFORE.iter().any(|before| key.starts_with(before))
        || AFTER.iter().any(|after| has(after))
        || key.ends_with(b"}:timeout")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_of_a_name_stay_as_they_are() {
        assert_eq!(prefixed("p", b"n"), b"p:{n}");
        assert_eq!(prefixed("p", b"a{b}c"), b"p:a{b}c");
        assert_eq!(suffixed(b"n", "s"), b"{n}:s");
        assert_eq!(suffixed(b"a{b}c", "s"), b"a{b}c:s");
        for key in [&b"n"[..], b"a{b}c"] {
            assert_eq!(slot_of(&prefixed("p", key)), slot_of(key));
            assert_eq!(slot_of(&suffixed(key, "s")), slot_of(key));
        }
    }

    #[test]
    fn a_token_is_a_thread_that_there_is_none_of() {
        let token = Token::from_bytes([7; 16]);
        let field = own_field(&token);
        assert_eq!(field, b"07070707-0707-0707-0707-070707070707:0");
        assert_eq!(token_of(&field), Some(token));
        assert_eq!(token_of(b"07070707-0707-0707-0707-070707070707:1"), None);
        assert_eq!(token_of(b"me"), None);
    }
}
