//! The settings of a server to start, their configuration file, and which program to run.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::certificates::{Authority, Certificate};

use super::{ADMIN, NotStarted, RedisServer};

/// Ports tried before giving up; each can only be lost to a process outside of the testkit.
const START_ATTEMPTS_MAX: u32 = 5;

/// What a server keeps on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Persistence {
    /// Nothing: a restart is empty.
    #[default]
    None,
    /// Every write, synced before its reply.
    Aof,
    /// A snapshot on a clean stop (and on `SAVE`); a kill loses what came since.
    Rdb,
}

/// Settings of a server to start.
#[derive(Debug, Default)]
#[must_use = "nothing runs until `start`"]
pub struct RedisServerBuilder {
    persistence: Persistence,
    pub(super) movable_clock: bool,
    pub(super) password: Option<String>,
    lines: Vec<String>,
    pub(super) port: Option<u16>,
    pub(super) is_sentinel: bool,
    pub(super) has_tls: bool,
}

impl RedisServerBuilder {
    /// What survives a restart.
    pub fn persistence(mut self, persistence: Persistence) -> Self {
        self.persistence = persistence;
        self
    }

    /// Gives the server a wall clock the test can move, see [`RedisServer::clock`].
    pub fn clock(mut self) -> Self {
        self.movable_clock = true;
        self
    }

    /// Appends one line to the configuration file; the value is written as it is, so quote it
    /// where the server wants quotes.
    pub fn config(mut self, key: &str, value: &str) -> Self {
        self.lines.push(format!("{key} {value}"));
        self
    }

    /// Adds a user, with rules as in `ACL SETUSER`: `on >secret ~fencelock:* +@all -eval`.
    pub fn acl_user(self, name: &str, rules: &str) -> Self {
        self.config("user", &format!("{name} {rules}"))
    }

    /// The password of the default user.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Runs as a sentinel; what it watches is said by `config("sentinel", ..)`.
    pub fn sentinel(mut self) -> Self {
        self.is_sentinel = true;
        self
    }

    /// Listens for TLS too, on a port of its own: see [`RedisServer::tls_url`]. With `clients_of` it
    /// takes only clients with a certificate of that authority.
    pub fn tls(mut self, shows: &Certificate, clients_of: Option<&Authority>) -> Self {
        self.has_tls = true;
        let is_asked = clients_of.is_some();
        // A server without an authority does not start, although it asks nobody for anything.
        let authority = clients_of.map_or_else(|| shows.certificate.clone(), Authority::file);
        self.config("tls-cert-file", &shows.certificate.display().to_string())
            .config("tls-key-file", &shows.key.display().to_string())
            .config("tls-ca-cert-file", &authority.display().to_string())
            .config("tls-auth-clients", if is_asked { "yes" } else { "no" })
    }

    /// Takes this port instead of a drawn one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Panics
    ///
    /// When no server is installed, or it does not start; with its log.
    pub fn start(self) -> RedisServer {
        let binary = find_server();
        for _ in 0..START_ATTEMPTS_MAX {
            match RedisServer::try_start(&self, &binary) {
                Ok(server) => return server,
                Err(NotStarted::PortTaken(_)) if self.port.is_none() => {}
                Err(NotStarted::PortTaken(log) | NotStarted::Broken(log)) => {
                    panic!("{} did not start: {log}", binary.display())
                }
            }
        }
        panic!("{} lost its port {START_ATTEMPTS_MAX} times in a row", binary.display());
    }

    pub(super) fn configuration(
        &self,
        directory: &Path,
        ports: (u16, Option<u16>),
        admin_password: &str,
    ) -> String {
        let shown = directory.display();
        let (port, tls_port) = ports;
        let mut text = format!(
            "bind 127.0.0.1\nport {port}\nunixsocket {shown}/redis.sock\ndir {shown}\n\
             daemonize no\nlogfile {shown}/redis.log\n\
             user {ADMIN} on >{admin_password} ~* &* +@all\n"
        );
        // A snapshot is made by the stop itself as soon as any save point exists; this one never
        // comes by itself.
        text.push_str(match self.persistence {
            Persistence::None => "save \"\"\nappendonly no\n",
            Persistence::Aof => "save \"\"\nappendonly yes\nappendfsync always\n",
            Persistence::Rdb => "save 2000000 2000000000\nappendonly no\n",
        });
        if let Some(password) = &self.password {
            let _ = writeln!(text, "requirepass {password}");
        }
        if let Some(port) = tls_port {
            let _ = writeln!(text, "tls-port {port}");
        }
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

fn find_server() -> PathBuf {
    if let Some(named) = std::env::var_os("FENCELOCK_REDIS_SERVER") {
        return PathBuf::from(named);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_on_path(&path).unwrap_or_else(|| {
        panic!(
            "no redis-server or valkey-server on PATH: run testing/install, \
             or name one in FENCELOCK_REDIS_SERVER"
        )
    })
}

fn find_on_path(path: &OsStr) -> Option<PathBuf> {
    ["redis-server", "valkey-server"].iter().find_map(|name| {
        std::env::split_paths(path).map(|directory| directory.join(name)).find(|candidate| {
            std::fs::metadata(candidate)
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
    })
}
