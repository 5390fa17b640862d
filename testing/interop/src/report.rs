//! The table in `README.md`: made from results, and read again to see whether its rows are all there.

use std::{fs, path::PathBuf};

use crate::{
    checks::{Check, Outcome},
    peers::{PEERS, Peer},
};

/// What one peer gave.
#[derive(Debug)]
pub struct Row {
    /// Who.
    pub peer: &'static Peer,
    /// Its library and version, and what each check gave; or why it was left out.
    pub result: Result<(String, Vec<Outcome>), String>,
}

/// The README with this table in the place of its old one.
///
/// # Panics
/// When it has no markers.
#[must_use]
pub fn with_table(readme: &str, server: &str, rows: &[Row]) -> String {
    let (before, rest) = readme.split_once(BEGIN).expect("the marker of the beginning");
    let (_, after) = rest.split_once(END).expect("the marker of the end");
    format!("{before}{BEGIN}\n{}\n{END}{after}", table(server, rows))
}

/// The heads of the table.
#[must_use]
pub fn heads() -> String {
    let checks: Vec<&str> = Check::ALL.iter().map(|check| check.title()).collect();
    format!("| peer | our dialect, key | version | {} |", checks.join(" | "))
}

/// The first two columns of a row, which the table of peers decides.
#[must_use]
pub fn beginning(peer: &Peer) -> String {
    format!("| {} ({}) | {}, `{}` |", peer.name, peer.language, peer.dialect, peer.key)
}

/// What differs between the README and the table of peers.
#[must_use]
pub fn stale(readme: &str) -> Vec<String> {
    let lines: Vec<&str> = readme.lines().collect();
    let mut stale = Vec::new();
    if !lines.contains(&heads().as_str()) {
        stale.push(format!("its heads are not {}", heads()));
    }
    for peer in PEERS {
        if !lines.iter().any(|line| line.starts_with(&beginning(peer))) {
            stale.push(format!("it has no row {}", beginning(peer)));
        }
    }
    // The rest of the table are its heads and the line below them.
    let rows = lines.iter().filter(|line| line.starts_with('|')).count();
    if rows != PEERS.len() + 2 {
        stale.push(format!("it has {} lines for {} peers", rows.saturating_sub(2), PEERS.len()));
    }
    stale
}

/// Where the README is.
#[must_use]
pub fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"))
}

/// Writes the table into the README.
///
/// # Panics
/// When the file can't be read or written.
pub fn write(server: &str, rows: &[Row]) {
    let readme = fs::read_to_string(path()).expect("the README");
    fs::write(path(), with_table(&readme, server, rows)).expect("it can be written");
}

/// The table, and what it was measured on.
#[must_use]
pub fn table(server: &str, rows: &[Row]) -> String {
    let mut text = format!("Server: {server}. Times are medians from release to grant.\n\n");
    text += &format!("{}\n{}\n", heads(), "|---".repeat(3 + Check::ALL.len()) + "|");
    for row in rows {
        text += &line(row);
    }
    text
}

/// One row.
#[must_use]
pub fn line(row: &Row) -> String {
    let cells = match &row.result {
        Ok((version, outcomes)) => {
            let mut cells = vec![version.clone()];
            cells.extend(outcomes.iter().map(cell));
            cells
        }
        Err(why) => {
            let mut cells = vec![format!("skipped: {why}")];
            cells.resize(1 + Check::ALL.len(), "-".to_owned());
            cells
        }
    };
    format!("{} {} |\n", beginning(row.peer), cells.join(" | "))
}

fn cell(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Holds => "ok".to_owned(),
        Outcome::Woken(span) => format!("ok, {:.1} ms", span.as_secs_f64() * 1e3),
        Outcome::NotApplicable(why) => format!("n/a: {why}"),
    }
}

const BEGIN: &str = "<!-- matrix: testing/interop/run --write -->";
const END: &str = "<!-- end of matrix -->";
