//! TCP ports that stay ours while nobody listens on them.
//!
//! A port found by binding `:0` is in the kernel's range for outgoing connections: while a killed
//! server is down, any client on the machine may be given it, and the restart fails. So a
//! [`ReservedPort`] is drawn from below that range, and a locked file per port keeps every other
//! test process of this user away from it until the value is dropped.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;
use std::path::PathBuf;

/// Draws before we call the machine full; each draw is independent, so this is never reached by
/// bad luck while less than 9 ports of 10 are taken.
const DRAWS_MAX: u32 = 200;

/// The lowest port that is drawn; well-known services live below.
const PORT_MIN: u16 = 10_240;

/// A port on 127.0.0.1 that no other test of this user will pick.
#[derive(Debug)]
#[must_use = "dropping the value gives the port back"]
pub struct ReservedPort {
    port: u16,
    lock: File,
}

impl ReservedPort {
    /// Draws a port on which nothing listens now.
    ///
    /// # Panics
    ///
    /// When no port can be had.
    pub fn draw() -> Self {
        let above = first_ephemeral_port();
        for _ in 0..DRAWS_MAX {
            let span = u64::from(above - PORT_MIN);
            let offset = u16::try_from(random() % span).expect("smaller than a u16 by the modulus");
            if let Some(reserved) = Self::try_exact(PORT_MIN + offset) {
                return reserved;
            }
        }
        panic!("found no free port between {PORT_MIN} and {above} in {DRAWS_MAX} draws");
    }

    /// Reserves one given port, or nothing when another holds or uses it.
    #[must_use]
    pub fn try_exact(port: u16) -> Option<Self> {
        let path = lock_directory().join(port.to_string());
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .unwrap_or_else(|e| panic!("cannot open {}: {e}", path.display()));
        lock.try_lock().ok()?;
        TcpListener::bind(("127.0.0.1", port)).ok()?;
        Some(Self { port, lock })
    }

    /// The number.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for ReservedPort {
    fn drop(&mut self) {
        // Explicitly: a child that another thread is just forking may still share the descriptor.
        let _ = self.lock.unlock();
    }
}

/// A number from the operating system's randomness, by way of the hasher's random keys.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn first_ephemeral_port() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .filter(|first| *first > PORT_MIN + 1000)
        .unwrap_or(32_768)
}

fn lock_directory() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let path = std::env::temp_dir().join(format!("fencelock-testkit-ports-{user}"));
    std::fs::create_dir_all(&path)
        .unwrap_or_else(|e| panic!("cannot create {}: {e}", path.display()));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_refused_to_others_until_it_is_dropped() {
        let first = ReservedPort::draw();
        let port = first.port();
        assert!(ReservedPort::try_exact(port).is_none());
        drop(first);
        assert_eq!(ReservedPort::try_exact(port).map(|again| again.port()), Some(port));
    }

    #[test]
    fn a_port_somebody_listens_on_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        assert!(ReservedPort::try_exact(port).is_none());
    }

    #[test]
    fn drawn_ports_lie_below_the_range_of_outgoing_connections() {
        let drawn = ReservedPort::draw();
        assert!((PORT_MIN..first_ephemeral_port()).contains(&drawn.port()));
    }
}
