//! Where this process runs: which boot of the machine, which time and pid namespace.
//!
//! Two processes can compare readings of the monotonic clock only when boot and time namespace are
//! the same, and process ids only when the pid namespace is. All of it is read once for each
//! opening of the file: a process cannot change it, only its children can have other ones.

use std::{fmt, io, sync::Arc};

use fencelock_core::ProcessId;
use fencelock_store::rt;

use crate::process::{self, Presence};

/// Which boot, namespaces and processes a store sees.
///
/// [`SqliteStore`](crate::SqliteStore) reads the real ones; tests inject others with
/// [`Builder::surroundings`](crate::Builder::surroundings).
#[derive(Clone)]
pub struct Surroundings {
    pub(crate) boot: [u8; 16],
    pub(crate) time_namespace: u64,
    pub(crate) pid_namespace: Option<u64>,
    processes: Arc<dyn Fn(ProcessId) -> Presence + Send + Sync>,
}

impl Surroundings {
    /// The real ones.
    ///
    /// # Errors
    /// When the system does not tell its boot id: `/proc` is not mounted, or it is not Linux.
    pub fn of_this_process() -> io::Result<Self> {
        let own = process::current().ok();
        let processes = move |process: ProcessId| match own {
            // Whoever asks is alive, and asking `/proc` about oneself would cost each release of a
            // guard about 20 us. The id is compared again, since this may be a copy after a fork.
            Some(own) if own == process && own.pid == rt::process_id() => Presence::PerhapsAlive,
            _ => process::presence(process),
        };
        Ok(Self {
            boot: boot_id()?,
            // Kernels before 5.6 have no time namespaces: then all processes share one clock.
            time_namespace: namespace("time").unwrap_or(0),
            pid_namespace: own.and_then(|_| namespace("pid")),
            processes: Arc::new(processes),
        })
    }

    /// Made-up ones in which every process is perhaps alive.
    #[must_use]
    pub fn made_up(boot: [u8; 16]) -> Self {
        Self {
            boot,
            time_namespace: 1,
            pid_namespace: Some(1),
            processes: Arc::new(|_| Presence::PerhapsAlive),
        }
    }

    /// The same on another boot of the machine.
    #[must_use]
    pub fn boot(self, boot: [u8; 16]) -> Self {
        Self { boot, ..self }
    }

    /// The same in another time namespace.
    #[must_use]
    pub fn time_namespace(self, inode: u64) -> Self {
        Self { time_namespace: inode, ..self }
    }

    /// The same in another pid namespace; with nothing, process ids are never compared.
    #[must_use]
    pub fn pid_namespace(self, inode: Option<u64>) -> Self {
        Self { pid_namespace: inode, ..self }
    }

    /// The same with another view of the processes.
    #[must_use]
    pub fn processes(self, view: impl Fn(ProcessId) -> Presence + Send + Sync + 'static) -> Self {
        Self { processes: Arc::new(view), ..self }
    }

    pub(crate) fn presence(&self, process: ProcessId) -> Presence {
        (self.processes)(process)
    }
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("boot", &self.boot)
            .field("time_namespace", &self.time_namespace)
            .field("pid_namespace", &self.pid_namespace)
            .finish_non_exhaustive()
    }
}

fn boot_id() -> io::Result<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    parse_boot_id(&text).ok_or_else(|| io::Error::other("the boot id has an unknown form"))
}

fn parse_boot_id(text: &str) -> Option<[u8; 16]> {
    let mut digits = text.trim().chars().filter(|&character| character != '-');
    let mut id = [0; 16];
    for byte in &mut id {
        let high = digits.next()?.to_digit(16)?;
        let low = digits.next()?.to_digit(16)?;
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    digits.next().is_none().then_some(id)
}

fn namespace(kind: &str) -> Option<u64> {
    let stat = rustix::fs::stat(format!("/proc/self/ns/{kind}")).ok()?;
    Some(stat.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_is_sixteen_bytes() {
        let id = parse_boot_id("00010203-0405-0607-0809-0a0b0c0d0eff\n");
        assert_eq!(id, Some([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]));
        assert_eq!(parse_boot_id("00"), None);
        assert_eq!(parse_boot_id("00010203-0405-0607-0809-0a0b0c0d0eff0"), None);
        assert_eq!(parse_boot_id("0001020g-0405-0607-0809-0a0b0c0d0eff"), None);
    }

    #[test]
    fn whoever_asks_is_alive_and_an_earlier_owner_of_its_id_is_gone() {
        let here = Surroundings::of_this_process().expect("Linux");
        let own = process::current().expect("Linux");
        assert_eq!(here.presence(own), Presence::PerhapsAlive);
        let earlier = ProcessId { started: own.started - 1, ..own };
        assert_eq!(here.presence(earlier), Presence::Gone);
    }

    #[test]
    fn the_real_ones_are_the_same_twice() {
        let first = Surroundings::of_this_process().expect("Linux");
        let second = Surroundings::of_this_process().expect("Linux");
        assert_eq!(first.boot, second.boot);
        assert_eq!(first.time_namespace, second.time_namespace);
        assert!(first.pid_namespace.is_some());
        assert_eq!(first.pid_namespace, second.pid_namespace);
    }
}
