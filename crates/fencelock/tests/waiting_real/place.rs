//! A store that several processes share.

use fencelock_testkit::RedisServer;
use tempfile::TempDir;

/// A store of a test's own.
pub(crate) enum Place {
    Redis(RedisServer),
    File(TempDir),
}

impl Place {
    /// One of each.
    pub(crate) fn both() -> [Self; 2] {
        [Self::Redis(RedisServer::start()), Self::file()]
    }

    pub(crate) fn file() -> Self {
        Self::File(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::File(folder) => format!("sqlite:{}", folder.path().join("locks.db").display()),
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Redis(_) => "redis",
            Self::File(_) => "sqlite",
        }
    }

    pub(crate) const fn is_redis(&self) -> bool {
        matches!(self, Self::Redis(_))
    }
}

/// How many subscriptions a server has.
pub(crate) fn subscriptions(server: &RedisServer) -> usize {
    let channels: Vec<String> =
        redis::cmd("PUBSUB").arg("CHANNELS").query(&mut server.connect()).expect("a list");
    channels.len()
}
