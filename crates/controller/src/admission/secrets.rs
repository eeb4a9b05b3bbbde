//! Removes the contents of Secrets from Rego policy input, and rejects patches that touch these contents.

use regorus::Value;

use super::denial::Denial;
use super::operation::Operation;
use policy_sync_api::names::GroupResource;
use policy_sync_api::work;
use policy_sync_rego::contents::{CONTENTS, at, strip_secret, strip_work};

/// The fields of works that contain manifests: the spec, and the last-applied annotation, which repeats the spec.
const WORKLOADS: [&str; 3] = ["/spec/workload", "/spec/manifestWorkTemplate", "/metadata/annotations"];
/// The fields of an AdmissionRequest that contain objects.
const OBJECTS: [&str; 2] = ["object", "oldObject"];

/// Removes the contents of a Secret, and the metadata that repeats the contents or their keys.
pub(super) fn without_contents(mut secret: Value) -> Value {
    strip_secret(&mut secret);
    secret
}

/// Removes the contents of `object` and `oldObject` in an AdmissionRequest for a Secret.
pub(super) fn request_without_contents(request: Value) -> Value {
    with_both_objects(request, strip_secret)
}

/// Removes the contents of Secrets from `object` and `oldObject` in an AdmissionRequest for a ManifestWork.
pub(super) fn request_without_manifests(request: Value) -> Value {
    with_both_objects(request, strip_work)
}

fn with_both_objects(mut request: Value, strip: fn(&mut Value)) -> Value {
    for name in OBJECTS {
        at(&mut request, name).map(strip);
    }
    request
}

/// Converts some denials to faults, which reject the write. These are denials whose patches touch the
/// contents of a Secret, read the manifests of a work, or write a Secret into a work. Other denials are
/// unchanged.
pub(super) fn without_patches_of_contents(kind: &GroupResource, mut denials: Vec<Denial>) -> Vec<Denial> {
    let why: fn(&[Operation]) -> Option<String> = match kind {
        kind if *kind == GroupResource::secrets() => touched_contents,
        kind if *kind.group == *work::GROUP => touched_manifests,
        _ => return denials,
    };
    for denial in &mut denials {
        if let Some(why) = why(&denial.patches) {
            denial.message = format!("resolution.patches: {why}");
            denial.patches = Vec::new();
            denial.is_fault = true;
        }
    }
    denials
}

fn touched_contents(patches: &[Operation]) -> Option<String> {
    let is_touched = |field: &&str| patches.iter().any(|patch| patch.touches(&format!("/{field}")));
    let field = CONTENTS.into_iter().find(is_touched)?;
    Some(format!("a Rego policy cannot change the {field} of a Secret"))
}

fn touched_manifests(patches: &[Operation]) -> Option<String> {
    // The patch would be built from the input, which lacks the contents of Secrets. So the stored work would lose these
    // contents.
    if patches.iter().any(Operation::writes_secret) {
        return Some("a Rego policy cannot write a Secret into a ManifestWork".to_owned());
    }
    let are_read = WORKLOADS.into_iter().any(|place| patches.iter().any(|patch| patch.reads(place)));
    are_read.then(|| "a Rego policy cannot use copy, move or test on the manifests of a work".to_owned())
}

#[cfg(test)]
mod tests;
