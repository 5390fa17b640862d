//! Certificates of a test's own: an authority, and what it signs, made when they are needed.
//!
//! Nothing is kept in the repository, so nothing runs out one day and no key is known to anybody.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    SanType, date_time_ymd,
};
use tempfile::TempDir;

/// An authority, and a directory with the files of what it has signed.
#[derive(Debug)]
pub struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The files of one certificate and its key, in PEM form; they go with their authority.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Authority {
    /// A fresh one, that nobody trusts yet.
    ///
    /// # Panics
    ///
    /// When its files can't be written.
    #[must_use]
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory for certificates");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "an authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a valid authority");
        fs::write(directory.path().join("ca.pem"), issuer.pem()).expect("a file for it");
        Self { directory, issuer }
    }

    /// The file to trust.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// A certificate for `localhost` and `127.0.0.1`.
    #[must_use]
    pub fn issue(&self) -> Certificate {
        self.issue_with("local", |_| {})
    }

    /// A certificate for `localhost` and `127.0.0.1` that ran out years ago.
    #[must_use]
    pub fn issue_expired(&self) -> Certificate {
        self.issue_with("expired", |params| {
            (params.not_before, params.not_after) =
                (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        })
    }

    /// A certificate for some other host.
    #[must_use]
    pub fn issue_for_another_host(&self) -> Certificate {
        self.issue_with("other", |params| {
            let name = "redis.example.com".try_into().expect("a host name");
            params.subject_alt_names = vec![SanType::DnsName(name)];
        })
    }

    fn issue_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let mut params = CertificateParams::default();
        // Named like its authority it would pass for one that signed itself.
        params.distinguished_name.push(DnType::CommonName, name);
        let localhost = "localhost".try_into().expect("a host name");
        params.subject_alt_names =
            vec![SanType::DnsName(localhost), SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))];
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("a valid certificate");
        let path = |what: &str| self.directory.path().join(format!("{name}.{what}.pem"));
        let files = Certificate { certificate: path("cert"), key: path("key") };
        fs::write(&files.certificate, signed.pem()).expect("a file for the certificate");
        fs::write(&files.key, key.serialize_pem()).expect("a file for its key");
        files
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}
