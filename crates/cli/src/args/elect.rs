//! `elect`, as it is typed.

use std::ffi::OsString;

use clap::Args;

use super::{Flags, MetaArgs, NameArgs, OutputArgs, StoreArgs, TtlArgs, flags::add_all};
use crate::help;
use crate::settings::{Key, Layer};

/// Keep a command running on exactly one machine
///
/// Waits until it is the leader of NAME, and runs COMMAND as `run` does: in its own process group,
/// stopped with TERM and KILL before anybody else can be the leader. Start it on every machine that
/// may run COMMAND. When the leader ends, the one that waited longest is next, at once; when it
/// crashes, after its ttl at most. A leader that is lost or asked to step down (revoke) stops its
/// COMMAND and waits again.
#[derive(Debug, Args)]
#[command(after_long_help = help::elect())]
pub(crate) struct Elect {
    /// What to lead: text without control characters, at most 512 bytes
    #[arg(value_name = "NAME")]
    pub(crate) election: OsString,
    /// What to run; no shell is involved unless you name one
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    /// When COMMAND ends by itself: campaign again, or end with its exit code [default: on-failure]
    #[arg(long, value_name = "always|on-failure|never")]
    pub(crate) restart: Option<String>,
    #[command(flatten)]
    pub(crate) ttl: TtlArgs,
    #[command(flatten)]
    pub(crate) meta: MetaArgs,
    /// Time between TERM and KILL when the leadership is lost [default: 2s, at most a quarter of the
    /// ttl]
    #[arg(long, value_name = "SPAN")]
    pub(crate) grace: Option<String>,
    /// When somebody asks the leader to step down (revoke): KILL after the grace, not only TERM
    #[arg(long)]
    pub(crate) kill: bool,
    /// Give the command the token, as FENCELOCK_TOKEN: it can then renew and release the lock
    #[arg(long)]
    pub(crate) export_token: bool,
    /// Lead also where there are no fencing tokens (the plain dialect)
    ///
    /// Nothing then tells what COMMAND writes from what a leader writes that was paused for too long.
    #[arg(long)]
    pub(crate) allow_unfenced: bool,
    #[command(flatten)]
    pub(crate) name: NameArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl Flags for Elect {
    fn add_to(&self, layer: &mut Layer) {
        add_all(layer, &[&self.ttl, &self.meta, &self.store, &self.output]);
        layer.flag(Key::Grace, self.grace.as_ref());
        layer.flag_switch(Key::Kill, self.kill);
        layer.flag_switch(Key::ExportToken, self.export_token);
    }
}
