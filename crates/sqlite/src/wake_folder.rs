//! The folder beside the file in which processes listen: one socket for each subscription, named
//! by its listener.
//!
//! Private like the file. The path of a socket can have 107 bytes only, so sockets are reached
//! through a descriptor of the folder. The folder is beside the file itself, not beside a link to
//! it: all that share the file must look in the same place, or a living waiter would be taken for
//! a dead one.

use std::{
    cell::OnceCell,
    fs, io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{
            fs::{DirBuilderExt as _, PermissionsExt as _},
            net::UnixDatagram,
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use fencelock_core::ListenerId;
use fencelock_store::{Outcome, StoreError, StoreErrorKind, rt};
use rustix::fs::{Mode, OFlags};

use crate::{
    mail::{Hearing, is_nobody},
    path::{self, FileId},
};

const SUFFIX: &str = ".wake";

/// The folder, as those see it who tell.
#[derive(Debug)]
pub(crate) struct WakeFolder {
    database: PathBuf,
    path: OnceCell<PathBuf>,
}

impl WakeFolder {
    /// The folder of a file. Nothing is looked at yet.
    pub(crate) fn new(database: &Path) -> Self {
        Self { database: database.to_owned(), path: OnceCell::new() }
    }

    /// Whether somebody listens. It never waits. What nobody listens to any more is removed.
    pub(crate) fn hearing(&self, listener: ListenerId) -> Hearing {
        let Some(path) = self.path() else { return Hearing::Unsure };
        // Opened each time: it may be another one than it was.
        let folder = match open(path) {
            Ok(folder) => folder,
            Err(error) if is_nobody(&error) => return Hearing::Nobody,
            Err(_) => return Hearing::Unsure,
        };
        match connect(&address(&folder, listener)) {
            Ok(socket) => Hearing::Somebody(socket),
            Err(error) if is_nobody(&error) => {
                let _ = fs::remove_file(address(&folder, listener));
                Hearing::Nobody
            }
            Err(_) => Hearing::Unsure,
        }
    }

    fn path(&self) -> Option<&Path> {
        if self.path.get().is_none() {
            let _ = self.path.set(locate(&self.database).ok()?);
        }
        self.path.get().map(PathBuf::as_path)
    }
}

/// A socket of the folder, whose file is removed with it.
#[derive(Debug)]
pub(crate) struct Seat {
    /// Its name.
    pub(crate) listener: ListenerId,
    path: PathBuf,
    file: FileId,
    owner: u32,
}

impl Seat {
    /// Makes a socket in the folder, and the folder if there is none. Blocks on the disk.
    pub(crate) fn take(database: &Path) -> Result<(Self, UnixDatagram), StoreError> {
        take(database).map_err(|error| failure(database, error))
    }

    /// Whether it can still be reached by its name.
    pub(crate) fn is_there(&self) -> bool {
        path::is_still(&self.path, self.file)
    }

    /// The socket's path, and its folder.
    pub(crate) fn paths(&self) -> [&Path; 2] {
        [&self.path, path::folder(&self.path)]
    }

    /// Whether this process made it, and is not a child that was forked off.
    pub(crate) fn is_ours(&self) -> bool {
        self.owner == rt::process_id()
    }

    /// Nobody finds it any more.
    pub(crate) fn leave(&self) {
        if self.is_ours() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
}

fn take(database: &Path) -> io::Result<(Seat, UnixDatagram)> {
    let wanted = locate(database)?;
    let owner = fs::metadata(database)?;
    let is_new = match fs::DirBuilder::new().mode(0o700).create(&wanted) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        other => other.is_ok(),
    };
    let folder = open(&wanted)?;
    if is_new {
        // Exactly this, whatever the umask of the process is.
        fs::set_permissions(handle(&folder), fs::Permissions::from_mode(0o700))?;
        give(&handle(&folder), &owner)?;
    }
    check_private(&folder, &owner)?;
    clear_away(&folder, &wanted);
    let listener = rt::fresh_listener();
    let socket = UnixDatagram::bind(address(&folder, listener))?;
    let stat = rustix::fs::stat(address(&folder, listener))?;
    let seat = Seat {
        listener,
        path: wanted.join(listener.to_string()),
        file: FileId::of(&stat),
        owner: rt::process_id(),
    };
    give(&address(&folder, listener), &owner)?;
    socket.set_nonblocking(true)?;
    Ok((seat, socket))
}

/// Others could remove sockets, and a waiter would be taken for a dead one.
fn check_private(folder: &OwnedFd, database: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let stat = rustix::fs::fstat(folder)?;
    let owner = rustix::process::geteuid().as_raw();
    let is_ours = stat.st_uid == owner || stat.st_uid == database.uid();
    if !is_ours || stat.st_mode & 0o077 != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, NOT_PRIVATE));
    }
    Ok(())
}

const NOT_PRIVATE: &str = "the folder belongs to somebody else, or others may write in it";

/// What the superuser makes beside somebody's file shall be theirs.
fn give(made: &Path, database: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, lchown};
    if rustix::process::geteuid().is_root() && database.uid() != 0 {
        // The handle of a folder is a link to it.
        let made = fs::canonicalize(made)?;
        lchown(made, Some(database.uid()), Some(database.gid()))?;
    }
    Ok(())
}

/// How many sockets one new subscription looks at, and how old they must be: one that is being
/// made seems dead for a moment.
const LOOKS: usize = 32;
const OLD: Duration = Duration::from_secs(60);

/// Removes sockets that killed processes left behind.
fn clear_away(folder: &OwnedFd, path: &Path) {
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten().take(LOOKS) {
        let listener = ListenerId::from_hex(entry.file_name().as_encoded_bytes());
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(rt::wall_age);
        let Some(listener) = listener.filter(|_| age.is_some_and(|age| age > OLD)) else {
            continue;
        };
        if connect(&address(folder, listener)).is_err_and(|error| is_nobody(&error)) {
            let _ = fs::remove_file(address(folder, listener));
        }
    }
}

fn locate(database: &Path) -> io::Result<PathBuf> {
    Ok(path::beside(&fs::canonicalize(database)?, SUFFIX))
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn connect(address: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(address)?;
    Ok(socket)
}

/// A short path of the folder, whatever its own is.
fn handle(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

fn address(folder: &OwnedFd, listener: ListenerId) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{listener}", folder.as_raw_fd()))
}

fn failure(database: &Path, error: io::Error) -> StoreError {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory
        // The file's own name is nearly as long as a name can be.
        | io::ErrorKind::InvalidFilename
        | io::ErrorKind::Unsupported => StoreErrorKind::Unsupported,
        _ => StoreErrorKind::Unavailable,
    };
    let message = format!(
        "sqlite:{}: no socket for wakeups can be made in the folder beside it ({SUFFIX}): waiters \
         ask now and then",
        database.display()
    );
    StoreError::new(kind, Outcome::NotDone, message).with_source(error)
}
