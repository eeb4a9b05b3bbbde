//! Determines the purpose of a work from its name and annotations.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use policy_sync_api::annotations;
use policy_sync_api::names::{ControllerName, GroupResource, ObjectKey, Origin, WorkName};
use policy_sync_api::object::HubObject;
use policy_sync_api::work::ManifestWorkSpec;

/// The purpose of a work.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The work holds the copy of a Gateway, a policy or a resource.
    Copy(Arc<Origin>),
    /// The work grants the agent access to the kinds that the other works in its cluster contain.
    Access(Vec<GroupResource>),
    /// The work does not verifiably belong to this controller: its name does not follow from its origin.
    Foreign,
}

impl Purpose {
    /// The Gateway whose copy the work holds, if any.
    pub fn gateway(&self) -> Option<&ObjectKey> {
        match self {
            Self::Copy(origin) => origin.as_gateway(),
            Self::Access(_) | Self::Foreign => None,
        }
    }

    /// The purpose of `object`, a work with this spec.
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

/// The maximum number of distinct kinds in a work's manifests that [`is_for_carried_kind`] tries, and the maximum
/// length of a kind in bytes. A spoke may write any number of kinds.
const KINDS_LIMIT: (usize, usize) = (16, 63);

/// Whether `name` is the planned name for `origin` and the `kind` of one of the manifests. The name contains only the
/// beginning of a long kind, so the full kind is tried, and the hash in the name verifies the kind.
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
