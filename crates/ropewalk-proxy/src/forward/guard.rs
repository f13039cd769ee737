//! Who may use the routes that are not forwarded, from a browser.
//!
//! A page from anywhere can make a browser send requests to this machine, and a name that resolves to it can make them look
//! like our own pages' (DNS rebinding). So the host must be one of ours, and so must the origin where there is one.

use http::{HeaderMap, Uri, header};

/// Whether a request's host and origin are ours.
pub(crate) fn is_allowed(headers: &HeaderMap, uri: &Uri, hosts: &[String]) -> bool {
    let text = |name| {
        headers
            .get(name)
            .map(|value: &http::HeaderValue| value.to_str().unwrap_or("?"))
    };
    let host = uri
        .authority()
        .map(|authority| authority.as_str())
        .or_else(|| text(header::HOST));
    // HTTP/1.0 has no host and no browser speaks it.
    let Some(host) = host else { return true };
    if !is_ours(host, hosts) {
        return false;
    }
    match text(header::ORIGIN) {
        None => true,
        // The same port as well: another server on this machine is another origin.
        Some(origin) => origin.split_once("://").is_some_and(|(_, authority)| authority == host),
    }
}

fn is_ours(authority: &str, hosts: &[String]) -> bool {
    let name = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(v6),
        None => authority.split(':').next().unwrap_or(authority),
    };
    let loopback = name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    loopback || hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pages_are_let_in() {
        let hosts = vec!["ropewalk.lan".to_owned()];
        let allowed = |host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert("host", host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert("origin", origin.parse().unwrap());
            }
            is_allowed(&headers, &Uri::from_static("/api/v1/x"), &hosts)
        };
        assert!(allowed("127.0.0.1:8742", None));
        assert!(allowed("localhost:8742", Some("http://localhost:8742")));
        assert!(allowed("[::1]:8742", None));
        assert!(allowed("ropewalk.lan", Some("https://ropewalk.lan")));
        assert!(!allowed("evil.example", None));
        assert!(!allowed("127.0.0.1.evil.example", None));
        assert!(!allowed("localhost:8742", Some("http://evil.example")));
        assert!(!allowed("localhost:8742", Some("http://localhost:9999")));
        assert!(!allowed("localhost:8742", Some("null")));
    }
}
