//! The settings of one place, still as text, each with where it stands.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::key::Key;
use crate::exit::Exit;
use crate::failure::Failure;

/// Where a setting stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// On the command line.
    Flag(Key),
    /// In the environment.
    Variable(Key),
    /// In a configuration file.
    File {
        /// The file.
        path: Arc<PathBuf>,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: Key,
    },
}

impl Origin {
    /// A failure that names the place, with the code for it.
    pub(crate) fn fail(&self, sentence: &str) -> Failure {
        Failure::new(self.exit(), format!("{self} {sentence}"))
    }

    /// The code for a wrong value in this place.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Origin::Flag(_) => Exit::Usage,
            Origin::Variable(_) | Origin::File { .. } => Exit::Config,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(key) => write!(f, "--{}", key.name()),
            Origin::Variable(key) => write!(f, "{}", key.variable()),
            Origin::File { path, line, key } => {
                write!(f, "{}:{line}: `{}`", path.display(), key.name())
            }
        }
    }
}

/// A value with where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it stands.
    pub(crate) origin: Origin,
}

/// What is set in one place.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    values: BTreeMap<Key, Sourced<String>>,
    stores: Vec<Sourced<String>>,
    meta: Vec<Sourced<String>>,
}

impl Layer {
    /// Takes a value, if there is one.
    pub(crate) fn set(&mut self, origin: Origin, key: Key, value: Option<String>) {
        if let Some(value) = value {
            self.values.insert(key, Sourced { value, origin });
        }
    }

    /// Takes a flag's value, if it was given.
    pub(crate) fn flag(&mut self, key: Key, value: Option<&String>) {
        self.set(Origin::Flag(key), key, value.cloned());
    }

    /// Takes a flag without a value.
    pub(crate) fn flag_switch(&mut self, key: Key, given: bool) {
        self.set(Origin::Flag(key), key, given.then(|| "true".to_owned()));
    }

    /// Takes one more store, or several in one text.
    pub(crate) fn add_store(&mut self, origin: Origin, text: String) {
        self.stores.push(Sourced { value: text, origin });
    }

    /// The stores.
    pub(super) fn stores(&self) -> &[Sourced<String>] {
        &self.stores
    }

    /// Takes one more `KEY=VALUE`.
    pub(crate) fn add_meta(&mut self, origin: Origin, pair: String) {
        self.meta.push(Sourced { value: pair, origin });
    }

    /// The pairs.
    pub(super) fn meta(&self) -> &[Sourced<String>] {
        &self.meta
    }

    /// Reads a value.
    pub(super) fn read<T>(
        &self,
        key: Key,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Sourced<T>>, Failure> {
        let Some(Sourced { value, origin }) = self.values.get(&key) else { return Ok(None) };
        match read(value) {
            Ok(value) => Ok(Some(Sourced { value, origin: origin.clone() })),
            Err(sentence) => Err(origin.fail(&sentence)),
        }
    }
}
