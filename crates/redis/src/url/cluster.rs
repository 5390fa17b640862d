//! The URL of a cluster: some of its servers, with one user and password for all.
//!
//! ```text
//!   redis+cluster://[user[:password]@]host[:6379],host[:6379],.../
//! ```

use fencelock_store::StoreError;

use super::{Password, Place, Query, RedisUrl, config, database, decode, hosts};

/// Reads the whole URL.
pub(super) fn read(text: &str) -> Result<RedisUrl, StoreError> {
    let (servers, url) = hosts::split(text, RedisUrl::DEFAULT_PORT)?;
    let query = Query::of(text, &url, &["db"])?;
    let path = Some(url.path().trim_start_matches('/')).filter(|path| !path.is_empty());
    for number in [path, query.get("db")].into_iter().flatten() {
        if database(number)? != 0 {
            return Err(config("a redis cluster has only database 0"));
        }
    }
    let user = decode(url.username(), "user")?;
    let password = url.password().map(|password| decode(password, "password")).transpose()?;
    Ok(RedisUrl {
        place: Place::Cluster(servers),
        database: 0,
        user: Some(user).filter(|user| !user.is_empty()),
        password: password.map(Password::new),
        acknowledge: super::acknowledge::read(&query)?,
        fence_key: query.fence_key(),
        tls: query.tls(text)?,
    })
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
        let tls: RedisUrl = "rediss+cluster://a,b/?ca=/c.pem".parse().expect("a url");
        assert!(tls.tls.is_some() && plain.tls.is_none());
        assert_eq!(tls.to_string(), "rediss+cluster://a:6379,b:6379/");
        assert!(refusal("redis+cluster://a,b/?ca=/c.pem").contains("rediss"));
    }

    #[test]
    fn what_no_cluster_has_is_refused() {
        assert!(refusal("redis+cluster:///").contains("hosts in the redis url can't be read"));
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
