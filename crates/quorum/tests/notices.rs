//! What is said once in the life of a process.

use std::{
    fmt::{self, Write as _},
    sync::{Arc, Mutex},
};

use fencelock_quorum::QuorumStore;
use fencelock_store::{MemoryStore, Store};
use tracing::{Event, Metadata, Subscriber, field, span, subscriber::set_default};

/// Keeps everything that is traced in this thread.
#[derive(Clone, Default)]
struct Traced(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl field::Visit for Text {
    fn record_debug(&mut self, field: &field::Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Traced {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(format!("{} {} ", event.metadata().level(), event.metadata().target()));
        event.record(&mut text);
        self.0.lock().expect("nothing panics").push(text.0);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn a_quorum_of_two_is_said_once_to_survive_nothing() {
    let traced = Traced::default();
    let _traced = set_default(traced.clone());
    let builder = |count| {
        let nodes = (0..count).map(|_| Arc::new(MemoryStore::new()) as Arc<dyn Store>);
        QuorumStore::builder(nodes)
    };
    let said = || traced.0.lock().expect("nothing panics").clone();
    for count in [1, 3, 4, 5] {
        let _store = builder(count).build().expect("the settings can work");
    }
    let _chosen = builder(2).quorum(2).build().expect("the settings can work");
    assert_eq!(said(), [""; 0]);
    for _ in 0..3 {
        let _store = builder(2).build().expect("the settings can work");
    }
    let [notice] = &said()[..] else { panic!("not once: {:?}", said()) };
    assert!(notice.starts_with("WARN fencelock_quorum::notice "), "{notice}");
    for part in ["quorum(2: memory:, memory:)", "survives the loss of none"] {
        assert!(notice.contains(part), "{notice}");
    }
}
