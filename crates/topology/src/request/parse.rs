//! Parses the parts of a request from the text of command-line flags and query parameters.

use std::net::IpAddr;

use super::Request;
use policy_sync_api::syntax::is_dns_subdomain;
use policy_sync_api::text::excerpt;

/// An invalid part of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// The host is invalid.
    #[error("{0:?} is not a valid host")]
    Host(String),
    /// The port after the host is invalid.
    #[error("{0:?} is not a valid port")]
    Port(String),
    /// The path is invalid.
    #[error("{0:?} is not a valid path: it must start with / and contain no #, spaces or control characters")]
    Path(String),
    /// The method is invalid.
    #[error("{0:?} is not a valid method")]
    Method(String),
    /// The text is not of the form `NAME=VALUE`.
    #[error("{0:?} is not of the form NAME=VALUE")]
    Pair(String),
}

impl Request {
    /// Sets the host from `text`, which may contain a port.
    ///
    /// # Errors
    ///
    /// If the host or the port is invalid.
    pub fn with_host(mut self, text: &str) -> Result<Self, BadRequest> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']').ok_or_else(|| bad(text, BadRequest::Host))?;
                let port = match rest.strip_prefix(':') {
                    Some(port) => Some(port),
                    None if rest.is_empty() => None,
                    None => return Err(bad(text, BadRequest::Host)),
                };
                (address, port)
            }
            // An IPv6 address without brackets has more than one colon, and no port.
            None if text.matches(':').count() > 1 => (text, None),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let is_address = host.parse::<IpAddr>().is_ok();
        if !is_address && (!is_dns_subdomain(&name) || text.starts_with('[')) {
            return Err(bad(text, BadRequest::Host));
        }
        if let Some(port) = port {
            let number = port.parse().ok().filter(|number| *number != 0);
            self.host_port = Some(number.ok_or_else(|| bad(port, BadRequest::Port))?);
        }
        self.host = Some(name);
        Ok(self)
    }

    /// Sets the path from `text`, which may contain a query.
    ///
    /// # Errors
    ///
    /// If the path is invalid.
    pub fn with_path(mut self, text: &str) -> Result<Self, BadRequest> {
        let (path, query) = text.split_once('?').map_or((text, ""), |(path, query)| (path, query));
        let is_odd = |c: char| c == '#' || c.is_whitespace() || c.is_control();
        if !path.starts_with('/') || text.contains(is_odd) {
            return Err(bad(text, BadRequest::Path));
        }
        path.clone_into(&mut self.path);
        for (name, value) in form_urlencoded::parse(query.as_bytes()).into_owned() {
            self.query.entry(name).or_insert(value);
        }
        Ok(self)
    }

    /// Sets the method. Case is ignored.
    ///
    /// # Errors
    ///
    /// If the method is invalid.
    pub fn with_method(mut self, text: &str) -> Result<Self, BadRequest> {
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_alphabetic() || c == '-') {
            return Err(bad(text, BadRequest::Method));
        }
        self.method = Some(text.to_ascii_uppercase());
        Ok(self)
    }

    /// Adds a header, `NAME=VALUE`.
    ///
    /// # Errors
    ///
    /// If `text` is not of this form.
    pub fn with_header(mut self, text: &str) -> Result<Self, BadRequest> {
        let (name, value) = pair(text)?;
        self.headers.entry(name.to_ascii_lowercase()).or_default().push(value);
        Ok(self)
    }

    /// Adds a query parameter, `NAME=VALUE`. If a name is repeated, only its first parameter counts.
    ///
    /// # Errors
    ///
    /// If `text` is not of this form.
    pub fn with_query(mut self, text: &str) -> Result<Self, BadRequest> {
        let (name, value) = pair(text)?;
        self.query.entry(name).or_insert(value);
        Ok(self)
    }
}

fn bad(text: &str, why: impl Fn(String) -> BadRequest) -> BadRequest {
    why(excerpt(text))
}

fn pair(text: &str) -> Result<(String, String), BadRequest> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(bad(text, BadRequest::Pair)),
    }
}
