//! `redis+sentinel://`: the servers that know where the primary is, and its name there.
//!
//! What stands before the hosts says who we are at the primary. Who we are at the sentinels is said
//! behind the question mark, since most sentinels have no passwords, and one of the primary must
//! not be shown to them.

use std::fmt;

use fencelock_store::StoreError;
use url::Url;

use super::{Password, Place, Query, RedisUrl, config, database, decode, hosts};

/// The sentinels of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) sentinels: Vec<(String, u16)>,
    pub(crate) name: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Password>,
}

const DEFAULT_PORT: u16 = 26379;

/// What may stand behind the question mark besides what is valid for every URL.
const SETTINGS: [&str; 3] = ["db", "sentinel_user", "sentinel_pass"];

/// Reads the whole URL.
pub(super) fn read(text: &str) -> Result<RedisUrl, StoreError> {
    let (sentinels, url) = hosts::split(text, DEFAULT_PORT)?;
    let query = Query::of(text, &url, &SETTINGS)?;
    let (name, path_database) = path(&url)?;
    let query_database = query.get("db").map(database).transpose()?;
    let chosen = super::one_database(path_database, query_database)?;
    let user = decode(url.username(), "user")?;
    let password = url.password().map(|password| decode(password, "password")).transpose()?;
    let service = Service {
        sentinels,
        name,
        user: query.get("sentinel_user").filter(|user| !user.is_empty()).map(str::to_owned),
        password: query.get("sentinel_pass").map(Password::new),
    };
    Ok(RedisUrl {
        place: Place::Sentinels(service),
        database: chosen,
        user: Some(user).filter(|user| !user.is_empty()),
        password: password.map(Password::new),
        acknowledge: super::acknowledge::read(&query)?,
        fence_key: query.fence_key(),
        tls: query.tls(text)?,
    })
}

/// `/SERVICE[/db]`
fn path(url: &Url) -> Result<(String, Option<u32>), StoreError> {
    let path = url.path().trim_start_matches('/');
    let (name, number) = match path.split_once('/') {
        Some((name, "")) => (name, None),
        Some((name, number)) => (name, Some(database(number)?)),
        None => (path, None),
    };
    if name.is_empty() {
        return Err(config(
            "a redis+sentinel url names the service behind the hosts, as the sentinels call it: \
             redis+sentinel://host1,host2,host3/mymaster",
        ));
    }
    Ok((decode(name, "service")?, number))
}

impl fmt::Display for Service {
    /// Hosts and name as they stand in a URL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", hosts::write(&self.sentinels), self.shown())
    }
}

impl Service {
    fn shown(&self) -> percent_encoding::PercentEncode<'_> {
        const ESCAPED: &percent_encoding::AsciiSet =
            &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
        percent_encoding::utf8_percent_encode(&self.name, ESCAPED)
    }

    /// How one of the sentinels is reached, with the rest as for the primary.
    pub(crate) fn url(&self, primary: &RedisUrl, sentinel: &(String, u16)) -> RedisUrl {
        RedisUrl {
            place: Place::Tcp(sentinel.0.clone(), sentinel.1),
            database: 0,
            user: self.user.clone(),
            password: self.password.clone(),
            ..primary.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (RedisUrl, Service) {
        let url: RedisUrl = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        match url.place.clone() {
            Place::Sentinels(service) => (url, service),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn hosts_service_database_and_both_credentials_are_read() {
        let (url, service) = read(
            "redis+sentinel://app:p%2Fw@a,b:7,[::1]:8/my-%2Fservice/3?sentinel_user=s&sentinel_pass=x%26y",
        );
        let expected = [("a".to_owned(), 26379), ("b".to_owned(), 7), ("::1".to_owned(), 8)];
        assert_eq!(service.sentinels, expected);
        assert_eq!((service.name.as_str(), url.database), ("my-/service", 3));
        assert_eq!(url.user.as_deref(), Some("app"));
        assert_eq!(url.password.as_ref().map(Password::reveal), Some("p/w"));
        assert_eq!(service.user.as_deref(), Some("s"));
        assert_eq!(service.password.as_ref().map(Password::reveal), Some("x&y"));
        assert_eq!(url.to_string(), "redis+sentinel://app@a:26379,b:7,[::1]:8/my-%2Fservice/3");
        let (url, service) = read("REDIS+SENTINEL://h/m");
        assert_eq!((url.database, service.name.as_str()), (0, "m"));
        assert_eq!(read("redis+sentinel://h/m?db=2").0.database, 2);
        let (url, service) = read("rediss+sentinel://h/m?ca=/c.pem&sentinel_user=s");
        assert_eq!(url.to_string(), "rediss+sentinel://h:26379/m/0");
        assert!(service.url(&url, &service.sentinels[0]).tls.is_some() && url.tls.is_some());
    }

    #[test]
    fn what_is_wrong_is_named_and_no_password_shows() {
        for (text, says) in [
            ("redis+sentinel://h", "names the service"),
            ("redis+sentinel://h/", "names the service"),
            ("redis+sentinel:///m", "can't be read"),
            ("redis+sentinel://a,,b/m", "can't be read"),
            ("redis+sentinel://a:x/m", "can't be read"),
            ("redis+sentinel://h/m/x", "not a number"),
            ("redis+sentinel://h/m/1?db=2", "two different databases"),
            ("redis+sentinel://h/m?sentinel_pas=x", "'sentinel_pass'"),
            ("redis+sentinel://:hunt/er2@h/m", "percent-encode"),
            ("redis+sentinel://:hunt?er2@h/m", "percent-encode"),
            ("redis+sentinel://:hunter2@h/m#x", "no part after #"),
        ] {
            let error = text.parse::<RedisUrl>().expect_err(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
            assert!(!error.contains("hunt") && !error.contains("er2"), "{text}: {error}");
        }
    }
}
