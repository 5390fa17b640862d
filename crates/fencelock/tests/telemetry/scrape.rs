//! What a scrape of this process would say.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// Installs the recorder, once. To be called before anything is measured.
pub(crate) fn listen() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| PrometheusBuilder::new().install_recorder().expect("the only recorder"))
}

/// The value of the one series with this name and these labels among its own; zero without one.
pub(crate) fn value(name: &str, labels: &[(&str, &str)]) -> f64 {
    let text = listen().render();
    let is_asked = |line: &&str| {
        let is_named = line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
        is_named && labels.iter().all(|(key, label)| line.contains(&format!("{key}=\"{label}\"")))
    };
    let found: Vec<&str> = text.lines().filter(is_asked).collect();
    assert!(found.len() < 2, "several series of {name} {labels:?}: {found:?}");
    let number = |line: &&str| line.rsplit(' ').next().and_then(|word| word.parse().ok());
    found.first().map_or(0.0, |line| number(line).expect("a number"))
}

/// All lines that say something of a class.
pub(crate) fn lines_of(class: &str) -> Vec<String> {
    let label = format!("class=\"{class}\"");
    let text = listen().render();
    text.lines().filter(|line| line.contains(&label)).map(str::to_owned).collect()
}
