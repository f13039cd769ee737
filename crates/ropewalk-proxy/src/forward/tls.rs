//! Trust in providers: the system's certificates and those of the configuration.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read certificates from {}", path.display())]
    CaFile {
        path: PathBuf,
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    #[error("{} holds no certificate", .0.display())]
    EmptyCaFile(PathBuf),
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
}

/// Trusts the system, and the certificates of a file. `protocols` are offered, the preferred first.
pub(crate) fn connector(ca_file: Option<&Path>, protocols: &[&[u8]]) -> Result<TlsConnector, TlsError> {
    let mut roots = system_roots().clone();
    if let Some(path) = ca_file {
        let unreadable = |source| TlsError::CaFile {
            path: path.to_owned(),
            source,
        };
        let before = roots.len();
        for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
            roots.add(certificate.map_err(unreadable)?).map_err(TlsError::Setup)?;
        }
        if roots.len() == before {
            return Err(TlsError::EmptyCaFile(path.to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Read once: there are a hundred or more of them. Those that cannot be read are left out, as browsers do.
fn system_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    })
}

pub(crate) fn server_name(host: &str) -> io::Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
