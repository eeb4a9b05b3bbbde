//! Removes the contents of Secrets from the input of policies, and rejects patches of these contents.

use regorus::Value;

use super::denial::Denial;
use super::operation::Operation;
use crate::api::names::GroupResource;
use crate::api::work;
use crate::rego::contents::{CONTENTS, at, strip_secret, strip_work};

/// The places of the manifests in works, and of the annotation of `kubectl apply`, which repeats them.
const WORKLOADS: [&str; 3] = ["/spec/workload", "/spec/manifestWorkTemplate", "/metadata/annotations"];
/// The objects of an AdmissionRequest.
const OBJECTS: [&str; 2] = ["object", "oldObject"];

/// Removes the contents of a Secret, and the metadata that repeats them or their keys.
pub(super) fn without_contents(mut secret: Value) -> Value {
    strip_secret(&mut secret);
    secret
}

/// Removes the contents of both objects of an AdmissionRequest for a Secret.
pub(super) fn request_without_contents(mut request: Value) -> Value {
    for name in OBJECTS {
        at(&mut request, name).map(strip_secret);
    }
    request
}

/// Removes the contents of Secrets from both objects of an AdmissionRequest for a work.
pub(super) fn request_without_manifests(mut request: Value) -> Value {
    for name in OBJECTS {
        at(&mut request, name).map(strip_work);
    }
    request
}

/// Turns denials whose patches read or change the contents of a Secret, or read the manifests of a work, into faults, which reject the
/// write. Denials of other kinds stay as they are.
pub(super) fn without_patches_of_contents(kind: &GroupResource, denials: Vec<Denial>) -> Vec<Denial> {
    let mend = |mut denial: Denial| {
        let touches = |field: &&str| denial.patches.iter().any(|patch| patch.touches(&format!("/{field}")));
        if let Some(field) = CONTENTS.into_iter().find(touches) {
            denial.message = format!("resolution.patches: no policy changes the {field} of a Secret");
            denial.patches = Vec::new();
            denial.is_fault = true;
        }
        denial
    };
    let mend_work = |mut denial: Denial| {
        let reads = WORKLOADS.into_iter().any(|place| denial.patches.iter().any(|patch| patch.reads(place)));
        // It would be made of the input, in which Secrets have no contents.
        let writes = denial.patches.iter().any(Operation::writes_secret);
        if reads || writes {
            let what = if writes {
                "writes a Secret into"
            } else {
                "reads, by copy, move or test, the manifests of"
            };
            denial.message = format!("resolution.patches: no policy {what} a work");
            denial.patches = Vec::new();
            denial.is_fault = true;
        }
        denial
    };
    match kind {
        kind if *kind == GroupResource::secrets() => denials.into_iter().map(mend).collect(),
        kind if *kind.group == *work::GROUP => denials.into_iter().map(mend_work).collect(),
        _ => denials,
    }
}

#[cfg(test)]
mod tests;
