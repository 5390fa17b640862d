//! Reads the value of each setting. An error is a sentence without its subject: the place where the
//! value stands is put in front.

use std::time::Duration;

use super::key::{is_slip, nearest};
use crate::redact::redact_mistyped;
use crate::span;

/// A wire format, by the name that the library has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect(&'static str);

impl Dialect {
    /// Our own.
    pub(crate) const NATIVE: Dialect = Dialect("native");
    /// A string taken by `SET NX PX`, shared with many libraries.
    pub(crate) const PLAIN: Dialect = Dialect("plain");

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        self.0
    }
}

/// What happens to the command when the lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLost {
    /// It is stopped before anybody else can hold the lock.
    Term,
    /// It runs on.
    Ignore,
}

/// The URLs in a text: one, or several with spaces between them.
pub(super) fn stores(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Err(format!("is empty, {STORES}"));
    }
    if has_commas_between(text) {
        return Err("has a comma between its URLs: several are separated by spaces".to_owned());
    }
    // The path of a file may have a space in it, so only a scheme begins another one.
    let is_store = |word: &&str| SCHEMES.contains(&scheme_of(word).as_str());
    let further = text.split_whitespace().skip(1).filter(is_store);
    let starts = further.map(|word| word.as_ptr() as usize - text.as_ptr() as usize);
    let mut starts: Vec<usize> = starts.collect();
    let mut urls = Vec::with_capacity(starts.len() + 1);
    let mut rest = text;
    while let Some(start) = starts.pop() {
        let (before, url) = rest.split_at(start);
        urls.push(store(url.trim_ascii_end())?);
        rest = before;
    }
    let first = if urls.is_empty() { rest } else { rest.trim_ascii() };
    urls.push(store(first)?);
    urls.reverse();
    Ok(urls)
}

fn store(text: &str) -> Result<String, String> {
    let scheme = scheme_of(text);
    if !SCHEMES.contains(&scheme.as_str()) {
        let shown = redact_mistyped(text);
        let shown = shown.escape_debug();
        return Err(match meant(&scheme) {
            Some(near) => {
                format!("`{shown}` has a scheme nobody knows, did you mean `{near}:`? ({STORES})")
            }
            None => format!("`{shown}` is not the URL of a store, {STORES}"),
        });
    }
    if scheme == "sqlite" && has_tilde(text) {
        return Err(format!(
            "`{}` has a `~`, which no shell replaces behind `sqlite:`: write the whole path, or \
             `$HOME` where a shell reads it",
            text.escape_debug()
        ));
    }
    if ["redis", "rediss"].contains(&scheme.as_str()) && has_several_hosts(text) {
        return Err(format!(
            "`{}` names several hosts: those of a cluster are `redis+cluster://HOST1,HOST2`, \
             sentinels are `redis+sentinel://HOST1,HOST2/SERVICE`, and independent servers have a \
             URL each, with spaces between them",
            redact_mistyped(text).escape_debug()
        ));
    }
    Ok(text.to_owned())
}

/// The scheme that was meant, where that is not a guess in the dark.
fn meant(scheme: &str) -> Option<&'static str> {
    if let Some((_, ours)) = SYNONYMS.iter().find(|(theirs, _)| *theirs == scheme) {
        return Some(ours);
    }
    nearest(scheme, SCHEMES.iter().copied()).filter(|near| is_slip(scheme, near))
}

/// Whether the path is meant to be in somebody's home. Taken as it is, it would be another file in
/// each folder, and a lock for nobody.
fn has_tilde(url: &str) -> bool {
    let path = url.split_once(':').map_or("", |(_, path)| path);
    path.trim_start_matches("//").starts_with('~')
}

/// Whether the host of a URL has a comma in it.
fn has_several_hosts(url: &str) -> bool {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
    hosts.split(['/', '?']).next().is_some_and(|hosts| hosts.contains(','))
}

/// Whether a comma stands where a space has to be: behind it another URL begins.
fn has_commas_between(text: &str) -> bool {
    let parts = text.split([',', ';']).skip(1);
    parts
        .map(|part| scheme_of(part.trim_ascii_start()))
        .any(|scheme| SCHEMES.contains(&scheme.as_str()))
}

fn scheme_of(url: &str) -> String {
    url.split_once(':').map_or(String::new(), |(scheme, _)| scheme.to_ascii_lowercase())
}

