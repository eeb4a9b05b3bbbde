//! What is a resource's own: the Placement that chooses its clusters, and what of it means anything beyond the hub.

use serde_json::{Map, Value};

use super::copy::read_spec;
use super::placement::{NoPlacement, Placed, decided};
use crate::rows::policy::Policy;
use crate::{Problem, View};
use policy_sync_api::names::{GroupResource, ObjectKey, Origin};
use policy_sync_api::params::ResourceToSync;

/// The ConfigMaps in which clusters, and what is installed in them, say in each namespace whom to trust.
const TRUST: [&str; 3] = ["kube-root-ca.crt", "istio-ca-root-cert", "openshift-service-ca.crt"];

/// Why a resource is not to be taken anywhere, where it says nothing of that itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unasked {
    /// What this names makes and deletes it, and does so on the spokes as well.
    ControlledBy(String),
    /// Neither a label of its own nor the parameters name a Placement.
    NoPlacement,
    /// The parameters name one that does not exist in its namespace.
    NoDefault(ObjectKey),
}

/// The Placement that chooses the clusters of `resource`, which is `origin`, where `entry` of the parameters lists its kind.
///
/// # Errors
///
/// Why none does, though it asks for one, or why it is not to be taken anywhere.
pub(crate) fn placement(
    view: View<'_>,
    origin: &Origin,
    resource: &Policy,
    entry: Option<&ResourceToSync>,
) -> Result<Result<ObjectKey, NoPlacement>, Unasked> {
    if let Some(owner) = controlled_by(origin, resource) {
        return Err(Unasked::ControlledBy(owner));
    }
    let namespace = &origin.object().namespace;
    let exists = |key: &ObjectKey| view.placement(key).is_some() || !view.decided(key).is_empty();
    match (resource.placement(), entry.and_then(|entry| entry.placement.as_deref())) {
        (Some(""), _) => Ok(Err(NoPlacement::Unnamed)),
        (Some(name), _) => {
            let key = ObjectKey::new(namespace, name);
            // Its decisions are there for a moment longer.
            Ok(if exists(&key) { Ok(key) } else { Err(NoPlacement::Missing(key)) })
        }
        (None, Some(name)) => {
            let key = ObjectKey::new(namespace, name);
            if exists(&key) { Ok(Ok(key)) } else { Err(Unasked::NoDefault(key)) }
        }
        (None, None) => Err(Unasked::NoPlacement),
    }
}

/// Whether what the parameters name places `resource`, which is `origin`: it is no other's, and names no Placement itself.
pub(super) fn is_placed_by_default(origin: &Origin, resource: &Policy) -> bool {
    resource.placement().is_none() && controlled_by(origin, resource).is_none()
}

/// What makes `resource`, which is `origin`, on each cluster anew.
fn controlled_by(origin: &Origin, resource: &Policy) -> Option<String> {
    // Each cluster has its own authority, and puts it into each namespace.
    let of_cluster =
        *origin.kind() == GroupResource::new("", "configmaps") && TRUST.contains(&&*origin.object().name);
    of_cluster
        .then(|| "each cluster".to_owned())
        .or_else(|| resource.controlled_by.as_deref().map(str::to_owned))
}

/// Where `resource` is placed, and whether it asks to be.
pub(super) fn placed(
    view: View<'_>,
    origin: &Origin,
    resource: &Policy,
    entry: Option<&ResourceToSync>,
) -> (Placed, bool) {
    match placement(view, origin, resource, entry) {
        Ok(Ok(key)) => (decided(view, &key), true),
        // It may come back, or only be listed late.
        Ok(Err(NoPlacement::Missing(key))) => (decided(view, &key), true),
        Err(Unasked::NoDefault(key)) => (decided(view, &key), view.works_of(origin).next().is_some()),
        Ok(Err(_)) => (Placed::default(), true),
        Err(_) => (Placed::default(), false),
    }
}

/// The fields of a resource of `kind` that are copied: its `spec`, where it has one, and all `others` but its status; without what
/// the hub has given it and a spoke has to give it anew.
///
/// # Errors
///
/// [`Problem::BadSpec`] where they cannot be copied.
pub(super) fn content(
    kind: &GroupResource,
    spec: Value,
    others: Option<&str>,
) -> Result<Map<String, Value>, Problem> {
    let mut fields: Map<String, Value> = match others.map(read_spec).transpose()? {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    if !spec.is_null() {
        fields.insert("spec".to_owned(), spec);
    }
    if let Some(spec) = fields.get_mut("spec") {
        match (&*kind.group, &*kind.resource) {
            ("", "services") => service(spec),
            ("", "persistentvolumeclaims") => take(spec, &["volumeName"]),
            ("batch", "jobs") => job(spec),
            _ => {}
        }
    }
    Ok(fields)
}

/// Addresses and ports of nodes are the hub's own. A headless Service has no address anywhere.
fn service(spec: &mut Value) {
    if spec["clusterIP"] != "None" {
        take(spec, &["clusterIP", "clusterIPs"]);
    }
    if spec["ipFamilyPolicy"] == "SingleStack" {
        take(spec, &["ipFamilies", "ipFamilyPolicy"]);
    }
    take(spec, &["healthCheckNodePort"]);
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        take(port, &["nodePort"]);
    }
}

/// What tells the Pods of a Job is made of its uid, unless its owner says otherwise.
fn job(spec: &mut Value) {
    if spec["manualSelector"] == true {
        return;
    }
    take(spec, &["selector"]);
    if let Some(labels) = spec.pointer_mut("/template/metadata/labels") {
        take(labels, &["controller-uid", "job-name"]);
        take(labels, &["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"]);
    }
}

/// Takes fields out of an object.
fn take(value: &mut Value, fields: &[&str]) {
    if let Some(value) = value.as_object_mut() {
        value.retain(|field, _| !fields.contains(&field.as_str()));
    }
}
