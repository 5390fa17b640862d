//! Which server is the primary of each slot, as `CLUSTER SLOTS` says.
//!
//! `CLUSTER SHARDS` says more and is not asked: in some 7.0 versions it names no slots for a shard
//! whose primary has failed, and `CLUSTER SLOTS` gives each client the port that it can use.

use std::{collections::BTreeMap, sync::Arc};

use redis::Value;

use super::slot::SLOTS;
use crate::reply::{Odd, bytes, list, number};

/// A host and a port, as the servers call each other.
pub(crate) type Address = Arc<str>;

/// The primaries by slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotMap {
    /// The address of each slot; nothing where nobody serves it.
    slots: Vec<Option<Address>>,
}

impl SlotMap {
    /// Reads the answer to `CLUSTER SLOTS`. `asked` is who answered, for servers that don't know
    /// their own name.
    pub(super) fn read(value: &Value, asked: &str) -> Result<Self, Odd> {
        const ODD: Odd = Odd("a range of slots that can't be read");
        let mut map = Self::empty();
        for range in list(value)? {
            let [first, last, primary, ..] = list(range)? else { return Err(ODD) };
            let (first, last) = (slot(first)?, slot(last)?);
            let [host, port, ..] = list(primary)? else { return Err(ODD) };
            let port = u16::try_from(number(port)?).map_err(|_| ODD)?;
            let host = match host {
                Value::Nil => String::new(),
                host => String::from_utf8_lossy(bytes(host)?).into_owned(),
            };
            let address = address(&host, port, asked);
            if first > last {
                return Err(ODD);
            }
            map.slots[first..=last].fill(Some(address));
        }
        if map.primaries().is_empty() {
            return Err(Odd("that it serves no slot"));
        }
        Ok(map)
    }

    /// Nobody serves anything.
    pub(super) fn empty() -> Self {
        Self { slots: vec![None; usize::from(SLOTS)] }
    }

    /// The primary of a slot.
    pub(super) fn primary(&self, slot: u16) -> Option<&Address> {
        self.slots.get(usize::from(slot)).and_then(Option::as_ref)
    }

    /// A server said who serves a slot.
    pub(super) fn moved(&mut self, slot: u16, to: Address) {
        if let Some(place) = self.slots.get_mut(usize::from(slot)) {
            *place = Some(to);
        }
    }

    /// Each primary once, by its lowest slot.
    pub(super) fn primaries(&self) -> BTreeMap<u16, Address> {
        let mut seen = std::collections::HashSet::new();
        let mut primaries = BTreeMap::new();
        for (slot, address) in (0..SLOTS).zip(&self.slots) {
            if let Some(address) = address
                && seen.insert(address)
            {
                primaries.insert(slot, Arc::clone(address));
            }
        }
        primaries
    }
}

/// A host and a port as one word; where a server does not know its host, that of who was asked.
pub(super) fn address(host: &str, port: u16, asked: &str) -> Address {
    let host = match host {
        "" | "?" => asked.rsplit_once(':').map_or(asked, |(host, _)| host),
        host => host,
    };
    format!("{host}:{port}").into()
}

fn slot(value: &Value) -> Result<usize, Odd> {
    let number = usize::try_from(number(value)?).ok();
    number.filter(|&slot| slot < usize::from(SLOTS)).ok_or(Odd("a slot that is none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let primary = Value::Array(vec![host, Value::Int(port), text("id"), Value::Array(vec![])]);
        Value::Array(vec![Value::Int(first), Value::Int(last), primary.clone(), primary])
    }

    #[test]
    fn the_first_server_of_a_range_is_its_primary() {
        let answer = Value::Array(vec![
            range(0, 99, text("10.0.0.1"), 7_001),
            range(100, 16_383, text("::1"), 7_002),
        ]);
        let map = SlotMap::read(&answer, "10.0.0.9:7009").expect("a map");
        assert_eq!(map.primary(99).map(|at| &**at), Some("10.0.0.1:7001"));
        assert_eq!(map.primary(16_383).map(|at| &**at), Some("::1:7002"));
        assert_eq!(map.primaries().into_keys().collect::<Vec<_>>(), [0, 100]);
    }

    #[test]
    fn a_server_that_does_not_know_its_host_is_where_it_was_asked() {
        for host in [Value::Nil, text(""), text("?")] {
            let answer = Value::Array(vec![range(5, 5, host, 7_001)]);
            let map = SlotMap::read(&answer, "db.example:7009").expect("a map");
            assert_eq!(map.primary(5).map(|at| &**at), Some("db.example:7001"));
            assert_eq!(map.primary(6), None);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for answer in [
            Value::Nil,
            Value::Array(vec![]),
            Value::Array(vec![range(9, 5, text("h"), 1)]),
            Value::Array(vec![range(0, 16_384, text("h"), 1)]),
            Value::Array(vec![range(0, 1, text("h"), 70_000)]),
            Value::Array(vec![Value::Array(vec![Value::Int(0)])]),
        ] {
            assert!(SlotMap::read(&answer, "h:1").is_err(), "{answer:?}");
        }
    }
}
