//! What the library says once of a store, for those who asked with `-v`: a line each.
//!
//! Only its notices are taken: what else it traces is said by the commands in their own words.

use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::console::Console;

/// Lets the notices of the library be lines on standard error, if those are wanted.
pub(crate) fn show_on(console: &Arc<Console>) {
    if console.wants_details() {
        // Only a second command in one process would find that there is one already.
        let _ = tracing::subscriber::set_global_default(Notes(Arc::clone(console)));
    }
}

struct Notes(Arc<Console>);

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        NOTICES.contains(&metadata.target())
    }

    fn event(&self, event: &Event<'_>) {
        let mut note = Note::default();
        event.record(&mut note);
        self.0.detail(|| format!("{}: {}", note.store, note.message));
    }

    // Notices have no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Note {
    store: String,
    message: String,
}

impl Visit for Note {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let part = match field.name() {
            "store" => &mut self.store,
            "message" => &mut self.message,
            _ => return,
        };
        let _ = write!(part, "{value:?}");
    }
}

/// Where the stores say what is said once.
const NOTICES: [&str; 2] = ["fencelock_redis::notice", "fencelock_quorum::notice"];
