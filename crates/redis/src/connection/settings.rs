//! From a URL and a place to a client of the client library: the only file that does it.
//!
//! Whoever dials (one server, a primary that a sentinel named, a node of a cluster) gives the place
//! and the URL whose credentials and security go for it. It is made anew for each connection, so
//! that what it reads from files is as fresh as the connection.

use crate::{
    error::{self, Failure},
    url::{Place, RedisUrl},
};

/// How to connect to a place with the credentials, the database and the security of a URL.
pub(super) fn client(url: &RedisUrl, place: &Place, at: &str) -> Result<redis::Client, Failure> {
    let address = match place {
        Place::Tcp(host, port) => redis::ConnectionAddr::Tcp(host.clone(), *port),
        Place::Unix(path) => redis::ConnectionAddr::Unix(path.clone()),
        // Whoever dials has asked them before.
        Place::Sentinels(_) => return Err(error::unreachable(at, "no sentinel was asked")),
    };
    let mut settings = redis::RedisConnectionInfo::default()
        .set_db(i64::from(url.database))
        .set_protocol(redis::ProtocolVersion::RESP3)
        .set_lib_name("fencelock", env!("CARGO_PKG_VERSION"));
    if let Some(user) = &url.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &url.password {
        settings = settings.set_password(password.reveal());
    }
    redis::IntoConnectionInfo::into_connection_info(address)
        .map(|info| {
            // Small requests one after the other: waiting to fill a packet only costs time.
            info.set_tcp_settings(redis::io::tcp::TcpSettings::default().set_nodelay(true))
                .set_redis_settings(settings)
        })
        .and_then(redis::Client::open)
        .map_err(|error| error::from_connect(&error, at))
}
