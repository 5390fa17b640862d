//! Where the server is and who we are there: the URL, parsed once.
//!
//! Nothing in this file ever prints the password, nor a part of a URL that could be a piece of one
//! (an unescaped `/` or `@` in a password moves its end into the path).

mod acknowledge;
mod cluster;
mod hosts;
mod sentinel;

use std::{fmt, net::IpAddr, path::PathBuf, str::FromStr};

use fencelock_store::{Outcome, StoreError, StoreErrorKind};
use percent_encoding::percent_decode_str;
use url::{Host, Url};

pub(crate) use self::{acknowledge::Wanted, sentinel::Service};
use crate::tls::Tls;

/// The address of a Redis or Valkey server, with the database and the credentials.
///
/// ```text
///   redis://[user[:password]@]host[:6379][/db]        or ?db=N
///   rediss://...      the same over TLS, with what ?ca= ?cert= ?key= name, see below;
///                     also rediss+sentinel:// and rediss+cluster://
///   redis+unix:///path/to/socket[?db=N&user=U&pass=P] or unix://
///   redis+sentinel://[user[:password]@]host[:26379],host,.../SERVICE[/db][?sentinel_user=U&sentinel_pass=P]
///   redis+cluster://[user[:password]@]host[:6379],host[:6379],.../
/// ```
///
/// With sentinels, user and password are those of the primary (and its replicas); the sentinels have
/// their own, or none.
///
/// Behind the question mark each of them may ask for [acknowledged](crate::Acknowledge) grants:
/// `replicas=N`, `fsync=yes`, `acknowledge_within=100ms`; and in the dialect `redislock-fenced` say where the
/// counter of a lock is: `fence_key=*:fence`, with `*` for the key of the lock.
///
/// Parts are percent-encoded where they contain `/ ? # @ % :`. `Display` and `Debug` leave the
/// password out, and the files of TLS.
///
/// With `rediss://` the server's certificate must be for the host of the URL and from an authority
/// that the system trusts. `?ca=/path` names the authorities to trust in place of the system's;
/// `?cert=/path&key=/path` the certificate that this client shows, with its key. The files are PEM,
/// their paths absolute, and they are read again for each connection.
/// `?danger_accept_invalid_certificates=true` takes any certificate, from anybody.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    pub(crate) place: Place,
    pub(crate) database: u32,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Password>,
    pub(crate) acknowledge: Wanted,
    /// Where the counters of locks are, in a dialect that has them anywhere.
    pub(crate) fence_key: Option<String>,
    pub(crate) tls: Option<Tls>,
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A host and a port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
    /// Wherever sentinels say.
    Sentinels(Service),
    /// Some servers of a cluster, by host and port.
    Cluster(Vec<(String, u16)>),
}

impl Place {
    /// Whether what is sent there stays on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            // Each of them, and the primary, is looked at when it is called.
            Self::Sentinels(_) | Self::Cluster(_) => true,
            Self::Tcp(host, _) => {
                host.eq_ignore_ascii_case("localhost")
                    || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        }
    }
}

/// A secret that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Password(String);

impl Password {
    pub(crate) fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "***")
    }
}

impl RedisUrl {
    const DEFAULT_PORT: u16 = 6379;

    /// Whether the URL itself carries a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }
}

impl FromStr for RedisUrl {
    type Err = StoreError;

    /// # Errors
    /// `Config` for what is not such a URL. The message never contains the password.
    fn from_str(text: &str) -> Result<Self, StoreError> {
        // Several hosts are no URL by the book.
        if let Some(read) = several(text) {
            if text.contains('#') {
                return Err(config("a redis url has no part after #; in a password write %23"));
            }
            return read(text);
        }
        let url = Url::parse(text).map_err(|error| {
            config(format!(
                "the redis url can't be read: {error}; a password with any of / ? # @ % : in it \
                 must be percent-encoded"
            ))
        })?;
        if url.fragment().is_some() {
            return Err(config("a redis url has no part after #; in a password write %23"));
        }
        match url.scheme() {
            "redis" | "rediss" => {
                let query = Query::of(text, &url, &["db"])?;
                Ok(RedisUrl { tls: query.tls(text)?, ..tcp(&url, &query)? })
            }
            "redis+unix" | "unix" => unix(&url),
            // A scheme is read before any credentials: it can't be a part of a password.
            other => Err(config(format!(
                "{other}: is not a redis url; it begins with redis://, redis+sentinel:// or \
                 redis+cluster://, with rediss in place of redis for TLS, or with redis+unix://"
            ))),
        }
    }
}

/// Reads a whole URL.
type Reader = fn(&str) -> Result<RedisUrl, StoreError>;

/// How a URL of several hosts is read, by its scheme.
fn several(text: &str) -> Option<Reader> {
    let (scheme, _) = text.split_once("://")?;
    match scheme.to_ascii_lowercase().as_str() {
        "redis+sentinel" | "rediss+sentinel" => Some(sentinel::read),
        "redis+cluster" | "rediss+cluster" => Some(cluster::read),
        _ => None,
    }
}

fn tcp(url: &Url, query: &Query) -> Result<RedisUrl, StoreError> {
    let host = match url.host() {
        Some(Host::Domain(host)) if !host.is_empty() => decode(host, "host")?,
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        _ => return Err(config("the redis url names no host; write redis://127.0.0.1/")),
    };
    let from_path = match url.path().trim_start_matches('/') {
        "" => None,
        number => Some(database(number)?),
    };
    let from_query = query.get("db").map(database).transpose()?;
    let database = one_database(from_path, from_query)?;
    let user = decode(url.username(), "user")?;
    let password = url.password().map(|password| decode(password, "password")).transpose()?;
    Ok(RedisUrl {
        place: Place::Tcp(host, url.port().unwrap_or(RedisUrl::DEFAULT_PORT)),
        database,
        user: Some(user).filter(|user| !user.is_empty()),
        password: password.map(Password::new),
        acknowledge: acknowledge::read(query)?,
        fence_key: query.fence_key(),
        tls: None,
    })
}

