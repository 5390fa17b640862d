//! The settings in `fencelock.toml`: the working directory's first, then the user's.
//!
//! A key that nobody knows is an error, not a warning: a slip in `distributed` or `ttl` would
//! otherwise be found out by the lock that was not there.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::key::{Key, nearest};
use super::layer::{Layer, Origin};
use crate::exit::Exit;
use crate::failure::Failure;

/// Reads the files that are there, the nearest first.
///
/// # Errors
/// A file can't be read, is no TOML, or has an unknown key.
pub(super) fn read_all() -> Result<Vec<Layer>, Failure> {
    let mut layers = Vec::new();
    for path in [Some(PathBuf::from(FILE_NAME)), user_file()].into_iter().flatten() {
        if let Some(text) = text_of(&path)? {
            layers.push(parse(&path, &text)?);
        }
    }
    Ok(layers)
}

/// `$XDG_CONFIG_HOME/fencelock/fencelock.toml`, else below `~/.config`.
fn user_file() -> Option<PathBuf> {
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(folder.join("fencelock").join(FILE_NAME))
}

/// The path in a variable; a relative one is ignored, as the specification of these folders asks.
fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn text_of(path: &Path) -> Result<Option<String>, Failure> {
    let fail = |sentence: String| {
        Err(Failure::new(Exit::Config, format!("{}: {sentence}", path.display())))
    };
    // Looked at before it is opened: the opening of a pipe waits for somebody to write.
    match fs::metadata(path) {
        Ok(metadata) if metadata.file_type().is_fifo() => {
            return fail("is a pipe: not a configuration file".to_owned());
        }
        // Whoever writes this file chooses where the locks are. In a folder that all may write to,
        // anybody's file would send ours to a store where nobody else looks.
        Ok(metadata) if !is_trusted(metadata.uid()) => {
            return fail(format!(
                "belongs to user {}, neither to you nor to root: make it yours, or run elsewhere",
                metadata.uid()
            ));
        }
        Ok(_) => {}
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return fail(format!("can't be read: {error}")),
    }
    // Counted while it is read: a device has no length, and not all of them have an end.
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes));
    match read.map(|_| String::from_utf8(bytes)) {
        Err(error) => fail(format!("can't be read: {error}")),
        Ok(Ok(text)) if text.len() as u64 > BYTES_MAX => {
            fail(format!("is larger than {BYTES_MAX} bytes: not a configuration file"))
        }
        Ok(Ok(text)) => Ok(Some(text)),
        Ok(Err(error)) => fail(format!("can't be read: {error}")),
    }
}

fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn parse(path: &Path, text: &str) -> Result<Layer, Failure> {
    let shared = Arc::new(path.to_owned());
    let fail = |line: usize, sentence: &str| {
        Failure::new(Exit::Config, format!("{}:{line}: {sentence}", path.display()))
    };
    let table = DeTable::parse(text).map_err(|error| {
        fail(error.span().map_or(1, |span| line_of(text, span.start)), error.message())
    })?;
    let mut layer = Layer::default();
    for (name, value) in table.get_ref() {
        let line = line_of(text, name.span().start);
        let Some(key) = Key::of_name(name.get_ref()) else {
            return Err(fail(line, &unknown_key(name.get_ref())));
        };
        let origin = Origin::File { path: Arc::clone(&shared), line, key };
        match key {
            Key::Meta => read_meta(&mut layer, text, &origin, value)?,
            Key::Store => read_stores(&mut layer, &origin, value.get_ref())?,
            _ => {
                let value = scalar(value.get_ref()).ok_or_else(|| {
                    origin.fail("is one value, not a list, a table, a fraction or a date")
                })?;
                layer.set(origin, key, Some(value));
            }
        }
    }
    Ok(layer)
}

/// One store, or a list of those of a quorum.
fn read_stores(layer: &mut Layer, origin: &Origin, value: &DeValue<'_>) -> Result<(), Failure> {
    let urls: Option<Vec<String>> = match value {
        DeValue::Array(list) => list.iter().map(|url| scalar(url.get_ref())).collect(),
        one => scalar(one).map(|url| vec![url]),
    };
    match urls {
        Some(urls) if !urls.is_empty() => {
            urls.into_iter().for_each(|url| layer.add_store(origin.clone(), url));
            Ok(())
        }
        _ => Err(origin.fail("is one URL or a list of them, each in quotes")),
    }
}

fn read_meta(
    layer: &mut Layer,
    text: &str,
    origin: &Origin,
    value: &Spanned<DeValue<'_>>,
) -> Result<(), Failure> {
    let DeValue::Table(table) = value.get_ref() else {
        return Err(origin.fail("is a table: write `[meta]` and a line `key = \"value\"` for each"));
    };
    for (name, value) in table {
        let own = match origin {
            Origin::File { path, key, .. } => {
                let line = line_of(text, name.span().start);
                Origin::File { path: Arc::clone(path), line, key: *key }
            }
            other => other.clone(),
        };
        let Some(value) = scalar(value.get_ref()) else {
            return Err(own.fail(&format!("has no text for `{}`", name.get_ref().escape_debug())));
        };
        layer.add_meta(own, format!("{}={value}", name.get_ref()));
    }
    Ok(())
}

/// The value as it would stand on the command line.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Boolean(switch) => Some(switch.to_string()),
        _ => None,
    }
}

fn unknown_key(name: &str) -> String {
    let shown = name.escape_debug();
    match nearest(name, Key::ALL.map(Key::name)) {
        Some(near) => format!("no setting is called `{shown}`, did you mean `{near}`?"),
        None => format!("no setting is called `{shown}`"),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}

const FILE_NAME: &str = "fencelock.toml";
/// Enough for every setting with a page of comment to each.
const BYTES_MAX: u64 = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest() {
        let failure =
            parse(Path::new("f.toml"), "# c\nttl = \"3s\"\nstroe = \"x\"\n").expect_err("unknown");
        assert_eq!(failure.code(), 78);
        assert_eq!(
            failure.message(),
            Some("f.toml:3: no setting is called `stroe`, did you mean `store`?")
        );
    }

    #[test]
    fn broken_files_name_the_line() {
        for (text, line) in
            [("ttl = \n", "1"), ("ttl = \"1s\"\n[[meta]]\n", "2"), ("\nttl = [1]", "2")]
        {
            let failure = parse(Path::new("f.toml"), text).expect_err(text);
            let message = failure.message().expect("a message");
            assert!(message.starts_with(&format!("f.toml:{line}:")), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}
