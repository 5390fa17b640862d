//! The page of the metrics says of each what the library itself says, and of no other.

use std::collections::BTreeSet;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

const PAGE: &str = include_str!("../../../../docs/reference/metrics.md");

#[derive(Default)]
struct Described(std::sync::Mutex<BTreeSet<(String, String)>>);

impl Described {
    fn note(&self, name: &KeyName, text: &SharedString) {
        let entry = (name.as_str().to_owned(), text.to_string());
        self.0.lock().unwrap().insert(entry);
    }
}

impl Recorder for Described {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, text: SharedString) {
        self.note(&name, &text);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, text: SharedString) {
        self.note(&name, &text);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, text: SharedString) {
        self.note(&name, &text);
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn the_page_of_the_metrics_says_the_same() {
    let described = Described::default();
    metrics::with_local_recorder(&described, fencelock::describe_metrics);
    let described = described.0.into_inner().unwrap();
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `fencelock_"));
    let on_page: BTreeSet<(String, String)> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let name = cells[0].trim_end_matches('`');
            (format!("fencelock_{name}"), cells[3].to_owned())
        })
        .collect();
    assert_eq!(on_page, described);
}
