//! Selects a part of a graph for a report.

use crate::graph::{Graph, NodeId};
use crate::locator::{GATEWAY, Locator};
use crate::paths::Path;
use crate::topology::PolicyId;
use policy_sync_api::names::GroupResource;

/// The selected part of a graph. Empty fields select everything.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The namespace of the selected objects.
    pub namespace: Option<String>,
    /// The name of a Gateway.
    pub gateway: Option<String>,
    /// The kind, as users write it, and the name of a route.
    pub route: Option<(String, String)>,
    /// The kind, as users write it, and the name of a policy.
    pub policy: Option<(String, String)>,
}

impl Scope {
    /// Whether the whole graph is selected.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.namespace.is_none() && self.gateway.is_none() && self.route.is_none() && self.policy.is_none()
    }

    /// Whether an object is selected by its namespace, even if it is on no path.
    pub(super) fn has_object(&self, locator: &Locator<'_>) -> bool {
        self.gateway.is_none() && self.is_in(locator)
    }

    /// Whether the Gateway `locator` is selected.
    #[must_use]
    pub fn has_gateway(&self, locator: &Locator<'_>) -> bool {
        self.gateway.as_ref().is_none_or(|name| name == locator.name) && self.is_in(locator)
    }

    /// Whether an object with these policies is selected.
    pub(super) fn has_policies<'l>(&self, mut policies: impl Iterator<Item = Locator<'l>>) -> bool {
        let Some(name) = &self.policy else { return true };
        policies.any(|policy| self.is_named(&policy, name))
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

    /// Whether `path`, with these policies along it, is selected.
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

/// Whether `word` means the kind of `locator`, as in `httproute`, `HTTPRoutes` or
/// `httproute.gateway.networking.k8s.io`.
fn is_kind(locator: &Locator<'_>, word: &str) -> bool {
    let (kind, group) = word.split_once('.').map_or((word, None), |(kind, group)| (kind, Some(group)));
    if group.is_some_and(|group| !group.eq_ignore_ascii_case(locator.kind.group)) {
        return false;
    }
    let (kind, own) = (kind.to_ascii_lowercase(), locator.kind.kind);
    kind == own.to_ascii_lowercase() || GroupResource::new(locator.kind.group, &kind).is_plural_of(own)
}
