//! What a work is for.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use policy_sync_api::annotations;
use policy_sync_api::names::{ControllerName, GroupResource, ObjectKey, Origin, WorkName};
use policy_sync_api::object::HubObject;
use policy_sync_api::work::ManifestWorkSpec;

/// What a work is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A copy of a Gateway or of a policy.
    Copy(Arc<Origin>),
    /// The agent's access to the kinds that our works there carry.
    Access(Vec<GroupResource>),
    /// Not proven to be ours: its name does not follow from its origin.
    Foreign,
}

impl Purpose {
    /// The Gateway that it brings a copy of, if it does.
    pub fn gateway(&self) -> Option<&ObjectKey> {
        match self {
            Self::Copy(origin) => origin.as_gateway(),
            Self::Access(_) | Self::Foreign => None,
        }
    }

    /// What `object`, a work with this spec, is for.
    pub(super) fn read(object: &HubObject, spec: &ManifestWorkSpec, controller: &ControllerName) -> Self {
        let name = WorkName(object.metadata.name.as_str().into());
        if name == WorkName::access(controller) {
            return Self::Access(access_kinds(spec));
        }
        let origin =
            object.metadata.annotations.get(annotations::PARENT).and_then(|text| Origin::parse(text));
        match origin {
            Some(origin)
                if name.is_for(controller, &origin)
                    || is_for_carried_kind(&name, spec, controller, &origin) =>
            {
                Self::Copy(Arc::new(origin))
            }
            _ => Self::Foreign,
        }
    }
}

/// The most distinct kinds of a work's manifests that are tried, and the most bytes of one. Its spoke may write as many as it likes.
const KINDS_LIMIT: (usize, usize) = (16, 63);

/// A kind too long to stand whole in a name is taken from the manifests instead; the hash still proves it.
fn is_for_carried_kind(
    name: &WorkName,
    spec: &ManifestWorkSpec,
    controller: &ControllerName,
    origin: &Origin,
) -> bool {
    let kinds = spec.workload.manifests.iter().filter_map(|manifest| manifest.0["kind"].as_str());
    let mut tried = BTreeSet::new();
    for kind in kinds.filter(|kind| kind.len() <= KINDS_LIMIT.1) {
        if tried.len() < KINDS_LIMIT.0
            && tried.insert(kind)
            && WorkName::planned(controller, kind, origin) == *name
        {
            return true;
        }
    }
    false
}

fn access_kinds(spec: &ManifestWorkSpec) -> Vec<GroupResource> {
    let rules =
        spec.workload.manifests.iter().filter_map(|manifest| manifest.0["rules"].as_array()).flatten();
    let first = |rule: &Value, field: &str| rule[field][0].as_str().unwrap_or_default().to_owned();
    rules.map(|rule| GroupResource::new(&first(rule, "apiGroups"), &first(rule, "resources"))).collect()
}
