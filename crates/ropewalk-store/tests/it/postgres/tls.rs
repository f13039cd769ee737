//! Encryption, with a server whose certificate was signed by a root of our own.

use std::io::Write as _;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use ropewalk_store::postgres::Options;
use ropewalk_store::{Postgres, Store, StoreError};
use ropewalk_testkit::postgres::{PrivatePostgres, Setup, database_of};

fn root(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server that is called `localhost`, and not 127.0.0.1.
fn server_signed_by(root: &CertifiedIssuer<'static, KeyPair>) -> PrivatePostgres {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, root).unwrap();
    Setup::default()
        .setting("ssl=on")
        .file_setting("ssl_cert_file", certificate.pem().as_bytes())
        .file_setting("ssl_key_file", key.serialize_pem().as_bytes())
        .start()
        .unwrap()
}

fn file_of(root: &CertifiedIssuer<'static, KeyPair>) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(root.pem().as_bytes()).unwrap();
    file
}

async fn connect(url: &str, options: &str) -> Result<Postgres, StoreError> {
    Postgres::connect(&format!("{url}?{options}"), Options::default()).await
}

#[tokio::test]
async fn modes_ask_of_a_certificate_what_they_say() {
    let (ours, another) = (root("ours"), root("another"));
    let server = server_signed_by(&ours);
    let (ours, another) = (file_of(&ours), file_of(&another));
    let by_name = server.fresh_database_at("localhost").unwrap();
    let by_number = server.fresh_database_at("127.0.0.1").unwrap();
    let trusting = |file: &tempfile::NamedTempFile, mode: &str| {
        let path = file.path().to_string_lossy().replace('/', "%2F");
        format!("sslmode={mode}&sslrootcert={path}")
    };
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND datname = ";
    for (url, options, is_encrypted) in [
        (&by_name, "sslmode=disable".to_owned(), false),
        (&by_name, String::new(), true),
        (&by_number, "sslmode=prefer".to_owned(), true),
        (&by_number, "sslmode=require".to_owned(), true),
        (&by_number, trusting(&ours, "verify-ca"), true),
        (&by_number, trusting(&ours, "require"), true),
        (&by_name, trusting(&ours, "verify-full"), true),
    ] {
        let store = connect(url, &options).await.unwrap();
        store.owner("ann").await.unwrap();
        let found = server.run_sql("postgres", &format!("{encrypted}'{}'", database_of(url)));
        assert_eq!(found.unwrap(), usize::from(is_encrypted).to_string(), "{options}");
    }
    for (url, options, said) in [
        (&by_number, trusting(&ours, "verify-full"), "not valid for name"),
        (&by_name, trusting(&another, "verify-full"), "UnknownIssuer"),
        (&by_name, trusting(&another, "verify-ca"), "UnknownIssuer"),
        (&by_name, trusting(&another, "require"), "UnknownIssuer"),
        (&by_name, "sslmode=verify-full".to_owned(), "UnknownIssuer"),
        (
            &by_name,
            "sslmode=verify-ca&sslrootcert=%2Fnowhere.pem".to_owned(),
            "sslrootcert",
        ),
        (&by_name, "sslmode=maybe".to_owned(), "address"),
    ] {
        let error = connect(url, &options).await.unwrap_err();
        assert!(error.to_string().contains(said), "{options}: {error}");
    }
}

#[tokio::test]
async fn a_server_without_encryption_is_refused_where_it_is_required() {
    let server = PrivatePostgres::shared().unwrap();
    let url = server.fresh_database_at("127.0.0.1").unwrap();
    assert!(connect(&url, "sslmode=prefer").await.is_ok());
    let error = connect(&url, "sslmode=require").await.unwrap_err();
    assert!(error.to_string().contains("does not support TLS"), "{error}");
}
