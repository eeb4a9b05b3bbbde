//! Which packages are asked, and for what; and what is said of answers that cannot be used.

use std::sync::Arc;

use regorus::Value;

use crate::api::text::capped;

/// The most bytes of a value that a fault repeats.
const REPEATED: usize = 100;

/// What a package is asked for. Each is called by the name that its package has by default.
pub const ASKED: [&str; 3] = [PLACEMENT, ADMISSION, AUTHORIZATION];
/// Where objects go.
pub const PLACEMENT: &str = "io.k8s.federation.admission";
/// What may be written.
pub const ADMISSION: &str = "admission";
/// What may be asked of the API server.
pub const AUTHORIZATION: &str = "authorization";

/// The packages that are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packages {
    placement: Arc<str>,
}

impl Default for Packages {
    fn default() -> Self {
        Self { placement: PLACEMENT.into() }
    }
}

impl Packages {
    /// Those where `query`, such as `data.kubernetes.admission`, says where objects go; `None` where it is no package.
    #[must_use]
    pub fn placing(query: &str) -> Option<Self> {
        let placement = query.strip_prefix("data.")?;
        let is_word = |word: &str| {
            let mut letters = word.chars();
            letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
                && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        };
        let is_taken = [ADMISSION, AUTHORIZATION].contains(&placement);
        (placement.split('.').all(is_word) && !is_taken).then(|| Self { placement: placement.into() })
    }

    /// The package that is asked for `what`.
    #[must_use]
    pub fn of<'p>(&'p self, what: &'p str) -> &'p str {
        if what == PLACEMENT { &self.placement } else { what }
    }

    /// Whether `package` is asked for anything.
    #[must_use]
    pub fn has(&self, package: &str) -> bool {
        ASKED.into_iter().any(|what| self.of(what) == package)
    }
}

/// That a part of an answer is another than `what`: `expected an object, found [1]`.
pub(crate) fn expected(what: &str, value: &Value) -> String {
    format!("expected {what}, found {}", short(&serde_json::to_string(value).unwrap_or_default()))
}

/// As much of a text as a fault repeats.
pub(crate) fn short(text: &str) -> String {
    capped(text, REPEATED).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_a_package_that_nothing_else_is_asked_for() {
        let package =
            |query: &str| Packages::placing(query).map(|packages| packages.of(PLACEMENT).to_owned());
        assert_eq!(package("data.kubernetes.admission").as_deref(), Some("kubernetes.admission"));
        assert_eq!(package("data.a_1").as_deref(), Some("a_1"));
        for query in [
            "",
            "data",
            "data.",
            "data.a.",
            "data.a[0]",
            "a.b",
            "data.1",
            "data.admission",
            "data.authorization",
        ] {
            assert_eq!(package(query), None, "{query}");
        }
        let packages = Packages::placing("data.kubernetes.admission").unwrap();
        assert!(packages.has("kubernetes.admission") && packages.has("admission"));
        assert!(!packages.has(PLACEMENT), "another takes its place");
    }
}
