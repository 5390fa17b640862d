//! Which store the locks are in: resolves URLs, passwords and dialect, and opens the client. Several
//! URLs are one store, a quorum.
//!
//! Passwords never leave this folder but into the client. Nothing here does I/O to a store.

mod password;

use std::env;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use fencelock::{Client, ClientBuilder, ErrorKind};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::names;
use crate::redact::without_password;
use crate::settings::{Dialect, Origin, Settings, Sourced};

/// A store that was chosen and not yet opened.
pub(crate) struct Store {
    /// At least one.
    nodes: Vec<Node>,
    origin: Option<Origin>,
    dialect: Option<Dialect>,
    key_prefix: Option<Sourced<String>>,
}

/// One of the stores: the only one, or a member of a quorum.
pub(crate) struct Node {
    url: String,
    password: Option<String>,
}

impl Store {
    /// Chooses the store that the settings name, or the default one.
    ///
    /// # Errors
    /// Settings that can't be had together; no place for the default store; a password file that
    /// can't be read.
    pub(crate) fn choose(settings: &Settings) -> Result<Self, Failure> {
        let (urls, origin) = match &settings.stores {
            Some(Sourced { value, origin }) => (value.clone(), Some(origin.clone())),
            None => (vec![default_url(settings.distributed.is_some())?], None),
        };
        let nodes = urls.into_iter().map(|url| Node { url, password: None }).collect();
        let mut store = Self { nodes, origin, dialect: None, key_prefix: None };
        if let Some(distributed) = settings.distributed.as_ref().filter(|_| !store.is_remote()) {
            return Err(store.refuse_local(&distributed.origin));
        }
        if let Some(dialect) = &settings.dialect {
            if dialect.value != Dialect::NATIVE && !store.is_remote() {
                let what =
                    format!("`{}` is for Redis stores, this one is not", dialect.value.name());
                return Err(dialect.origin.fail(&what));
            }
            store.dialect = Some(dialect.value);
        }
        if let Some(prefix) = &settings.key_prefix {
            if !store.is_remote() {
                return Err(prefix.origin.fail("is for Redis stores, this one is not"));
            }
            store.key_prefix = Some(prefix.clone());
        }
        store.read_passwords(settings)?;
        Ok(store)
    }

    /// Opens it in the dialect that was asked for, or the native one.
    ///
    /// # Errors
    /// The URL can't be used.
    pub(crate) fn open(&self) -> Result<Client, Failure> {
        self.open_in(self.dialect.unwrap_or(Dialect::NATIVE))
    }

    /// Opens it in one dialect.
    ///
    /// # Errors
    /// The URL can't be used.
    pub(crate) fn open_in(&self, dialect: Dialect) -> Result<Client, Failure> {
        if self.origin.is_none() {
            self.make_folder()?;
        }
        match self.build(dialect, self.prefix_in(dialect)) {
            Ok(client) => Ok(client),
            Err(error) => Err(self.unusable_in(dialect, &error)),
        }
    }

    fn build(&self, dialect: Dialect, prefix: Option<&str>) -> Result<Client, fencelock::Error> {
        match &self.nodes[..] {
            [only] => self.builder_with(only, dialect, prefix).build(),
            nodes => {
                let builder = Client::quorum_builder(nodes.iter().map(Node::whole_url));
                if !self.is_remote() {
                    return builder.build();
                }
                let builder = builder.dialect(dialect.name());
                match prefix {
                    Some(prefix) => builder.key_prefix(prefix).build(),
                    None => builder.build(),
                }
            }
        }
    }

    /// The failure for stores that can't be opened, which may be the fault of the key prefix alone.
    fn unusable_in(&self, dialect: Dialect, error: &fencelock::Error) -> Failure {
        match &self.key_prefix {
            Some(prefix) if self.build(dialect, None).is_ok() => {
                prefix.origin.fail(&format!("can't be used: {}", Failure::of_library(error)))
            }
            _ => self.unusable(error),
        }
    }

    /// The settings of one of the stores, as if it were the only one.
    pub(crate) fn builder(&self, node: &Node, dialect: Dialect) -> ClientBuilder {
        self.builder_with(node, dialect, self.prefix_in(dialect))
    }

    fn builder_with(&self, node: &Node, dialect: Dialect, prefix: Option<&str>) -> ClientBuilder {
        let mut builder = Client::builder(&node.url);
        if node.is_remote() {
            builder = builder.dialect(dialect.name());
            if let Some(prefix) = prefix {
                builder = builder.key_prefix(prefix);
            }
        }
        if let Some(password) = &node.password {
            builder = builder.password(password.clone());
        }
        builder
    }

    /// The prefix in a dialect: one that was given is that of the dialect which was asked for.
    fn prefix_in(&self, dialect: Dialect) -> Option<&str> {
        let asked = self.dialect.unwrap_or(Dialect::NATIVE) == dialect;
        self.key_prefix.as_ref().filter(|_| asked).map(|prefix| &*prefix.value)
    }

    /// The stores, one by one.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The failure for a store that can't be opened.
    pub(crate) fn unusable(&self, error: &fencelock::Error) -> Failure {
        let failure = Failure::of_library(error);
        let misread = matches!(error.kind(), ErrorKind::Config | ErrorKind::Unsupported);
        match &self.origin {
            Some(origin) if misread => origin.fail(&format!("can't be used: {failure}")),
            _ => failure,
        }
    }

