//! How a lock is held, as it is typed.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct MannerArgs {
    /// Hold the lock beside others that say so too, but never beside one that does not
    ///
    /// Many readers or one writer: without --shared the lock is held alone. First come, first served,
    /// so neither keeps the other out for ever. There is no fencing token: what is written needs one,
    /// and has to be done alone.
    #[arg(long)]
    pub(super) shared: bool,
    /// Take so many of the permits that --limit says, all or none [default: 1]
    #[arg(long, value_name = "K", allow_hyphen_values = true)]
    pub(super) permits: Option<String>,
    /// A semaphore: at most so many permits are held by all together, 1 to 1000000
    ///
    /// Everybody says the same number; another one than the store keeps is refused, and nothing is
    /// done. Whoever asks for many is not passed by those who want few. There is no fencing token.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) limit: Option<String>,
}
