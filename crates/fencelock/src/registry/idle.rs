//! Objects by name, and which of them nobody uses: a pure step, whose moment is a parameter.

use std::{collections::HashMap, sync::Arc, time::Duration};

use fencelock_core::Moment;

/// Objects by name.
pub(super) struct Idle<T> {
    entries: HashMap<Vec<u8>, Entry<T>>,
    /// When somebody looked for idle ones last.
    looked: Option<Moment>,
    /// Which of the tasks that do so is the one.
    looker: u64,
}

struct Entry<T> {
    object: Arc<T>,
    used: Moment,
}

impl<T> Default for Idle<T> {
    fn default() -> Self {
        Self { entries: HashMap::new(), looked: None, looker: 0 }
    }
}

impl<T> Idle<T> {
    /// The object of a name, which is used now.
    pub(super) fn entry(&mut self, name: &[u8], now: Moment, fresh: impl FnOnce() -> T) -> Arc<T> {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.used = entry.used.max(now);
            return Arc::clone(&entry.object);
        }
        let object = Arc::new(fresh());
        let entry = Entry { object: Arc::clone(&object), used: now };
        self.entries.insert(name.to_vec(), entry);
        object
    }

    /// Takes out what nobody has and nobody used for so long. What somebody has counts as used now.
    pub(super) fn evict(&mut self, now: Moment, idle: Duration) -> Vec<Arc<T>> {
        self.looked = Some(now);
        for entry in self.entries.values_mut().filter(|entry| entry.is_had()) {
            entry.used = entry.used.max(now);
        }
        let is_idle = |_: &Vec<u8>, entry: &mut Entry<T>| {
            !entry.is_had() && now.saturating_since(entry.used) >= idle
        };
        self.entries.extract_if(is_idle).map(|(_, entry)| entry.object).collect()
    }

    /// A number for whoever looks from now on, if nobody does: the first time, and where the task that
    /// should have is gone with its runtime.
    pub(super) fn begin_to_look(&mut self, now: Moment, every: Duration) -> Option<u64> {
        let missed = every.saturating_mul(2);
        if self.looked.is_some_and(|looked| now.saturating_since(looked) < missed) {
            return None;
        }
        self.looked = Some(now);
        self.looker += 1;
        Some(self.looker)
    }

    /// Whether another looks since.
    pub(super) fn is_relieved(&self, looker: u64) -> bool {
        self.looker != looker
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl<T> Entry<T> {
    fn is_had(&self) -> bool {
        Arc::strong_count(&self.object) > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Moment {
        Moment::START.saturating_add(Duration::from_secs(seconds))
    }

    #[test]
    fn what_nobody_has_goes_when_it_was_idle_for_so_long_and_not_before() {
        let mut objects = Idle::default();
        drop(objects.entry(b"a", at(0), || 1));
        let had = objects.entry(b"b", at(0), || 2);
        assert!(objects.evict(at(29), IDLE).is_empty());
        assert_eq!(*objects.evict(at(30), IDLE)[0], 1);
        assert_eq!(objects.len(), 1);
        // It was had until now.
        drop(had);
        assert!(objects.evict(at(59), IDLE).is_empty());
        assert_eq!(*objects.entry(b"b", at(59), || 3), 2, "the same as before");
        assert!(objects.evict(at(88), IDLE).is_empty());
        assert_eq!(objects.evict(at(89), IDLE).len(), 1);
        assert_eq!(*objects.entry(b"b", at(90), || 3), 3);
    }

    #[test]
    fn somebody_looks_the_first_time_and_when_nobody_did_for_long() {
        let mut objects = Idle::<u8>::default();
        let first = objects.begin_to_look(at(0), IDLE).expect("nobody did");
        assert_eq!(objects.begin_to_look(at(59), IDLE), None);
        objects.evict(at(60), IDLE);
        assert_eq!(objects.begin_to_look(at(119), IDLE), None);
        assert!(!objects.is_relieved(first));
        assert!(objects.begin_to_look(at(120), IDLE).is_some());
        assert!(objects.is_relieved(first));
    }
}
