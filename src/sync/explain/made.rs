//! Finds the hub policy from which a cluster's controller generated another policy, by the generated policy's name in a message.

use crate::api::names::{ClusterName, GroupResource, ObjectKey, Origin};
use crate::sync::View;
use crate::sync::status::overriding;

/// A kind whose controller generates a policy of another kind with the same name and namespace.
struct Generator {
    /// The group and the plural of the source kind.
    source: (&'static str, &'static str),
    /// The name of the source kind.
    name: &'static str,
    /// The group and the plural of the generated kind.
    generated: (&'static str, &'static str),
}

/// Source: Kuadrant operator 1.5, `cmd/extensions/plan-policy` and `cmd/extensions/oidc-policy`.
const GENERATORS: [Generator; 2] = [
    Generator {
        source: ("extensions.kuadrant.io", "planpolicies"),
        name: "PlanPolicy",
        generated: ("kuadrant.io", "ratelimitpolicies"),
    },
    Generator {
        source: ("extensions.kuadrant.io", "oidcpolicies"),
        name: "OIDCPolicy",
        generated: ("kuadrant.io", "authpolicies"),
    },
];
/// The most names of a message that are looked up.
const NAMES_LIMIT: usize = 64;

/// A hub policy from whose copy a cluster's controller generated another policy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MadeOf {
    /// `PlanPolicy shop/plan`.
    pub(super) policy: String,
    /// The generated policy: `kuadrant-shop/plan`.
    pub(super) made: String,
}

/// The source of the first policy named in `message`, if it was generated on `cluster`. The message is about the copy of `origin` in the
/// namespace `downstream`.
pub(super) fn made_of(
    view: View<'_>,
    origin: &Origin,
    (cluster, downstream): (&ClusterName, &str),
    message: &str,
) -> Option<MadeOf> {
    let kind = origin.kind();
    let is_generated = |generator: &&Generator| (&*kind.group, &*kind.resource) == generator.generated;
    let sources: Vec<(GroupResource, &str)> = GENERATORS
        .iter()
        .filter(is_generated)
        .map(|generator| (GroupResource::new(generator.source.0, generator.source.1), generator.name))
        .collect();
    if sources.is_empty() {
        return None;
    }
    for name in overriding::names(message, downstream).take(NAMES_LIMIT) {
        let key = ObjectKey::new(&origin.object().namespace, name);
        for (kind, source) in &sources {
            let of = Origin::new(kind.clone(), key.clone());
            if view.policy(&of).is_some() && view.work_of(&of, cluster).is_some() {
                let made = format!("{downstream}/{name}");
                return Some(MadeOf { policy: format!("{source} {key}"), made });
            }
        }
    }
    None
}
