//! Whether there is such a command: asked before the lock is waited for, so that a slip of the pen
//! does not cost the wait. The answer can be out of date when the command is started; that is
//! looked at again then.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::exit::Exit;
use crate::failure::Failure;

/// Looks for the program as `execvp` does.
///
/// # Errors
/// There is none (127), or it can't be executed (126).
pub(super) fn check(program: &OsStr) -> Result<(), Failure> {
    let shown = program.to_string_lossy();
    let shown = shown.escape_debug();
    let not_found =
        || Failure::new(Exit::NotFound, format!("cannot run {shown}: command not found"));
    if program.is_empty() {
        return Err(Failure::new(Exit::NotFound, "cannot run a command without a name"));
    }
    let mut found = false;
    for candidate in candidates(program) {
        match state(&candidate) {
            State::Executable => return Ok(()),
            State::NotExecutable => found = true,
            State::Absent => {}
        }
    }
    if found {
        let sentence = format!("cannot run {shown}: it is there but can't be executed");
        return Err(Failure::new(Exit::NotExecutable, sentence));
    }
    Err(not_found())
}

fn candidates(program: &OsStr) -> Vec<PathBuf> {
    let path = Path::new(program);
    if program.as_encoded_bytes().contains(&b'/') {
        return vec![path.to_owned()];
    }
    let folders = env::var_os("PATH").unwrap_or_else(|| PATH_DEFAULT.into());
    env::split_paths(&folders).map(|folder| folder.join(path)).collect()
}

enum State {
    Executable,
    NotExecutable,
    Absent,
}

fn state(path: &Path) -> State {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => State::NotExecutable,
        Ok(_) if rustix::fs::access(path, Access::EXEC_OK).is_ok() => State::Executable,
        Ok(_) => State::NotExecutable,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => State::NotExecutable,
        Err(_) => State::Absent,
    }
}

/// What the C library takes when PATH is not set.
const PATH_DEFAULT: &str = "/bin:/usr/bin";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path_and_by_path() {
        assert!(check(OsStr::new("sh")).is_ok());
        assert!(check(OsStr::new("/bin/sh")).is_ok());
        for (program, code) in [
            ("no-such-program-here", 127),
            ("/no/such", 127),
            ("", 127),
            ("/", 126),
            ("/etc/passwd", 126),
        ] {
            assert_eq!(check(OsStr::new(program)).expect_err(program).code(), code, "{program}");
        }
    }
}
