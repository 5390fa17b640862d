//! The file with the passwords of the stores: read, and put where each of them belongs.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use super::Node;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::redact::without_password;
use crate::settings::Sourced;

/// A password is a line; anything longer is another file.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Reads the file and gives each store its password: the only line is that of all stores whose URL
/// has none; of several lines each store has its own, in the order of the stores. One store alone
/// has the first line, whatever its URL says.
///
/// Blank lines at the end do not count, as editors leave them; nor do others, unless there are just
/// as many lines as stores: then a blank one is for a store without a password.
///
/// # Errors
/// The file can't be read, has no password, or not as many lines as there are stores.
pub(super) fn give(
    nodes: &mut [Node],
    Sourced { value: path, origin }: &Sourced<String>,
) -> Result<(), Failure> {
    let fail = |sentence: String| {
        Err(origin.fail(&format!("names {path}, {sentence}")).with_code(Exit::Config))
    };
    let text = match text_of(Path::new(path)) {
        Ok(text) => text,
        Err(error) => return fail(format!("which can't be read: {error}")),
    };
    let stores = nodes.len();
    let lines = lines_of(&text, stores);
    match (&lines[..], nodes) {
        ([], _) => fail("which has no password in it".to_owned()),
        ([first, ..], [only]) => {
            only.password = Some((*first).to_owned());
            Ok(())
        }
        ([line], nodes) => {
            for node in nodes.iter_mut().filter(|node| !has_password(&node.url)) {
                node.password = Some((*line).to_owned());
            }
            Ok(())
        }
        (lines, nodes) if lines.len() == stores => {
            for (node, line) in nodes.iter_mut().zip(lines) {
                node.password = Some((*line).to_owned()).filter(|line| !is_blank(line));
            }
            Ok(())
        }
        (lines, _) => fail(format!(
            "which has {} lines with a password for {stores} stores: write one for all of them, or \
             one for each",
            lines.len()
        )),
    }
}

/// The lines that count.
fn lines_of(text: &str, stores: usize) -> Vec<&str> {
    // Some editors mark the beginning of a text.
    let all: Vec<&str> = text.trim_start_matches('\u{feff}').lines().collect();
    let used = all.iter().rposition(|line| !is_blank(line)).map_or(0, |last| last + 1);
    let has_gaps = all[..used].iter().any(|line| is_blank(line));
    let is_one_for_each = stores > 1 && used > 1 && [used, all.len()].contains(&stores);
    match is_one_for_each {
        true if used == stores => all[..used].to_vec(),
        true if !has_gaps => all,
        _ => all.into_iter().filter(|line| !is_blank(line)).collect(),
    }
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn has_password(url: &str) -> bool {
    without_password(url) != url
}

/// The URL with this password in place of its own.
pub(super) fn with_password(url: &str, password: &str) -> String {
    let url = without_password(url);
    let secret = encode(password);
    match url.split_once("://") {
        Some((scheme, rest)) if !is_socket(scheme) => match rest.split_once('@') {
            Some((user, host)) => format!("{scheme}://{user}:{secret}@{host}"),
            None => format!("{scheme}://:{secret}@{rest}"),
        },
        _ if url.contains('?') => format!("{url}&pass={secret}"),
        _ => format!("{url}?pass={secret}"),
    }
}

fn is_socket(scheme: &str) -> bool {
    ["unix", "redis+unix"].iter().any(|socket| scheme.eq_ignore_ascii_case(socket))
}

/// Anything but letters and digits in the form that is a part of no URL's own syntax.
fn encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_do_not_count_unless_they_stand_for_a_store() {
        for (text, stores, lines) in [
            ("pw\n", 1, &["pw"][..]),
            ("pw\n\n\n", 1, &["pw"]),
            ("\n \npw\r\n", 1, &["pw"]),
            ("\u{feff}pw", 1, &["pw"]),
            (" p w \n", 1, &[" p w "]),
            ("", 1, &[]),
            ("\n\n", 2, &[]),
            ("pw\n\n\n", 3, &["pw"]),
            ("pw\n\n", 2, &["pw"]),
            ("a\nb\nc\n\n", 3, &["a", "b", "c"]),
            ("a\n\nb\n\nc\n", 3, &["a", "b", "c"]),
            ("a\n\nc\n", 3, &["a", "", "c"]),
            ("a\nb\n\n", 3, &["a", "b", ""]),
            ("a\nb\n", 3, &["a", "b"]),
            ("\npw\n", 2, &["", "pw"]),
        ] {
            assert_eq!(lines_of(text, stores), lines, "{text:?} for {stores}");
        }
    }

    #[test]
    fn a_password_finds_its_place_in_any_url() {
        for (url, whole) in [
            ("redis://h:1/0", "redis://:a%40%2Fb@h:1/0"),
            ("redis://me@h", "redis://me:a%40%2Fb@h"),
            ("redis://me:old@h/3", "redis://me:a%40%2Fb@h/3"),
            ("redis+unix:///s.sock?db=1", "redis+unix:///s.sock?db=1&pass=a%40%2Fb"),
            ("unix:///s.sock", "unix:///s.sock?pass=a%40%2Fb"),
            ("unix:/s.sock?pass=old", "unix:/s.sock?pass=a%40%2Fb"),
        ] {
            assert_eq!(with_password(url, "a@/b"), whole);
        }
    }
}
