//! `init`, as it is typed.

use clap::Args;

use super::{OutputArgs, StoreArgs};
use crate::help;

/// Say of Redis servers that they are new
///
/// A server of a quorum that restarted may have forgotten locks that are still held, so it counts
/// again only when it has been running for longer than any lock lasts. One that was never used
/// before need not wait: this says so, once, for each --store by itself. It is refused (75) where the
/// server was in use before it restarted, and where it is empty while another --store holds locks:
/// then it may have lost its data.
#[derive(Debug, Args)]
#[command(after_long_help = help::with_codes("Examples:
  fencelock init --store redis://a --store redis://b --store redis://c
  FENCELOCK_STORE='redis://a redis://b redis://c' fencelock init --json
"))]
pub(crate) struct Init {
    /// The longest ttl of any lock on these servers [default: 60s]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(crate) max_ttl: Option<String>,
    /// Also where the server was in use before it restarted, or is empty among servers that hold
    /// locks: when nobody holds a lock that it may have forgotten
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