pub(super) fn path(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Err("is empty, give the path of a file".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

pub(super) fn dialect(text: &str) -> Result<Dialect, String> {
    let names = fencelock::dialects();
    match names.iter().find(|name| **name == text) {
        Some(name) => Ok(Dialect(name)),
        None => Err(unknown(text, &names)),
    }
}

/// Which prefixes a dialect takes, it says itself.
#[allow(clippy::unnecessary_wraps)] // As its siblings.
pub(super) fn key_prefix(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

pub(super) fn on_lost(text: &str) -> Result<OnLost, String> {
    match text {
        "term" => Ok(OnLost::Term),
        "ignore" => Ok(OnLost::Ignore),
        other => Err(unknown(other, &["term", "ignore"])),
    }
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        other => Err(unknown(other, &["true", "false"])),
    }
}

pub(super) fn code(text: &str) -> Result<u8, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(code) = text.parse()
    {
        return Ok(code);
    }
    Err(format!("`{}` is not an exit code, write a number from 0 to 255", text.escape_debug()))
}

/// A number of permits.
pub(super) fn permits(text: &str) -> Result<u32, String> {
    let most = fencelock::Semaphore::MAX_LIMIT;
    let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = number.filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| {
        format!("`{}` is not a number of permits, write 1 to {most}", text.escape_debug())
    })
}

pub(crate) fn ttl(text: &str) -> Result<Duration, String> {
    let span = span::parse(text)?;
    match fencelock::Ttl::new(span) {
        Ok(_) => Ok(span),
        Err(_) => Err(format!("is between 10ms (run: 100ms) and 24h, not {}", text.escape_debug())),
    }
}

/// Nothing can be left behind for longer than a lease can last.
pub(super) fn min_hold(text: &str) -> Result<Duration, String> {
    let span = span::parse(text)?;
    if span > fencelock::Ttl::MAX.as_duration() {
        return Err(format!("is at most 24h, not {}", text.escape_debug()));
    }
    Ok(span)
}

/// One `KEY=VALUE`.
pub(super) fn meta(text: &str) -> Result<(String, String), String> {
    let shown = text.escape_debug();
    let Some((key, value)) = text.split_once('=') else {
        return Err(format!("`{shown}` has no `=`, write KEY=VALUE"));
    };
    if key.is_empty() {
        return Err(format!("`{shown}` has no key, write KEY=VALUE"));
    }
    if key.starts_with('!') {
        return Err(format!("`{shown}`: keys that begin with `!` are fencelock's own"));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("`{shown}` has a control character"));
    }
    Ok((key.to_owned(), value.to_owned()))
}

fn unknown(text: &str, known: &[&str]) -> String {
    let list = known.join("`, `");
    match nearest(text, known.iter().copied()) {
        Some(near) if strsim::jaro_winkler(text, near) > LIKE => {
            format!(
                "does not know `{}`, did you mean `{near}`? (one of `{list}`)",
                text.escape_debug()
            )
        }
        _ => format!("does not know `{}`, write one of `{list}`", text.escape_debug()),
    }
}

/// From here on a suggestion helps more than it confuses.
const LIKE: f64 = 0.6;
const SCHEMES: &[&str] = &[
    "redis",
    "rediss",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
    "redis+unix",
    "unix",
    "sqlite",
    "memory",
];
/// What others call them.
const SYNONYMS: &[(&str, &str)] =
    &[("valkey", "redis"), ("valkeys", "rediss"), ("file", "sqlite"), ("tls", "rediss")];
