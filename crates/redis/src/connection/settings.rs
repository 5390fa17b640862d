//! From a URL and a place to a client of the client library: the only file that does it.
//!
//! Whoever dials (one server, a primary that a sentinel named, a node of a cluster) gives the place
//! and the URL whose credentials and security go for it. It is made anew for each connection, so
//! that what it reads from files is as fresh as the connection.

use redis::{Client, ConnectionAddr, IntoConnectionInfo, RedisError, RedisResult};

use crate::{
    error::{self, Credentials, Failure},
    notice, tls,
    url::{Place, RedisUrl},
};

/// How to connect to a place with the credentials, the database and the security of a URL.
///
/// # Errors
/// A file of TLS can't be used.
pub(super) fn client(url: &RedisUrl, place: &Place, at: &str) -> Result<Client, Failure> {
    if url.password.is_some() && url.tls.is_none() && !place.is_local() {
        notice::once(at, notice::CLEAR_PASSWORD);
    }
    let certificates = url.tls.as_ref().map(|tls| tls.certificates(at)).transpose()?;
    open(url, place, certificates).map_err(|error| failure(url, place, &error, at))
}

fn open(
    url: &RedisUrl,
    place: &Place,
    certificates: Option<redis::TlsCertificates>,
) -> RedisResult<Client> {
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
    let address = match (place, &url.tls) {
        (Place::Tcp(host, port), None) => ConnectionAddr::Tcp(host.clone(), *port),
        (Place::Tcp(host, port), Some(tls)) => ConnectionAddr::TcpTls {
            host: host.clone(),
            port: *port,
            insecure: tls.accepts_any,
            tls_params: None,
        },
        (Place::Unix(path), _) => ConnectionAddr::Unix(path.clone()),
        // Whoever dials has asked them before.
        (Place::Sentinels(_), _) => {
            return Err(RedisError::from((redis::ErrorKind::Client, "no sentinel was asked")));
        }
        (Place::Cluster(_), _) => {
            let what = "a cluster is reached server by server";
            return Err((redis::ErrorKind::InvalidClientConfig, what).into());
        }
    };
    let info = address
        .into_connection_info()?
        // Small requests one after the other: waiting to fill a packet only costs time.
        .set_tcp_settings(redis::io::tcp::TcpSettings::default().set_nodelay(true))
        .set_redis_settings(settings);
    match certificates {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    }
}

/// Why no connection could be made.
pub(super) fn failure(url: &RedisUrl, place: &Place, error: &RedisError, at: &str) -> Failure {
    let plain = || error::from_connect(error, at, Credentials::by(url));
    tls::explain(url, place, error, at).unwrap_or_else(plain)
}
