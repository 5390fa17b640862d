//! Which store the locks are in: resolves URL, password and dialect, and opens the client.
//!
//! The password never leaves this file but into the client. Nothing here does I/O to a store.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use fencelock::{Client, ErrorKind};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::redact::without_password;
use crate::settings::{Dialect, Origin, Settings, Sourced};

/// A store that was chosen and not yet opened.
pub(crate) struct Store {
    url: String,
    origin: Option<Origin>,
    password: Option<String>,
    dialect: Option<Dialect>,
}

impl Store {
    /// Chooses the store that the settings name, or the default one.
    ///
    /// # Errors
    /// Settings that can't be had together; no place for the default store; a password file that
    /// can't be read.
    pub(crate) fn choose(settings: &Settings) -> Result<Self, Failure> {
        let (url, origin) = match &settings.store {
            Some(Sourced { value, origin }) => (value.clone(), Some(origin.clone())),
            None => (default_url(settings.distributed.is_some())?, None),
        };
        let mut store = Self { url, origin, password: None, dialect: None };
        if let Some(distributed) = settings.distributed.as_ref().filter(|_| !store.is_remote()) {
            return Err(store.refuse_local(&distributed.origin));
        }
        if let Some(dialect) = &settings.dialect {
            if dialect.value == Dialect::Plain && !store.is_remote() {
                return Err(dialect.origin.fail("`plain` is for Redis stores, this one is not"));
            }
            store.dialect = Some(dialect.value);
        }
        store.password = store.read_password(settings)?;
        Ok(store)
    }

    /// Opens it in the dialect that was asked for, or the native one.
    ///
    /// # Errors
    /// The URL can't be used.
    pub(crate) fn open(&self) -> Result<Client, Failure> {
        self.open_in(self.dialect.unwrap_or(Dialect::Native))
    }

    /// Opens it in one dialect.
    ///
    /// # Errors
    /// The URL can't be used.
    pub(crate) fn open_in(&self, dialect: Dialect) -> Result<Client, Failure> {
        if self.origin.is_none() {
            self.make_folder()?;
        }
        let mut builder = Client::builder(&self.url);
        if self.is_remote() {
            builder = builder.dialect(dialect.name());
        }
        if let Some(password) = &self.password {
            builder = builder.password(password.clone());
        }
        builder.build().map_err(|error| {
            let failure = Failure::of_library(&error);
            let misread = matches!(error.kind(), ErrorKind::Config | ErrorKind::Unsupported);
            match &self.origin {
                Some(origin) if misread => {
                    let sentence = format!("can't be used: {failure}");
                    origin.fail(&sentence)
                }
                _ => failure,
            }
        })
    }

    /// The dialects in which a name is looked up: both, unless one was asked for.
    pub(crate) fn dialects(&self) -> Vec<Dialect> {
        match self.dialect {
            Some(dialect) => vec![dialect],
            None if self.is_remote() => vec![Dialect::Native, Dialect::Plain],
            None => vec![Dialect::Native],
        }
    }

    /// The URL for the environment of a command: without password.
    pub(crate) fn url_for_the_command(&self) -> String {
        let url = without_password(&self.url);
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

    /// Whether it was named on the command line.
    pub(crate) fn is_typed(&self) -> bool {
        matches!(self.origin, Some(Origin::Flag(_)))
    }

    /// Whether other machines see it, too.
    fn is_remote(&self) -> bool {
        let url = self.url.to_ascii_lowercase();
        ![SQLITE, "memory:"].iter().any(|scheme| url.starts_with(scheme))
    }

    /// The failure for a store of this machine where only others are allowed.
    fn refuse_local(&self, distributed: &Origin) -> Failure {
        let why = format!("is seen by this machine only, and {distributed} refuses that");
        match &self.origin {
            Some(origin) => {
                let url = without_password(&self.url);
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

    fn read_password(&self, settings: &Settings) -> Result<Option<String>, Failure> {
        let Some(Sourced { value: path, origin }) = &settings.store_password_file else {
            return Ok(None);
        };
        if !self.is_remote() {
            // Set for all stores in the environment or a file, it does no harm here.
            return match origin {
                Origin::Flag(_) => Err(origin.fail("is of no use: this store has no password")),
                _ => Ok(None),
            };
        }
        match first_line(Path::new(path)) {
            Ok(password) if password.is_empty() => Err(origin
                .fail(&format!("names {path}, whose first line is empty"))
                .with_code(Exit::Config)),
            Ok(password) => Ok(Some(password)),
            Err(error) => Err(origin
                .fail(&format!("names {path}, which can't be read: {error}"))
                .with_code(Exit::Config)),
        }
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

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", without_password(&self.url))
    }
}

fn first_line(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(PASSWORD_FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
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
            "there is no place for the default store: HOME is not set; set it, or XDG_STATE_HOME, or \
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
/// A password is a line; anything longer is another file.
const PASSWORD_FILE_BYTES_MAX: u64 = 64 * 1024;
