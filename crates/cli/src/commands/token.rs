//! Where `renew` and `release` take the token from.

use std::env;
use std::io::{self, Read};

use fencelock::Token;

use crate::args::TokenArgs;
use crate::exit::Exit;
use crate::failure::Failure;

/// Reads the token: `--token`, standard input for `--token -`, else `FENCELOCK_TOKEN`.
///
/// # Errors
/// There is none, or it is none: wrong usage, or wrong configuration for the variable.
pub(super) fn read(arguments: &TokenArgs) -> Result<Token, Failure> {
    match arguments.token.as_deref() {
        Some("-") => parse(from_input()?.trim(), "--token -"),
        Some(token) => parse(token, "--token"),
        None => match env::var_os(VARIABLE) {
            Some(token) => parse(token.to_str().unwrap_or_default(), VARIABLE)
                .map_err(|failure| failure.with_code(Exit::Config)),
            None => Err(Failure::usage(
                "no token: give what acquire printed in FENCELOCK_TOKEN, or to --token - on standard \
                 input",
            )),
        },
    }
}

fn parse(text: &str, place: &str) -> Result<Token, Failure> {
    // The text is not repeated: it may be most of a secret.
    text.parse().map_err(|error| Failure::usage(format!("{place}: {error}")))
}

fn from_input() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin().lock().take(BYTES_MAX).read_to_string(&mut text).map_err(|error| {
        Failure::usage(format!("--token -: standard input can't be read: {error}"))
    })?;
    Ok(text)
}

const VARIABLE: &str = "FENCELOCK_TOKEN";
/// A token has 32 characters; some white space around it is forgiven.
const BYTES_MAX: u64 = 256;
