//! Whose data a caller gets to see.
//!
//! A caller shows a token: in `Authorization: Bearer`, `x-ropewalk-token` or `x-api-key`, or, once, as `?token=` in the address of
//! a page, for which it gets a cookie. Cookies of one host go to every port of it, so the cookie is not the token, and opens
//! nothing but these routes.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use http::header::{AUTHORIZATION, COOKIE};
use ropewalk_core::hash::sha256;
use sha2::Sha256;

/// The header in which clients of the proxy show their tokens.
const TOKEN_HEADER: &str = "x-ropewalk-token";

const COOKIE_NAME: &str = "ropewalk";

/// Who asks, by the owner that its token is of.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) owner: Arc<str>,
}

/// Names the owner of a provider's API key.
type OwnerOfKey = Arc<dyn Fn(&[u8]) -> Arc<str> + Send + Sync>;

/// Who is let in, and as whom.
pub struct Access {
    /// By their hashes: how long a look-up takes says nothing about a token.
    tokens: HashMap<[u8; 32], Arc<str>>,
    cookies: HashMap<[u8; 32], Arc<str>>,
    key: [u8; 32],
    by_api_key: Option<OwnerOfKey>,
    first_use: Option<FirstUse>,
}

/// Who is told when a token is used that was not before.
struct FirstUse {
    /// By their hashes.
    met: Mutex<HashSet<[u8; 32]>>,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

/// Tokens that are remembered; with provider's keys there may be any number, and later ones are told every time.
const MET_MAX: usize = 4_096;

impl FirstUse {
    fn look_at(&self, token: [u8; 32], owner: &str) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !met.contains(&token);
        if met.len() < MET_MAX {
            met.insert(token);
        }
        drop(met);
        if is_new {
            (self.tell)(owner);
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Access(…)")
    }
}

impl Access {
    /// Each token opens the data of its owner. `key` is the installation's.
    pub fn by_tokens<'t>(tokens: impl IntoIterator<Item = (&'t str, Arc<str>)>, key: [u8; 32]) -> Self {
        let mut access = Access {
            tokens: HashMap::new(),
            cookies: HashMap::new(),
            key,
            by_api_key: None,
            first_use: None,
        };
        for (token, owner) in tokens {
            let cookie = access.cookie_of(token);
            access.cookies.insert(sha256(cookie.as_bytes()), Arc::clone(&owner));
            access.tokens.insert(sha256(token.as_bytes()), owner);
        }
        access
    }

    /// A provider's API key opens what was recorded with it. There is no cookie for one: keys do not belong into addresses.
    pub fn by_api_keys(owner: impl Fn(&[u8]) -> Arc<str> + Send + Sync + 'static) -> Self {
        Access {
            by_api_key: Some(Arc::new(owner)),
            ..Access::by_tokens([], [0; 32])
        }
    }

    /// Tells of every token's first use, with its owner.
    #[must_use]
    pub fn telling(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.first_use = Some(FirstUse {
            met: Mutex::default(),
            tell: Box::new(tell),
        });
        self
    }

    pub(crate) fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        let (shown, owner) = match shown_token(headers) {
            Some(token) => {
                let shown = sha256(token);
                match &self.by_api_key {
                    Some(owner_of) => (shown, Some(owner_of(token))),
                    None => (shown, self.tokens.get(&shown).cloned()),
                }
            }
            None => {
                let shown = sha256(shown_cookie(headers)?.as_bytes());
                (shown, self.cookies.get(&shown).cloned())
            }
        };
        let owner = owner?;
        if let Some(first_use) = &self.first_use {
            first_use.look_at(shown, &owner);
        }
        Some(Caller { owner })
    }

    /// What a browser keeps in the place of a token that is right.
    pub(crate) fn cookie_for(&self, token: &str) -> Option<String> {
        let is_right = self.tokens.contains_key(&sha256(token.as_bytes()));
        let cookie = || {
            format!(
                "{COOKIE_NAME}={}; Path=/; HttpOnly; SameSite=Strict",
                self.cookie_of(token)
            )
        };
        is_right.then(cookie)
    }

    fn cookie_of(&self, token: &str) -> String {
        // A key of any length is one.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else {
            return String::new();
        };
        mac.update(b"v1:cookie\0");
        mac.update(token.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }
}

fn shown_token(headers: &HeaderMap) -> Option<&[u8]> {
    if let Some(value) = headers.get(AUTHORIZATION) {
        // Somebody who shows a wrong thing does not fall back to another.
        return Some(value.as_bytes().strip_prefix(b"Bearer ").unwrap_or_default());
    }
    let names = [TOKEN_HEADER, "x-api-key"];
    let value = names.iter().find_map(|name| headers.get(*name));
    value.map(|value| value.as_bytes())
}

fn shown_cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut each = all.flat_map(|cookies| cookies.split(';'));
    each.find_map(|cookie| cookie.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        pairs.collect()
    }

    fn owner(access: &Access, pairs: &[(&'static str, &str)]) -> Option<String> {
        access.caller(&headers(pairs)).map(|caller| caller.owner.to_string())
    }

    #[test]
    fn a_token_opens_its_owners_data_and_a_cookie_stands_for_it() {
        let access = Access::by_tokens([("a", Arc::from("ann")), ("b", Arc::from("bob"))], [7; 32]);
        assert_eq!(owner(&access, &[("authorization", "Bearer a")]).as_deref(), Some("ann"));
        assert_eq!(owner(&access, &[("x-ropewalk-token", "b")]).as_deref(), Some("bob"));
        for wrong in ["Bearer c", "Bearer ", "a", "Basic a"] {
            assert_eq!(owner(&access, &[("authorization", wrong)]), None, "{wrong}");
        }
        assert_eq!(owner(&access, &[]), None);
        let set = access.cookie_for("b").unwrap();
        let cookie = set.split(';').next().unwrap();
        assert!(set.ends_with("; HttpOnly; SameSite=Strict"));
        assert_eq!(
            owner(&access, &[("cookie", &format!("x=1; {cookie}"))]).as_deref(),
            Some("bob")
        );
        assert_eq!(owner(&access, &[("cookie", "ropewalk=b")]), None);
        let value = cookie.split_once('=').unwrap().1;
        assert_eq!(owner(&access, &[("authorization", &format!("Bearer {value}"))]), None);
        let both = [("cookie", cookie), ("authorization", "Bearer wrong")];
        assert_eq!(owner(&access, &both), None);
        assert_eq!(access.cookie_for("c"), None);
    }

    #[test]
    fn an_api_key_opens_what_was_recorded_with_it() {
        let access = Access::by_api_keys(|key| Arc::from(format!("key-{}", key.len())));
        assert_eq!(owner(&access, &[("x-api-key", "sk-1")]).as_deref(), Some("key-4"));
        assert_eq!(owner(&access, &[("cookie", "ropewalk=x")]), None);
        assert_eq!(owner(&access, &[]), None);
        assert_eq!(access.cookie_for("sk-1"), None);
    }
}