const STORES: &str = "write `redis://HOST:PORT`, `rediss://HOST:PORT`, \
                      `redis+sentinel://HOST1,HOST2/SERVICE`, `redis+cluster://HOST1,HOST2`, \
                      `redis+unix:///PATH` or `sqlite:/PATH`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_store_is_shown_without_its_password() {
        let sentence = store("rediss-x://me:s3cret@host").expect_err("an unknown scheme");
        assert!(sentence.contains("redis:") && !sentence.contains("s3cret"), "{sentence}");
        for (text, near) in [
            ("rdis://x", Some("redis:")),
            ("redsi://x", Some("redis:")),
            ("sqllite:/x", Some("sqlite:")),
            ("sqlite3:/x", Some("sqlite:")),
            ("redis+clutser://x", Some("redis+cluster:")),
            ("valkey://x", Some("redis:")),
            ("file:/x", Some("sqlite:")),
            ("http://x", None),
            ("https://x", None),
            ("etcd://x", None),
            ("postgres://x", None),
            ("mysql://x", None),
            ("localhost:6379", None),
            ("C:/x", None),
        ] {
            let sentence = store(text).expect_err(text);
            let guess = near.map(|near| format!("did you mean `{near}`"));
            assert_eq!(sentence.contains("did you mean"), near.is_some(), "{sentence}");
            assert!(guess.is_none_or(|guess| sentence.contains(&guess)), "{sentence}");
        }
        for text in ["", " ", "localhost", "/tmp/x.db", "http://x", "http://x redis://a"] {
            assert!(stores(text).is_err(), "{text}");
        }
        for text in ["redis://a", "REDIS://a", "rediss://a?ca=/b", "sqlite:/a b/c.db", "memory:"] {
            assert_eq!(stores(text), Ok(vec![text.to_owned()]));
        }
    }

    #[test]
    fn a_tilde_is_no_folder() {
        for text in ["sqlite:~/x.db", "sqlite://~/x.db", "sqlite:~me/x.db", "SQLITE:~"] {
            assert!(stores(text).is_err_and(|sentence| sentence.contains('~')), "{text}");
        }
        assert!(stores("sqlite:/a/~/x.db").is_ok() && stores("sqlite:x~.db").is_ok());
    }

    #[test]
    fn commas_between_urls_are_refused_with_the_way_out() {
        for text in [
            "redis://:s3cret@a,redis://b",
            "redis://a, redis://b",
            "redis://a,\nrediss://b",
            "redis://a;redis://b",
            "sqlite:/a.db,redis://b",
            "redis+sentinel://a,b/m,redis://c",
        ] {
            let sentence = stores(text).expect_err(text);
            assert!(sentence.contains("separated by spaces"), "{sentence}");
            assert!(!sentence.contains("s3cret"), "{sentence}");
        }
        for text in ["redis://a,b", "rediss://me:s3cret@a:1,b:2/0", "redis://a, b", "redis://a,"] {
            let sentence = stores(text).expect_err(text);
            assert!(sentence.contains("redis+cluster://HOST1,HOST2"), "{sentence}");
            assert!(!sentence.contains("s3cret"), "{sentence}");
        }
        for text in ["redis+cluster://a,b", "sqlite:/a,b.db", "redis://me:a,b@h", "unix:///a,b"] {
            assert_eq!(stores(text), Ok(vec![text.to_owned()]));
        }
    }

    #[test]
    fn spaces_separate_stores_where_a_scheme_follows() {
        for (text, urls) in [
            ("redis://a redis://b", &["redis://a", "redis://b"][..]),
            (" redis://a\n redis://b\tunix:///c ", &["redis://a", "redis://b", "unix:///c"]),
            ("sqlite:/a b/c.db redis://x", &["sqlite:/a b/c.db", "redis://x"]),
            ("redis://x sqlite:/a  b/c.db", &["redis://x", "sqlite:/a  b/c.db"]),
        ] {
            assert_eq!(stores(text), Ok(urls.iter().map(|&url| url.to_owned()).collect()));
        }
    }

    #[test]
    fn an_exit_code_is_a_byte() {
        assert_eq!(code("0"), Ok(0));
        assert_eq!(code("255"), Ok(255));
        for text in ["", "256", "-1", "+1", " 1", "0x1"] {
            assert!(code(text).is_err(), "{text}");
        }
    }

    #[test]
    fn metadata_has_a_key_of_its_own() {
        assert_eq!(meta("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(meta("a="), Ok(("a".to_owned(), String::new())));
        for text in ["", "a", "=b", "!pid=1", "a=\n"] {
            assert!(meta(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_least_hold_has_a_limit() {
        assert_eq!(min_hold("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(min_hold("0s"), Ok(Duration::ZERO));
        assert!(min_hold("86400001ms").is_err());
    }

    #[test]
    fn a_ttl_has_limits() {
        for text in ["0s", "9ms", "86400001ms", "25h", "2d"] {
            assert!(ttl(text).is_err(), "{text}");
        }
        assert!(ttl("10ms").is_ok());
        assert!(ttl("24h").is_ok());
    }
}
