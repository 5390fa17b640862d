//! How many commands clients sent.
//!
//! Redis counts a command that a script runs like one that a client sends, in `INFO commandstats`
//! and in `total_commands_processed` alike. So a short run is watched with MONITOR first, which
//! tells the two apart; what it saw clients send is then counted with commandstats in the measured
//! runs, which MONITOR would slow down. A command that both send is counted by the share that
//! clients had of it.

use std::collections::BTreeMap;

use fencelock_testkit::monitor::Seen;

/// Which commands the clients of a peer send, in lower case.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// What clients send, and which share of its calls is theirs: 1 unless scripts run it too.
    shares: BTreeMap<String, f64>,
}

impl Sent {
    /// Of a recording.
    #[must_use]
    pub fn of(seen: &[Seen]) -> Self {
        let mut counts: BTreeMap<String, (u32, u32)> = BTreeMap::new();
        for seen in seen {
            let (clients, all) = counts.entry(seen.name().to_lowercase()).or_default();
            *clients += u32::from(!seen.is_from_script());
            *all += 1;
        }
        let shares = counts.into_iter().filter(|(_, (clients, _))| *clients > 0);
        Self {
            shares: shares
                .map(|(name, (clients, all))| (name, f64::from(clients) / f64::from(all)))
                .collect(),
        }
    }

    /// Sums the calls that clients made between two readings.
    #[must_use]
    pub fn count(&self, before: &Calls, after: &Calls) -> f64 {
        let calls = |calls: &Calls, name: &String| calls.0.get(name).copied().unwrap_or(0);
        let made = |name| calls(after, name).saturating_sub(calls(before, name));
        self.shares.iter().map(|(name, share)| exact(made(name)) * share).sum()
    }

    /// The commands that make a count an estimate, for people; empty when it is exact.
    #[must_use]
    pub fn mixed(&self) -> String {
        let mixed = self.shares.iter().filter(|(_, share)| **share < 1.0);
        mixed.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
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

/// Exact below 2^53.
#[allow(clippy::cast_precision_loss)]
fn exact(number: u64) -> f64 {
    number as f64
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
        let shares = [("set", 1.0), ("evalsha", 1.0), ("get", 0.25)];
        let sent = Sent { shares: shares.map(|(name, share)| (name.to_owned(), share)).into() };
        let after = "cmdstat_set:calls=8,usec=1\r\ncmdstat_evalsha:calls=4,usec=1\r\n\
            cmdstat_del:calls=900,usec=1\r\ncmdstat_get:calls=12,usec=1\r\n";
        let (before, after) = (Calls::parse(BEFORE), Calls::parse(after));
        assert_eq!(sent.count(&before, &after), 3.0 + 4.0 + 12.0 / 4.0);
        assert_eq!(sent.mixed(), "get");
    }

    #[test]
    fn monitor_tells_clients_from_scripts() {
        let server = fencelock_testkit::RedisServer::start();
        let mut connection = server.connect();
        let monitor = server.monitor();
        let script = "redis.call('get', 'a') redis.call('del', 'a')";
        let mut run = redis::cmd("EVAL");
        let _: () = run.arg(script).arg(0).query(&mut connection).expect("EVAL");
        let _: Option<String> = redis::cmd("GET").arg("a").query(&mut connection).expect("GET");
        let sent = Sent::of(&monitor.take());
        assert_eq!(sent.shares, [("eval".to_owned(), 1.0), ("get".to_owned(), 0.5)].into());
    }

    #[test]
    fn cpu_is_the_sum_of_both_kinds() {
        let info = "used_cpu_sys:1.5\r\nused_cpu_user:0.25\r\nused_cpu_sys_children:9\r\n";
        assert_eq!(cpu_seconds(info), 1.75);
    }
}
