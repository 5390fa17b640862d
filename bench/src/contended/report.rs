//! The table, as Markdown and CSV, of the medians over the rounds.

use std::fmt::Write as _;

use super::{
    peers::{PEERS, Skipped},
    run::{Outcome, Scenario},
};
use crate::median;

/// One peer with one setting in one scenario.
#[derive(Clone, Debug)]
pub struct Row {
    /// Where it was measured.
    pub scenario: Scenario,
    /// The peer.
    pub peer: &'static str,
    /// Its setting.
    pub setting: &'static str,
    /// Its language.
    pub language: &'static str,
    /// The commands that make the count of commands an estimate; empty when it is exact.
    pub mixed: String,
    /// One per round.
    pub outcomes: Vec<Outcome>,
}

/// A column: its head, its unit in the head, how many decimals, and the figure of one run. A
/// figure that cannot be had (a mean of nothing) is NaN.
#[derive(Debug)]
pub struct Column {
    /// The head.
    pub head: &'static str,
    /// What it is, for the legend.
    pub what: &'static str,
    decimals: usize,
    figure: fn(&Outcome) -> f64,
}

/// The columns behind those that say who and where.
pub const COLUMNS: &[Column] = &[
    Column {
        head: "hand-offs/s",
        what: "grants whose owner is not that of the grant before",
        decimals: 0,
        figure: |run| count(run.figures.hand_offs) / run.figures.seconds,
    },
    Column {
        head: "grants/s",
        what: "all grants, also those that a contender gets twice in a row",
        decimals: 0,
        figure: |run| count(run.figures.grants) / run.figures.seconds,
    },
    Column {
        head: "crossings/s",
        what: "grants whose owner is in another process than that of the grant before",
        decimals: 0,
        figure: |run| count(run.figures.crossings) / run.figures.seconds,
    },
    Column {
        head: "p50 us",
        what: "hand-off: from the call of release to the next owner's return",
        decimals: 0,
        figure: |run| some(run, run.figures.hand_off_us.p50),
    },
    Column {
        head: "p99 us",
        what: "the same",
        decimals: 0,
        figure: |run| some(run, run.figures.hand_off_us.p99),
    },
    Column {
        head: "max us",
        what: "the same",
        decimals: 0,
        figure: |run| some(run, run.figures.hand_off_us.max),
    },
    Column {
        head: "wait mean ms",
        what: "from the call of acquire to its return; waits that the end cut off count until then",
        decimals: 2,
        figure: |run| run.figures.wait_ms.mean,
    },
    Column {
        head: "wait max ms",
        what: "the same",
        decimals: 1,
        figure: |run| run.figures.wait_ms.max,
    },
    Column {
        head: "Jain",
        what: "Jain's index of the grants of each contender; 1 is even",
        decimals: 3,
        figure: |run| run.figures.jain,
    },
    Column {
        head: "commands",
        what: "commands that clients sent, for each hand-off; those that scripts run are not counted",
        decimals: 2,
        figure: |run| run.commands / count(run.figures.hand_offs),
    },
    Column {
        head: "server us",
        what: "CPU time of the server for each hand-off",
        decimals: 1,
        figure: |run| run.server_cpu.as_secs_f64() * 1e6 / count(run.figures.hand_offs),
    },
    Column {
        head: "section us",
        what: "the median length of a critical section as it was, timers included",
        decimals: 0,
        figure: |run| run.figures.section_us,
    },
];

impl Column {
    /// The median over the rounds; none when no round has it.
    #[must_use]
    pub fn of(&self, row: &Row) -> Option<f64> {
        let figures = row.outcomes.iter().map(self.figure).filter(|figure| figure.is_finite());
        let figures: Vec<f64> = figures.collect();
        (!figures.is_empty()).then(|| median(&figures))
    }

    fn text(&self, row: &Row) -> String {
        self.of(row).map_or_else(|| "-".to_owned(), |figure| format!("{figure:.*}", self.decimals))
    }
}

/// The column of a head.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn column(head: &str) -> &'static Column {
    COLUMNS.iter().find(|column| column.head == head).expect("a column has this head")
}

