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
  fencelock run encode --limit 4 -- ./encode.sh    at most four at once
  fencelock run data --shared -- ./read.sh     beside others, but never beside:
  fencelock run data -- ./rebuild.sh
  fencelock run a b -- sh -c 'echo \"$FENCELOCK_FENCING_TOKEN\"'

{ENVIRONMENT}
fencelock ends when the command ends, not with its own standard input or
terminal: a command that nobody waits for any more keeps the lock until somebody
sends it (or fencelock) a signal.

The settings have to leave room for the command to die in: --grace and the time
kept for KILL (2 % of the ttl, at least 20ms) may take at most half of the ttl.

{}",
        exit::table()
    )
}

/// What `elect` does besides what its options say.
pub(crate) fn elect() -> String {
    format!(
        "Examples:
  fencelock elect scheduler --store redis://locks.example -- ./scheduler
  fencelock elect api --ttl 5s --meta info=10.0.0.7:8080 -- ./api --port 8080
  fencelock show scheduler                   who leads, and what it says of itself
  fencelock revoke scheduler                 move it to another machine

When COMMAND ends:
  told to, by a signal to fencelock   the same exit code as with run
  lost, or asked back by a revoke     campaign again, at once
  well (0, or HUP INT TERM PIPE)      end with its exit code
  otherwise (on-failure)              campaign again after a pause: 100ms, then
                                      doubling up to 30s while it ends soon
With --restart always it campaigns again whatever the exit code, with never it
ends with it: then a lost leadership is exit code 79. It resigns before each
pause, so where COMMAND fails it does not keep the others from running it.

A candidate waits until it is elected: there is no --wait. What is wrong at the
start ends it (69, 77); later it waits until the store is back. --meta is what
observers see, info=... is what the library calls the leader's info.

{ENVIRONMENT}
Each start of COMMAND has a larger fencing token: it is the term.

{}",
        exit::table()
    )
}

/// What `run` and `elect` tell their command.
const ENVIRONMENT: &str = "\
The command's environment:
  FENCELOCK_NAME           the locks it runs under, one a line
                           (with --name-hex: in hexadecimal digits)
  FENCELOCK_FENCING_TOKEN  a number that grows with every grant: let what you
                           write to refuse smaller ones; unset where the store
                           has none, and with --shared and --limit: who is not
                           alone has no right to write
  FENCELOCK_DEADLINE_MS    until when the lock is held at least, in milliseconds
                           since 1970, as of the start of the command: renewals
                           move it on
  FENCELOCK_STORE          the store, without its password
  FENCELOCK_TOKEN          the token, only with --export-token
";

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
