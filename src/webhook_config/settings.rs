//! How webhooks are registered.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use http::Uri;
use serde_json::{Value, json};
use tokio::sync::watch;

use policy_sync_rego::exemptions::Exemptions;

/// How webhooks are registered.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of both configurations.
    pub name: String,
    /// The controller's own namespace.
    pub namespace: String,
    /// Where the API server reaches the webhooks.
    pub url: Url,
    /// What becomes of writes that cannot be reviewed.
    pub failure_policy: FailurePolicy,
    /// Whose objects are not reviewed.
    pub exemptions: Exemptions,
    /// Where policies are.
    pub policy_namespaces: BTreeSet<String>,
    /// Who signs the certificate.
    pub authority: Authority,
}

impl Settings {
    /// The Secret that keeps a certificate of our own.
    #[must_use]
    pub fn secret(&self) -> String {
        format!("{}-webhook", self.name)
    }
}

/// Who signs the certificate.
#[derive(Clone, Debug)]
pub enum Authority {
    /// This controller.
    Own,
    /// Somebody whose certificate is in a file, as PEM; `None` where there is no such file, and others write `caBundle`.
    File(watch::Receiver<Option<String>>),
}

/// What becomes of writes that cannot be reviewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum FailurePolicy {
    /// Reject them.
    #[default]
    Fail,
    /// Admit them.
    Ignore,
}

impl fmt::Display for FailurePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        })
    }
}

/// Where the API server reaches webhooks: `https://<host>[:<port>]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    host: String,
    port: Option<u16>,
}

/// Why a text is no such address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected https://<host>[:<port>], without a path")]
pub struct UrlFault;

impl Url {
    /// The Service `name` of `namespace`.
    #[must_use]
    pub fn of_service(name: &str, namespace: &str) -> Self {
        Self { host: format!("{name}.{namespace}.svc"), port: None }
    }

    /// Its host: what a certificate is for.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// What an entry of a configuration says of `path` there: a `.svc` host is a Service, which the API server finds by itself.
    #[must_use]
    pub fn client_config(&self, path: &str) -> Value {
        let parts: Vec<&str> = self.host.split('.').collect();
        if let [name, namespace, "svc"] = parts[..] {
            let port = self.port.unwrap_or(443);
            return json!({"service": {"name": name, "namespace": namespace, "path": path, "port": port}});
        }
        json!({"url": format!("{self}{path}")})
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        if host.contains(':') {
            write!(f, "https://[{host}]")?
        } else {
            write!(f, "https://{host}")?
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl FromStr for Url {
    type Err = UrlFault;

    fn from_str(text: &str) -> Result<Self, UrlFault> {
        let uri: Uri = text.parse().map_err(|_| UrlFault)?;
        let authority = uri.authority().ok_or(UrlFault)?;
        let is_bare =
            matches!(uri.path(), "" | "/") && uri.query().is_none() && !authority.as_str().contains('@');
        if uri.scheme_str() != Some("https") || !is_bare || text.contains('#') {
            return Err(UrlFault);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let port = match authority.as_str().strip_prefix(authority.host()).ok_or(UrlFault)? {
            "" => None,
            port => Some(port.strip_prefix(':').and_then(|port| port.parse().ok()).ok_or(UrlFault)?),
        };
        // What a certificate cannot be for, no API server takes it for.
        rustls::pki_types::ServerName::try_from(host.as_str()).map_err(|_| UrlFault)?;
        Ok(Self { host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, UrlFault> {
        text.parse::<Url>().map(|url| url.client_config("/placement").to_string())
    }

    #[test]
    fn a_host_of_a_service_is_a_service_and_any_other_a_url() {
        let service = |port: u16| {
            Ok(format!(r#"{{"service":{{"name":"a","namespace":"b","path":"/placement","port":{port}}}}}"#))
        };
        assert_eq!(parsed("https://a.b.svc"), service(443));
        assert_eq!(parsed("https://A.b.svc:8443/"), service(8443));
        assert_eq!(Url::of_service("a", "b"), "https://a.b.svc".parse().unwrap());
        for (text, url) in [
            ("https://127.0.0.1:9443", "https://127.0.0.1:9443/placement"),
            ("https://[::1]:9443", "https://[::1]:9443/placement"),
            ("https://hooks.example.com", "https://hooks.example.com/placement"),
            ("https://a.b.svc.example.com", "https://a.b.svc.example.com/placement"),
        ] {
            assert_eq!(parsed(text), Ok(json!({"url": url}).to_string()));
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "a.b.svc",
            "http://a.b.svc",
            "https://",
            "https://a/path",
            "https://a?b",
            "https://a#b",
            "https://u@a",
            "https://a:",
            "https://a:b",
            "https://a_b!",
            "https://a:99999",
            "/placement",
        ] {
            assert_eq!(parsed(text), Err(UrlFault), "{text}");
        }
    }
}
