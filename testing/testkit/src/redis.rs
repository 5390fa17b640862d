//! A real Redis (or Valkey) server of a test's own: started, killed, frozen and restarted by it.
//!
//! The server runs on a reserved port and a unix socket in a directory of its own, and ends with
//! the test: on drop, and by the kernel's hand if the test process is killed. It has a user
//! `testkit` with all rights, so that assertions work whatever a test does to the other users.

mod builder;
mod cluster;
mod replicated;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::{Client, Connection, RedisResult, Value};
use tempfile::TempDir;

use crate::clock::ServerClock;
use crate::monitor::Monitor;
use crate::port::{ReservedPort, random};
use crate::process::{self, Signal, eventually, spawn_tied};

pub use builder::{Persistence, RedisServerBuilder};
pub use cluster::{RedisCluster, RedisClusterBuilder};
pub use replicated::Replicated;

fn is_valkey(binary: &Path) -> bool {
    binary.file_name().is_some_and(|name| name.to_string_lossy().contains("valkey"))
}

/// The bound of a start; a starved machine needs seconds, an idle one 20 ms.
const START_WITHIN: Duration = Duration::from_secs(30);

/// The bound of one connection or reply on the testkit's own connections.
const REPLY_WITHIN: Duration = Duration::from_secs(10);

/// The longest directory whose socket still fits into a socket address of 108 bytes.
const SOCKET_DIRECTORY_LEN_MAX: usize = 80;

const ADMIN: &str = "testkit";

/// A running server, or one that a test has killed and may restart.
#[derive(Debug)]
pub struct RedisServer {
    binary: PathBuf,
    directory: TempDir,
    port: ReservedPort,
    tls_port: Option<ReservedPort>,
    password: Option<String>,
    admin_password: String,
    clock: Option<Box<ServerClock>>,
    is_sentinel: bool,
    child: Mutex<Option<Child>>,
}

enum NotStarted {
    PortTaken(String),
    Broken(String),
}

impl RedisServer {
    /// A server with no persistence and no password.
    ///
    /// # Panics
    ///
    /// As [`RedisServerBuilder::start`].
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Settings for another kind of server.
    pub fn builder() -> RedisServerBuilder {
        RedisServerBuilder::default()
    }

    fn try_start(builder: &RedisServerBuilder, binary: &Path) -> Result<Self, NotStarted> {
        let directory = directory();
        let port = match builder.port {
            Some(port) => ReservedPort::try_exact(port)
                .ok_or_else(|| NotStarted::PortTaken(format!("port {port} is taken")))?,
            None => ReservedPort::draw(),
        };
        let admin_password = format!("{:016x}{:016x}", random(), random());
        let tls_port = builder.has_tls.then(ReservedPort::draw);
        let ports = (port.port(), tls_port.as_ref().map(ReservedPort::port));
        let mut configuration = builder.configuration(directory.path(), ports, &admin_password);
        let looks_seldom = builder.movable_clock && is_valkey(binary);
        if looks_seldom {
            let hertz = 1_000 / ServerClock::LOOKS_EVERY.as_millis();
            configuration.push_str(&format!("hz {hertz}\n"));
        }
        std::fs::write(directory.path().join("redis.conf"), configuration)
            .expect("the server's directory can be written");
        let server = Self {
            binary: binary.to_owned(),
            clock: builder.movable_clock.then(|| Box::new(ServerClock::new(directory.path()))),
            directory,
            port,
            tls_port,
            password: builder.password.clone(),
            admin_password,
            is_sentinel: builder.is_sentinel,
            child: Mutex::new(None),
        };
        server.spawn()?;
        if looks_seldom && let Some(clock) = &server.clock {
            clock.looks_seldom(server.url_as(ADMIN, &server.admin_password));
        }
        Ok(server)
    }

