//! Which headers stay on their hop.

use http::header::{CONNECTION, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, UPGRADE};
use http::header::{HeaderMap, TRANSFER_ENCODING};

/// Headers between a client and us, or between us and a provider, whoever names them.
const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The prefix of headers that are meant for us.
const OURS: &str = "x-ropewalk-";

/// Takes out what belongs to one hop: the known names and those that `connection` lists.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if let Some(named) = named_by_connection(headers) {
        for name in named {
            headers.remove(name);
        }
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
    // The only transfer coding that is an end's business: whether it reads trailers.
    if let Some(te) = headers.get(TE) {
        let trailers = te
            .to_str()
            .is_ok_and(|te| te.split(',').any(|coding| coding.trim() == "trailers"));
        match trailers {
            true => headers.insert(TE, HeaderValue::from_static("trailers")),
            false => headers.remove(TE),
        };
    }
}

/// Takes out what only we read.
pub(crate) fn strip_ours(headers: &mut HeaderMap) {
    let ours: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with(OURS))
        .cloned()
        .collect();
    for name in ours {
        headers.remove(name);
    }
}

/// Usual values name nothing that is not known already.
fn named_by_connection(headers: &HeaderMap) -> Option<Vec<HeaderName>> {
    let mut named = Vec::new();
    for value in headers.get_all(CONNECTION) {
        let Ok(value) = value.to_str() else { continue };
        for name in value.split(',').map(str::trim) {
            if name.eq_ignore_ascii_case("keep-alive")
                || name.eq_ignore_ascii_case("close")
                || name.eq_ignore_ascii_case("te")
            {
                continue;
            }
            named.extend(name.parse::<HeaderName>().ok());
        }
    }
    (!named.is_empty()).then_some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_out_what_belongs_to_the_hop_and_nothing_else() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Mine"),
            ("x-mine", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("te", "gzip, trailers"),
            ("trailer", "x-sum"),
            ("x-api-key", "k"),
            ("content-length", "3"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        strip_hop_by_hop(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "te", "trailer", "x-api-key"]);
        assert_eq!(headers["te"], "trailers");
    }

    #[test]
    fn what_is_meant_for_us_goes_no_further() {
        let mut headers = HeaderMap::new();
        headers.append("x-ropewalk-token", "t".parse().unwrap());
        headers.append("x-ropewalk-anything", "t".parse().unwrap());
        headers.append("x-rope", "t".parse().unwrap());
        strip_ours(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-rope"]);
    }
}
