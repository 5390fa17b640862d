//! Locks in a trace of OpenTelemetry: how long a request waited for one, and what it did with it.
//!
//! `cargo run -p fencelock --example otel [STORE]`; the exporter is one in memory. A program that
//! sends its traces somewhere has another one, and the same layer.

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing::Instrument;
use tracing_subscriber::prelude::*;

mod shown;

use shown::{Outcome, shown};

#[tokio::main]
async fn main() -> Outcome {
    example(&std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned())).await
}

pub(crate) async fn example(store: &str) -> Outcome {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("invoices"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;

    let locks = fencelock::connect(store).await?;
    let request = async {
        let charge = |_held| async { 42 }.instrument(tracing::info_span!("charge"));
        locks.mutex("invoice:42").run(charge).await
    };
    let receipt = request.instrument(tracing::info_span!("request")).await?;
    locks.close().await;
    provider.force_flush()?;

    let all = exporter.get_finished_spans()?;
    let request = all.iter().find(|span| span.name == "request").ok_or("no request")?;
    let trace = request.span_context.trace_id();
    let spans: Vec<_> = all.iter().filter(|it| it.span_context.trace_id() == trace).collect();
    spans.iter().for_each(|span| println!("{} {:?}", span.name, span.attributes));

    let named = |name: &'static str| spans.iter().find(|it| it.name == name).copied().ok_or(name);
    let is_inside =
        |inner: &SpanData, outer: &SpanData| inner.parent_span_id == outer.span_context.span_id();
    let (run, charge) = (named("fencelock.run")?, named("charge")?);
    let acquire = named("fencelock.acquire")?;
    shown(receipt == 42 && is_inside(run, request), "the lock is a part of the request")?;
    shown(is_inside(acquire, run) && is_inside(charge, run), "so are its wait and its work")?;
    let says = |key: &str, value: &str| {
        acquire.attributes.iter().any(|it| it.key.as_str() == key && it.value.as_str() == value)
    };
    shown(
        says("lock", "invoice:42") && says("outcome", "granted"),
        "it says which, and how it ended",
    )
}