fn unix(url: &Url) -> Result<RedisUrl, StoreError> {
    let path = decode(url.path(), "path")?;
    if url.host().is_some() || !path.starts_with('/') || path == "/" {
        return Err(config(
            "a redis+unix url names a socket by its absolute path: redis+unix:///run/redis.sock",
        ));
    }
    let query = Query::read(url, &["db", "user", "pass"])?;
    Ok(RedisUrl {
        place: Place::Unix(PathBuf::from(path)),
        database: query.get("db").map(database).transpose()?.unwrap_or(0),
        user: query.get("user").filter(|user| !user.is_empty()).map(str::to_owned),
        password: query.get("pass").map(Password::new),
        acknowledge: acknowledge::read(&query)?,
        fence_key: query.fence_key(),
        tls: None,
    })
}

/// The part after `?`, decoded; a `+` stays a plus, since passwords have some.
struct Query(Vec<(String, String)>);

/// Whether a URL is one of TLS: `rediss:`, `rediss+sentinel:`, `rediss+cluster:`.
fn has_tls(text: &str) -> bool {
    text.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("rediss"))
}

impl Query {
    /// The same, and with TLS what names its files.
    fn of(text: &str, url: &Url, valid: &[&str]) -> Result<Self, StoreError> {
        let files = if has_tls(text) { Tls::SETTINGS } else { &[] };
        Self::read(url, &[valid, files].concat())
    }

    /// What it says of TLS, where that is spoken.
    fn tls(&self, text: &str) -> Result<Option<Tls>, StoreError> {
        has_tls(text).then(|| Tls::named(|key| self.get(key))).transpose()
    }

    /// `valid` is what this kind of URL has beside what all have.
    fn read(url: &Url, valid: &[&str]) -> Result<Self, StoreError> {
        let valid = &[valid, &acknowledge::SETTINGS, &[Self::FENCE_KEY]].concat();
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !valid.contains(&key) {
                // What has an @ behind it may be the rest of a password with a ? in it.
                let is_setting =
                    pair.contains('=') && !url.query().unwrap_or_default().contains('@');
                return Err(unknown_key(Some(key).filter(|_| is_setting), valid));
            }
            if pairs.iter().any(|(known, _)| known == key) {
                return Err(config(format!("the redis url says {key} twice")));
            }
            pairs.push((key.to_owned(), decode(value, key)?));
        }
        Ok(Self(pairs))
    }

    /// The setting of where counters are.
    const FENCE_KEY: &str = "fence_key";

    fn fence_key(&self) -> Option<String> {
        self.get(Self::FENCE_KEY).map(str::to_owned)
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

fn unknown_key(key: Option<&str>, valid: &[&str]) -> StoreError {
    let Some(key) = key else {
        return config(format!(
            "the redis url has something unknown after ?; valid settings are {}; a password with ? \
             in it must be percent-encoded",
            valid.join(", ")
        ));
    };
    if Tls::SETTINGS.contains(&key) {
        return config(format!("the setting {key} is for rediss:// urls: this one has no TLS"));
    }
    let nearest = valid.iter().min_by_key(|known| strsim::damerau_levenshtein(known, key));
    let nearest = nearest.copied().unwrap_or_default();
    config(format!(
        "the redis url has an unknown setting '{}'; the nearest valid one is '{nearest}'",
        key.escape_debug()
    ))
}

/// The database, which may be said in two places.
fn one_database(from_path: Option<u32>, from_query: Option<u32>) -> Result<u32, StoreError> {
    if from_path.zip(from_query).is_some_and(|(path, query)| path != query) {
        return Err(config("the redis url names two different databases, in its path and in ?db="));
    }
    Ok(from_path.or(from_query).unwrap_or(0))
}

fn database(text: &str) -> Result<u32, StoreError> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if plain { text.parse().ok() } else { None };
    // The text is not shown: it may be the end of a password with a slash in it.
    number.filter(|&number| number <= i32::MAX as u32).ok_or_else(|| {
        config(
            "the database in the redis url is not a number; a password with / in it must be \
             percent-encoded",
        )
    })
}

fn decode(text: &str, part: &str) -> Result<String, StoreError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| config(format!("the {part} in the redis url is not UTF-8 when decoded")))
}

pub(crate) fn config(message: impl Into<std::borrow::Cow<'static, str>>) -> StoreError {
    StoreError::new(StoreErrorKind::Config, Outcome::NotDone, message)
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redis = if self.tls.is_some() { "rediss" } else { "redis" };
        let who = self.user.as_ref().map(|user| format!("{}@", encode(user))).unwrap_or_default();
        let database = self.database;
        match &self.place {
            Place::Tcp(host, port) => {
                write!(f, "{redis}://{who}{}/{database}", hosts::write_one(host, *port))
            }
            Place::Cluster(servers) => {
                write!(f, "{redis}+cluster://{who}{}/", hosts::write(servers))
            }
            Place::Sentinels(service) => {
                write!(f, "{redis}+sentinel://{who}{service}/{database}")
            }
            Place::Unix(path) => {
                write!(f, "redis+unix://{}?db={database}", path.display())?;
                if let Some(user) = &self.user {
                    write!(f, "&user={}", encode(user))?;
                }
                Ok(())
            }
        }
    }
}

fn encode(text: &str) -> percent_encoding::PercentEncode<'_> {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

#[cfg(test)]
mod tests;
