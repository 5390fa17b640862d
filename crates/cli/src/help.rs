//! The long parts of the help texts: examples, environment, settings, exit codes.
//!
//! Lines are kept below 80 columns: they are printed as they are.

use crate::exit;
use crate::settings::Key;

/// Examples of one command and the exit codes.
pub(crate) fn with_codes(examples: &str) -> String {
    format!("{examples}\n{}", exit::table())
}

/// What `run` does besides what its options say.
pub(crate) fn run() -> String {
    format!(
        "Examples:
  fencelock run nightly -- ./backup.sh         one at a time on this machine
  fencelock run nightly -n -- ./backup.sh      or not at all (exit code 75)
  fencelock run nightly --wait 10m --store redis://locks.example -- ./backup.sh
  fencelock run a b -- sh -c 'echo \"$FENCELOCK_FENCING_TOKEN\"'

The command's environment:
  FENCELOCK_NAME           the locks it runs under, one a line
                           (with --name-hex: in hexadecimal digits)
  FENCELOCK_FENCING_TOKEN  a number that grows with every grant: let what you
                           write to refuse smaller ones; unset where the store
                           has none
  FENCELOCK_DEADLINE_MS    until when the lock is held at least, in milliseconds
                           since 1970, as of the start of the command: renewals
                           move it on
  FENCELOCK_STORE          the store, without its password
  FENCELOCK_TOKEN          the token, only with --export-token

fencelock ends when the command ends, not with its own standard input or
terminal: a command that nobody waits for any more keeps the lock until somebody
sends it (or fencelock) a signal.

The settings have to leave room for the command to die in: --grace and the time
kept for KILL (2 % of the ttl, at least 20ms) may take at most half of the ttl.

{}",
        exit::table()
    )
}

/// What all commands have in common.
pub(crate) fn overview() -> String {
    let names: Vec<String> = Key::ALL.iter().map(|key| key.variable()).collect();
    let mut variables = String::new();
    for line in names.chunks(3) {
        variables.push_str(&format!("  {}\n", line.join(" ")));
    }
    format!(
        "Examples:
  fencelock run nightly -- ./backup.sh
  export FENCELOCK_STORE=redis://locks.example:6379
  fencelock run --distributed nightly -- ./backup.sh
  fencelock show nightly

Settings come from the command line, then the environment, then
./fencelock.toml, then ~/.config/fencelock/fencelock.toml ($XDG_CONFIG_HOME
counts). A file has the long option names as keys (ttl = \"30s\",
no-wait = true, [meta]). In the environment:
{variables}
Without a store the locks are in $XDG_STATE_HOME/fencelock/locks.db (else
~/.local/state/fencelock/locks.db): each user has their own, and only this
machine sees them. A fleet sets --distributed, so that a host without a store
refuses to run instead of locking only itself.

Several stores are one, a quorum of independent servers: --store given several
times, URLs with spaces between them in FENCELOCK_STORE, or a list in a file
(store = [\"redis://a\", \"redis://b\", \"redis://c\"]). New servers count only
after `fencelock init`.

{}",
        exit::table()
    )
}
