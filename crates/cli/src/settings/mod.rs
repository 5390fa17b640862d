//! What the user has set: flag, then environment, then configuration files, then default.
//!
//! Every setting is text until it is read here, by one function for all places it can come from, so
//! that a span that is refused as a flag is refused in a file as well. Where it came from decides
//! the exit code: 64 for the command line, 78 for everything else.

mod environment;
mod file;
mod key;
mod layer;
mod sharing;
mod value;

pub(crate) use environment::REMOVED_FOR_THE_CHILD;
pub(crate) use key::{Key, is_slip, nearest};
pub(crate) use layer::{Layer, Origin, Sourced};
pub(crate) use value::{Dialect, OnLost, ttl};

use std::time::Duration;

use crate::console::{Console, Level};
use crate::failure::Failure;
use crate::hold::Manner;
use crate::span;

/// The settings of one call of this program.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The URLs of the store: of a quorum where there are several.
    pub(crate) stores: Option<Sourced<Vec<String>>>,
    /// The file with the store's password, or those of several.
    pub(crate) store_password_file: Option<Sourced<String>>,
    /// The wire format.
    pub(crate) dialect: Option<Sourced<Dialect>>,
    /// What keys begin with.
    pub(crate) key_prefix: Option<Sourced<String>>,
    /// Stores of this machine alone are refused.
    pub(crate) distributed: Option<Sourced<bool>>,
    /// The lease.
    pub(crate) ttl: Option<Sourced<Duration>>,
    /// How long to wait; for ever without it.
    pub(crate) wait: Option<Sourced<Duration>>,
    /// The exit code in place of 75.
    pub(crate) conflict_exit_code: Option<u8>,
    /// What happens to the command when the lock is lost.
    pub(crate) on_lost: OnLost,
    /// Between TERM and KILL.
    pub(crate) grace: Option<Sourced<Duration>>,
    /// How long the lock stays held at least.
    pub(crate) min_hold: Option<Sourced<Duration>>,
    /// How long the lock is held at most.
    pub(crate) max_hold: Option<Sourced<Duration>>,
    /// After a revoke, KILL follows the grace.
    pub(crate) kill: bool,
    /// How the lock is held; alone without it.
    pub(crate) manner: Option<Sourced<Manner>>,
    /// What the holder says of itself.
    pub(crate) meta: Vec<Sourced<(String, String)>>,
    /// The command gets the token.
    pub(crate) export_token: bool,
    /// Output for machines.
    pub(crate) json: bool,
    /// How much is said.
    pub(crate) level: Level,
}

impl Settings {
    /// Reads everything that counts besides the flags, and puts it together.
    ///
    /// # Errors
    /// A value or a key is wrong: wrong usage for a flag, wrong configuration otherwise.
    pub(crate) fn load(flags: Layer) -> Result<Self, Failure> {
        let (environment, unknown) = environment::read()?;
        let mut layers = vec![flags, environment];
        layers.extend(file::read_all()?);
        let settings = Self::merge(&layers)?;
        if let Some(warning) = unknown {
            Console::new(settings.level).notice(&warning);
        }
        Ok(settings)
    }

    /// The settings of flags alone.
    #[cfg(test)]
    pub(crate) fn of_flags(flags: Layer) -> Result<Self, Failure> {
        Self::merge(&[flags])
    }

    /// Puts the layers together; the first that has a setting wins. The values of *all* layers are
    /// read: one that is wrong is not right because it is hidden today.
    fn merge(layers: &[Layer]) -> Result<Self, Failure> {
        Ok(Self {
            stores: stores(layers)?,
            store_password_file: last(layers, Key::StorePasswordFile, value::path)?,
            dialect: last(layers, Key::Dialect, value::dialect)?,
            key_prefix: last(layers, Key::Prefix, value::key_prefix)?,
            distributed: last(layers, Key::Distributed, value::switch)?.filter(|on| on.value),
            ttl: last(layers, Key::Ttl, ttl)?,
            wait: wait(layers)?,
            conflict_exit_code: last(layers, Key::ConflictExitCode, value::code)?
                .map(|code| code.value),
            on_lost: last(layers, Key::OnLost, value::on_lost)?
                .map_or(OnLost::Term, |on_lost| on_lost.value),
            grace: last(layers, Key::Grace, span::parse)?,
            min_hold: last(layers, Key::MinHold, value::min_hold)?,
            max_hold: last(layers, Key::MaxHold, span::parse)?,
            kill: switch(layers, Key::Kill)?,
            manner: sharing::manner(layers)?,
            meta: meta(layers)?,
            export_token: switch(layers, Key::ExportToken)?,
            json: switch(layers, Key::Json)?,
            level: level(layers)?,
        })
    }
}

