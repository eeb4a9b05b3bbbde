//! Kinds of policies whose controllers on a cluster generate policies of other kinds.

/// A kind whose controller generates a policy of another kind with the same name and namespace.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// The kind of the source.
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
    /// The kind in objects.
    pub kind: &'static str,
}

/// Source: Kuadrant operator 1.5, `cmd/extensions/plan-policy` and `cmd/extensions/oidc-policy`.
pub const GENERATORS: [Generator; 2] = [
    Generator {
        source: names("extensions.kuadrant.io", "planpolicies", "PlanPolicy"),
        generated: names("kuadrant.io", "ratelimitpolicies", "RateLimitPolicy"),
    },
    Generator {
        source: names("extensions.kuadrant.io", "oidcpolicies", "OIDCPolicy"),
        generated: names("kuadrant.io", "authpolicies", "AuthPolicy"),
    },
];

const fn names(group: &'static str, resource: &'static str, kind: &'static str) -> PolicyKindNames {
    PolicyKindNames { group, resource, kind }
}
