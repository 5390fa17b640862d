//! What went wrong with TLS, in a sentence that says which and what to try.
//!
//! The client library keeps the error of rustls inside of its own, so this goes by types and not by
//! texts. What a server closes without a word is the exception: there only the moment tells.

use std::{error::Error, io, sync::Arc};

use fencelock_store::{StoreError, StoreErrorKind};
use redis::RedisError;
use rustls::{AlertDescription, CertificateError, Error as TlsError, InvalidMessage};

use super::unusable;
use crate::{
    error::Failure,
    url::{Place, RedisUrl},
};

/// The failure of a connection that could not be made, where TLS is the reason.
pub(crate) fn explain(
    url: &RedisUrl,
    place: &Place,
    error: &RedisError,
    at: &str,
) -> Option<Failure> {
    let Some(tls) = &url.tls else { return not_spoken_to_in_tls(error, at) };
    let host = match place {
        Place::Tcp(host, _) => host.as_str(),
        Place::Unix(_) | Place::Sentinels(_) | Place::Cluster(_) => return None,
    };
    let shows_none = match &tls.identity {
        None => "it may ask for a certificate: name one with ?cert=/path&key=/path",
        Some(_) => "it may not accept the certificate in ?cert=/path",
    };
    match tls_error(error) {
        Some(why) => {
            let (kind, says) = said(why, host, tls.ca.is_some(), shows_none);
            let cause = why.to_string();
            Some(Failure { kind, cause, ..unusable(format!("{at} {says}")) })
        }
        None if error.is_timeout() => {
            let kind = StoreErrorKind::Unavailable;
            Some(Failure { kind, ..unusable(overdue(at).to_string()) })
        }
        None if was_cut_off(error) => {
            let kind = StoreErrorKind::Unavailable;
            let says = format!("{at} ended the connection while TLS was set up; {shows_none}");
            Some(Failure { kind, cause: error.to_string(), ..unusable(says) })
        }
        None => None,
    }
}

fn said(why: &TlsError, host: &str, own: bool, shows_none: &str) -> (StoreErrorKind, String) {
    use StoreErrorKind::{Config, Denied};
    let of_server = |says: &str| (Config, format!("has a certificate {says}"));
    match why {
        TlsError::InvalidCertificate(reason) => match reason {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => of_server(if own {
                "from an authority that is not in the file of ?ca=/path; name the file of its own"
            } else {
                "from an authority that this system does not trust; name its file with ?ca=/path"
            }),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                of_server("that has expired; renew it there, or set the clock here")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                of_server("that is not valid yet; look at the clocks of both machines")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                of_server(&format!("for another host than {host}; connect by a name that is in it"))
            }
            _ => of_server("that can't be accepted"),
        },
        TlsError::InvalidMessage(InvalidMessage::InvalidContentType) => (
            Config,
            "does not speak TLS on this port; use redis://, or the port that does".to_owned(),
        ),
        TlsError::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::HandshakeFailure
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate
            // The signature of the certificate is not by the authority that it names.
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied,
        ) => (Denied, format!("refused the TLS connection; {shows_none}")),
        _ => (Config, "and this client can't agree on TLS".to_owned()),
    }
}

/// A server that is not spoken to in TLS where it expects that closes the connection, mostly
/// without a word.
fn not_spoken_to_in_tls(error: &RedisError, at: &str) -> Option<Failure> {
    was_cut_off(error).then(|| Failure {
        kind: StoreErrorKind::Unavailable,
        cause: error.to_string(),
        ..unusable(format!(
            "{at} ended the connection before it answered; if it speaks TLS there, use rediss://"
        ))
    })
}

/// No connection was made in time. A server without TLS waits for the rest of what it takes for a
/// command, and says nothing.
pub(crate) fn overdue(at: &str) -> StoreError {
    StoreError::unavailable(format!("{at} could not be reached in time; does it speak TLS there?"))
}

fn was_cut_off(error: &RedisError) -> bool {
    error.is_connection_dropped() && !error.is_connection_refusal()
}

/// The error of rustls inside of those that carry it.
fn tls_error(error: &RedisError) -> Option<&TlsError> {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    for _ in 0..CAUSES_MAX {
        let this = cause?;
        if let Some(found) = this.downcast_ref::<TlsError>() {
            return Some(found);
        }
        let shared = this.downcast_ref::<Arc<dyn Error + Send + Sync>>();
        let this: &(dyn Error + 'static) = match shared {
            Some(shared) => &**shared,
            None => this,
        };
        if let Some(found) = this.downcast_ref::<TlsError>() {
            return Some(found);
        }
        let inner = this.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = match inner {
            Some(inner) => Some(inner),
            None => this.source(),
        };
    }
    None
}

/// The longest chain of causes that is followed.
const CAUSES_MAX: usize = 8;
