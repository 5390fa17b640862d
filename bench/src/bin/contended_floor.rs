//! What no lock over Redis can beat: two processes that pass a token by PUBLISH and SUBSCRIBE, or
//! by RPUSH and BLPOP, with the client that Fencelock uses. See `contended/contender.rs`.
//!
//! Having the token is having the lock: it is acquired when the message has arrived, and released
//! by sending it on, so the latency of a hand-off is the one way of a message.

use std::time::Duration;

use fencelock_bench::contended::contender::{Arguments, Record, Span, tell};
use redis::{AsyncConnectionConfig, Client, PushInfo, aio::MultiplexedConnection};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// How long after the end the one without the token goes on waiting.
const GRACE: Duration = Duration::from_millis(200);

struct Publish {
    out: MultiplexedConnection,
    /// Kept open: it is subscribed.
    _subscribed: MultiplexedConnection,
    arrived: UnboundedReceiver<PushInfo>,
    theirs: String,
}

struct List {
    out: MultiplexedConnection,
    blocked: MultiplexedConnection,
    ours: String,
    theirs: String,
}

enum Way {
    Publish(Publish),
    List(List),
}

impl Way {
    async fn open(arguments: &Arguments, ours: String, theirs: String) -> Self {
        let client = Client::open(format!("{}?protocol=resp3", arguments.url)).expect("a URL");
        let out = client.get_multiplexed_async_connection().await.expect("it runs");
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connect = async |config| {
            client.get_multiplexed_async_connection_with_config(&config).await.expect("it runs")
        };
        if arguments.setting == "publish" {
            let (sender, arrived) = unbounded_channel();
            let mut subscribed = connect(config.set_push_sender(sender)).await;
            subscribed.subscribe(&ours).await.expect("SUBSCRIBE");
            return Self::Publish(Publish { out, _subscribed: subscribed, arrived, theirs });
        }
        assert_eq!(arguments.setting, "blpop", "the settings of this driver");
        Self::List(List { out, blocked: connect(config).await, ours, theirs })
    }

    async fn arrival(&mut self) {
        match self {
            Self::Publish(Publish { arrived, .. }) => {
                while arrived.recv().await.expect("the connection lives").kind
                    != redis::PushKind::Message
                {}
            }
            Self::List(List { blocked, ours, .. }) => {
                let mut pop = redis::cmd("BLPOP");
                let _: (String, String) =
                    pop.arg(&*ours).arg(0).query_async(blocked).await.expect("BLPOP");
            }
        }
    }

    async fn pass_on(&mut self) {
        let (out, verb, theirs) = match self {
            Self::Publish(Publish { out, theirs, .. }) => (out, "PUBLISH", theirs),
            Self::List(List { out, theirs, .. }) => (out, "RPUSH", theirs),
        };
        let _: i64 = redis::cmd(verb).arg(&*theirs).arg(1).query_async(out).await.expect(verb);
    }
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::read();
    let (owner, name) = (arguments.first_owner, &arguments.name);
    let mut way =
        Way::open(&arguments, format!("{name}:{owner}"), format!("{name}:{}", 1 - owner)).await;
    let span = Span::agree();
    let mut record = Record::new(owner, span);
    tokio::time::sleep(span.until_start()).await;
    let until_end = Duration::from_nanos(span.end.saturating_sub(span.start));
    let give_up = tokio::time::Instant::now() + until_end + GRACE;
    if owner == 0 {
        way.pass_on().await;
    }
    while record.call() {
        if tokio::time::timeout_at(give_up, way.arrival()).await.is_err() {
            break;
        }
        record.acquired();
        record.releasing();
        way.pass_on().await;
        record.released();
    }
    tell(&[record]);
}