    /// Kills the server at once (SIGKILL by pid) and reaps it; nothing happens if it is down.
    pub fn kill(&self) {
        if let Some(mut child) = self.lock_child().take() {
            // Both fail only when the child is gone, which is what we want.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts the server again on the same port, directory and clock, and waits until it answers.
    ///
    /// A server that still runs is first stopped cleanly (SIGTERM), so that it can save.
    ///
    /// # Panics
    ///
    /// When it does not come back; with its log.
    pub fn restart(&self) {
        self.shut_down();
        match self.spawn() {
            Ok(()) => {}
            Err(NotStarted::PortTaken(log) | NotStarted::Broken(log)) => {
                panic!("{} did not start again: {log}", self.binary.display())
            }
        }
    }

    /// Stops the server cleanly (SIGTERM) and waits for its end; nothing happens if it is down.
    ///
    /// # Panics
    ///
    /// When it refuses to stop.
    pub fn shut_down(&self) {
        let Some(mut child) = self.lock_child().take() else { return };
        process::send(child.id(), Signal::TERM);
        process::send(child.id(), Signal::CONT);
        eventually(REPLY_WITHIN, "the server stops on SIGTERM", || {
            child.try_wait().expect("a child of ours can be waited for").is_some()
        });
    }

    /// Freezes the server (SIGSTOP); connections stay open and nothing is answered.
    ///
    /// # Panics
    ///
    /// When the server is down.
    pub fn stop_signal(&self) {
        process::stop(self.pid());
    }

    /// Thaws the server (SIGCONT).
    ///
    /// # Panics
    ///
    /// When the server is down.
    pub fn cont(&self) {
        process::cont(self.pid());
    }

    /// The URL for the default user, with its password if there is one.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_with_db(0)
    }

    /// The URL with a database number.
    #[must_use]
    pub fn url_with_db(&self, database: u32) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@{}/{database}", self.addr()),
            None => format!("redis://{}/{database}", self.addr()),
        }
    }

    /// The URL for another user.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@{}/0", self.addr())
    }

    /// The URL over TLS for the default user, who has no password, at `localhost`.
    ///
    /// # Panics
    ///
    /// When the server was started without [`RedisServerBuilder::tls`].
    #[must_use]
    pub fn tls_url(&self) -> String {
        let port = self.tls_port.as_ref().expect("started with `.tls(..)`").port();
        format!("rediss://localhost:{port}/0")
    }

    /// The URL of the unix socket for the default user.
    #[must_use]
    pub fn unix_url(&self) -> String {
        let socket = self.unix_socket();
        match &self.password {
            Some(password) => format!("redis+unix://{}?pass={password}", socket.display()),
            None => format!("redis+unix://{}", socket.display()),
        }
    }

    /// The path of the unix socket.
    #[must_use]
    pub fn unix_socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// The directory with the server's data, log and configuration file.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.port()
    }

    /// `127.0.0.1:port`.
    #[must_use]
    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// The pid.
    ///
    /// # Panics
    ///
    /// When the server is down.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.lock_child().as_ref().expect("the server runs; a test has killed it").id()
    }

    /// The clock.
    ///
    /// # Panics
    ///
    /// When the server was started without [`RedisServerBuilder::clock`].
    #[must_use]
    pub fn clock(&self) -> &ServerClock {
        self.clock.as_ref().expect("started with `.clock()`")
    }

    /// A blocking connection with all rights, for set-up and assertions.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    #[must_use]
    pub fn connect(&self) -> Connection {
        self.try_connect().unwrap_or_else(|e| panic!("cannot connect to {}: {e}", self.addr()))
    }

    /// Runs one command with all rights.
    ///
    /// # Panics
    ///
    /// When the server refuses it.
    #[allow(clippy::must_use_candidate)] // Set-up commands have nothing to tell.
    pub fn cli(&self, args: &[&str]) -> Value {
        self.try_cli(args).unwrap_or_else(|e| panic!("{args:?} was refused: {e}"))
    }

    /// Runs one command with all rights.
    ///
    /// # Errors
    ///
    /// What the server or the connection said.
    pub fn try_cli(&self, args: &[&str]) -> RedisResult<Value> {
        let (name, rest) = args.split_first().expect("a command has a name");
        redis::cmd(name).arg(rest).query(&mut self.try_connect()?)
    }

    /// Records what the server executes from now on.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor::start(self.port(), ADMIN, &self.admin_password)
    }

    fn try_connect(&self) -> RedisResult<Connection> {
        let client = Client::open(self.url_as(ADMIN, &self.admin_password))?;
        let connection = client.get_connection_with_timeout(REPLY_WITHIN)?;
        connection.set_read_timeout(Some(REPLY_WITHIN))?;
        connection.set_write_timeout(Some(REPLY_WITHIN))?;
        Ok(connection)
    }

    fn spawn(&self) -> Result<(), NotStarted> {
        let mut command = Command::new(&self.binary);
        command.arg(self.directory.path().join("redis.conf"));
        if self.is_sentinel {
            command.arg("--sentinel");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(clock) = &self.clock {
            clock.apply_to(&mut command);
        }
        let mut child = spawn_tied(command)
            .unwrap_or_else(|e| panic!("cannot run {}: {e}", self.binary.display()));
        let start = Instant::now();
        let outcome = loop {
            if let Some(status) = child.try_wait().expect("a child of ours can be waited for") {
                break Err(self.why_not(&format!("ended with {status}")));
            }
            if self.answers_as(child.id()) {
                break Ok(());
            }
            if start.elapsed() > START_WITHIN {
                break Err(self.why_not(&format!("no answer within {START_WITHIN:?}")));
            }
            std::thread::sleep(process::POLL_STEP);
        };
        // Kept even when it did not answer: `kill` on drop then takes it down.
        *self.lock_child() = Some(child);
        outcome
    }

    /// Whether the process that answers on our port is our own and has loaded its data.
    fn answers_as(&self, pid: u32) -> bool {
        let Ok(mut connection) = self.try_connect() else { return false };
        let Ok(info) = redis::cmd("INFO").arg("server").query::<String>(&mut connection) else {
            return false;
        };
        info.lines().any(|line| line == format!("process_id:{pid}"))
            && redis::cmd("PING").query::<String>(&mut connection).is_ok()
    }

    fn why_not(&self, what: &str) -> NotStarted {
        let log = std::fs::read_to_string(self.directory.path().join("redis.log"));
        let log = log.unwrap_or_else(|e| format!("no log, look at redis.conf: {e}"));
        let tail: Vec<&str> = log.lines().rev().take(15).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        let message = format!("{what}\n{}", tail.join("\n"));
        if log.contains("Address already in use") {
            NotStarted::PortTaken(message)
        } else {
            NotStarted::Broken(message)
        }
    }

    fn lock_child(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        // A poisoned lock still holds the child, which must be killed on drop.
        self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A directory short enough for a unix socket's address.
fn directory() -> TempDir {
    let base = std::env::temp_dir();
    let short = if base.as_os_str().len() > SOCKET_DIRECTORY_LEN_MAX {
        Path::new("/tmp").to_owned()
    } else {
        base
    };
    tempfile::Builder::new()
        .prefix("fencelock-redis-")
        .tempdir_in(&short)
        .unwrap_or_else(|e| panic!("cannot create a directory in {}: {e}", short.display()))
}
