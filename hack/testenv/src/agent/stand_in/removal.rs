//! What is removed from the spoke, and what may be: only the instance that was recorded, only while the work owns it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::api::AppliedResource;

/// What to do about an object that the work no longer holds.
#[derive(Debug, PartialEq)]
pub(super) enum Removal {
    /// Nothing: it is gone, or another's.
    Forget,
    /// Another work holds it too: only our ownership goes.
    Disown(Vec<OwnerReference>),
    /// It is being deleted.
    Wait,
    /// Delete it.
    Delete,
}

/// Decides about an object recorded with `uid` and owned by the AppliedManifestWork `owner`.
pub(super) fn removal(object: &ObjectMeta, uid: &str, owner: &str) -> Removal {
    let owners = object.owner_references.as_deref().unwrap_or_default();
    if !owners.iter().any(|reference| reference.uid == owner) {
        return Removal::Forget;
    }
    let rest: Vec<_> = owners.iter().filter(|reference| reference.uid != owner).cloned().collect();
    let of_a_work = |reference: &OwnerReference| {
        reference.kind == "AppliedManifestWork"
            && reference.api_version == "work.open-cluster-management.io/v1"
    };
    if rest.iter().any(of_a_work) {
        Removal::Disown(rest)
    } else if object.uid.as_deref() != Some(uid) {
        Removal::Forget
    } else if object.deletion_timestamp.is_some() {
        Removal::Wait
    } else {
        Removal::Delete
    }
}

/// The recorded objects that the work no longer holds, whatever their version.
pub(super) fn untracked(recorded: &[AppliedResource], held: &[AppliedResource]) -> Vec<AppliedResource> {
    recorded
        .iter()
        .filter(|record| !held.iter().any(|one| identity(one) == identity(record)))
        .cloned()
        .collect()
}

fn identity(resource: &AppliedResource) -> (&str, &str, &str, &str) {
    // A missing text and an empty one are the same.
    let group = resource.group.as_deref().unwrap_or_default();
    let namespace = resource.namespace.as_deref().unwrap_or_default();
    (group, &resource.resource, namespace, &resource.name)
}

/// The owners an object should have, or `None` where it has them: `owner` among them where `owned`, gone otherwise.
pub(super) fn owners(
    object: &ObjectMeta,
    owner: &OwnerReference,
    owned: bool,
) -> Option<Vec<OwnerReference>> {
    let mut owners = object.owner_references.clone().unwrap_or_default();
    let ours = |reference: &OwnerReference| {
        reference.kind == owner.kind
            && reference.api_version == owner.api_version
            && reference.name == owner.name
    };
    let known = owners.iter().position(ours);
    match (known, owned) {
        (None, false) => return None,
        (None, true) => owners.push(owner.clone()),
        (Some(index), true) if owners[index] == *owner => return None,
        (Some(index), true) => owners[index] = owner.clone(),
        (Some(index), false) => {
            owners.remove(index);
        }
    }
    Some(owners)
}

#[cfg(test)]
mod tests;
