//! The packages that this project queries, and messages about unusable results.

use std::sync::Arc;

use regorus::Value;

use super::module::is_name;
use policy_sync_api::text::truncate_bytes;

/// The maximum length of a quoted value, in bytes.
const MAX_QUOTED_BYTES: usize = 100;

/// The purposes of queries. Each constant is also the default name of the package for that purpose.
pub const PURPOSES: [&str; 3] = [PLACEMENT, ADMISSION, AUTHORIZATION];
/// Placement policies: they set labels and annotations that place objects.
pub const PLACEMENT: &str = "io.k8s.federation.admission";
/// Admission policies: they deny requests that create, update or delete objects.
pub const ADMISSION: &str = "admission";
/// Authorization policies: they deny access to the API server.
pub const AUTHORIZATION: &str = "authorization";

/// The names of the queried packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueriedPackages {
    placement: Arc<str>,
    admission: Arc<str>,
}

impl Default for QueriedPackages {
    fn default() -> Self {
        Self { placement: PLACEMENT.into(), admission: ADMISSION.into() }
    }
}

impl QueriedPackages {
    /// Uses other names for the packages of placement and admission. Returns `None` if the names are equal, or if one
    /// is the package for authorization.
    #[must_use]
    pub fn new(placement: &str, admission: &str) -> Option<Self> {
        let are_own = placement != admission && ![placement, admission].contains(&AUTHORIZATION);
        are_own.then(|| Self { placement: placement.into(), admission: admission.into() })
    }

    /// The package of a query such as `data.kubernetes.admission`; `None` if the query is not a package.
    #[must_use]
    pub fn parse_query(query: &str) -> Option<&str> {
        let package = query.strip_prefix("data.")?;
        package.split('.').all(is_name).then_some(package)
    }

    /// The name of the package for `purpose`.
    #[must_use]
    pub fn of<'p>(&'p self, purpose: &'p str) -> &'p str {
        match purpose {
            PLACEMENT => &self.placement,
            ADMISSION => &self.admission,
            _ => purpose,
        }
    }

    /// The purpose of `package`, if it is queried.
    #[must_use]
    pub fn purpose(&self, package: &str) -> Option<&'static str> {
        PURPOSES.into_iter().find(|purpose| self.of(purpose) == package)
    }
}

/// The message for a value of the wrong type: `expected an object, found a list`. It does not quote the value, which
/// may be part of a Secret.
pub fn expected(what: &str, value: &Value) -> String {
    format!("expected {what}, found {}", type_name(value))
}

/// The type of `value`.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Undefined => "nothing",
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Set(_) => "a set",
        Value::Object(_) => "an object",
    }
}

/// Cuts `text` for a quotation in a message.
pub fn truncated(text: &str) -> String {
    truncate_bytes(text, MAX_QUOTED_BYTES).into_owned()
}

/// The Rego query for the value of `package`. The parts of the name are quoted, so any characters may occur in them.
#[must_use]
pub fn query(package: &str) -> String {
    let parts = package.split('.').map(|part| format!("[{}]", Value::from(part)));
    ["data".to_owned()].into_iter().chain(parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queried_packages_have_distinct_valid_names() {
        assert_eq!(QueriedPackages::parse_query("data.kubernetes.admission"), Some("kubernetes.admission"));
        assert_eq!(QueriedPackages::parse_query("data.a_1"), Some("a_1"));
        for query in ["", "data", "data.", "data.a.", "data.a[0]", "a.b", "data.1"] {
            assert_eq!(QueriedPackages::parse_query(query), None, "{query}");
        }
        for (placement, admission) in [("a", "a"), ("authorization", "a"), ("a", "authorization")] {
            assert_eq!(QueriedPackages::new(placement, admission), None, "{placement}, {admission}");
        }
        assert_eq!(QueriedPackages::new(PLACEMENT, ADMISSION), Some(QueriedPackages::default()));
        let packages = QueriedPackages::new("kubernetes.placement", "kubernetes.admission").unwrap();
        assert_eq!(packages.purpose("kubernetes.placement"), Some(PLACEMENT));
        assert_eq!(packages.purpose("kubernetes.admission"), Some(ADMISSION));
        assert_eq!(packages.purpose("authorization"), Some(AUTHORIZATION));
        for package in [PLACEMENT, ADMISSION] {
            assert_eq!(packages.purpose(package), None, "another takes its place");
        }
    }
}
