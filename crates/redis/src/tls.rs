//! TLS: whose certificate is believed, and which one we show.
//!
//! The work is done by rustls, through the client library. This file reads the files, and says what
//! is wrong with them before anything is sent; `tls/failure.rs` says what went wrong on the way.
//!
//! The authorities are the system's, or those of one file. The client library reads them from disk
//! each time it connects (3 ms for the 145 of a Debian, in the task that connects), and so do
//! we with our own files: a certificate that is renewed is used by the next connection.

mod failure;

use std::{
    borrow::Cow,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use fencelock_store::{Outcome, StoreError, StoreErrorKind};
use redis::{ClientTlsConfig, TlsCertificates};
use rustls::{
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

pub(crate) use self::failure::{explain, overdue};
use crate::{error::Failure, url::config};

/// How a connection is secured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    /// The authorities to trust; the system's where none is named.
    pub(crate) ca: Option<PathBuf>,
    pub(crate) identity: Option<Identity>,
    /// Any certificate of anybody is believed.
    pub(crate) accepts_any: bool,
}

/// Who we are: the files of a certificate, with those between it and its authority, and of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Tls {
    /// The settings of a URL that are about TLS.
    pub(crate) const SETTINGS: &[&str] = &["ca", "cert", "key", Self::DANGER];
    const DANGER: &str = "danger_accept_invalid_certificates";
    /// Far above any bundle of authorities; more is another file.
    const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

    /// What the settings of a URL name.
    pub(crate) fn named<'u>(setting: impl Fn(&str) -> Option<&'u str>) -> Result<Self, StoreError> {
        let path = |key: &str| match setting(key) {
            Some(path) if !path.starts_with('/') => {
                Err(config(format!("{key} in the redis url names a file by its absolute path")))
            }
            path => Ok(path.map(PathBuf::from)),
        };
        let identity = match (path("cert")?, path("key")?) {
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            (None, None) => None,
            _ => return Err(config("a redis url names both cert and key, or none of them")),
        };
        let accepts_any = match setting(Self::DANGER) {
            None => false,
            Some("true") => true,
            Some(_) => {
                return Err(config(format!(
                    "{} in a redis url is true or not there",
                    Self::DANGER
                )));
            }
        };
        Ok(Self { ca: path("ca")?, identity, accepts_any })
    }

    /// Adds what is said besides the URL, which goes before it.
    pub(crate) fn add(&mut self, more: Self) {
        self.ca = more.ca.or(self.ca.take());
        self.identity = more.identity.or(self.identity.take());
        self.accepts_any |= more.accepts_any;
    }

    /// Reads the files, for a connection to a store that messages call `at`.
    ///
    /// # Errors
    /// One of them is not there, or is not what it should be.
    pub(crate) fn certificates(&self, at: &str) -> Result<TlsCertificates, Failure> {
        use_a_provider();
        self.read()
            .map_err(|what| unusable(format!("{at} is reached over TLS, but the file {what}")))
    }

    fn read(&self) -> Result<TlsCertificates, String> {
        let root_cert = self.ca.as_deref().map(|path| read(path, certificates_in)).transpose()?;
        let client_tls = self.identity.as_ref().map(Identity::read).transpose()?;
        Ok(TlsCertificates { client_tls, root_cert })
    }
}

impl Identity {
    fn read(&self) -> Result<ClientTlsConfig, String> {
        let client_cert = read(&self.certificate, certificates_in)?;
        let client_key = read(&self.key, |pem| {
            let key = PrivateKeyDer::from_pem_slice(pem);
            key.map(|_| ()).map_err(|_| "no private key (one behind a passphrase is none)")
        })?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&client_cert).collect();
        let fits = match (chain, PrivateKeyDer::from_pem_slice(&client_key)) {
            (Ok(chain), Ok(key)) => {
                CertifiedKey::from_der(chain, key, &ring::default_provider()).is_ok()
            }
            _ => false,
        };
        if fits {
            return Ok(ClientTlsConfig { client_cert, client_key });
        }
        let (key, certificate) = (self.key.display(), self.certificate.display());
        Err(format!("{key} has another key than that of the certificate in {certificate}"))
    }
}

/// A file that holds what it should.
fn read(path: &Path, check: impl Fn(&[u8]) -> Result<(), &'static str>) -> Result<Vec<u8>, String> {
    let mut pem = Vec::new();
    File::open(path)
        .and_then(|file| file.take(Tls::FILE_BYTES_MAX).read_to_end(&mut pem))
        .map_err(|error| format!("{} can't be read: {error}", path.display()))?;
    match check(&pem) {
        Ok(()) => Ok(pem),
        Err(missing) => Err(format!("{} has {missing} in PEM form in it", path.display())),
    }
}

fn certificates_in(pem: &[u8]) -> Result<(), &'static str> {
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        match certificate {
            Ok(_) => count += 1,
            Err(_) => return Err("a certificate that is broken"),
        }
    }
    if count == 0 { Err("no certificate") } else { Ok(()) }
}

/// rustls takes the cryptography of the whole process, and panics where a program has linked two and
/// chosen none. A choice that was made is kept.
fn use_a_provider() {
    if CryptoProvider::get_default().is_none() {
        // Lost to another thread, which is as good.
        let _ = ring::default_provider().install_default();
    }
}

fn unusable(message: impl Into<Cow<'static, str>>) -> Failure {
    Failure {
        kind: StoreErrorKind::Config,
        outcome: Outcome::NotDone,
        message: message.into().into_owned(),
        cause: String::new(),
        retire: false,
        is_too_soon: false,
        names_no_right: false,
    }
}
