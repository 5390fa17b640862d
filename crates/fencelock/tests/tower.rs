//! The layer: requests under locks.
#![cfg(feature = "tower")]
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test has nothing better to do.

use std::{
    convert::Infallible,
    fmt,
    future::{Future, Ready, pending, ready},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use fencelock::{
    Client, Held,
    tower::{Carry, LockError, LockLayer},
};
use http::{Request, StatusCode};
use tower::{Layer, Service, ServiceExt, service_fn};

const MINUTE: Duration = Duration::from_secs(60);

async fn locks() -> Client {
    fencelock::connect("memory:").await.unwrap()
}

/// The lock of a request is its path without the slash; `/` has none.
fn name(request: &Request<()>) -> Option<String> {
    Some(request.uri().path()[1..].to_owned()).filter(|name| !name.is_empty())
}

fn request(path: &str) -> Request<()> {
    Request::get(path).body(()).unwrap()
}

fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

async fn is_free(locks: &Client, name: &str) -> bool {
    let attempt = locks.mutex(name).try_lock().await.unwrap();
    attempt.granted().is_some()
}

#[tokio::test]
async fn requests_of_one_name_are_done_one_after_the_other() {
    let inside = Arc::new(AtomicUsize::new(0));
    let service = service_fn(move |request: Request<()>| {
        let inside = Arc::clone(&inside);
        async move {
            assert_eq!(inside.fetch_add(1, SeqCst), 0, "two at once");
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            inside.fetch_sub(1, SeqCst);
            let held = request.extensions().get::<Held>().unwrap();
            assert!(!held.is_valid() || held.names().to_string() == "job");
            Ok::<_, Infallible>(held.fencing_token().unwrap())
        }
    });
    let layer = LockLayer::new(locks().await, name).recipe(|mutex| mutex.wait(MINUTE));
    let service = layer.layer(service);
    let all: Vec<_> =
        (0..30).map(|_| tokio::spawn(service.clone().oneshot(request("/job")))).collect();
    let mut tokens = Vec::new();
    for one in all {
        tokens.push(one.await.unwrap().unwrap());
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 30, "each has a fencing token of its own");
}

#[tokio::test]
async fn a_request_without_a_name_needs_no_lock_and_other_names_do_not_wait() {
    let locks = locks().await;
    let _held = locks.mutex("job").lock().await.unwrap();
    let service = service_fn(|request: Request<()>| async move {
        Ok::<_, Infallible>(request.extensions().get::<Held>().is_some())
    });
    let service = LockLayer::new(locks, name).layer(service);
    assert!(!service.clone().oneshot(request("/")).await.unwrap());
    assert!(service.oneshot(request("/other")).await.unwrap());
}

#[tokio::test]
async fn a_busy_lock_is_423_and_the_inner_service_is_not_called() {
    let locks = locks().await;
    let _held = locks.mutex("job").lock().await.unwrap();
    let service =
        service_fn(|_: Request<()>| -> Ready<Result<(), Infallible>> { panic!("it is not ours") });
    let layer = LockLayer::new(locks, name).recipe(|mutex| mutex.wait(Duration::ZERO));
    let error = layer.layer(service).oneshot(request("/job")).await.unwrap_err();
    assert_eq!(error.status(), Some(StatusCode::LOCKED));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
    assert!(error.to_string().contains("job"), "{error}");
}

/// Says when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[tokio::test]
async fn a_loss_drops_the_inner_future_and_is_409() {
    let locks = locks().await;
    let dropped = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&dropped);
    let service = service_fn(move |_: Request<()>| {
        let dropped = Dropped(Arc::clone(&seen));
        async move {
            let _dropped = dropped;
            pending::<Result<(), Infallible>>().await
        }
    });
    let layer = LockLayer::new(locks.clone(), name)
        .recipe(|mutex| mutex.max_hold(Duration::from_millis(50)));
    let error = layer.layer(service).oneshot(request("/job")).await.unwrap_err();
    assert_eq!((error.status(), error.retry_after()), (Some(StatusCode::CONFLICT), None));
    assert!(dropped.load(SeqCst), "before anybody hears of it");
    assert!(matches!(error, LockError::Lock(error) if error.is_lost()));
    drop(locks.mutex("job").wait(MINUTE).lock().await.unwrap());
}

