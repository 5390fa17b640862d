//! Spans of time as a person writes and reads them.
//!
//! A unit is required and the grammar is narrow on purpose: the commonest mistake with locks is a
//! span in the wrong unit, and a lenient parser (`5M` for five months) turns it into a lease of weeks.

use std::time::Duration;

/// Reads `500ms`, `2s`, `1m`, `1h30m`, `1d`.
///
/// # Errors
/// A sentence without its subject: the caller puts the name of the setting in front.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let shown = text.escape_debug();
    if text.is_empty() {
        return Err(format!("is empty, {EXAMPLES}"));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{shown}` has no unit, write `{shown}s` or `{shown}ms`"));
    }
    if text.starts_with('-') {
        return Err(format!("`{shown}` is negative, {EXAMPLES}"));
    }
    if !is_well_formed(text) {
        return Err(format!("`{shown}` is not a span of time, {EXAMPLES}"));
    }
    humantime::parse_duration(text).map_err(|_| format!("`{shown}` is too long to be counted"))
}

/// Whole numbers with a unit each, from the largest unit to the smallest, nothing in between.
fn is_well_formed(text: &str) -> bool {
    let mut rest = text;
    let mut units = UNITS;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = &rest[digits..];
        let letters = number.bytes().take_while(u8::is_ascii_lowercase).count();
        let unit = &number[..letters];
        let Some(at) = units.iter().position(|known| *known == unit) else { return false };
        if digits == 0 {
            return false;
        }
        units = &units[at + 1..];
        rest = &number[letters..];
    }
    true
}

/// A span for a person: `1h30m`, `2s`, `1.5s`, `250ms`.
pub(crate) fn show(span: Duration) -> String {
    if span < Duration::from_secs(10) {
        let millis = span.as_millis();
        return match millis {
            0..1_000 => format!("{millis}ms"),
            _ if millis.is_multiple_of(1_000) => format!("{}s", millis / 1_000),
            _ => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        };
    }
    let seconds = span.as_secs();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let shown: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        // Beyond two parts nobody reads on.
        .take(2)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    shown.concat()
}

/// The units, from the largest.
const UNITS: &[&str] = &["d", "h", "m", "s", "ms"];
const EXAMPLES: &str = "write a span like `500ms`, `2s`, `1m` or `1h30m`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_need_a_unit_and_nothing_else_is_let_through() {
        for (text, millis) in [
            ("500ms", 500),
            ("2s", 2_000),
            ("1m", 60_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("1m1s5ms", 61_005),
            ("0s", 0),
            ("007s", 7_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "5",
            "1790000000",
            " 5 s ",
            "5 s",
            " 5s",
            "5s ",
            "5S",
            "5MS",
            "1.5",
            "1.5s",
            "-1s",
            "-5",
            "+5s",
            "1ns",
            "1us",
            "5M",
            "5y",
            "5w",
            "s",
            "ms",
            "5s5s",
            "5s1m",
            "1m,5s",
            "٥s",
            "5sec",
            "5s\n",
            "99999999999999999999s",
            "0x5s",
            "1e3s",
            "inf",
            "∞",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert!(parse("5").is_err_and(|sentence| sentence.contains("`5s`")));
    }

    #[test]
    fn spans_are_shown_in_two_parts_at_most() {
        for (millis, text) in [
            (0, "0ms"),
            (250, "250ms"),
            (1_500, "1.5s"),
            (2_000, "2s"),
            (12_345, "12s"),
            (90_000, "1m30s"),
            (3_600_000, "1h"),
            (90_061_000, "1d1h"),
        ] {
            assert_eq!(show(Duration::from_millis(millis)), text);
        }
    }
}
