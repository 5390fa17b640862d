//! What a scrape says of locks.
//!
//! `cargo run -p fencelock --example metrics [STORE]`

use fencelock::Attempt;
use metrics_exporter_prometheus::PrometheusBuilder;

mod shown;

use shown::{Outcome, shown};

#[tokio::main]
async fn main() -> Outcome {
    example(&std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned())).await
}

pub(crate) async fn example(store: &str) -> Outcome {
    // A program that is scraped installs an exporter with a listener instead.
    let exporter = PrometheusBuilder::new()
        .set_buckets(&[0.001, 0.01, 0.1, 1.0, 10.0, 60.0])?
        .install_recorder()?;
    fencelock::describe_metrics();
    let locks = fencelock::connect(store).await?;
    let invoice = |number: u32| locks.mutex(format!("invoice:{number}")).class("payment");
    // The number at the end of the line of one metric of this class.
    let says = |name: &str, number: u32| {
        let scrape = exporter.render();
        let is_asked = |it: &&str| it.starts_with(name) && it.contains("class=\"payment\"");
        scrape.lines().find(is_asked).is_some_and(|it| it.ends_with(&format!(" {number}")))
    };

    for number in 1..=3 {
        invoice(number).run(|_held| async {}).await?;
    }
    let guard = invoice(1).lock().await?;
    let busy = matches!(invoice(1).try_lock().await?, Attempt::Busy(_));
    let waits = invoice(1);
    let waiting = tokio::spawn(async move { waits.lock().await });
    while !says("fencelock_waiters{", 1) {
        tokio::task::yield_now().await;
    }
    guard.release().await;
    waiting.await??.release().await;

    print!("{}", exporter.render());
    shown(busy, "a single try found the lock busy")?;
    shown(says("fencelock_hold_seconds_count{", 5), "five holds were measured")?;
    shown(says("fencelock_contended_total{", 2), "two acquires were contended")?;
    shown(says("fencelock_waiters{", 0), "nobody waits any more")?;
    shown(!exporter.render().contains("invoice:"), "no name of a lock is a label")
}
