//! A file that refuses the writes of a holder from before.
//!
//! Beside the file `state.json` there are
//!
//! ```text
//!   state.json.fence-lock   flock(2): makes check and write one step for all processes
//!   state.json.fence        the highest token that was seen, 16 digits
//!   state.json.fence-new    what is about to become one of the two (a crash may leave it behind)
//! ```
//!
//! A write takes the flock, compares, puts the token down, then the content; each by a new file
//! that is synced, renamed, and its folder synced. The token goes first: a crash in between leaves
//! the old content with the new token, and the holder, whose write was not answered, writes again.
//! In the other order it would leave the new content to be overwritten by the holder before.
//!
//! Readers need none of it: they see the file whole, as it was before a write or after.
//!
//! # Limits
//! - Local file systems. Whether flock(2) excludes other machines on a network one is for it to say.
//! - Whoever writes the file itself is not checked, nor who removes the files beside it.
//! - A process that is *stopped* while it has the flock (microseconds, or as long as the disk takes)
//!   keeps others waiting until it goes on or is killed. That costs availability, never order.
//! - The file is replaced by another one: links to it and its owner are not kept, permissions are.
//!
//! All calls block, on the disk and on others that write: from async code use `spawn_blocking`.
//!
//! # Examples
//! ```
//! use fencelock::{FencingToken, fenced::{Checked, file::FencedFile}};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("state.json");
//! let (old, new) = (FencingToken::new(33)?, FencingToken::new(34)?);
//! let state = FencedFile::new(path);
//! assert_eq!(state.write(old, b"by the first")?, Checked::Accepted(()));
//! // The next holder gives its token before it reads:
//! assert_eq!(state.read(new)?, Checked::Accepted(Some(b"by the first".to_vec())));
//! // From then on, whatever the one before still writes comes too late.
//! assert_eq!(state.write(old, b"much later")?, Checked::Stale { highest: new });
//! # Ok(()) }
//! ```

use std::{
    error,
    ffi::OsString,
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use fencelock_core::FencingToken;

use super::{Checked, check, digits, from_digits};

/// A file and the fence beside it.
///
/// It is a recipe: nothing is opened before the first call, and all processes that use the same path
/// share the fence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FencedFile {
    path: PathBuf,
}

impl FencedFile {
    /// The file at a path, whose folder must exist. The file need not.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the content, if no larger token was seen. When this returns it is on the disk.
    ///
    /// # Errors
    /// What the file system said, and that the fence beside the file is not one. After an error the
    /// content is the old or the new one, whole; the same write may be done again.
    pub fn write(&self, token: FencingToken, content: &[u8]) -> Result<Checked, FileError> {
        self.with_lock(token, || self.replace(&self.path, content))
    }

    /// Notes the token and reads, in one step: what a new holder begins with. What was read can't
    /// be changed any more by a holder before.
    ///
    /// # Errors
    /// As [`FencedFile::write`].
    pub fn read(&self, token: FencingToken) -> Result<Checked<Option<Vec<u8>>>, FileError> {
        self.with_lock(token, || {
            content_of(&self.path).map_err(|source| self.error("reading the file", source))
        })
    }

    /// Removes the file, if no larger token was seen, and keeps the token. It need not be there.
    ///
    /// # Errors
    /// As [`FencedFile::write`].
    pub fn remove(&self, token: FencingToken) -> Result<Checked, FileError> {
        self.with_lock(token, || {
            match fs::remove_file(&self.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => sync_folder(&self.path),
            }
            .map_err(|source| self.error("removing the file", source))
        })
    }

    /// The highest token that was seen. To say who was there, not to decide by: it may have grown
    /// since.
    ///
    /// # Errors
    /// As [`FencedFile::write`].
    pub fn highest(&self) -> Result<Option<FencingToken>, FileError> {
        let reading = |source| self.error("reading the fence beside it", source);
        let Some(text) = content_of(&self.beside(".fence")).map_err(reading)? else {
            return Ok(None);
        };
        let token = text.strip_suffix(b"\n").and_then(from_digits);
        token.map(Some).ok_or_else(|| {
            let what = "it has no fencing token; put the highest one there, in 16 digits";
            reading(io::Error::new(ErrorKind::InvalidData, what))
        })
    }

    /// Checks and acts while nobody else does.
    fn with_lock<T>(
        &self,
        token: FencingToken,
        act: impl FnOnce() -> Result<T, FileError>,
    ) -> Result<Checked<T>, FileError> {
        self.check_kind()?;
        let locking = |source| self.error("locking the fence beside it", source);
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.beside(".fence-lock"))
            .map_err(locking)?;
        // It ends with the descriptor, also when the process is killed.
        lock.lock().map_err(locking)?;
        let highest = self.highest()?;
        if let Checked::Stale { highest } = check(highest, token) {
            return Ok(Checked::Stale { highest });
        }
        if highest != Some(token) {
            self.replace(&self.beside(".fence"), format!("{}\n", digits(token)).as_bytes())?;
        }
        act().map(Checked::Accepted)
    }

    /// A rename would put a file in the place of a link, beside another fence than its target has.
    fn check_kind(&self) -> Result<(), FileError> {
        let looking = |source| self.error("looking at it", source);
        match fs::symlink_metadata(&self.path) {
            Ok(metadata) if metadata.is_file() => Ok(()),
            Ok(_) => {
                let what = "it is not a regular file; give the path that links lead to";
                Err(looking(io::Error::new(ErrorKind::InvalidInput, what)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(looking(error)),
        }
    }

    /// Only under the lock, so that one name is enough for what is not in its place yet.
    fn replace(&self, target: &Path, content: &[u8]) -> Result<(), FileError> {
        let new = self.beside(".fence-new");
        let replace = || {
            let mut file = File::create(&new)?;
            file.write_all(content)?;
            match fs::metadata(target) {
                Ok(before) => file.set_permissions(before.permissions())?,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            file.sync_all()?;
            fs::rename(&new, target)?;
            sync_folder(target)
        };
        replace().map_err(|source| self.error("writing", source))
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = OsString::from(&self.path);
        path.push(ending);
        path.into()
    }

    fn error(&self, doing: &'static str, source: io::Error) -> FileError {
        FileError { path: self.path.clone(), doing, source }
    }
}

fn content_of(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A rename is on the disk when its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Windows has no such thing as an open folder, and needs none.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// A guarded file could not be read or written. Nobody knows whether a write was done: ask again
/// with the same token.
#[derive(Debug)]
pub struct FileError {
    path: PathBuf,
    doing: &'static str,
    source: io::Error,
}

impl FileError {
    /// Which kind of failure of the file system.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.source.kind()
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, doing, .. } = self;
        write!(f, "the fenced file {} failed while {doing}; ", path.display())?;
        write!(f, "the content is whole, and the same call may be done again")
    }
}

impl error::Error for FileError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.source)
    }
}
