//! Several hosts in one URL: `h1[:port],h2,[::1]:7000`.

use fencelock_store::StoreError;
use url::{Host, Url};

use super::config;

/// The most hosts that one URL names: more would be a mistake, not a deployment.
const HOSTS_MAX: usize = 64;

/// A URL of several hosts, in two: the hosts, and a URL of one host with everything else.
///
/// # Errors
/// `Config`, without any part of the text: it may be a piece of a password.
pub(super) fn split(text: &str, port: u16) -> Result<(Vec<(String, u16)>, Url), StoreError> {
    let after = text.find("://").map_or(text.len(), |at| at + 3);
    let rest = &text[after..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (who, hosts) = match authority.rsplit_once('@') {
        Some((who, hosts)) => (format!("{who}@"), hosts),
        None => (String::new(), authority),
    };
    let misread = || {
        config(
            "the hosts in the redis url can't be read; write host:port,host:port and \
             percent-encode a password with any of / ? # @ % : in it",
        )
    };
    let read = |host: &str| {
        let url = Url::parse(&format!("redis://{host}")).map_err(|_| misread())?;
        let name = match url.host() {
            Some(Host::Domain(name)) if !name.is_empty() => super::decode(name, "host")?,
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            _ => return Err(misread()),
        };
        Ok((name, url.port().unwrap_or(port)))
    };
    // An @ further on is the end of a password that has an unescaped / or ? in it.
    if tail.split(['?', '#']).next().is_some_and(|path| path.contains('@')) {
        return Err(misread());
    }
    let hosts = hosts.split(',').map(read).collect::<Result<Vec<_>, _>>()?;
    if hosts.len() > HOSTS_MAX {
        return Err(config(format!("the redis url names more than {HOSTS_MAX} hosts")));
    }
    let url = Url::parse(&format!("redis://{who}several{tail}")).map_err(|_| misread())?;
    Ok((hosts, url))
}

/// Hosts as they stand in a URL.
pub(super) fn write(hosts: &[(String, u16)]) -> String {
    hosts.iter().map(|(host, port)| write_one(host, *port)).collect::<Vec<_>>().join(",")
}

/// A host as it stands in a URL.
pub(super) fn write_one(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
