//! The settings by name: one table, from which flags, variables and file keys take theirs.

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// The URL of the store.
    Store,
    /// The file with its password.
    StorePasswordFile,
    /// The wire format.
    Dialect,
    /// What keys begin with.
    Prefix,
    /// Refuse stores of this machine.
    Distributed,
    /// The lease.
    Ttl,
    /// The longest wait.
    Wait,
    /// Do not wait.
    NoWait,
    /// The exit code in place of 75.
    ConflictExitCode,
    /// What happens to the command when the lock is lost.
    OnLost,
    /// Between TERM and KILL.
    Grace,
    /// How long the lock stays held at least.
    MinHold,
    /// How long the lock is held at most.
    MaxHold,
    /// After a revoke, KILL follows the grace.
    Kill,
    /// The lock is held beside others.
    Shared,
    /// How many permits of a semaphore.
    Permits,
    /// How many permits there are.
    Limit,
    /// What the holder says of itself.
    Meta,
    /// The command gets the token.
    ExportToken,
    /// Output for machines.
    Json,
    /// Say less.
    Quiet,
    /// Say more.
    Verbose,
}

impl Key {
    /// All of them.
    pub(crate) const ALL: [Key; 22] = [
        Key::Store,
        Key::StorePasswordFile,
        Key::Dialect,
        Key::Prefix,
        Key::Distributed,
        Key::Ttl,
        Key::Wait,
        Key::NoWait,
        Key::ConflictExitCode,
        Key::OnLost,
        Key::Grace,
        Key::MinHold,
        Key::MaxHold,
        Key::Kill,
        Key::Shared,
        Key::Permits,
        Key::Limit,
        Key::Meta,
        Key::ExportToken,
        Key::Json,
        Key::Quiet,
        Key::Verbose,
    ];

    /// As it stands in a file, and after two dashes on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Key::Store => "store",
            Key::StorePasswordFile => "store-password-file",
            Key::Dialect => "dialect",
            Key::Prefix => "key-prefix",
            Key::Distributed => "distributed",
            Key::Ttl => "ttl",
            Key::Wait => "wait",
            Key::NoWait => "no-wait",
            Key::ConflictExitCode => "conflict-exit-code",
            Key::OnLost => "on-lost",
            Key::Grace => "grace",
            Key::MinHold => "min-hold",
            Key::MaxHold => "max-hold",
            Key::Kill => "kill",
            Key::Shared => "shared",
            Key::Permits => "permits",
            Key::Limit => "limit",
            Key::Meta => "meta",
            Key::ExportToken => "export-token",
            Key::Json => "json",
            Key::Quiet => "quiet",
            Key::Verbose => "verbose",
        }
    }

    /// As it stands in the environment.
    pub(crate) fn variable(self) -> String {
        format!("{PREFIX}{}", self.name().to_uppercase().replace('-', "_"))
    }

    /// The setting with this name in a file.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// The setting of this variable.
    pub(crate) fn of_variable(variable: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.variable() == variable)
    }
}

/// What all variables begin with.
pub(crate) const PREFIX: &str = "FENCELOCK_";

/// The candidate that is most like what was written.
pub(crate) fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates.into_iter().max_by(|one, other| {
        let (one, other) = (likeness(written, one), likeness(written, other));
        one.total_cmp(&other)
    })
}

/// Whether one may have been written for the other: a few slips of the fingers, and fewer than half
/// of the letters.
pub(crate) fn is_slip(written: &str, meant: &str) -> bool {
    let (written, meant) = (written.to_lowercase(), meant.to_lowercase());
    let slips = strsim::damerau_levenshtein(&written, &meant);
    slips <= SLIPS_MAX && 2 * slips < meant.chars().count()
}

/// Two keys in the wrong order and one too many.
const SLIPS_MAX: usize = 2;

fn likeness(written: &str, candidate: &str) -> f64 {
    let (written, candidate) = (written.to_lowercase(), candidate.to_lowercase());
    // How many slips of the fingers; among equals, the one that begins alike.
    strsim::normalized_damerau_levenshtein(&written, &candidate)
        + strsim::jaro_winkler(&written, &candidate) / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_found_by_each_of_its_names() {
        for key in Key::ALL {
            assert_eq!(Key::of_name(key.name()), Some(key));
            assert_eq!(Key::of_variable(&key.variable()), Some(key));
        }
        assert_eq!(Key::of_variable("FENCELOCK_TOKEN"), None);
    }

    #[test]
    fn the_nearest_of_a_slip_is_what_was_meant() {
        let names = Key::ALL.map(Key::name);
        for (slip, meant) in
            [("tll", "ttl"), ("stroe", "store"), ("no_wait", "no-wait"), ("Grace", "grace")]
        {
            assert_eq!(nearest(slip, names), Some(meant));
        }
    }
}
