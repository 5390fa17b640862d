//! The path of the file: what can be one, and which file systems are trusted.
//!
//! Nothing here opens the lock file itself. POSIX locks belong to the process: closing any
//! descriptor of the file would drop the locks that SQLite holds on it through another one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use fencelock_store::{Outcome, StoreError, StoreErrorKind};

/// Checks what a path looks like, without touching the disk.
pub(crate) fn parse(path: &Path) -> Result<PathBuf, StoreError> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let wrong = |why: &str| {
        Err(config(format!("{:?} can't be the path of a lock file: {why}", path.display())))
    };
    if bytes.is_empty() {
        return wrong("it is empty");
    }
    if bytes.contains(&0) {
        return wrong("it has a zero byte in it");
    }
    if bytes == b":memory:" {
        return wrong("only a file is shared by processes; `memory:` is a store of its own");
    }
    if bytes.ends_with(b"/") || path.file_name().is_none() {
        return wrong("it names a folder");
    }
    // The process may change its folder later; the locks stay where they were.
    std::path::absolute(path)
        .map_err(|error| config("the present folder can't be read").with_source(error))
}

/// What is at the path now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Present {
    /// Nothing.
    Nothing,
    /// A file.
    File(FileId),
}

/// Which file it is: another one at the same path is other locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// What a look at a path has found.
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }

    /// The file's name as the life of a store. The moment of birth tells it from an earlier file
    /// with the same inode.
    pub(crate) fn incarnation(self, path: &Path) -> String {
        let born = fs::metadata(path).and_then(|metadata| metadata.created()).ok();
        let born = born.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let born = born.unwrap_or_default().as_nanos();
        format!("{:x}-{:x}-{born:x}", self.device, self.inode)
    }
}

/// Looks at the path.
pub(crate) fn look(path: &Path) -> Result<Present, StoreError> {
    match rustix::fs::stat(path) {
        Ok(stat) => {
            if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
                let message = format!("sqlite:{}: this is not a file", path.display());
                return Err(config(message));
            }
            Ok(Present::File(FileId::of(&stat)))
        }
        Err(rustix::io::Errno::NOENT) if is_dangling_link(path) => {
            Err(config(format!("sqlite:{}: this is a symbolic link to nothing", path.display())))
        }
        Err(rustix::io::Errno::NOENT) => Ok(Present::Nothing),
        Err(error) => Err(io_failure(path, "the path can't be looked at", error.into())),
    }
}

/// Whether there is a link that leads nowhere. The link is looked at first: a file that another
/// process lays out in the meantime must not be taken for one.
fn is_dangling_link(path: &Path) -> bool {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    is_link && matches!(rustix::fs::stat(path), Err(rustix::io::Errno::NOENT))
}

/// Whether the path still names that file. One system call, on the way of every request.
pub(crate) fn is_still(path: &Path, file: FileId) -> bool {
    rustix::fs::stat(path).is_ok_and(|stat| FileId::of(&stat) == file)
}

/// The folder that the file is in.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Refuses file systems on which locks or shared memory may not work, before anything is created.
pub(crate) fn check_file_system(path: &Path) -> Result<(), StoreError> {
    let nearest = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    let found = rustix::fs::statfs(nearest)
        .map_err(|error| io_failure(path, "its file system can't be asked", error.into()))?;
    // The type of the field differs between architectures; the numbers have 32 bits.
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, clippy::cast_possible_truncation)]
    judge(found.f_type as u64 as u32)
        .map_err(|why| config(format!("sqlite:{}: {why}", path.display())))
}

/// From linux/magic.h, and OpenZFS for the last.
const TRUSTED: [u32; 8] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0xf2f5_2010, // f2fs
    0x794c_7630, // overlayfs
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
];

const REFUSED: [(u32, &str); 8] = [
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x6a65_6a63, "virtiofs"),
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x00c3_6400, "Ceph"),
    (0x9fa0, "proc"),
];

fn judge(magic: u32) -> Result<(), String> {
    if TRUSTED.contains(&magic) {
        return Ok(());
    }
    let name = match REFUSED.iter().find(|(refused, _)| *refused == magic) {
        Some((_, name)) => format!("{name} file system"),
        None => format!("file system of the unknown type {magic:#x}"),
    };
    Err(format!(
        "a {name} may not keep locks and shared memory between processes: \
         put the file on a local disk, or use a redis: store"
    ))
}

/// Creates the folder, readable by its owner only, where it is missing.
pub(crate) fn create_folder(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let folder = folder(path);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| io_failure(path, "its folder can't be created", error))
}

/// The path with something after its file name, as SQLite names its companions.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

pub(crate) fn config(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Config, Outcome::NotDone, message.into())
}

pub(crate) fn io_failure(path: &Path, what: &str, error: io::Error) -> StoreError {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreErrorKind::Denied
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreErrorKind::Full,
        io::ErrorKind::NotADirectory
        | io::ErrorKind::AlreadyExists
        | io::ErrorKind::InvalidFilename
        | io::ErrorKind::IsADirectory => StoreErrorKind::Config,
        _ => StoreErrorKind::Unavailable,
    };
    let message = format!("sqlite:{}: {what}: {}", path.display(), reason(&error));
    StoreError::new(kind, Outcome::NotDone, message).with_source(error)
}

fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied",
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a part of the path is not a folder"
        }
        io::ErrorKind::InvalidFilename => "the name is too long",
        _ => "the system refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_a_path_is_refused_with_a_sentence() {
        for path in ["", ":memory:", "/tmp/", "/", "..", "a\0b"] {
            let error = parse(Path::new(path)).expect_err(path);
            assert_eq!(error.kind(), StoreErrorKind::Config);
            assert!(error.to_string().contains("can't be the path of a lock file"), "{error}");
        }
    }

    #[test]
    fn a_relative_path_is_fixed_to_the_present_folder() {
        let path = parse(Path::new("x.db")).expect("a path");
        assert_eq!(path, std::env::current_dir().expect("a folder").join("x.db"));
        assert!(parse(Path::new("file:x?mode=memory")).expect("a path").is_absolute());
    }

    #[test]
    fn only_listed_file_systems_are_trusted() {
        for trusted in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(judge(trusted), Ok(()), "{trusted:#x}");
        }
        for (refused, name) in REFUSED {
            assert!(judge(refused).expect_err("refused").contains(name));
        }
        assert!(judge(0x1234_5678).expect_err("unknown").contains("unknown type 0x12345678"));
    }

    /// Goal: processes that open the same new file at once. Method: a file comes and goes while its
    /// path is looked at.
    #[test]
    fn a_file_that_comes_and_goes_is_never_taken_for_a_broken_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("locks.db");
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| (0..20_000).try_for_each(|_| look(&path).map(|_| ())));
            while !looks.is_finished() {
                fs::write(&path, "").expect("written");
                fs::remove_file(&path).expect("removed");
            }
            looks.join().expect("no panic").expect("it is a file, or nothing");
        });
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &path).expect("a link");
        let error = look(&path).expect_err("a broken link");
        assert!(error.to_string().contains("a symbolic link to nothing"), "{error}");
    }

    #[test]
    fn nothing_is_created_on_a_file_system_that_is_refused() {
        let path = Path::new("/proc/fencelock/x.db");
        let error = check_file_system(path).expect_err("not for files");
        assert_eq!(error.kind(), StoreErrorKind::Config);
        assert!(error.to_string().contains("a proc file system"), "{error}");
    }
}
