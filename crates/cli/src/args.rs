//! The command line: what can be typed, and the help texts.
//!
//! It only says what there is; values stay text and are read in `settings`, where those of the
//! environment and of files are read too.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::exit;
use crate::names::Spelling;
use crate::settings::{Key, Layer};

/// Run any command under a distributed lock
#[derive(Debug, Parser)]
#[command(
    name = "fencelock",
    version,
    about,
    long_about = "Run any command under a lock that is shared by all processes of this machine \
(the default, an embedded file) or by many machines (--store redis://...). The command is stopped \
before anybody else can hold the lock.",
    after_help = "Start here: fencelock run NAME -- COMMAND\nAll about one command, its options and \
exit codes: fencelock COMMAND --help",
    after_long_help = overview(),
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Acquire(Acquire),
    Renew(Renew),
    Release(Release),
    Show(Show),
    Ls(Ls),
    Completions(Completions),
    Man(Man),
}

/// Run a command while holding a lock
///
/// Waits for the lock, runs COMMAND, keeps the lock for as long as COMMAND runs, and gives it back.
/// If the lock can't be kept, COMMAND gets TERM and then KILL before anybody else can hold the lock,
/// and the exit code is 79. COMMAND runs in its own process group and gets standard input and output
/// untouched; signals are passed on. With several names all are taken, or none.
#[derive(Debug, Args)]
#[command(after_long_help = run_help())]
pub(crate) struct Run {
    /// What to lock: text without control characters, at most 512 bytes
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    /// What to run; no shell is involved unless you name one
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) ttl: TtlArgs,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
    #[command(flatten)]
    pub(crate) meta: MetaArgs,
    /// When the lock is lost: `term` stops the command, `ignore` lets it run on with a warning
    #[arg(long, value_name = "term|ignore")]
    pub(crate) on_lost: Option<String>,
    /// Time between TERM and KILL when the lock is lost [default: 2s, at most a quarter of the ttl]
    #[arg(long, value_name = "SPAN")]
    pub(crate) grace: Option<String>,
    /// Give the command the token, as FENCELOCK_TOKEN: it can then renew and release the lock
    #[arg(long)]
    pub(crate) export_token: bool,
    #[command(flatten)]
    pub(crate) name: NameArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Take a lock and leave it held
///
/// Prints a token, the proof that you hold the lock: keep it for `renew` and `release`. Nobody
/// renews the lock for you; it is free again after its ttl. If the token can't be written, the lock
/// is given back and the exit code is 70.
#[derive(Debug, Args)]
#[command(after_long_help = with_codes("Examples:
  token=$(fencelock acquire nightly --ttl 10m --wait 30s) || exit
  FENCELOCK_TOKEN=$token fencelock release nightly
  fencelock acquire once-an-hour --ttl 1h -n > /dev/null && send-report
