//! Kinds of policies whose controllers on a cluster generate policies of other kinds.

/// A kind whose controller generates a policy of another kind with the same name and namespace.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// The group and the plural of the source kind.
    pub source: (&'static str, &'static str),
    /// The source kind.
    pub kind: &'static str,
    /// The group, the plural and the name of the generated kind.
    pub generated: (&'static str, &'static str, &'static str),
}

/// Source: Kuadrant operator 1.5, `cmd/extensions/plan-policy` and `cmd/extensions/oidc-policy`.
pub const GENERATORS: [Generator; 2] = [
    Generator {
        source: ("extensions.kuadrant.io", "planpolicies"),
        kind: "PlanPolicy",
        generated: ("kuadrant.io", "ratelimitpolicies", "RateLimitPolicy"),
    },
    Generator {
        source: ("extensions.kuadrant.io", "oidcpolicies"),
        kind: "OIDCPolicy",
        generated: ("kuadrant.io", "authpolicies", "AuthPolicy"),
    },
];

impl Generator {
    /// Whether it generates policies of the kind `name`, the plural or the kind itself, of `group`.
    #[must_use]
    pub fn generates(&self, group: &str, name: &str) -> bool {
        let (of, plural, kind) = self.generated;
        group == of && (name == plural || name == kind)
    }
}
