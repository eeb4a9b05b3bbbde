//! Settings of the webhook configurations.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use http::Uri;
use serde_json::{Value, json};
use tokio::sync::watch;

use policy_sync_rego::exemptions::Exemptions;

/// Settings of the webhook configurations.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of both configurations.
    pub name: String,
    /// The controller's own namespace.
    pub namespace: String,
    /// The address of the webhooks, as used by the API server.
    pub url: Url,
    /// How the API server handles a write if the webhook fails.
    pub failure_policy: FailurePolicy,
    /// Objects that are not reviewed.
    pub exemptions: Exemptions,
    /// The namespaces whose ConfigMaps carry Rego policies.
    pub policy_namespaces: BTreeSet<String>,
    /// The issuer of the certificate.
    pub authority: Authority,
}

impl Settings {
    /// The name of the Secret with the certificate, if the controller issues it.
    #[must_use]
    pub fn secret(&self) -> String {
        format!("{}-webhook", self.name)
    }
}

/// The issuer of the certificate.
#[derive(Clone, Debug)]
pub enum Authority {
    /// This controller issues the certificate.
    Own,
    /// An external issuer. The value is the CA bundle (PEM) from a file. Without a file, it is `None`, because another
    /// controller injects `caBundle`.
    File(watch::Receiver<Option<String>>),
}

/// How the API server handles writes that cannot be reviewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum FailurePolicy {
    /// The write is rejected.
    #[default]
    Fail,
    /// The write is admitted.
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

/// The address of the webhooks: `https://<host>[:<port>]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    host: String,
    port: Option<u16>,
}

/// The text is not an address of the form `https://<host>[:<port>]`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected https://<host>[:<port>], without a path")]
pub struct UrlFault;

impl Url {
    /// The address of the Service `name` in `namespace`.
    #[must_use]
    pub fn of_service(name: &str, namespace: &str) -> Self {
        Self { host: format!("{name}.{namespace}.svc"), port: None }
    }

    /// The host name or IP address in the certificate.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The `clientConfig` of a webhook at `path`. A host that ends with `.svc` becomes a Service reference, which the
    /// API server resolves.
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
        // A certificate can only be issued for a valid DNS name or IP address.
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
    fn service_hosts_become_service_references_and_others_urls() {
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
    fn invalid_addresses_are_rejected() {
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
