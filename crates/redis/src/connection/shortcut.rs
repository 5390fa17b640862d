//! Whether the server has a command that deletes a string only if it is a certain one: Redis from
//! 8.4 (`DELEX key IFEQ value`), Valkey from 9 (`DELIFEQ key value`).
//!
//! Read from what the server says of itself, so that nothing is sent to find out, and found anew
//! with each connection. A server that says so and refuses the command is not asked again.

use std::sync::atomic::{AtomicU8, Ordering};

use redis::{Cmd, Value};

/// What is known of it, for all connections to one server.
#[derive(Debug, Default)]
pub(crate) struct Shortcut(AtomicU8);

const UNKNOWN: u8 = 0;
const DELEX: u8 = 1;
const DELIFEQ: u8 = 2;

impl Shortcut {
    /// A new connection, which may lead to another server; or this one would not do it.
    pub(crate) fn forget(&self) {
        self.0.store(UNKNOWN, Ordering::Relaxed);
    }

    /// Reads what the server says of itself.
    pub(super) fn learn(&self, info: &Value) {
        let text = match info {
            Value::BulkString(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
            Value::SimpleString(text) | Value::VerbatimString { text, .. } => text,
            _ => return,
        };
        let version = |name: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            let mut parts = rest.trim().split('.').map_while(|part| part.parse::<u32>().ok());
            Some((parts.next()?, parts.next()?))
        };
        // Valkey calls itself a Redis 7.2, too.
        let has = match (version("valkey_version"), version("redis_version")) {
            (Some(version), _) if version >= (9, 0) => DELIFEQ,
            (None, Some(version)) if version >= (8, 4) => DELEX,
            _ => return,
        };
        self.0.store(has, Ordering::Relaxed);
    }

    /// The command, if the server has one.
    pub(crate) fn delete(&self, key: &[u8], value: &[u8]) -> Option<Cmd> {
        const OVERHEAD_BYTES: usize = 64;
        let mut command = Cmd::with_capacity(4, key.len() + value.len() + OVERHEAD_BYTES);
        match self.0.load(Ordering::Relaxed) {
            DELEX => command.arg("DELEX").arg(key).arg("IFEQ").arg(value),
            DELIFEQ => command.arg("DELIFEQ").arg(key).arg(value),
            _ => return None,
        };
        Some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_that_have_the_command_are_asked() {
        let has = |info: &str| {
            let shortcut = Shortcut::default();
            shortcut.learn(&Value::BulkString(info.as_bytes().to_vec()));
            shortcut.0.into_inner()
        };
        for (info, what) in [
            ("redis_version:7.0.15\r\n", UNKNOWN),
            ("redis_version:8.2.9\r\n", UNKNOWN),
            ("redis_version:8.4.0\r\n", DELEX),
            ("redis_version:10.0.0\r\n", DELEX),
            ("redis_version:7.2.4\r\nvalkey_version:8.1.0\r\n", UNKNOWN),
            ("redis_version:7.2.4\r\nvalkey_version:9.0.0\r\n", DELIFEQ),
            ("redis_version:255.255.255\r\n", DELEX),
            ("redis_version:8\r\n", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(has(info), what, "{info}");
        }
    }
}
