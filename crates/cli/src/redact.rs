//! Takes passwords out of text that is printed or handed on.
//!
//! Messages are made without them in the first place. This is the belt: a URL with a typing mistake
//! can end up in any error message, quoted whole by whoever could not read it.

use std::borrow::Cow;

/// The text with the password of every URL in it replaced by `***`.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    if !text.contains("://") && !text.contains('@') && !text.contains("pass") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + 3);
        out.push_str(before);
        let end = after.find(ends_url).unwrap_or(after.len());
        let (url, next) = after.split_at(end);
        out.push_str(&redact_authority(url));
        rest = next;
    }
    out.push_str(rest);
    Cow::Owned(redact_query(&out))
}

/// A text that is one URL, whatever is wrong with it, without its password.
///
/// [`redact`] knows a URL in a sentence by its `://` and its end; a slip in just that (`redis//`, a
/// space in the password) must not print what the rest of it would hide.
pub(crate) fn redact_mistyped(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('@') => (format!("{scheme}://"), rest),
        _ => (String::new(), url),
    };
    redact(&format!("{scheme}{}", redact_authority(rest))).into_owned()
}

/// Everything up to the last `@` is who we are: a password may hold any character, also `/` and `@`
/// when somebody forgot to escape it.
fn redact_authority(url: &str) -> String {
    let Some(at) = url.rfind('@') else { return url.to_owned() };
    let (user_info, host) = url.split_at(at);
    match user_info.find(':') {
        Some(colon) => format!("{}:***{host}", &user_info[..colon]),
        // A lone user may be a password that lost its colon.
        None => url.to_owned(),
    }
}

fn redact_query(text: &str) -> String {
    let mut out = text.to_owned();
    for name in SECRETS {
        for mark in ['?', '&'] {
            let needle = format!("{mark}{name}");
            let mut from = 0;
            while let Some(found) = out[from..].find(&needle) {
                let start = from + found + needle.len();
                let length = out[start..]
                    .find(|character: char| character == '&' || ends_url(character))
                    .unwrap_or(out.len() - start);
                out.replace_range(start..start + length, "***");
                from = start;
            }
        }
    }
    out
}

/// Settings behind the question mark whose value is a secret.
const SECRETS: [&str; 3] = ["pass=", "password=", "sentinel_pass="];

fn ends_url(character: char) -> bool {
    character.is_whitespace() || matches!(character, '`' | '\'' | '"' | ')' | ',')
}

/// The URL without its password: for the environment of the command.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return without_query(url) };
    let rest = match rest.rfind('@') {
        Some(at) => {
            let (user_info, host) = rest.split_at(at);
            match user_info.split_once(':') {
                Some(("", _)) => host[1..].to_owned(),
                Some((user, _)) => format!("{user}{host}"),
                None => rest.to_owned(),
            }
        }
        None => rest.to_owned(),
    };
    without_query(&format!("{scheme}://{rest}"))
}

fn without_query(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| !SECRETS.iter().any(|secret| pair.starts_with(secret)))
        .collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_never_survives_in_a_message() {
        for (text, shown) in [
            ("redis://:s3cret@h:1/0", "redis://:***@h:1/0"),
            ("redis://me:s3cret@h", "redis://me:***@h"),
            ("cannot read `redis://me:s3/c@ret@h`, try", "cannot read `redis://me:***@h`, try"),
            ("redis+unix:///s.sock?db=1&pass=s3cret", "redis+unix:///s.sock?db=1&pass=***"),
            ("unix:/s.sock?password=s3cret&db=1", "unix:/s.sock?password=***&db=1"),
            (
                "redis+sentinel://a,b/m?sentinel_pass=s3cret",
                "redis+sentinel://a,b/m?sentinel_pass=***",
            ),
            ("two: redis://:a@x redis://:b@y", "two: redis://:***@x redis://:***@y"),
            ("no url at all", "no url at all"),
        ] {
            assert_eq!(redact(text), shown);
        }
    }

    #[test]
    fn a_password_never_survives_a_slip_in_its_url() {
        for (url, shown) in [
            ("me:s3cret@h", "me:***@h"),
            ("redis//me:s3cret@h", "redis//me:***@h"),
            ("redis;//me:s3:c@ret@h", "redis;//me:***@h"),
            ("rdeis://me:s3 cr,et@h", "rdeis://me:***@h"),
            ("me:s3@cr://et@h", "me:***@h"),
            ("redsi//h?pass=s3cret", "redsi//h?pass=***"),
            ("redsi://h/3", "redsi://h/3"),
        ] {
            assert_eq!(redact_mistyped(url), shown);
        }
    }

    #[test]
    fn the_commands_url_has_the_user_but_no_password() {
        for (url, handed_on) in [
            ("redis://:s3cret@h:1/0", "redis://h:1/0"),
            ("redis://me:s3cret@h", "redis://me@h"),
            ("redis://me@h", "redis://me@h"),
            ("redis://h/3", "redis://h/3"),
            ("redis+unix:///s.sock?db=1&pass=s3cret", "redis+unix:///s.sock?db=1"),
            ("unix:/s.sock?pass=s3cret", "unix:/s.sock"),
            ("redis+sentinel://me:x@a,b/m?db=1&sentinel_pass=y", "redis+sentinel://me@a,b/m?db=1"),
            ("sqlite:/var/lib/a@b:c.db", "sqlite:/var/lib/a@b:c.db"),
        ] {
            assert_eq!(without_password(url), handed_on);
        }
    }
}
