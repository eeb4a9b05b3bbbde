//! The URL paths of the web pages, and query strings.

use form_urlencoded::Serializer;

use policy_sync_api::names::{ClusterName, ObjectKey};

/// The path of the page with all policies and clusters.
pub const FLEET: &str = "/";
/// The path of the page with effective policies.
pub const EFFECTIVE: &str = "/effective";
/// The path of the stream of changes (server-sent events).
pub const EVENTS: &str = "/events";
/// The path of the style sheet.
pub const STYLE: &str = "/style.css";
/// The path of the script that reloads pages after changes.
pub const SCRIPT: &str = "/script.js";

/// The path of a policy's page. Its kind is written in lower case, as in `ratelimitpolicy.kuadrant.io`.
#[must_use]
pub fn policy(kind: &str, group: &str, key: &ObjectKey) -> String {
    let kind = escaped(&kind.to_lowercase());
    format!("/policies/{kind}.{}/{}/{}", escaped(group), escaped(&key.namespace), escaped(&key.name))
}

/// The path of a Gateway's page.
#[must_use]
pub fn gateway(key: &ObjectKey) -> String {
    format!("/gateways/{}/{}", escaped(&key.namespace), escaped(&key.name))
}

/// The path of a cluster's page.
#[must_use]
pub fn cluster(cluster: &ClusterName) -> String {
    format!("/clusters/{}", escaped(&cluster.0))
}

/// Appends a query string to `path`. Empty values are left out.
#[must_use]
pub fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let mut text = Serializer::new(String::new());
    text.extend_pairs(query.iter().filter(|(_, value)| !value.is_empty()));
    match text.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// Percent-encodes `text` as one path segment. Valid Kubernetes names are unchanged.
fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if is_plain(byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_one_path_segment() {
        let key = ObjectKey::new("shop", "limits");
        assert_eq!(
            policy("RateLimitPolicy", "kuadrant.io", &key),
            "/policies/ratelimitpolicy.kuadrant.io/shop/limits"
        );
        assert_eq!(gateway(&key), "/gateways/shop/limits");
        assert_eq!(cluster(&"../a b\"<é".into()), "/clusters/..%2Fa%20b%22%3C%C3%A9");
    }

    #[test]
    fn query_values_are_escaped_and_empty_ones_are_left_out() {
        let query = [("namespace", ""), ("clusters", "region=us,tier in (a)&x"), ("kind", "<b>")];
        assert_eq!(with_query("/", &query), "/?clusters=region%3Dus%2Ctier+in+%28a%29%26x&kind=%3Cb%3E");
        assert_eq!(with_query("/", &[("kind", "")]), "/");
    }
}
