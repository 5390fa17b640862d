//! The URL of a cluster: some of its servers, with one user and password for all.
//!
//! ```text
//!   redis+cluster://[user[:password]@]host[:6379],host[:6379],.../
//! ```

use fencelock_store::{Outcome, StoreError, StoreErrorKind};

use crate::url::{Place, RedisUrl};

/// What the URL of a cluster begins with.
const SCHEME: &str = "redis+cluster://";

/// The most servers that a URL may name: any one is enough to find the others.
const SEEDS_MAX: usize = 64;

/// Reads the URL of a cluster: each server as if it stood alone, the first with the credentials.
pub(crate) fn read(text: &str) -> Result<RedisUrl, StoreError> {
    let rest = &text[SCHEME.len()..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (credentials, hosts) = match authority.rsplit_once('@') {
        Some((credentials, hosts)) => (format!("{credentials}@"), hosts),
        None => (String::new(), authority),
    };
    let mut servers = Vec::new();
    let mut first: Option<RedisUrl> = None;
    for host in hosts.split(',').filter(|host| !host.is_empty()) {
        let (credentials, path) = match first {
            None => (&*credentials, path),
            Some(_) => ("", ""),
        };
        let server: RedisUrl = format!("redis://{credentials}{host}{path}").parse()?;
        let Place::Tcp(host, port) = &server.place else { continue };
        servers.push((host.clone(), *port));
        first.get_or_insert(server);
    }
    let Some(first) = first else {
        return Err(config(
            "the url of a cluster names no server; write redis+cluster://host1,host2/",
        ));
    };
    if first.database != 0 {
        return Err(config("a redis cluster has only database 0"));
    }
    if servers.len() > SEEDS_MAX {
        return Err(config("the url of a cluster names more than 64 servers; a few are enough"));
    }
    Ok(RedisUrl { place: Place::Cluster(servers), ..first })
}

fn config(message: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::Config, Outcome::NotDone, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        text.parse::<RedisUrl>().expect_err("it can't be used").to_string()
    }

    #[test]
    fn servers_and_credentials_are_read() {
        let url: RedisUrl =
            "redis+cluster://app:s%2Fe@a,b:7001,[::1]:7002/".parse().expect("a url");
        let servers = [("a", 6_379), ("b", 7_001), ("::1", 7_002)];
        let servers = servers.map(|(host, port)| (host.to_owned(), port)).to_vec();
        assert_eq!(url.place, Place::Cluster(servers));
        assert!(url.has_password());
        assert_eq!(url.to_string(), "redis+cluster://app@a:6379,b:7001,[::1]:7002/");
        let plain: RedisUrl = "REDIS+cluster://a".parse().expect("a url");
        assert_eq!(plain.to_string(), "redis+cluster://a:6379/");
    }

    #[test]
    fn what_no_cluster_has_is_refused() {
        assert!(refusal("redis+cluster:///").contains("names no server"));
        assert!(refusal("redis+cluster://a,b/1").contains("database 0"));
        assert!(refusal("redis+cluster://a,b/?db=2").contains("database 0"));
        assert!(refusal("redis+cluster://a,b:x/").contains("url"));
        assert!(refusal("redis+cluster://a/?pool=1").contains("unknown setting"));
    }

    #[test]
    fn a_wrong_url_does_not_show_its_password() {
        for text in ["redis+cluster://u:hunter2@a,b/x", "redis+cluster://u:hun@ter2@a:x,b/"] {
            let said = refusal(text);
            assert!(!said.contains("hun") && !said.contains("ter2"), "{said}");
        }
    }
}