#[tokio::test]
async fn the_lock_is_given_back_before_the_response_goes_on() {
    let locks = locks().await;
    let service = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(7)));
    let service = LockLayer::new(locks.clone(), name).layer(service);
    assert_eq!(service.oneshot(request("/job")).await.unwrap(), 7);
    assert!(is_free(&locks, "job").await);

    let failing = service_fn(|_: Request<()>| ready(Err::<(), _>("broken")));
    let error = LockLayer::new(locks.clone(), name).layer(failing).oneshot(request("/job")).await;
    let error = error.unwrap_err();
    assert!(matches!(error, LockError::Inner("broken")));
    assert_eq!((error.status(), error.retry_after()), (None, None));
    assert!(is_free(&locks, "job").await);
}

#[tokio::test]
async fn a_dropped_request_and_a_panic_give_the_lock_back() {
    let locks = locks().await;
    let layer = LockLayer::new(locks.clone(), name);
    let endless = service_fn(|_: Request<()>| pending::<Result<(), Infallible>>());
    let mut endless = layer.layer(endless);
    {
        let service = endless.ready().await.unwrap();
        let mut response = service.call(request("/job"));
        assert!(now(response.as_mut()).is_none(), "it works");
        assert!(!is_free(&locks, "job").await);
        let waits = locks.mutex("job").wait(MINUTE);
        let next = tokio::spawn(async move { waits.lock().await.map(drop) });
        drop(response);
        next.await.unwrap().unwrap();
    }
    let panics = service_fn(|_: Request<()>| async {
        tokio::task::yield_now().await;
        panic!("in the handler");
        #[allow(unreachable_code)]
        Ok::<(), Infallible>(())
    });
    let task = tokio::spawn(layer.layer(panics).oneshot(request("/job")));
    assert!(task.await.unwrap_err().is_panic());
    drop(locks.mutex("job").wait(MINUTE).lock().await.unwrap());
}

#[tokio::test]
async fn what_is_no_name_is_400() {
    let service = service_fn(|_: Request<()>| ready(Ok::<(), Infallible>(())));
    let path = format!("/{}", "n".repeat(600));
    let error = LockLayer::new(locks().await, name).layer(service).oneshot(request(&path)).await;
    let error = error.unwrap_err();
    assert!(matches!(error, LockError::Name(_)), "{error}");
    assert_eq!(error.status(), Some(StatusCode::BAD_REQUEST));
}

/// A service that may be called once each time it said that it is ready, and only by that value.
#[derive(Default)]
struct Strict {
    ready: bool,
    polls: usize,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Service<Request<()>> for Strict {
    type Response = ();
    type Error = fmt::Error;
    type Future = Ready<Result<(), fmt::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), fmt::Error>> {
        self.polls += 1;
        self.ready = self.polls > 1;
        if self.ready { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "only the one that is ready is called");
        ready(Ok(()))
    }
}

#[tokio::test]
async fn the_very_service_that_is_ready_is_called_and_backpressure_goes_through() {
    let mut service = LockLayer::new(locks().await, name).layer(Strict::default());
    let cx = &mut Context::from_waker(Waker::noop());
    for path in ["/job", "/", "/job"] {
        assert!(service.poll_ready(cx).is_pending(), "the inner one is not");
        assert!(service.poll_ready(cx).is_ready());
        service.call(request(path)).await.unwrap();
    }
}

/// A request of one's own.
struct Order {
    number: u32,
    held: Option<Held>,
}

impl Carry for Order {
    fn carry(&mut self, held: Held) {
        self.held = Some(held);
    }
}

#[tokio::test]
async fn requests_of_ones_own_carry_it_as_they_like() {
    let service = service_fn(|order: Order| async move {
        Ok::<_, Infallible>(order.held.and_then(|held| held.fencing_token()))
    });
    let layer =
        LockLayer::new(locks().await, |order: &Order| Some(format!("order:{}", order.number)));
    let token = layer.layer(service).oneshot(Order { number: 7, held: None }).await.unwrap();
    assert!(token.is_some());
}
