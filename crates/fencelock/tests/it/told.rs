//! How often the log told that a lock was lost. The tests of one process share the log: use names
//! that no other test has.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, Once, PoisonError},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

static LOSSES: Mutex<Option<HashMap<String, usize>>> = Mutex::new(None);

/// Begins to listen.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Log).expect("nobody else listens");
    });
}

/// How often a lock was told to be lost.
pub(crate) fn losses(name: &str) -> usize {
    let losses = LOSSES.lock().unwrap_or_else(PoisonError::into_inner);
    losses.as_ref().and_then(|losses| losses.get(name)).copied().unwrap_or(0)
}

struct Log;

#[derive(Default)]
struct Fields {
    lock: String,
    is_loss: bool,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "lock" => self.lock = format!("{value:?}"),
            "message" => self.is_loss = format!("{value:?}") == "a lock was lost",
            _ => {}
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if fields.is_loss {
            let mut losses = LOSSES.lock().unwrap_or_else(PoisonError::into_inner);
            *losses.get_or_insert_default().entry(fields.lock).or_default() += 1;
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
