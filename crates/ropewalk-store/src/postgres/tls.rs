//! Encryption to the server: `sslmode` and `sslrootcert` of its address, with the meaning that libpq gives them.
//!
//! | `sslmode` | |
//! |---|---|
//! | `disable` | never encrypted |
//! | `prefer` (default) | encrypted where the server offers it, whoever it is |
//! | `require` | always encrypted, whoever it is; with `sslrootcert` as `verify-ca` |
//! | `verify-ca` | and its certificate is signed by a root we trust |
//! | `verify-full` | and it is for the host that was asked for |
//!
//! Roots are those of the file `sslrootcert` (PEM), else the system's.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::problem::database;
use crate::store::Result;

/// Where a server is, and what is asked of its certificate.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) config: Config,
    trust: Trust,
    roots: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    Anybody,
    KnownRoot,
    KnownRootAndHost,
}

impl Address {
    /// Errors never repeat the address: it may hold a password.
    pub(super) fn parse(address: &str) -> Result<Self> {
        let unreadable = |error| database("the address of the PostgreSQL server cannot be read", error);
        let (rest, options) = take_tls_options(address).map_err(unreadable)?;
        let mut config: Config = rest
            .parse()
            .map_err(|error| database("the address of the PostgreSQL server cannot be read", error))?;
        let mut trust = Trust::Anybody;
        if let Some(mode) = options.mode {
            let (ssl_mode, of_mode) = parse_mode(&mode).map_err(unreadable)?;
            config.ssl_mode(ssl_mode);
            trust = of_mode;
        }
        if options.roots.is_some() && config.get_ssl_mode() == SslMode::Require && trust == Trust::Anybody {
            trust = Trust::KnownRoot;
        }
        Ok(Address {
            config,
            trust,
            roots: options.roots.map(PathBuf::from),
        })
    }

    pub(super) fn connector(&self) -> Result<MakeRustlsConnect> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(Arc::<CryptoProvider>::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| database("encryption cannot be set up", error))?;
        let config = match self.trust {
            Trust::KnownRootAndHost => builder
                .with_root_certificates(self.trusted_roots()?)
                .with_no_client_auth(),
            Trust::KnownRoot | Trust::Anybody => {
                let roots = (self.trust == Trust::KnownRoot)
                    .then(|| self.trusted_roots())
                    .transpose()?;
                let verifier = AnyHost { roots, algorithms };
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(verifier))
                    .with_no_client_auth()
            }
        };
        Ok(MakeRustlsConnect::new(config))
    }

    fn trusted_roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        match &self.roots {
            Some(file) => {
                let unreadable = |error| database("the file of `sslrootcert` cannot be read", error);
                for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
                    let certificate = certificate.map_err(unreadable)?;
                    let added = roots.add(certificate);
                    added.map_err(|error| database("the file of `sslrootcert` cannot be used", error))?;
                }
            }
            // Systems carry a few that no library takes; those that can be used are enough.
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err(database("no root certificates to trust", NoRoots));
        }
        Ok(roots)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("neither the system nor `sslrootcert` has any")]
struct NoRoots;

/// What libpq knows and the driver does not.
#[derive(Debug, Default)]
struct TlsOptions {
    mode: Option<String>,
    roots: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum AddressError {
    #[error("`sslmode` is disable, prefer, require, verify-ca or verify-full")]
    UnknownMode,
    #[error("`{0}` is not UTF-8")]
    NotText(String),
}

/// An address without its options about encryption, and these. Only URLs have them; other forms go to the driver as they are.
fn take_tls_options(address: &str) -> std::result::Result<(String, TlsOptions), AddressError> {
    let mut options = TlsOptions::default();
    let is_url = ["postgres://", "postgresql://"]
        .iter()
        .any(|prefix| address.starts_with(prefix));
    // A password may contain a question mark; the driver, too, takes everything up to the first @ for it.
    let behind_password = address.find('@').map_or(0, |at| at + 1);
    let question_mark = address[behind_password..].find('?').map(|at| behind_password + at);
    let Some(question_mark) = question_mark.filter(|_| is_url) else {
        return Ok((address.to_owned(), options));
    };
    let (base, query) = (&address[..question_mark], &address[question_mark + 1..]);
    let mut others = Vec::new();
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let wanted = match name {
            "sslmode" => &mut options.mode,
            "sslrootcert" => &mut options.roots,
            _ => {
                others.push(parameter);
                continue;
            }
        };
        let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
        let decoded = decoded.map_err(|_| AddressError::NotText(name.to_owned()))?;
        *wanted = Some(decoded.into_owned());
    }
    let separator = if others.is_empty() { "" } else { "?" };
    Ok((format!("{base}{separator}{}", others.join("&")), options))
}

fn parse_mode(mode: &str) -> std::result::Result<(SslMode, Trust), AddressError> {
    match mode {
        "disable" => Ok((SslMode::Disable, Trust::Anybody)),
        "prefer" => Ok((SslMode::Prefer, Trust::Anybody)),
        "require" => Ok((SslMode::Require, Trust::Anybody)),
        "verify-ca" => Ok((SslMode::Require, Trust::KnownRoot)),
        "verify-full" => Ok((SslMode::Require, Trust::KnownRootAndHost)),
        _ => Err(AddressError::UnknownMode),
    }
}

/// Takes a certificate for any host: one that a root signed, or without roots any at all. The handshake still proves
/// that the server has the certificate's key.
#[derive(Debug)]
struct AnyHost {
    roots: Option<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modes_of_libpq_are_known() {
        let parsed = |mode: &str| Address::parse(&format!("postgres://u:p?w@h/db?application_name=x&sslmode={mode}"));
        for (mode, ssl_mode, trust) in [
            ("disable", SslMode::Disable, Trust::Anybody),
            ("prefer", SslMode::Prefer, Trust::Anybody),
            ("require", SslMode::Require, Trust::Anybody),
            ("verify-ca", SslMode::Require, Trust::KnownRoot),
            ("verify-full", SslMode::Require, Trust::KnownRootAndHost),
            ("require&sslrootcert=%2Fa%20b.pem", SslMode::Require, Trust::KnownRoot),
        ] {
            let address = parsed(mode).unwrap();
            assert_eq!(
                (address.config.get_ssl_mode(), address.trust),
                (ssl_mode, trust),
                "{mode}"
            );
            assert_eq!(address.config.get_application_name(), Some("x"));
            assert_eq!(address.config.get_password(), Some(b"p?w".as_slice()));
        }
        let error = parsed("sometimes").unwrap_err();
        assert!(!format!("{error:?}").contains("p?w"));
    }

    #[test]
    fn other_forms_go_to_the_driver() {
        let address = Address::parse("host=h user=u sslmode=require").unwrap();
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        let address = Address::parse("postgres://h/db").unwrap();
        assert_eq!(address.config.get_ssl_mode(), SslMode::Prefer);
    }
}
