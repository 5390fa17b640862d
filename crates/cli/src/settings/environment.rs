//! The settings in the environment.
//!
//! `run` sets four variables for its command that are no options; read as options they would make a
//! nested call depend on the outer lock by accident. So they are skipped here by name, and
//! everything else with our prefix that is no option is a slip of the pen: it is named once.

use std::env;

use super::key::{Key, PREFIX, is_slip, nearest};
use super::layer::{Layer, Origin};
use crate::failure::Failure;

/// What a command must not inherit from an outer `run`: it is replaced or removed.
pub(crate) const REMOVED_FOR_THE_CHILD: [&str; 4] =
    ["FENCELOCK_NAME", "FENCELOCK_FENCING_TOKEN", "FENCELOCK_DEADLINE_MS", "FENCELOCK_TOKEN"];

/// Reads the environment; also a warning about variables that nobody knows.
///
/// # Errors
/// A value is not text, or empty: an empty `FENCELOCK_STORE` must not end up as the default store.
pub(super) fn read() -> Result<(Layer, Option<String>), Failure> {
    let mut layer = Layer::default();
    let mut unknown = Vec::new();
    for (variable, value) in env::vars_os() {
        let Some(variable) = variable.to_str().filter(|variable| variable.starts_with(PREFIX))
        else {
            continue;
        };
        if REMOVED_FOR_THE_CHILD.contains(&variable) {
            continue;
        }
        let Some(key) = Key::of_variable(variable) else {
            unknown.push(variable.to_owned());
            continue;
        };
        let origin = Origin::Variable(key);
        let Some(value) = value.to_str() else { return Err(origin.fail("is not UTF-8")) };
        if value.is_empty() {
            return Err(origin.fail("is empty: give it a value or unset it"));
        }
        match key {
            Key::Store => layer.add_store(origin, value.to_owned()),
            Key::Meta => {
                for pair in value.lines() {
                    layer.add_meta(origin.clone(), pair.to_owned());
                }
            }
            _ => layer.set(origin, key, Some(value.to_owned())),
        }
    }
    Ok((layer, warning(unknown)))
}

fn warning(mut unknown: Vec<String>) -> Option<String> {
    if unknown.is_empty() {
        return None;
    }
    unknown.sort();
    let known = Key::ALL.map(Key::variable);
    let named: Vec<String> = unknown
        .iter()
        .map(|variable| match nearest(variable, known.iter().map(String::as_str)) {
            Some(near) if is_slip(bare(variable), bare(near)) => {
                format!("{variable} (did you mean {near}?)")
            }
            _ => variable.clone(),
        })
        .collect();
    Some(format!("no such setting in the environment, ignored: {}", named.join(", ")))
}

fn bare(variable: &str) -> &str {
    variable.strip_prefix(PREFIX).unwrap_or(variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_are_named_in_one_line() {
        let unknown = ["FENCELOCK_TLL", "FENCELOCK_STORES", "FENCELOCK_VERSION"];
        let warning = warning(unknown.map(str::to_owned).into());
        let warning = warning.expect("a warning");
        assert!(warning.contains("FENCELOCK_TLL (did you mean FENCELOCK_TTL?)"), "{warning}");
        assert!(warning.contains("FENCELOCK_STORES (did you mean FENCELOCK_STORE?)"), "{warning}");
        assert!(warning.ends_with("FENCELOCK_VERSION"), "a guess in the dark: {warning}");
        assert!(!warning.contains('\n'));
    }
}
