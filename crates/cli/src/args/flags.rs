//! Which arguments are settings, and where each goes.

use super::{
    Acquire, Init, Ls, MannerArgs, MetaArgs, OutputArgs, Release, Renew, Revoke, Run, Show,
    StoreArgs, TtlArgs, WaitArgs,
};
use crate::settings::{Key, Layer, Origin};

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

impl Flags for MannerArgs {
    fn add_to(&self, layer: &mut Layer) {
        layer.flag_switch(Key::Shared, self.shared);
        layer.flag(Key::Permits, self.permits.as_ref());
        layer.flag(Key::Limit, self.limit.as_ref());
    }
}

impl Flags for MetaArgs {
    fn add_to(&self, layer: &mut Layer) {
        for pair in &self.meta {
            layer.add_meta(Origin::Flag(Key::Meta), pair.clone());
        }
    }
}

impl Flags for StoreArgs {
    fn add_to(&self, layer: &mut Layer) {
        for url in &self.store {
            layer.add_store(Origin::Flag(Key::Store), url.clone());
        }
        layer.flag(Key::StorePasswordFile, self.store_password_file.as_ref());
        layer.flag(Key::Dialect, self.dialect.as_ref());
        layer.flag(Key::Prefix, self.key_prefix.as_ref());
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
        add_all(
            layer,
            &[&self.ttl, &self.wait, &self.manner, &self.meta, &self.store, &self.output],
        );
        layer.flag(Key::OnLost, self.on_lost.as_ref());
        layer.flag(Key::Grace, self.grace.as_ref());
        layer.flag(Key::MinHold, self.min_hold.as_ref());
        layer.flag(Key::MaxHold, self.max_hold.as_ref());
        layer.flag_switch(Key::Kill, self.kill);
        layer.flag_switch(Key::ExportToken, self.export_token);
    }
}

impl Flags for Acquire {
    fn add_to(&self, layer: &mut Layer) {
        add_all(
            layer,
            &[&self.ttl, &self.wait, &self.manner, &self.meta, &self.store, &self.output],
        );
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

impl Flags for Revoke {
    fn add_to(&self, layer: &mut Layer) {
        add_all(layer, &[&self.store, &self.output]);
        layer.flag(Key::Wait, self.wait.as_ref());
    }
}

impl Flags for Ls {
    fn add_to(&self, layer: &mut Layer) {
        add_all(layer, &[&self.store, &self.output]);
    }
}

impl Flags for Init {
    fn add_to(&self, layer: &mut Layer) {
        add_all(layer, &[&self.store, &self.output]);
    }
}

pub(super) fn add_all(layer: &mut Layer, groups: &[&dyn Flags]) {
    for group in groups {
        group.add_to(layer);
    }
}
