//! Removes the contents of Secrets from the input of policies, and rejects patches of these contents.

use regorus::Value;

use super::denial::Denial;
use crate::api::annotations::LAST_APPLIED;
use crate::api::names::GroupResource;

/// The fields with the contents of a Secret.
const CONTENTS: [&str; 2] = ["data", "stringData"];
/// The objects of an AdmissionRequest.
const OBJECTS: [&str; 2] = ["object", "oldObject"];

/// Removes the contents of a Secret, and the metadata that repeats them or their keys.
pub(super) fn without_contents(mut secret: Value) -> Value {
    strip(&mut secret);
    secret
}

/// Removes the contents of both objects of an AdmissionRequest for a Secret.
pub(super) fn request_without_contents(mut request: Value) -> Value {
    for name in OBJECTS {
        at(&mut request, name).map(strip);
    }
    request
}

fn strip(secret: &mut Value) {
    CONTENTS.into_iter().for_each(|field| remove(secret, field));
    let Some(metadata) = at(secret, "metadata") else { return };
    remove(metadata, "managedFields");
    if let Some(annotations) = at(metadata, "annotations") {
        remove(annotations, LAST_APPLIED);
    }
}

fn at<'v>(value: &'v mut Value, field: &str) -> Option<&'v mut Value> {
    // `as_object_mut` copies a shared value.
    value.as_object().ok()?;
    value.as_object_mut().ok()?.get_mut(&field.into())
}

fn remove(value: &mut Value, field: &str) {
    if value.as_object().is_ok_and(|fields| fields.contains_key(&field.into()))
        && let Ok(fields) = value.as_object_mut()
    {
        fields.remove(&field.into());
    }
}

/// Turns denials whose patches read or change the contents of a Secret into faults, which reject the write. Denials of other
/// kinds stay as they are.
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
    match *kind == GroupResource::secrets() {
        true => denials.into_iter().map(mend).collect(),
        false => denials,
    }
}

#[cfg(test)]
mod tests;
