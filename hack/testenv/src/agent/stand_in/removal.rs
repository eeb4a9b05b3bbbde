//! Decides which objects an agent removes from the spoke. The agent removes only the recorded instance of an object,
//! and only while the work owns this instance.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::api::AppliedResource;

/// How to treat an object that the work no longer contains.
#[derive(Debug, PartialEq)]
pub(super) enum Removal {
    /// Do nothing, because the work does not own the object, or because the object is another instance.
    Forget,
    /// Remove only this work's owner reference, because another work owns the object too.
    Disown(Vec<OwnerReference>),
    /// Wait until the object is gone, because it is being deleted.
    Wait,
    /// Delete the object.
    Delete,
}

/// Decides how to treat an object whose recorded uid is `uid`. `owner` is the uid of the AppliedManifestWork.
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

/// The recorded objects that are not in `existing`, compared without their versions.
pub(super) fn untracked(recorded: &[AppliedResource], existing: &[AppliedResource]) -> Vec<AppliedResource> {
    recorded
        .iter()
        .filter(|record| !existing.iter().any(|one| identity(one) == identity(record)))
        .cloned()
        .collect()
}

fn identity(resource: &AppliedResource) -> (&str, &str, &str, &str) {
    // A missing value and an empty value are equal.
    let group = resource.group.as_deref().unwrap_or_default();
    let namespace = resource.namespace.as_deref().unwrap_or_default();
    (group, &resource.resource, namespace, &resource.name)
}

/// The changed owner references of an object, or `None` if the object needs no change. Adds `owner` if `owned`,
/// otherwise removes `owner`.
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
