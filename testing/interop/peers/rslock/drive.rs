//! Drives the lock of rslock 0.10; the protocol is described in `../PROTOCOL.md`.

#[path = "../common/driver.rs"]
mod driver;

use std::time::Duration;

use driver::{Answer, Peer, failed, serve};
use rslock::{Lock, LockError, LockManager};
use tokio::runtime::Runtime;

struct Rslock {
    runtime: Runtime,
    manager: LockManager,
    lock: Option<Lock>,
}

impl Rslock {
    fn lock(&self) -> Answer<&Lock> {
        self.lock.as_ref().ok_or_else(|| "there is no lock".to_owned())
    }
}

impl Peer for Rslock {
    fn acquire(&mut self, name: &str, ttl_ms: u64, wait_ms: u64) -> Answer<Option<Vec<u8>>> {
        // Its sleeps are 100 ms in the middle.
        let tries = u32::try_from(wait_ms / 100 + 1).map_err(failed)?;
        self.manager.set_retry(tries, Duration::from_millis(200));
        let asked = self.manager.lock(name, Duration::from_millis(ttl_ms));
        match self.runtime.block_on(asked) {
            Ok(lock) => Ok(Some(self.lock.insert(lock).val.clone())),
            Err(LockError::Unavailable) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Its own release tells nothing, so the server is asked before.
    fn release(&mut self) -> Answer<bool> {
        let ours = self.holding()?;
        self.runtime.block_on(self.manager.unlock(self.lock()?));
        Ok(ours)
    }

    fn extend(&mut self, ttl_ms: u64) -> Answer<bool> {
        let ours = self.holding()?;
        let asked = self.manager.extend(self.lock()?, Duration::from_millis(ttl_ms));
        match self.runtime.block_on(asked) {
            Ok(lock) => self.lock = Some(lock),
            Err(_) if !ours => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(ours)
    }

    fn holding(&mut self) -> Answer<bool> {
        let lock = self.lock()?;
        let stored = self.manager.query_redis_for_key_value(&lock.resource);
        Ok(self.runtime.block_on(stored).map_err(failed)?.as_ref() == Some(&lock.val))
    }
}

fn main() {
    let url = std::env::args().nth(1).expect("URL KIND");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let manager = LockManager::new(vec![url]);
    serve("rslock", "0.10.0", &mut Rslock { runtime, manager, lock: None });
}
