//! Drives the lock of redlock 2.0; the protocol is described in `../PROTOCOL.md`.

#[path = "../common/driver.rs"]
mod driver;

use driver::{Answer, Peer, failed, serve};
use redlock::{Lock, RedLock};

struct Redlock {
    /// The settings of the retries are those of the whole, and a lock borrows it: one for each, for
    /// as long as the driver runs.
    url: String,
    lock: Option<Lock<'static>>,
}

impl Redlock {
    fn lock(&self) -> Answer<&Lock<'static>> {
        self.lock.as_ref().ok_or_else(|| "there is no lock".to_owned())
    }
}

impl Peer for Redlock {
    fn acquire(&mut self, name: &str, ttl_ms: u64, wait_ms: u64) -> Answer<Option<Vec<u8>>> {
        let mut locks = RedLock::new(vec![self.url.as_str()]);
        // Its sleeps are 100 ms in the middle.
        locks.set_retry(u32::try_from(wait_ms / 100 + 1).map_err(failed)?, 200);
        let locks: &'static RedLock = Box::leak(Box::new(locks));
        let ttl = usize::try_from(ttl_ms).map_err(failed)?;
        let Some(lock) = locks.lock(name.as_bytes(), ttl).map_err(failed)? else {
            return Ok(None);
        };
        Ok(Some(self.lock.insert(lock).val.clone()))
    }

    /// Its own release tells nothing, so the server is asked before.
    fn release(&mut self) -> Answer<bool> {
        let ours = self.holding()?;
        let lock = self.lock()?;
        lock.lock_manager.unlock(lock);
        Ok(ours)
    }

    fn extend(&mut self, _ttl_ms: u64) -> Answer<bool> {
        Err("unsupported".to_owned())
    }

    fn holding(&mut self) -> Answer<bool> {
        let lock = self.lock()?;
        let mut connection = lock.lock_manager.servers[0].get_connection().map_err(failed)?;
        let stored: Option<Vec<u8>> =
            redis::cmd("GET").arg(&lock.resource).query(&mut connection).map_err(failed)?;
        Ok(stored.as_ref() == Some(&lock.val))
    }
}

fn main() {
    let url = std::env::args().nth(1).expect("URL KIND");
    let ready = RedLock::new(vec![url.as_str()]);
    ready.servers[0].get_connection().expect("a server");
    serve("redlock", "2.0.0", &mut Redlock { url, lock: None });
}
