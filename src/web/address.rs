//! Where each page is, and what of its address says what it shows.

use form_urlencoded::Serializer;

use policy_sync_api::names::{ClusterName, ObjectKey};

/// The page of the fleet.
pub const FLEET: &str = "/";
/// What is in force, and what a request meets.
pub const EFFECTIVE: &str = "/effective";
/// What changes, as it changes.
pub const EVENTS: &str = "/events";
/// How all pages look.
pub const STYLE: &str = "/style.css";
/// What keeps them up to date.
pub const SCRIPT: &str = "/script.js";

/// The page of a policy: its kind as people write it, `ratelimitpolicy.kuadrant.io`.
#[must_use]
pub fn policy(kind: &str, group: &str, key: &ObjectKey) -> String {
    let kind = escaped(&kind.to_lowercase());
    format!("/policies/{kind}.{}/{}/{}", escaped(group), escaped(&key.namespace), escaped(&key.name))
}

/// The page of a Gateway.
#[must_use]
pub fn gateway(key: &ObjectKey) -> String {
    format!("/gateways/{}/{}", escaped(&key.namespace), escaped(&key.name))
}

/// The page of a cluster.
#[must_use]
pub fn cluster(cluster: &ClusterName) -> String {
    format!("/clusters/{}", escaped(&cluster.0))
}

/// `path` with this query; a value that is empty is left out.
#[must_use]
pub fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let mut text = Serializer::new(String::new());
    text.extend_pairs(query.iter().filter(|(_, value)| !value.is_empty()));
    match text.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// `text` as one element of a path. Names of Kubernetes stay as they are.
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
    fn a_name_is_one_element_of_a_path() {
        let key = ObjectKey::new("shop", "limits");
        assert_eq!(
            policy("RateLimitPolicy", "kuadrant.io", &key),
            "/policies/ratelimitpolicy.kuadrant.io/shop/limits"
        );
        assert_eq!(gateway(&key), "/gateways/shop/limits");
        assert_eq!(cluster(&"../a b\"<é".into()), "/clusters/..%2Fa%20b%22%3C%C3%A9");
    }

    #[test]
    fn values_of_a_query_are_escaped_and_empty_ones_left_out() {
        let query = [("namespace", ""), ("clusters", "region=us,tier in (a)&x"), ("kind", "<b>")];
        assert_eq!(with_query("/", &query), "/?clusters=region%3Dus%2Ctier+in+%28a%29%26x&kind=%3Cb%3E");
        assert_eq!(with_query("/", &[("kind", "")]), "/");
    }
}
