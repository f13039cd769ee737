//! Whose a request is.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::Sha256;

use super::settings::Owners;

/// Names owners after their API keys, so that nobody can tell the key from the name or check a guess of one.
#[derive(Clone)]
pub struct Fingerprint {
    key: [u8; 32],
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(…)")
    }
}

/// Digits of a fingerprint; 64 bits tell owners apart and say nothing about the key.
const DIGITS: usize = 16;

impl Fingerprint {
    /// With the key of this installation, which never leaves it.
    pub fn new(key: [u8; 32]) -> Self {
        Fingerprint { key }
    }

    /// Whose a request with this key is.
    pub fn owner(&self, credential: &[u8]) -> Arc<str> {
        // A key of any length is one.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else {
            return Arc::from(UNKNOWN);
        };
        mac.update(credential);
        let hex = hex::encode(mac.finalize().into_bytes());
        Arc::from(format!("key-{}", &hex[..DIGITS]))
    }
}

/// Who sends no API key, or one that changes by itself.
const UNKNOWN: &str = "key-none";

/// The header that carries an owner's token.
pub(crate) const TOKEN_HEADER: &str = "x-ropewalk-token";

/// `None` if the request may not pass. The token of the path wins over that of the header.
pub(crate) fn owner_of(owners: &Owners, path_token: Option<&str>, headers: &HeaderMap) -> Option<Arc<str>> {
    match owners {
        Owners::Local(owner) => Some(Arc::clone(owner)),
        Owners::Tokens(tokens) => {
            let header = headers.get(TOKEN_HEADER).and_then(|value| value.to_str().ok());
            // A hash map's look-up takes as long for a wrong token as for a right one, as far as its text goes.
            tokens.get(path_token.or(header)?).map(Arc::clone)
        }
        Owners::Credential(fingerprint) => Some(match api_key(headers) {
            Some(key) => fingerprint.owner(key),
            None => Arc::from(UNKNOWN),
        }),
    }
}

/// The provider's key. A bearer that is no API key is an OAuth token, which is another one tomorrow.
fn api_key(headers: &HeaderMap) -> Option<&[u8]> {
    for name in ["x-api-key", "x-goog-api-key", "api-key"] {
        if let Some(value) = headers.get(name) {
            return Some(value.as_bytes());
        }
    }
    let bearer = headers.get(AUTHORIZATION)?.as_bytes().strip_prefix(b"Bearer ")?;
    let is_key = bearer.starts_with(b"sk-") && !bearer.starts_with(b"sk-ant-oat");
    is_key.then_some(bearer)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_token_names_its_owner_and_a_wrong_one_nobody() {
        let owners = Owners::Tokens(HashMap::from([("secret".to_owned(), Arc::from("ann"))]));
        let name = |path: Option<&str>, pairs: &[(&'static str, &'static str)]| {
            owner_of(&owners, path, &headers(pairs)).map(|owner| owner.to_string())
        };
        assert_eq!(name(Some("secret"), &[]).as_deref(), Some("ann"));
        assert_eq!(name(None, &[(TOKEN_HEADER, "secret")]).as_deref(), Some("ann"));
        assert_eq!(name(Some("other"), &[(TOKEN_HEADER, "secret")]), None);
        assert_eq!(name(None, &[]), None);
    }

    #[test]
    fn api_keys_are_told_apart_and_oauth_tokens_are_not_keys() {
        let owners = Owners::Credential(Fingerprint::new([7; 32]));
        let name = |pairs: &[(&'static str, &'static str)]| owner_of(&owners, None, &headers(pairs)).unwrap();
        assert_eq!(name(&[("x-api-key", "a")]), name(&[("x-api-key", "a")]));
        assert_ne!(name(&[("x-api-key", "a")]), name(&[("x-api-key", "b")]));
        assert!(!name(&[("x-api-key", "a")]).contains("=a"));
        assert_eq!(
            name(&[("authorization", "Bearer sk-1")]),
            name(&[("x-api-key", "sk-1")])
        );
        assert_eq!(&*name(&[("authorization", "Bearer eyJ")]), UNKNOWN);
        assert_eq!(&*name(&[("authorization", "Bearer sk-ant-oat01-x")]), UNKNOWN);
        let elsewhere = Owners::Credential(Fingerprint::new([8; 32]));
        assert_ne!(
            owner_of(&elsewhere, None, &headers(&[("x-api-key", "a")])).unwrap(),
            name(&[("x-api-key", "a")])
        );
    }
}