/// The value of the first layer that has one, after all have been read.
fn last<T>(
    layers: &[Layer],
    key: Key,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<Sourced<T>>, Failure> {
    let mut first = None;
    for layer in layers {
        if let Some(setting) = layer.read(key, &read)? {
            first.get_or_insert(setting);
        }
    }
    Ok(first)
}

/// The stores of the first layer that names any: those of two places are not put together.
fn stores(layers: &[Layer]) -> Result<Option<Sourced<Vec<String>>>, Failure> {
    let mut first = None;
    for layer in layers {
        let mut own: Option<Sourced<Vec<String>>> = None;
        for Sourced { value, origin } in layer.stores() {
            let urls = value::stores(value).map_err(|sentence| origin.fail(&sentence))?;
            let known =
                own.get_or_insert_with(|| Sourced { value: vec![], origin: origin.clone() });
            known.value.extend(urls);
        }
        if let Some(own) = own {
            first.get_or_insert(own);
        }
    }
    Ok(first)
}

fn switch(layers: &[Layer], key: Key) -> Result<bool, Failure> {
    Ok(last(layers, key, value::switch)?.is_some_and(|switch| switch.value))
}

/// `wait` and `no-wait` are one setting: the first layer that has either decides.
fn wait(layers: &[Layer]) -> Result<Option<Sourced<Duration>>, Failure> {
    let mut first = None;
    for layer in layers {
        let span = layer.read(Key::Wait, span::parse)?;
        let never = layer.read(Key::NoWait, value::switch)?;
        let setting = match (span, never) {
            (Some(_), Some(never)) if never.value => {
                return Err(never.origin.fail("can't be used together with wait"));
            }
            (_, Some(never)) if never.value => {
                Some(Sourced { value: Duration::ZERO, origin: never.origin })
            }
            (span, _) => span,
        };
        if let Some(setting) = setting {
            first.get_or_insert(setting);
        }
    }
    Ok(first)
}

/// `quiet` and `verbose` are one setting, too.
fn level(layers: &[Layer]) -> Result<Level, Failure> {
    let mut first = None;
    for layer in layers {
        let quiet = layer.read(Key::Quiet, value::switch)?;
        let verbose = layer.read(Key::Verbose, value::switch)?;
        let level = match (quiet, verbose) {
            (Some(quiet), Some(verbose)) if quiet.value && verbose.value => {
                return Err(quiet.origin.fail("can't be used together with verbose"));
            }
            (Some(quiet), _) if quiet.value => Some(Level::Quiet),
            (_, Some(verbose)) if verbose.value => Some(Level::Verbose),
            (None, None) => None,
            _ => Some(Level::Normal),
        };
        if let Some(level) = level {
            first.get_or_insert(level);
        }
    }
    Ok(first.unwrap_or_default())
}

/// The pairs of all layers; for one key the first layer counts.
fn meta(layers: &[Layer]) -> Result<Vec<Sourced<(String, String)>>, Failure> {
    let mut pairs: Vec<Sourced<(String, String)>> = Vec::new();
    for layer in layers {
        let mut own: Vec<Sourced<(String, String)>> = Vec::new();
        for pair in layer.meta() {
            let (key, text) =
                value::meta(&pair.value).map_err(|sentence| pair.origin.fail(&sentence))?;
            if own.iter().any(|known| known.value.0 == key) {
                return Err(pair.origin.fail(&format!("sets `{}` twice", key.escape_debug())));
            }
            own.push(Sourced { value: (key, text), origin: pair.origin.clone() });
        }
        own.retain(|pair| pairs.iter().all(|known| known.value.0 != pair.value.0));
        pairs.extend(own);
    }
    Ok(pairs)
}
