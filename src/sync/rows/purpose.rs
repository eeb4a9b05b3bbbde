//! What a work is for.

use std::sync::Arc;

use serde_json::Value;

use crate::api::annotations;
use crate::api::names::{ControllerName, GroupResource, Parent, WorkName};
use crate::api::object::HubObject;
use crate::api::work::ManifestWorkSpec;

/// What a work is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A Gateway or a policy.
    Parent(Arc<Parent>),
    /// The agent's access to the kinds that our works there carry.
    Access(Vec<GroupResource>),
    /// Not proven to be ours: its name does not follow from its parent.
    Foreign,
}

impl Purpose {
    /// What `object`, a work with this spec, is for.
    pub(super) fn of(object: &HubObject, spec: &ManifestWorkSpec, controller: &ControllerName) -> Self {
        let name = WorkName(object.metadata.name.as_str().into());
        if name == WorkName::access(controller) {
            return Self::Access(access_kinds(spec));
        }
        let parent =
            object.metadata.annotations.get(annotations::PARENT).and_then(|text| Parent::parse(text));
        match parent {
            Some(parent)
                if name.is_for(controller, &parent)
                    || is_for_carried_kind(&name, spec, controller, &parent) =>
            {
                Self::Parent(Arc::new(parent))
            }
            _ => Self::Foreign,
        }
    }
}

/// A kind too long to stand whole in a name is taken from the manifests instead; the hash still proves it.
fn is_for_carried_kind(
    name: &WorkName,
    spec: &ManifestWorkSpec,
    controller: &ControllerName,
    parent: &Parent,
) -> bool {
    let kinds = spec.workload.manifests.iter().filter_map(|manifest| manifest.0["kind"].as_str());
    kinds.into_iter().any(|kind| WorkName::of(controller, kind, parent) == *name)
}

fn access_kinds(spec: &ManifestWorkSpec) -> Vec<GroupResource> {
    let rules =
        spec.workload.manifests.iter().filter_map(|manifest| manifest.0["rules"].as_array()).flatten();
    let first = |rule: &Value, field: &str| rule[field][0].as_str().unwrap_or_default().to_owned();
    rules.map(|rule| GroupResource::new(&first(rule, "apiGroups"), &first(rule, "resources"))).collect()
}
