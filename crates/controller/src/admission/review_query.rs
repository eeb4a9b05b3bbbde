//! Builds the Rego queries for the review of an object.

use regorus::Value;

use super::denial::ResourceRef;
use policy_sync_api::admission::AdmissionRequest;
use policy_sync_api::names::GroupResource;
use policy_sync_rego::queries::ADMISSION;
use policy_sync_rego::snapshot::Snapshot;

/// A query for the review of an object. Rego policies may use several names for a kind: its plural and aliases. Each
/// name needs its own query.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReviewQuery {
    /// The Rego query: `data.admission.deny with data.kubernetes["pods"]["shop"]["web"] as input.reviewed[3]`
    pub query: String,
    /// The input of Rego policies: `{"request": <AdmissionRequest>, "reviewed": [kind, namespace, name, object]}`
    pub input: Value,
    /// The name of the kind in this query.
    pub kind: String,
}

/// The location of the object in `data`: namespace (empty if cluster-scoped) and name, or `generateName` if
/// the name is not generated yet.
pub(super) fn object_location(request: &AdmissionRequest) -> (String, String) {
    let metadata = &request.object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    // If the object is a Namespace, the API server sets `request.namespace` to the name of the object.
    let is_namespace = request.resource.group.is_empty() && request.resource.resource == "namespaces";
    let namespace = if is_namespace { String::new() } else { request.namespace.clone() };
    let names = [request.name.clone(), text("name"), text("generateName")];
    (namespace, names.into_iter().find(|name| !name.is_empty()).unwrap_or_default())
}

/// The `with` clause that puts the object under review at its location in `data`.
pub(super) fn at(kind: &str, namespace: &str, name: &str) -> String {
    let parts = [kind, namespace, name].into_iter().filter(|part| !part.is_empty());
    let parts: String = parts.map(|part| format!("[{}]", Value::from(part))).collect();
    format!(" with data.kubernetes{parts} as input.reviewed[3]")
}

/// The Rego policy input for `object`, written by `request` at `resource_ref`.
pub(super) fn input(request: Value, resource_ref: ResourceRef<'_>, object: Value) -> Value {
    let mut input = Value::new_object();
    if let Ok(fields) = input.as_object_mut() {
        fields.insert("request".into(), request);
        fields.insert("reviewed".into(), resource_ref.reviewed(object));
    }
    input
}

/// One query for each name (plural or alias) that Rego policies of `snapshot` use for the kind of `request`. `all` is
/// the whole AdmissionRequest.
pub(super) fn review_queries(
    snapshot: &Snapshot,
    request: &AdmissionRequest,
    all: &Value,
    object: &Value,
) -> Vec<ReviewQuery> {
    let resource = &request.resource;
    let kind = GroupResource::new(&resource.group, &resource.resource);
    let (namespace, name) = object_location(request);
    let kinds = snapshot.names_of(&kind);
    let places = kinds.iter().map(|kind| at(kind, &namespace, &name));
    let query = format!("{}.deny{}", snapshot.query(ADMISSION), places.collect::<String>());
    let review_query = |kind: String| {
        let resource_ref = ResourceRef { kind: &kind, namespace: &namespace, name: &name };
        ReviewQuery { query: query.clone(), input: input(all.clone(), resource_ref, object.clone()), kind }
    };
    kinds.into_iter().map(review_query).collect()
}

impl ReviewQuery {
    pub(super) fn resource_ref<'p>(&'p self, namespace: &'p str, name: &'p str) -> ResourceRef<'p> {
        ResourceRef { kind: &self.kind, namespace, name }
    }
}
