//! How many commands clients sent.
//!
//! Redis counts a command that a script runs like one that a client sends, in `INFO commandstats`
//! and in `total_commands_processed` alike. So a short run is watched with MONITOR first, which
//! tells the two apart; what it saw clients send is then counted with commandstats in the measured
//! runs, which MONITOR would slow down.

use std::collections::{BTreeMap, BTreeSet};

use fencelock_testkit::monitor::Seen;

/// Which commands the clients of a peer send, in lower case.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Sent by clients.
    names: BTreeSet<String>,
    /// Sent by clients and also run by scripts: commandstats counts too many of these.
    mixed: BTreeSet<String>,
}

impl Sent {
    /// Of a recording.
    #[must_use]
    pub fn of(seen: &[Seen]) -> Self {
        let named = |by_script: bool| -> BTreeSet<String> {
            let by_either = seen.iter().filter(|seen| seen.is_from_script() == by_script);
            by_either.map(|seen| seen.name().to_lowercase()).collect()
        };
        let (names, by_scripts) = (named(false), named(true));
        let mixed = names.intersection(&by_scripts).cloned().collect();
        Self { names, mixed }
    }

    /// Sums the calls that clients made between two readings.
    #[must_use]
    pub fn count(&self, before: &Calls, after: &Calls) -> u64 {
        let calls = |calls: &Calls, name: &String| calls.0.get(name).copied().unwrap_or(0);
        self.names.iter().map(|name| calls(after, name).saturating_sub(calls(before, name))).sum()
    }

    /// The commands that make a count an upper bound, for people; empty when it is exact.
    #[must_use]
    pub fn mixed(&self) -> String {
        self.mixed.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// Calls by command; subcommands are summed.
#[derive(Clone, Debug, Default)]
pub struct Calls(BTreeMap<String, u64>);

impl Calls {
    /// From the text of `INFO commandstats`. The reader's own `info` is left out.
    #[must_use]
    pub fn parse(info: &str) -> Self {
        let mut calls = BTreeMap::new();
        for line in info.lines() {
            let Some((name, rest)) = line.strip_prefix("cmdstat_").and_then(|l| l.split_once(':'))
            else {
                continue;
            };
            let name = name.split('|').next().unwrap_or(name);
            let number = rest.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
            let number: u64 = number.and_then(|number| number.parse().ok()).unwrap_or(0);
            if name != "info" {
                *calls.entry(name.to_owned()).or_insert(0) += number;
            }
        }
        Self(calls)
    }
}

/// Seconds of CPU from the text of `INFO cpu`.
#[must_use]
pub fn cpu_seconds(info: &str) -> f64 {
    let value = |key: &str| -> f64 {
        let text = info.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("0");
        text.trim().parse().unwrap_or(0.0)
    };
    value("used_cpu_sys:") + value("used_cpu_user:")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# Commandstats\r\n\
        cmdstat_set:calls=5,usec=1,usec_per_call=0.2,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_client|setinfo:calls=2,usec=1\r\ncmdstat_client|id:calls=1,usec=1\r\n";

    #[test]
    fn calls_are_read_and_subcommands_summed() {
        let calls = Calls::parse(BEFORE);
        assert_eq!(calls.0.get("set"), Some(&5));
        assert_eq!(calls.0.get("client"), Some(&3));
    }

    #[test]
    fn only_what_clients_send_is_counted() {
        let sent =
            Sent { names: ["set", "evalsha"].map(str::to_owned).into(), mixed: BTreeSet::new() };
        let after = "cmdstat_set:calls=8,usec=1\r\ncmdstat_evalsha:calls=4,usec=1\r\n\
            cmdstat_get:calls=900,usec=1\r\ncmdstat_info:calls=4,usec=1\r\n";
        assert_eq!(sent.count(&Calls::parse(BEFORE), &Calls::parse(after)), 3 + 4);
    }

    #[test]
    fn cpu_is_the_sum_of_both_kinds() {
        let info = "used_cpu_sys:1.5\r\nused_cpu_user:0.25\r\nused_cpu_sys_children:9\r\n";
        assert_eq!(cpu_seconds(info), 1.75);
    }
}
