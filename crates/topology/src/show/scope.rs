//! Which part of a graph is asked for.

use crate::graph::{Graph, NodeId};
use crate::locator::{GATEWAY, Locator};
use crate::paths::Path;
use crate::topology::PolicyId;
use policy_sync_api::names::GroupResource;

/// Which part of a graph is asked for.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// A namespace, all where there is none.
    pub namespace: Option<String>,
    /// The name of a Gateway.
    pub gateway: Option<String>,
    /// The name of a route, and of its kind, as people write it.
    pub route: Option<(String, String)>,
    /// The same of a policy.
    pub policy: Option<(String, String)>,
}

impl Scope {
    /// Whether it is all of the graph.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.namespace.is_none() && self.gateway.is_none() && self.route.is_none() && self.policy.is_none()
    }

    /// Whether an object of the asked namespace is asked for by itself.
    pub(super) fn has_object(&self, locator: &Locator<'_>) -> bool {
        self.gateway.is_none() && self.is_in(locator)
    }

    /// Whether the Gateway `locator` is asked for.
    #[must_use]
    pub fn has_gateway(&self, locator: &Locator<'_>) -> bool {
        self.gateway.as_ref().is_none_or(|name| name == locator.name) && self.is_in(locator)
    }

    /// Whether what has these policies is asked for.
    pub(super) fn has_policies<'l>(&self, mut policies: impl Iterator<Item = Locator<'l>>) -> bool {
        let Some(asked) = &self.policy else { return true };
        policies.any(|policy| self.is_named(&policy, asked))
    }

    fn is_in(&self, locator: &Locator<'_>) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| namespace == locator.namespace)
    }

    fn is_gateway(&self, locator: &Locator<'_>, name: &str) -> bool {
        locator.kind == GATEWAY && locator.name == name && self.is_in(locator)
    }

    fn is_named(&self, locator: &Locator<'_>, (kind, name): &(String, String)) -> bool {
        locator.name == name && is_kind(locator, kind) && self.is_in(locator)
    }

    /// Whether `path`, along which these policies lie, is asked for.
    pub(super) fn has_path(
        &self,
        graph: &Graph<'_>,
        path: &Path<'_, '_>,
        policies: impl Fn() -> Vec<PolicyId>,
    ) -> bool {
        let any = |is: &dyn Fn(&Locator<'_>) -> bool| {
            path.nodes.iter().any(|node: &NodeId| is(&graph.locator(*node)))
        };
        if let Some(gateway) = &self.gateway {
            return any(&|locator| self.is_gateway(locator, gateway));
        }
        if let Some(route) = &self.route {
            return any(&|locator| self.is_named(locator, route));
        }
        if let Some(policy) = &self.policy {
            return policies().into_iter().any(|number| self.is_named(&graph.policy(number).locator, policy));
        }
        self.namespace.is_none() || any(&|locator| self.is_in(locator))
    }
}

/// Whether people mean the kind of `locator` by `word`: `httproute`, `HTTPRoutes`, `httproute.gateway.networking.k8s.io`.
fn is_kind(locator: &Locator<'_>, word: &str) -> bool {
    let (kind, group) = word.split_once('.').map_or((word, None), |(kind, group)| (kind, Some(group)));
    if group.is_some_and(|group| !group.eq_ignore_ascii_case(locator.kind.group)) {
        return false;
    }
    let (kind, own) = (kind.to_ascii_lowercase(), locator.kind.kind);
    kind == own.to_ascii_lowercase() || GroupResource::new(locator.kind.group, &kind).is_plural_of(own)
}
