//! Addresses of HTTP servers.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::Uri;

/// A server's address: `http://127.0.0.1:8181`, or `https://opa.example/some/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    text: String,
    host: String,
}

/// The text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected http(s)://<host>[:<port>][/<path>]")]
pub struct AddressError;

impl ServerAddress {
    /// The URL of `path` below the address.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.text)
    }

    /// Whether the host is `localhost` or a loopback IP address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Replaces the suffix `end` of the path by `other`; `None` if the path has another suffix.
    #[must_use]
    pub fn sibling(&self, end: &str, other: &str) -> Option<Self> {
        let stem = self.text.strip_suffix(end)?;
        Some(Self { text: format!("{stem}{other}"), host: self.host.clone() })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ServerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let uri: Uri = text.parse().map_err(|_| AddressError)?;
        let authority = uri.authority().ok_or(AddressError)?;
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        let is_plain = uri.query().is_none() && !text.contains('#') && !authority.as_str().contains('@');
        // [`Uri`] accepts some invalid ports.
        let is_port = match authority.as_str().strip_prefix(authority.host()).ok_or(AddressError)? {
            "" => true,
            port => port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok()),
        };
        if !is_web || !is_plain || !is_port || authority.host().is_empty() {
            return Err(AddressError);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        Ok(Self { text: text.trim_end_matches('/').to_owned(), host })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_scheme_and_host_and_at_most_a_path() {
        for (text, expected, is_loopback) in [
            ("http://127.0.0.1:8181", "http://127.0.0.1:8181", true),
            ("http://localhost:8181/", "http://localhost:8181", true),
            ("https://[::1]:8181/v1", "https://[::1]:8181/v1", true),
            ("https://opa.example/v1/data/a/annotations", "https://opa.example/v1/data/a/annotations", false),
            ("http://10.0.0.1", "http://10.0.0.1", false),
            ("http://localhost.example", "http://localhost.example", false),
        ] {
            let address: ServerAddress = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.is_loopback()), (expected, is_loopback));
        }
        for text in [
            "",
            "opa",
            "opa:8181",
            "ftp://opa",
            "http://",
            "http://a@b",
            "http://a?b",
            "http://a#b",
            "http://a:99999",
            "http://a:",
            "/v1",
        ] {
            assert_eq!(text.parse::<ServerAddress>(), Err(AddressError), "{text}");
        }
    }

    #[test]
    fn sibling_replaces_the_path_suffix() {
        let address: ServerAddress = "http://a/v1/data/p/annotations".parse().unwrap();
        assert_eq!(
            address.sibling("/annotations", "/errors").unwrap().to_string(),
            "http://a/v1/data/p/errors"
        );
        assert_eq!(address.sibling("/labels", "/errors"), None);
    }
}
