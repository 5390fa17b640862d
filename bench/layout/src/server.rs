//! A redis-server of our own: a free port, an empty directory, nothing written to disk, ended by its pid.
//!
//! Relies on `redis-server` in the PATH. Must not talk to any server that it did not start.

use std::error::Error;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

/// How long a server may take to answer its first PING.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A running server; dropping it ends the process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Server {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// If `redis-server` cannot be started or does not answer within ten seconds.
    pub async fn start() -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &port.to_string()])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()?;
        let server = Self { child, port, _folder: folder };
        let started = Instant::now();
        while server.connect().await.is_err() {
            if started.elapsed() > START_LIMIT {
                return Err("redis-server did not answer within 10 s".into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(server)
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}/", self.port))?;
        client.get_multiplexed_async_connection().await
    }

    /// Puts the server and the calling thread on the first allowed processor; the returned set undoes it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn pin(&self) -> Result<CpuSet, Box<dyn Error>> {
        let all = sched_getaffinity(None)?;
        let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).ok_or("no processor")?;
        let mut one = CpuSet::new();
        one.set(first);
        self.set_affinity(&one)?;
        Ok(all)
    }

    /// Lets the server's main thread and the calling thread run on `cpus`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_affinity(&self, cpus: &CpuSet) -> Result<(), Box<dyn Error>> {
        sched_setaffinity(None, cpus)?;
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).ok_or("no pid")?;
        sched_setaffinity(Some(pid), cpus)?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended by itself; there is nothing left to do then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One number out of INFO, or of another reply of `field:value` lines.
#[must_use]
pub fn field(info: &str, name: &str) -> Option<f64> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().parse().ok()
}
