//! Asking sentinels where the primary is.
//!
//! They are asked in turn, each within a small limit of its own, and the first that answers is asked
//! first the next time. What one says is a hint only: an isolated sentinel names yesterday's
//! primary. Whether the server at that address is a primary, it must say itself (`link.rs`).

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fencelock_store::{Outcome, StoreErrorKind, rt};
use redis::Value;

use super::settings;
use crate::{
    error::{self, Credentials, Failure},
    reply,
    url::{Place, RedisUrl, Service},
};

/// The sentinels of one service.
pub(super) struct Sentinels {
    name: String,
    /// How messages call them.
    at: String,
    /// In the order in which they are asked.
    order: Mutex<Vec<RedisUrl>>,
}

/// What one sentinel came to.
enum Answer {
    Primary(Place),
    /// It watches no service of this name.
    NoSuchService,
}

impl Sentinels {
    /// The longest that one sentinel may take: it answers from its memory, so this is four round
    /// trips of a slow network. With two of three gone it costs half of a request's usual second.
    const ONE_WITHIN: Duration = Duration::from_millis(250);

    pub(super) fn new(service: &Service, url: &RedisUrl) -> Self {
        let order = service.sentinels.iter().map(|sentinel| service.url(url, sentinel)).collect();
        Self { name: service.name.clone(), at: url.to_string(), order: Mutex::new(order) }
    }

    /// Where the primary is.
    ///
    /// # Errors
    /// No sentinel answered, or none watches the service.
    pub(super) async fn primary(&self) -> Result<Place, Failure> {
        let order = self.order().clone();
        let mut failures: Vec<(String, Failure)> = Vec::new();
        for sentinel in order {
            let asked = rt::timeout(Self::ONE_WITHIN, self.ask(&sentinel)).await;
            match asked.unwrap_or_else(|| Err(error::unreachable(&self.at, "no answer in time"))) {
                Ok(Answer::Primary(place)) => {
                    self.prefer(&sentinel);
                    return Ok(place);
                }
                Ok(Answer::NoSuchService) => {
                    let cause = "it watches no such service".to_owned();
                    let failure = Failure {
                        kind: StoreErrorKind::Config,
                        cause,
                        ..error::unreachable(&self.at, "")
                    };
                    failures.push((address(&sentinel), failure));
                }
                Err(failure) => failures.push((address(&sentinel), failure)),
            }
        }
        Err(self.nobody_knows(&failures))
    }

    async fn ask(&self, sentinel: &RedisUrl) -> Result<Answer, Failure> {
        let client = settings::client(sentinel, &sentinel.place, &self.at)?;
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Self::ONE_WITHIN))
            .set_response_timeout(Some(Self::ONE_WITHIN));
        let connected = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connected
            .map_err(|error| error::from_connect(&error, &self.at, Credentials::by(sentinel)))?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let reply = connection.send_packed_command(&command).await;
        let value = reply.map_err(|error| Failure {
            outcome: Outcome::NotDone,
            ..error::from_transport(&error, &self.at)
        })?;
        match value {
            Value::Nil => Ok(Answer::NoSuchService),
            Value::ServerError(refused) => {
                let text = refused.details().unwrap_or_default();
                Err(error::from_server(refused.code(), text, &self.at))
            }
            value => read(&value).ok_or_else(|| Failure {
                outcome: Outcome::NotDone,
                ..error::odd(&self.at, "something that is no address of a primary")
            }),
        }
    }

    /// The next question goes to this one first.
    fn prefer(&self, sentinel: &RedisUrl) {
        let mut order = self.order();
        if let Some(index) = order.iter().position(|known| known == sentinel) {
            order[..=index].rotate_right(1);
        }
    }

    fn nobody_knows(&self, failures: &[(String, Failure)]) -> Failure {
        let each = |(address, failure): &(String, Failure)| {
            let why = if failure.cause.is_empty() { &failure.message } else { &failure.cause };
            format!("{address}: {why}")
        };
        let cause = failures.iter().map(each).collect::<Vec<_>>().join("; ");
        let all = |kind| failures.iter().all(|(_, failure)| failure.kind == kind);
        let any = |kind| failures.iter().any(|(_, failure)| failure.kind == kind);
        let (kind, what) = if all(StoreErrorKind::Config) {
            let what = format!("no sentinel watches the service {:?}", self.name);
            (StoreErrorKind::Config, what)
        } else if any(StoreErrorKind::Denied) {
            let what = "no sentinel lets us ask; see sentinel_user and sentinel_pass in the url";
            (StoreErrorKind::Denied, what.to_owned())
        } else {
            let what = "no sentinel says where the primary is; are they running?".to_owned();
            (StoreErrorKind::Unavailable, what)
        };
        Failure { kind, message: format!("{}: {what}", self.at), ..error::unreachable("", &cause) }
    }

    fn order(&self) -> MutexGuard<'_, Vec<RedisUrl>> {
        // Nothing under this lock can panic half way.
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Two strings: host and port.
fn read(value: &Value) -> Option<Answer> {
    let [host, port] = reply::list(value).ok()? else { return None };
    let host = std::str::from_utf8(reply::bytes(host).ok()?).ok()?;
    let port = u16::try_from(reply::number(port).ok()?).ok()?;
    (!host.is_empty() && port != 0).then(|| Answer::Primary(Place::Tcp(host.to_owned(), port)))
}

fn address(sentinel: &RedisUrl) -> String {
    match &sentinel.place {
        Place::Tcp(host, port) => format!("{host}:{port}"),
        _ => sentinel.to_string(),
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.at)
    }
}