"))]
pub(crate) struct Acquire {
    /// What to lock: text without control characters, at most 512 bytes
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    #[command(flatten)]
    pub(crate) ttl: TtlArgs,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
    #[command(flatten)]
    pub(crate) meta: MetaArgs,
    #[command(flatten)]
    pub(crate) name: NameArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Prolong a lock taken with acquire
///
/// From now on the lock is held for another ttl; a renewal never shortens it. Exits 79 when the
/// token does not hold the lock any more, and changes nothing then.
#[derive(Debug, Args)]
#[command(after_long_help = with_codes("Examples:
  FENCELOCK_TOKEN=$token fencelock renew nightly --ttl 10m
  fencelock renew nightly --ttl 10m --token - < token.txt
"))]
pub(crate) struct Renew {
    /// The locks, all that were taken together
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    #[command(flatten)]
    pub(crate) ttl: TtlArgs,
    #[command(flatten)]
    pub(crate) token: TokenArgs,
    #[command(flatten)]
    pub(crate) name: NameArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Give a lock back
///
/// Exits 79 when the token does not hold the lock any more, and changes nothing then. With --force
/// the lock is taken away from whoever holds it: its holder finds out at its next renewal, so two
/// may work at once until then. Use it for a holder that is known to be dead.
#[derive(Debug, Args)]
#[command(after_long_help = with_codes("Examples:
  FENCELOCK_TOKEN=$token fencelock release nightly
  fencelock release nightly --force          asks for the name once more
  fencelock release nightly --force --yes    asks nothing: for scripts
"))]
pub(crate) struct Release {
    /// The locks, all that were taken together
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    #[command(flatten)]
    pub(crate) token: TokenArgs,
    /// Take the lock away from whoever holds it
    #[arg(long, conflicts_with = "token")]
    pub(crate) force: bool,
    /// Do not ask (with --force)
    #[arg(long, requires = "force")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) name: NameArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show who holds a lock
///
/// Exits 1 when nobody does. A name in two dialects is two locks: without --dialect a Redis store is
/// asked for both.
#[derive(Debug, Args)]
#[command(after_long_help = with_codes("Examples:
  fencelock show nightly
  fencelock show nightly --json
  fencelock show nightly -q > /dev/null && echo \"somebody is at it\"
"))]
pub(crate) struct Show {
    /// The locks
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    #[command(flatten)]
    pub(crate) name: NameArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// List the locks that are held
///
/// One line for each lock whose name begins with PREFIX. A Redis store is asked for locks of one
/// dialect, the native one unless --dialect says otherwise.
#[derive(Debug, Args)]
#[command(after_long_help = with_codes("Examples:
  fencelock ls
  fencelock ls backup/ --json
"))]
pub(crate) struct Ls {
    /// What the names begin with; everything without it
    #[arg(value_name = "PREFIX")]
    pub(crate) prefix: Option<OsString>,
    #[command(flatten)]
    pub(crate) name: NameArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Print completions for a shell
///
/// For bash: fencelock completions bash > ~/.local/share/bash-completion/completions/fencelock
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual pages
///
/// The whole set goes to standard output, one page after the other, or as one file each into a
/// folder.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fencelock man | man -l -
  fencelock man --dir ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Write one file for each page into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TtlArgs {
    /// How long the lock outlives its last renewal, 10ms (run: 100ms) to 24h [default: 30s]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    ttl: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// How long to wait for the lock [default: for ever]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    wait: Option<String>,
    /// Try once, do not wait
    #[arg(short = 'n', long, conflicts_with = "wait")]
    no_wait: bool,
    /// Exit with N instead of 75 when the lock is busy
    #[arg(short = 'E', long, value_name = "N", allow_hyphen_values = true)]
    conflict_exit_code: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct MetaArgs {
    /// What `show` tells about you besides host and process; can be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    meta: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The token that acquire printed; `-` reads it from standard input [default: FENCELOCK_TOKEN]
    ///
    /// Other users of this machine can see a token that stands on the command line.
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub(crate) token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Names are given in hexadecimal digits, two for each byte
    #[arg(long)]
    name_hex: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Where the locks are [default: a file of yours, see `fencelock --help`]
    ///
    /// redis://HOST:PORT/DB, redis+unix:///SOCKET or sqlite:/PATH. Other users of this machine can
    /// see a password that stands here: use FENCELOCK_STORE or --store-password-file.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Read the store's password from the first line of this file
    #[arg(long, value_name = "FILE")]
    store_password_file: Option<String>,
    /// How locks are written on a Redis store [default: native]
    ///
    /// `plain` shares locks with the libraries that use SET NX PX; it has no fencing token and keeps
    /// no word about the holder.
    #[arg(long, value_name = "native|plain")]
    dialect: Option<String>,
    /// Refuse stores that only this machine sees
    #[arg(long)]
    distributed: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// One JSON object a line (run: on standard error)
    #[arg(long)]
    json: bool,
    /// Errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Tell what happens to the lock: grant, fencing token, renewals, release
    #[arg(short, long)]
    verbose: bool,
}

impl NameArgs {
    /// How the names are written.
    pub(crate) fn spelling(&self) -> Spelling {
        if self.name_hex { Spelling::Hex } else { Spelling::Text }
    }
}

/// Arguments that are settings.
pub(crate) trait Flags {
    /// Adds them to the layer of the command line.
    fn add_to(&self, layer: &mut Layer);
}

impl Flags for TtlArgs {
    fn add_to(&self, layer: &mut Layer) {
        layer.flag(Key::Ttl, self.ttl.as_ref());
    }
}

impl Flags for WaitArgs {
    fn add_to(&self, layer: &mut Layer) {
        layer.flag(Key::Wait, self.wait.as_ref());
        layer.flag_switch(Key::NoWait, self.no_wait);
        layer.flag(Key::ConflictExitCode, self.conflict_exit_code.as_ref());
    }
}

impl Flags for MetaArgs {
    fn add_to(&self, layer: &mut Layer) {
        for pair in &self.meta {
            layer.add_meta(crate::settings::Origin::Flag(Key::Meta), pair.clone());
        }
    }
}

impl Flags for StoreArgs {
    fn add_to(&self, layer: &mut Layer) {
        layer.flag(Key::Store, self.store.as_ref());
        layer.flag(Key::StorePasswordFile, self.store_password_file.as_ref());
        layer.flag(Key::Dialect, self.dialect.as_ref());
        layer.flag_switch(Key::Distributed, self.distributed);
    }
}

impl Flags for OutputArgs {
    fn add_to(&self, layer: &mut Layer) {
        layer.flag_switch(Key::Json, self.json);
        layer.flag_switch(Key::Quiet, self.quiet);
        layer.flag_switch(Key::Verbose, self.verbose);
    }
}

impl Flags for Run {
    fn add_to(&self, layer: &mut Layer) {
        add_all(layer, &[&self.ttl, &self.wait, &self.meta, &self.store, &self.output]);
        layer.flag(Key::OnLost, self.on_lost.as_ref());
        layer.flag(Key::Grace, self.grace.as_ref());
        layer.flag_switch(Key::ExportToken, self.export_token);
    }
}

impl Flags for Acquire {
    fn add_to(&self, layer: &mut Layer) {
        add_all(layer, &[&self.ttl, &self.wait, &self.meta, &self.store, &self.output]);
    }
}

impl Flags for Renew {
    fn add_to(&self, layer: &mut Layer) {
        add_all(layer, &[&self.ttl, &self.store, &self.output]);
    }
}

impl Flags for Release {
    fn add_to(&self, layer: &mut Layer) {
        add_all(layer, &[&self.store, &self.output]);
    }
}

impl Flags for Show {
    fn add_to(&self, layer: &mut Layer) {
        add_all(layer, &[&self.store, &self.output]);
    }
}

impl Flags for Ls {
    fn add_to(&self, layer: &mut Layer) {
        add_all(layer, &[&self.store, &self.output]);
    }
}

fn add_all(layer: &mut Layer, groups: &[&dyn Flags]) {
    for group in groups {
        group.add_to(layer);
    }
}

fn with_codes(examples: &str) -> String {
    format!("{examples}\n{}", exit::table())
}

fn run_help() -> String {
    format!(
        "Examples:
  fencelock run nightly -- ./backup.sh                  one at a time on this machine
  fencelock run nightly -n -- ./backup.sh               or not at all (exit code 75)
  fencelock run nightly --wait 10m --store redis://locks.example:6379 -- ./backup.sh
  fencelock run a b -- sh -c 'echo \"$FENCELOCK_FENCING_TOKEN\"'

The command's environment:
  FENCELOCK_NAME           the locks it runs under, one a line (with --name-hex: in hexadecimal)
  FENCELOCK_FENCING_TOKEN  a number that grows with every grant: let what you write to refuse
                           smaller ones; unset where the store has none
  FENCELOCK_DEADLINE_MS    until when the lock is held at least, in milliseconds since 1970, as
                           of the start of the command: renewals move it on
  FENCELOCK_STORE          the store, without its password
  FENCELOCK_TOKEN          the token, only with --export-token

The settings have to leave room for the command to die in: --grace and the time
kept for KILL (2 % of the ttl, at least 20ms) may take at most half of the ttl.

{}",
        exit::table()
    )
}

fn overview() -> String {
    let names: Vec<String> = Key::ALL.iter().map(|key| key.variable()).collect();
    let mut variables = String::new();
    for line in names.chunks(3) {
        variables.push_str(&format!("  {}\n", line.join(" ")));
    }
    format!(
        "Examples:
  fencelock run nightly -- ./backup.sh
  FENCELOCK_STORE=redis://locks.example:6379 fencelock run --distributed nightly -- ./backup.sh
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

{}",
        exit::table()
    )
}
