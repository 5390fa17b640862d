//! An axum service that pays one invoice at a time, on however many machines it runs.
//!
//! `cargo run -p fencelock --example axum [STORE]`

use std::{convert::Infallible, time::Duration};

use axum::{
    Extension, Router, error_handling::HandleErrorLayer, extract::Request, response::IntoResponse,
    routing::post,
};
use fencelock::{
    Held,
    tower::{LockError, LockLayer},
};
use http::{StatusCode, header::RETRY_AFTER};

mod shown;

use shown::{Outcome, post_to, shown};

#[tokio::main]
async fn main() -> Outcome {
    example(&std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned())).await
}

async fn pay(Extension(held): Extension<Held>) -> String {
    format!("paid under fencing token {}", held.fencing_token().map_or(0, u64::from))
}

async fn refuse(error: LockError<Infallible>) -> impl IntoResponse {
    let retry_after = error.retry_after().map(|it| [(RETRY_AFTER, it.as_secs().to_string())]);
    let status = error.status().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, retry_after, error.to_string())
}

pub(crate) async fn example(store: &str) -> Outcome {
    let locks = fencelock::connect(store).await?;
    let layer = LockLayer::new(locks.clone(), |request: &Request| {
        request.uri().path().strip_prefix("/invoices/").map(|id| format!("invoice:{id}"))
    })
    .recipe(|mutex| mutex.wait(Duration::ZERO).class("invoice"));
    let app = Router::new().route("/invoices/{id}", post(pay));
    let app = app.layer((HandleErrorLayer::new(refuse), layer));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    let elsewhere = locks.mutex("invoice:42").lock().await?;
    let before = elsewhere.fencing_token().map_or(0, u64::from);
    let busy = post_to(address, "/invoices/42").await?;
    let is_told = busy.starts_with("HTTP/1.1 423") && busy.contains("retry-after: 1");
    shown(is_told, "an invoice that is being paid elsewhere is locked")?;
    let other = post_to(address, "/invoices/43").await?;
    shown(other.starts_with("HTTP/1.1 200"), "another one is not")?;
    elsewhere.release().await;
    let paid = post_to(address, "/invoices/42").await?;
    let token = paid.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0u64);
    shown(token > before, "it is paid after that, under a larger fencing token")
}
