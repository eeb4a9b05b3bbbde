//! Policy kinds whose controllers on a cluster generate policies of other kinds.

use super::names::GroupResource;

/// A kind whose controller generates a policy of another kind with the same name and namespace.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// The kind whose controller generates policies.
    pub source: PolicyKindNames,
    /// The kind of the generated policy.
    pub generated: PolicyKindNames,
}

/// The names of a kind.
#[derive(Clone, Copy, Debug)]
pub struct PolicyKindNames {
    /// The API group.
    pub group: &'static str,
    /// The plural.
    pub resource: &'static str,
    /// The kind, for example `RateLimitPolicy`.
    pub kind: &'static str,
}

impl PolicyKindNames {
    /// The kind `kind` of `group`.
    #[must_use]
    pub const fn new(group: &'static str, resource: &'static str, kind: &'static str) -> Self {
        Self { group, resource, kind }
    }

    /// Whether `self` has the names of `kind`.
    #[must_use]
    pub fn is(&self, kind: &GroupResource) -> bool {
        *kind.group == *self.group && *kind.resource == *self.resource
    }
}

/// The known generators, from the Kuadrant operator 1.5: `cmd/extensions/plan-policy` and `cmd/extensions/oidc-policy`.
pub const GENERATORS: [Generator; 2] = [
    Generator {
        source: PolicyKindNames::new("extensions.kuadrant.io", "planpolicies", "PlanPolicy"),
        generated: PolicyKindNames::new("kuadrant.io", "ratelimitpolicies", "RateLimitPolicy"),
    },
    Generator {
        source: PolicyKindNames::new("extensions.kuadrant.io", "oidcpolicies", "OIDCPolicy"),
        generated: PolicyKindNames::new("kuadrant.io", "authpolicies", "AuthPolicy"),
    },
];