impl Row {
    /// Overlapping critical sections in all rounds.
    #[must_use]
    pub fn overlaps(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.figures.overlaps).sum()
    }

    /// Calls that gave up or failed, in all rounds.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.failed).sum()
    }
}

impl std::fmt::Display for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let processes = if self.processes == 1 { "process" } else { "processes" };
        write!(f, "{} in {} {processes}, ", self.contenders, self.processes)?;
        match self.section.as_micros() {
            0 => f.write_str("empty"),
            micros => write!(f, "{micros} us"),
        }
    }
}

/// The table for people, with what was measured, how, and who was not.
#[must_use]
pub fn markdown(facts: &str, rows: &[Row], skipped: &[Skipped]) -> String {
    let mut text = format!("# Contended hand-off, side by side\n\n{facts}\n\n");
    text += "| contenders, section | peer | setting |";
    for column in COLUMNS {
        text = text + " " + column.head + " |";
    }
    text += " overlaps | failed |\n|---|---|---|";
    text += &"--:|".repeat(COLUMNS.len() + 2);
    text.push('\n');
    for row in rows {
        text += &format!("| {} | {} | {} |", row.scenario, row.peer, row.setting);
        for column in COLUMNS {
            let bound =
                if column.head == "commands" && !row.mixed.is_empty() { "≈ " } else { "" };
            text += &format!(" {bound}{} |", column.text(row));
        }
        text += &format!(" {} | {} |\n", row.overlaps(), row.failed());
    }
    text += "\nColumns (medians of the rounds; overlaps and failed: sums):\n\n";
    for column in COLUMNS {
        text += &format!("- **{}**: {}\n", column.head, column.what);
    }
    text += "- **overlaps**: critical sections that began while another one went on; must be 0\n";
    text += "- **failed**: calls that gave up or failed, and were made again\n";
    text += "\nSettings:\n\n";
    for peer in PEERS.iter().filter(|peer| rows.iter().any(|row| row.peer == peer.name)) {
        for setting in peer.settings {
            let (name, language) = (peer.name, peer.language);
            text += &format!("- {name} ({language}), {}: {}\n", setting.name, setting.what);
        }
    }
    for row in rows.iter().filter(|row| !row.mixed.is_empty()) {
        let note = format!(
            "- {}, {}: `{}` sent by clients and run by scripts alike, so commands are an estimate\n",
            row.peer, row.setting, row.mixed
        );
        if !text.contains(&note) {
            text += &note;
        }
    }
    if !skipped.is_empty() {
        text += "\nNot measured:\n\n";
        for Skipped { name, why } in skipped {
            text += &format!("- {name}: {why}\n");
        }
    }
    text
}

/// The same figures for programs: medians, a row each.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from("contenders,processes,section_us,peer,language,setting,rounds");
    for column in COLUMNS {
        text = text + "," + &column.head.replace([' ', '/', '-'], "_");
    }
    text += ",overlaps,failed\n";
    for row in rows {
        let Scenario { contenders, processes, section } = row.scenario;
        write!(
            text,
            "{contenders},{processes},{},{},{},{},{}",
            section.as_micros(),
            row.peer,
            row.language,
            row.setting,
            row.outcomes.len()
        )
        .expect("a string takes it");
        for column in COLUMNS {
            let figure = column.of(row).map_or_else(String::new, |figure| format!("{figure:.4}"));
            text = text + "," + &figure;
        }
        writeln!(text, ",{},{}", row.overlaps(), row.failed()).expect("a string takes it");
    }
    text
}

/// Every round by itself, a row each: what the medians are of.
#[must_use]
pub fn rounds_csv(rows: &[Row]) -> String {
    let single = rows.iter().flat_map(|row| {
        row.outcomes.iter().map(|outcome| Row { outcomes: vec![outcome.clone()], ..row.clone() })
    });
    csv(&single.collect::<Vec<_>>())
}

fn some(run: &Outcome, figure: f64) -> f64 {
    if run.figures.hand_offs == 0 { f64::NAN } else { figure }
}

/// Exact below 2^53.
#[allow(clippy::cast_precision_loss)]
fn count(number: u64) -> f64 {
    number as f64
}
