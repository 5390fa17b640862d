//! Every form of URL, every way in which one is wrong, and that no password shows.

use super::*;
use crate::tls::Identity;

fn read(text: &str) -> RedisUrl {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> StoreError {
    match text.parse::<RedisUrl>() {
        Ok(url) => panic!("{text} was read as {url}"),
        Err(error) => error,
    }
}

#[test]
fn every_form_is_read() {
    let table = [
        ("redis://localhost", "localhost", 6379, 0, None, None),
        ("redis://localhost/", "localhost", 6379, 0, None, None),
        ("redis://10.0.0.1:7000/3", "10.0.0.1", 7000, 3, None, None),
        ("redis://h?db=4", "h", 6379, 4, None, None),
        ("redis://h/4?db=4", "h", 6379, 4, None, None),
        ("redis://[::1]:7000/0", "::1", 7000, 0, None, None),
        ("redis://:secret@h", "h", 6379, 0, None, Some("secret")),
        ("redis://app@h", "h", 6379, 0, Some("app"), None),
        ("redis://app:@h", "h", 6379, 0, Some("app"), Some("")),
        ("redis://app:p%40%2F%3A%25+@h/1", "h", 6379, 1, Some("app"), Some("p@/:%+")),
    ];
    for (text, host, port, database, user, password) in table {
        let url = read(text);
        assert_eq!(url.place, Place::Tcp(host.to_owned(), port), "{text}");
        assert_eq!(url.database, database, "{text}");
        assert_eq!(url.user.as_deref(), user, "{text}");
        let secret = url.password.as_ref().map(Password::reveal);
        assert_eq!(secret.filter(|_| password != Some("")), password.filter(|p| !p.is_empty()));
    }
    for text in [
        "unix:///run/a%20b.sock?db=2&user=app&pass=x%26+y",
        "redis+unix:///run/a%20b.sock?user=app&pass=x%26+y&db=2",
    ] {
        let url = read(text);
        assert_eq!(url.place, Place::Unix(PathBuf::from("/run/a b.sock")));
        assert_eq!((url.database, url.user.as_deref()), (2, Some("app")));
        assert_eq!(url.password.as_ref().map(Password::reveal), Some("x&+y"));
    }
}

#[test]
fn tls_and_its_files_are_read_from_the_url() {
    let url = read("rediss://app:x@h:7000/2?ca=/a%20b.pem&cert=/c&key=/k");
    assert_eq!((&url.place, url.database), (&Place::Tcp("h".to_owned(), 7000), 2));
    let identity = Identity { certificate: "/c".into(), key: "/k".into() };
    let tls = Tls { ca: Some("/a b.pem".into()), identity: Some(identity), accepts_any: false };
    assert_eq!(url.tls, Some(tls));
    assert_eq!(url.to_string(), "rediss://app@h:7000/2");
    assert_eq!(read("rediss://h").tls, Some(Tls::default()));
    let any = read("rediss://h?danger_accept_invalid_certificates=true").tls;
    assert!(any.is_some_and(|tls| tls.accepts_any));
    assert_eq!(read("redis://h").tls, None);
}

#[test]
fn only_what_stays_on_this_machine_is_local() {
    for local in ["redis://localhost", "redis://127.8.0.1", "redis://[::1]", "unix:///s"] {
        assert!(read(local).place.is_local(), "{local}");
    }
    for remote in ["redis://10.0.0.1", "redis://redis", "redis://localhost.example.com"] {
        assert!(!read(remote).place.is_local(), "{remote}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let table = [
        ("redis", "can't be read"),
        ("http://h", "http: is not a redis url"),
        ("redis://", "names no host"),
        ("redis:///0", "names no host"),
        ("redis://h/x", "not a number"),
        ("redis://h/-1", "not a number"),
        ("redis://h/99999999999", "not a number"),
        ("redis://h/1?db=2", "two different databases"),
        ("redis://h?db=1&db=2", "twice"),
        ("redis://h?dv=1", "'dv'; the nearest valid one is 'db'"),
        ("unix:///s?passs=1", "nearest valid one is 'pass'"),
        ("unix://host/s", "absolute path"),
        ("redis+unix://", "absolute path"),
        ("redis://h#1", "no part after #"),
        ("redis://h?ca=/a", "ca is for rediss:// urls"),
        ("unix:///s?cert=/a", "cert is for rediss:// urls"),
        ("rediss://h?ca=a", "ca in the redis url names a file by its absolute path"),
        ("rediss://h?cert=/a", "both cert and key"),
        ("rediss://h?key=/a", "both cert and key"),
        ("rediss://h?caa=/a", "nearest valid one is 'ca'"),
        ("rediss://h?danger_accept_invalid_certificates=1", "is true or not there"),
    ];
    for (text, part) in table {
        let error = refused(text);
        assert!(error.to_string().contains(part), "{text}: {error}");
        assert_eq!(error.kind(), StoreErrorKind::Config, "{text}");
        assert_eq!(error.outcome(), Outcome::NotDone, "{text}");
    }
}

#[test]
fn a_password_shows_nowhere() {
    let secret = "hunter2";
    let url = read("redis://app:hunter2@h/1");
    let unix = read("unix:///s?pass=hunter2");
    assert!(!format!("{url}{url:?}{unix}{unix:?}{:?}", url.password).contains(secret));
    assert_eq!(url.to_string(), "redis://app@h:6379/1");
    // Broken in every way in which a password can be.
    for text in [
        "redis://app:hunter2/x@h/1",
        "redis://app:1/hunter2@h",
        "redis://app:?hunter2@h",
        "redis://app:#hunter2@h",
        "redis://app:hunter2@",
        "redis://app:hunter2@h:port",
        "redis://app:hunter2%FF@h",
    ] {
        let error = refused(text);
        assert!(!format!("{error}{error:?}").contains(secret), "{text}: {error:?}");
    }
}

#[test]
fn what_is_shown_reads_back_without_the_password() {
    for text in [
        "redis://app:x@h/1",
        "rediss://h:7/0",
        "redis://[::1]:7000/0",
        "unix:///s?db=3&user=a%26b&pass=x",
    ] {
        let url = read(text);
        let again = read(&url.to_string());
        assert_eq!(RedisUrl { password: None, ..url }, again, "{text}");
    }
}
