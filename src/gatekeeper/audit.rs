//! What stands, and breaks policies: each object is reviewed as if it was written now.

use json_patch::PatchOperation;
use regorus::Value;
use serde::Serialize;
use serde_json::json;

use super::denial::{Denial, Place};
use super::patches::Operation;
use super::question::input;
use crate::api::names::{GroupResource, GroupVersionResource};
use crate::rego::asked::ADMISSION;
use crate::rego::snapshot::Snapshot;

/// The operation of such a review.
const OPERATION: &str = "AUDIT";
/// How many violations are told one by one.
const TOLD: usize = 1_000;

/// An object that stands.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'o> {
    /// How it is read.
    pub gvr: &'o GroupVersionResource,
    /// Its namespace, empty for what is cluster-scoped.
    pub namespace: &'o str,
    /// Its name.
    pub name: &'o str,
    /// The object.
    pub object: &'o Value,
}

/// What an object breaks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// The object.
    pub resource: Resource,
    /// What the policy calls it; empty where it is a text alone.
    pub id: String,
    /// What would mend it.
    pub resolution: Resolution,
    /// The module, where its head says so.
    pub policy: Option<String>,
    /// What it comes to when it is written: `deny`, `warn`, `dryrun`; `error` where policies cannot be asked.
    pub enforcement: String,
}

/// An object, as policies call it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Resource {
    /// The plural.
    pub kind: String,
    /// The namespace, empty for what is cluster-scoped.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What would mend a violation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Resolution {
    /// Why it is one.
    pub message: String,
    /// Operations of a JSON Patch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<PatchOperation>,
}

/// What `standing` breaks of the policies of `snapshot`, in order. It takes the time of one evaluation for each name that policies have
/// for its kind. What fails is told as an `error` of this object, and keeps no other from being looked at.
#[must_use]
pub fn audit(snapshot: &Snapshot, standing: Standing<'_>) -> Vec<Violation> {
    let Standing { gvr, namespace, name, object } = standing;
    let is_going = object["metadata"]["deletionTimestamp"] != Value::Undefined;
    if is_going || !snapshot.is_asked(ADMISSION) {
        return Vec::new();
    }
    let query = format!("{}.deny", snapshot.query(ADMISSION));
    let mut violations = Vec::new();
    for kind in snapshot.names_of(&gvr.kind) {
        let resource =
            || Resource { kind: kind.clone(), namespace: namespace.to_owned(), name: name.to_owned() };
        let failed = |message: String| Violation {
            resource: resource(),
            id: String::new(),
            resolution: Resolution { message, patches: Vec::new() },
            policy: None,
            enforcement: "error".to_owned(),
        };
        let place = Place { kind: &kind, namespace, name };
        let input = input(request(standing), place, object.clone());
        let denials = match snapshot.ask(ADMISSION, &query, &input) {
            Ok(None) => continue,
            Ok(Some(answer)) => Denial::read(&answer, place).map_err(|fault| format!("{query}: {fault}")),
            Err(error) => Err(error.to_string()),
        };
        match denials {
            Ok(denials) => {
                violations.extend(denials.into_iter().map(|denial| of(snapshot, resource(), denial)))
            }
            Err(message) => violations.push(failed(message)),
        }
    }
    violations.sort_by(|one, other| one.said().cmp(&other.said()));
    // A kind may have two names.
    violations.dedup_by(|one, other| one.said() == other.said() && one.resolution == other.resolution);
    violations
}

impl Violation {
    /// Where it stands among others.
    #[must_use]
    pub fn place(&self) -> (&str, &str, &str, &str, &str) {
        let Resource { kind, namespace, name } = &self.resource;
        (kind, namespace, name, &self.id, &self.resolution.message)
    }

    /// What is said of the object.
    fn said(&self) -> (&str, &str, Option<&str>) {
        (&self.id, &self.resolution.message, self.policy.as_deref())
    }
}

/// What a denial comes to.
fn of(snapshot: &Snapshot, resource: Resource, denial: Denial) -> Violation {
    let enforcement = match denial.is_fault {
        true => "error".to_owned(),
        false => denial.enforcement(|policy| snapshot.enforcement(policy)).to_string(),
    };
    let patches = denial.patches.iter().map(Operation::operation).cloned().collect();
    let resolution = Resolution { message: denial.message, patches };
    Violation { resource, id: denial.id, resolution, policy: denial.policy, enforcement }
}

/// The request that `standing` would be written by.
fn request(standing: Standing<'_>) -> Value {
    let Standing { gvr, namespace, name, object } = standing;
    let GroupVersionResource { kind: GroupResource { group, resource }, version } = gvr;
    let mut request = Value::from(json!({
        "operation": OPERATION,
        "kind": {"group": &**group, "version": &**version, "kind": object["kind"].as_string().map_or("", |kind| kind.as_ref())},
        "resource": {"group": &**group, "version": &**version, "resource": &**resource},
        "namespace": namespace, "name": name, "userInfo": {}, "dryRun": true,
    }));
    if let Ok(fields) = request.as_object_mut() {
        fields.insert("object".into(), object.clone());
    }
    request
}

/// `violations` for programs; no more than 1,000 are told, and all are counted.
#[must_use]
pub fn report(violations: &[Violation]) -> serde_json::Value {
    let told = &violations[..violations.len().min(TOLD)];
    json!({
        "message": format!("total violations:{}", violations.len()),
        "violations": told, "truncated": told.len() < violations.len(),
    })
}

#[cfg(test)]
mod tests;
