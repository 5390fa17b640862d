//! Everything that is traced or logged in this process, kept as text.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, Once, PoisonError},
};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span,
};
use tracing_subscriber::{Layer, Registry, layer::Context, prelude::*, registry::LookupSpan};

/// A span that has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended {
    pub(crate) name: &'static str,
    pub(crate) parent: Option<&'static str>,
    pub(crate) fields: BTreeMap<&'static str, String>,
}

#[derive(Default)]
struct All {
    spans: Vec<Ended>,
    text: String,
}

static ALL: Mutex<Option<All>> = Mutex::new(None);

fn with_all<T>(work: impl FnOnce(&mut All) -> T) -> T {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    work(all.get_or_insert_default())
}

/// Begins to listen: to all levels of `tracing`, and of the older `log`.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let all = Registry::default().with(Collector);
        tracing::subscriber::set_global_default(all).expect("nobody else listens");
        log::set_logger(&Collector).expect("nobody else listens");
        log::set_max_level(log::LevelFilter::Trace);
    });
}

/// The spans that ended for a lock.
pub(crate) fn spans_of(lock: &str) -> Vec<Ended> {
    let is_asked = |span: &&Ended| span.fields.get("lock").is_some_and(|name| name == lock);
    with_all(|all| all.spans.iter().filter(is_asked).cloned().collect())
}

/// All of it.
pub(crate) fn text() -> String {
    with_all(|all| all.text.clone())
}

struct Collector;

impl log::Log for Collector {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        with_all(|all| all.text += &format!("{} {}\n", record.target(), record.args()));
    }

    fn flush(&self) {}
}

impl Visit for Ended {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, all: Context<'_, S>) {
        let span = all.span(id).expect("it is there");
        let parent = span.parent().map(|parent| parent.name());
        let mut seen = Ended { name: span.name(), parent, ..Ended::default() };
        attributes.record(&mut seen);
        with_all(|all| all.text += &format!("{seen:?}\n"));
        span.extensions_mut().insert(seen);
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, all: Context<'_, S>) {
        let span = all.span(id).expect("it is there");
        let mut extensions = span.extensions_mut();
        let seen = extensions.get_mut::<Ended>().expect("it was seen");
        values.record(seen);
        with_all(|all| all.text += &format!("{seen:?}\n"));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut seen = Ended { name: event.metadata().target(), ..Ended::default() };
        event.record(&mut seen);
        with_all(|all| all.text += &format!("{seen:?}\n"));
    }

    fn on_close(&self, id: span::Id, all: Context<'_, S>) {
        let span = all.span(&id).expect("it is there");
        if let Some(seen) = span.extensions_mut().remove::<Ended>() {
            with_all(|all| all.spans.push(seen));
        }
    }
}
