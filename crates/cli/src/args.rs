//! The command line: what can be typed, and the help texts.
//!
//! It only says what there is; values stay text and are read in `settings`, where those of the
//! environment and of files are read too.

mod elect;
mod flags;
mod init;
mod manner;
mod pages;

pub(crate) use elect::Elect;
pub(crate) use flags::Flags;
pub(crate) use init::Init;
pub(crate) use manner::MannerArgs;
pub(crate) use pages::{Completions, Man};

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

use crate::help;
use crate::names::Spelling;

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
    after_long_help = help::overview(),
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Elect(Elect),
    Acquire(Acquire),
    Renew(Renew),
    Release(Release),
    Show(Show),
    Ls(Ls),
    Revoke(Revoke),
    Init(Init),
    Completions(Completions),
    Man(Man),
}

/// Reads the command line of this process.
///
/// # Errors
/// It can't be read, or asks for a help text or the version: what the parser says.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    // The description of all commands takes longer to build than `run` takes to read. Whatever
    // this short one does not understand goes to the whole one, for its words.
    let is_run = std::env::args_os().nth(1).is_some_and(|word| word == "run");
    if is_run && let Ok(OnlyRun { command: OnlyRunCommand::Run(run) }) = OnlyRun::try_parse() {
        return Ok(Cli { command: Command::Run(run) });
    }
    Cli::try_parse()
}

/// The part of [`Cli`] that scripts start most often.
#[derive(Debug, Parser)]
#[command(name = "fencelock")]
struct OnlyRun {
    #[command(subcommand)]
    command: OnlyRunCommand,
}

#[derive(Debug, Subcommand)]
enum OnlyRunCommand {
    Run(Run),
}

/// Run a command while holding a lock
///
/// Waits for the lock, runs COMMAND, keeps the lock for as long as COMMAND runs, and gives it back.
/// If the lock can't be kept, COMMAND gets TERM and then KILL before anybody else can hold the lock,
/// and the exit code is 79. COMMAND runs in its own process group and gets standard input and output
/// untouched; signals are passed on. With several names all are taken, or none.
#[derive(Debug, Args)]
#[command(after_long_help = help::run())]
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
    pub(crate) manner: MannerArgs,
    #[command(flatten)]
    pub(crate) meta: MetaArgs,
    /// When the lock is lost: `term` stops the command, `ignore` lets it run on with a warning
    #[arg(long, value_name = "term|ignore")]
    pub(crate) on_lost: Option<String>,
    /// Time between TERM and KILL when the lock is lost [default: 2s, at most a quarter of the ttl]
    #[arg(long, value_name = "SPAN")]
    pub(crate) grace: Option<String>,
    /// Keep the lock for at least so long after its grant, also when the command ends before
    ///
    /// The command's end ends fencelock at once; the lock is left for the rest of this, and nobody
    /// renews it. For cron jobs on several machines: longer than their clocks differ, and with -n, a
    /// short job is not done twice. If fencelock is killed the lock lasts for its ttl.
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(crate) min_hold: Option<String>,
    /// Hold the lock for at most so long: the command is stopped in time (exit code 79)
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(crate) max_hold: Option<String>,
    /// When somebody asks for the lock back (revoke): KILL after the grace, not only TERM
    #[arg(long)]
    pub(crate) kill: bool,
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
#[command(after_long_help = help::with_codes("Examples:
  token=$(fencelock acquire nightly --ttl 10m --wait 30s) || exit
  FENCELOCK_TOKEN=$token fencelock release nightly
  fencelock acquire once-an-hour --ttl 1h -n > /dev/null && send-report
  token=$(fencelock acquire licences --limit 10 --permits 2 --ttl 1h)
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
    pub(crate) manner: MannerArgs,
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
#[command(after_long_help = help::with_codes("Examples:
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
#[command(after_long_help = help::with_codes("Examples:
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
/// Exits 1 when nobody does. Of several who hold it together each has a line, up to sixteen. A name in two dialects is two locks: without --dialect a Redis store is
/// asked for both.
#[derive(Debug, Args)]
#[command(after_long_help = help::with_codes("Examples:
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
/// dialect, the native one unless --dialect says otherwise. In the plain one each string on the server
/// may be a lock, and is listed.
#[derive(Debug, Args)]
#[command(after_long_help = help::with_codes("Examples:
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

/// Ask the holder of a lock to give it back
///
/// The request is stored with the lock; its holder is told, at the latest with its next renewal, and
/// decides what to do: `run` sends its command one TERM (and KILL with --kill). It never ends a lock
/// by itself. Of several who hold it together all are asked. With --wait the exit code is 75 when the
/// lock is still held after that time. A lock that nobody renews (acquire) can't be asked for, and one in another dialect neither: 64.
#[derive(Debug, Args)]
#[command(after_long_help = help::with_codes("Examples:
  fencelock revoke nightly                   ask, and do not wait
  fencelock revoke nightly --wait 1m && fencelock run nightly -- ./urgent.sh
"))]
pub(crate) struct Revoke {
    /// The lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,
    /// How long to wait until the lock is given back [default: do not wait]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(crate) wait: Option<String>,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
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
    /// redis://HOST:PORT/DB, rediss://HOST:PORT/DB (TLS), redis+sentinel://HOST,HOST/SERVICE/DB,
    /// redis+cluster://HOST,HOST, redis+unix:///SOCKET or sqlite:/PATH. Other users of this machine
    /// can see a password that stands here: use FENCELOCK_STORE or --store-password-file. Given
    /// several times: a quorum of independent servers, held while most of them say so.
    #[arg(long, value_name = "URL")]
    store: Vec<String>,
    /// Read the store's password from the first line of this file
    ///
    /// Of a quorum: one line for all stores, or one for each, in their order.
    #[arg(long, value_name = "FILE")]
    store_password_file: Option<String>,
    /// How locks are written on a Redis store [default: native]
    ///
    /// Those of other libraries share locks with them; `plain` is for all that use SET NX PX at the
    /// very name. Most have no fencing token and keep no word about the holder.
    #[arg(long, value_name = "NAME")]
    dialect: Option<String>,
    /// What keys on a Redis store begin with [default: the dialect's]
    ///
    /// All who share a lock say the same. `fencelock:` in the native dialect, nothing in the plain
    /// one: there it is what the other library writes before its names, such as `mutex:` or a
    /// registry key with its colon.
    #[arg(long, value_name = "TEXT")]
    key_prefix: Option<String>,
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
