//! How locks are printed: one JSON object a line, or text for people.
//!
//! Standard output is written here only. What another process said of itself is untrusted: in text
//! every control character is taken out, in JSON it is escaped.

mod crowd;
mod record;
mod text;

pub(crate) use crowd::{has, is_left, of, who};
pub(crate) use record::{HolderRecord, Record, escape_invisible, millis, rfc3339};
pub(crate) use text::{list, show};

use std::io::{self, Write};

use crate::failure::Failure;

/// Writes to standard output, at once and completely.
///
/// # Errors
/// It can't be written. A reader that went away ends the program as SIGPIPE would.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    try_print(text).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::silent(SIGPIPE_CODE),
        _ => Failure::internal(format!("the output can't be written: {error}")),
    })
}

/// The same, for those who have something to undo.
///
/// # Errors
/// It can't be written.
pub(crate) fn try_print(text: &str) -> io::Result<()> {
    if crate::sys::output_was_closed() {
        return Err(io::Error::other("standard output is closed"));
    }
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// 128 + SIGPIPE.
const SIGPIPE_CODE: u8 = 141;
