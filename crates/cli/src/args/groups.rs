//! Arguments that several commands have.

use clap::Args;

use crate::names::Spelling;

#[derive(Debug, Args)]
pub(crate) struct TtlArgs {
    /// How long the lock outlives its last renewal, 10ms (run: 100ms) to 24h [default: 30s]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(super) ttl: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// How long to wait for the lock [default: for ever]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(super) wait: Option<String>,
    /// Try once, do not wait
    #[arg(short = 'n', long, conflicts_with = "wait")]
    pub(super) no_wait: bool,
    /// Exit with N instead of 75 when the lock is busy
    #[arg(short = 'E', long, value_name = "N", allow_hyphen_values = true)]
    pub(super) conflict_exit_code: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct MetaArgs {
    /// What `show` tells about you besides host and process; can be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) meta: Vec<String>,
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
    pub(super) name_hex: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Where the locks are [default: a file of yours, see `fencelock --help`]
    ///
    /// redis://HOST:PORT/DB, rediss://HOST:PORT/DB (TLS), redis+unix:///SOCKET or sqlite:/PATH. Given several times: a quorum of
    /// independent servers, held while most of them say so. Other users of this machine can see a
    /// password that stands here: use FENCELOCK_STORE or --store-password-file.
    #[arg(long, value_name = "URL")]
    pub(super) store: Vec<String>,
    /// Read the store's password from the first line of this file
    ///
    /// Of a quorum: one line for all stores, or one for each, in their order.
    #[arg(long, value_name = "FILE")]
    pub(super) store_password_file: Option<String>,
    /// How locks are written on a Redis store [default: native]
    ///
    /// `plain` shares locks with the libraries that use SET NX PX; it has no fencing token and keeps
    /// no word about the holder.
    #[arg(long, value_name = "native|plain")]
    pub(super) dialect: Option<String>,
    /// Refuse stores that only this machine sees
    #[arg(long)]
    pub(super) distributed: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// One JSON object a line (run: on standard error)
    #[arg(long)]
    pub(super) json: bool,
    /// Errors only
    #[arg(short, long, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Tell what happens to the lock: grant, fencing token, renewals, release
    #[arg(short, long)]
    pub(super) verbose: bool,
}

impl NameArgs {
    /// How the names are written.
    pub(crate) fn spelling(&self) -> Spelling {
        if self.name_hex { Spelling::Hex } else { Spelling::Text }
    }
}