    /// The dialect that was asked for.
    pub(crate) fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// The dialects in which a name is looked up: both, unless one was asked for.
    pub(crate) fn dialects(&self) -> Vec<Dialect> {
        match self.dialect {
            Some(dialect) => vec![dialect],
            None if self.is_remote() => vec![Dialect::NATIVE, Dialect::PLAIN],
            None => vec![Dialect::NATIVE],
        }
    }

    /// The URLs for the environment of a command: without passwords.
    pub(crate) fn urls_for_the_command(&self) -> String {
        self.nodes.iter().map(Node::url_for_the_command).collect::<Vec<_>>().join(" ")
    }

    /// The flags that name it in another command, where it was a flag that named it.
    pub(crate) fn typed(&self) -> String {
        if !self.is_typed() {
            return String::new();
        }
        let flag = |node: &Node| format!(" --store {}", names::quoted(&node.url_for_the_command()));
        self.nodes.iter().map(flag).collect()
    }

    /// Whether it was named on the command line.
    pub(crate) fn is_typed(&self) -> bool {
        matches!(self.origin, Some(Origin::Flag(_)))
    }

    /// Whether it is several stores.
    pub(crate) fn is_quorum(&self) -> bool {
        self.nodes.len() > 1
    }

    /// Whether no other process sees it.
    pub(crate) fn is_memory(&self) -> bool {
        self.nodes.iter().all(|node| starts_with(&node.url, MEMORY))
    }

    /// Whether other machines see it, too: of a quorum, all of it.
    fn is_remote(&self) -> bool {
        self.nodes.iter().all(Node::is_remote)
    }

    /// The failure for a store of this machine where only others are allowed.
    fn refuse_local(&self, distributed: &Origin) -> Failure {
        let why = format!("is seen by this machine only, and {distributed} refuses that");
        match &self.origin {
            Some(origin) => {
                let local = self.nodes.iter().find(|node| !node.is_remote());
                let url = local.map(Node::shown).unwrap_or_default();
                origin.fail(&format!("`{url}` {why}: give a Redis store"))
            }
            None => Failure::new(
                distributed.exit(),
                format!(
                    "no store is set, and the default one {why}: give a Redis store with --store or \
                     FENCELOCK_STORE"
                ),
            ),
        }
    }

    fn read_passwords(&mut self, settings: &Settings) -> Result<(), Failure> {
        let Some(file) = &settings.store_password_file else { return Ok(()) };
        if !self.nodes.iter().any(Node::is_remote) {
            // Set for all stores in the environment or a file, it does no harm here.
            return match &file.origin {
                origin @ Origin::Flag(_) => {
                    Err(origin.fail("is of no use: this store has no password"))
                }
                _ => Ok(()),
            };
        }
        password::give(&mut self.nodes, file)
    }

    /// The folder of the default store, for its owner only.
    fn make_folder(&self) -> Result<(), Failure> {
        let Some(folder) = default_path().as_deref().and_then(Path::parent).map(Path::to_owned)
        else {
            return Ok(());
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| {
            Failure::new(
                Exit::Unavailable,
                format!(
                    "the folder {} of the default store can't be made: {error}; set another with \
                     XDG_STATE_HOME or --store",
                    folder.display()
                ),
            )
        })
    }
}

impl Node {
    /// Without its password.
    pub(crate) fn shown(&self) -> String {
        without_password(&self.url)
    }

    /// Whether other machines see it, too.
    pub(crate) fn is_remote(&self) -> bool {
        ![SQLITE, MEMORY].iter().any(|scheme| starts_with(&self.url, scheme))
    }

    /// With its password.
    fn whole_url(&self) -> String {
        match &self.password {
            Some(password) if self.is_remote() => password::with_password(&self.url, password),
            _ => self.url.clone(),
        }
    }

    fn url_for_the_command(&self) -> String {
        let url = self.shown();
        match url.get(..SQLITE.len()) {
            // The command may change its directory, and would get another store then.
            Some(scheme) if scheme.eq_ignore_ascii_case(SQLITE) => {
                let rest = &url[SQLITE.len()..];
                let path = rest.strip_prefix("//").unwrap_or(rest);
                match std::path::absolute(path) {
                    Ok(path) => format!("{SQLITE}{}", path.display()),
                    Err(_) => url,
                }
            }
            _ => url,
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes: Vec<String> = self.nodes.iter().map(Node::shown).collect();
        write!(f, "Store({})", nodes.join(" "))
    }
}

fn starts_with(url: &str, scheme: &str) -> bool {
    url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

fn default_url(distributed: bool) -> Result<String, Failure> {
    match default_path() {
        Some(path) => match path.to_str() {
            Some(path) => Ok(format!("{SQLITE}{path}")),
            None => Err(Failure::new(
                Exit::Config,
                format!(
                    "the path {} of the default store is not UTF-8: set another with XDG_STATE_HOME, \
                     or name a store with --store or FENCELOCK_STORE",
                    path.display()
                ),
            )),
        },
        // It will be refused for a better reason.
        None if distributed => Ok(SQLITE.to_owned()),
        None => Err(Failure::new(
            Exit::Config,
            "there is no place for the default store: HOME is not set, or no absolute path; set it, or XDG_STATE_HOME, or \
             name a store with --store or FENCELOCK_STORE",
        )),
    }
}

/// `$XDG_STATE_HOME/fencelock/locks.db`, else below `~/.local/state`. Relative paths do not count: they
/// would be another store in each directory.
fn default_path() -> Option<PathBuf> {
    let absolute =
        |variable: &str| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("fencelock").join("locks.db"))
}

const SQLITE: &str = "sqlite:";
const MEMORY: &str = "memory:";
