//! The rules that apply only to resources: the Placement that selects their clusters, and the fields that are not
//! copied.

use serde_json::{Map, Value};

use super::copy::read_spec;
use super::placement::{NoPlacement, Placed, decided};
use crate::rows::policy::Policy;
use crate::{Problem, View};
use policy_sync_api::names::{GroupResource, ObjectKey, Origin};
use policy_sync_api::params::ResourceToSync;

/// The ConfigMaps in which each cluster publishes its own certificate authorities in every namespace.
const CA_CONFIG_MAPS: [&str; 3] = ["kube-root-ca.crt", "istio-ca-root-cert", "openshift-service-ca.crt"];

/// The reason why a resource does not request placement, so that it is not copied to any cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlacementNotRequested {
    /// This owner creates and deletes the resource, on the hub and on each spoke. A Placement label of the resource has
    /// no effect.
    ControlledBy(String),
    /// The resource has no Placement label, and the parameters name no Placement.
    NoPlacement,
    /// The resource has no Placement label, and the parameters name a Placement that does not exist in its namespace.
    NoDefault(ObjectKey),
}

/// The Placement that selects the clusters of `resource`. `origin` identifies the resource, and `entry` is the entry
/// for its kind in the parameters.
///
/// # Errors
///
/// The outer error if the resource does not request placement. The inner error if its label is empty or names a
/// Placement that does not exist.
pub(crate) fn placement(
    view: View<'_>,
    origin: &Origin,
    resource: &Policy,
    entry: Option<&ResourceToSync>,
) -> Result<Result<ObjectKey, NoPlacement>, PlacementNotRequested> {
    if let Some(owner) = controlled_by(origin, resource) {
        return Err(PlacementNotRequested::ControlledBy(owner));
    }
    let namespace = &origin.object().namespace;
    let exists = |key: &ObjectKey| view.placement(key).is_some() || !view.decided(key).is_empty();
    match (resource.placement(), entry.and_then(|entry| entry.placement.as_deref())) {
        (Some(""), _) => Ok(Err(NoPlacement::Unnamed)),
        (Some(name), _) => {
            let key = ObjectKey::new(namespace, name);
            // The decisions of a deleted Placement remain for a moment.
            Ok(if exists(&key) { Ok(key) } else { Err(NoPlacement::Missing(key)) })
        }
        (None, Some(name)) => {
            let key = ObjectKey::new(namespace, name);
            if exists(&key) { Ok(Ok(key)) } else { Err(PlacementNotRequested::NoDefault(key)) }
        }
        (None, None) => Err(PlacementNotRequested::NoPlacement),
    }
}

/// Whether the default Placement from the parameters applies to `resource`: it has no controlling owner and no
/// Placement label.
pub(super) fn is_placed_by_default(origin: &Origin, resource: &Policy) -> bool {
    resource.placement().is_none() && controlled_by(origin, resource).is_none()
}

/// The owner that creates `resource` on each cluster, so that the resource need not be copied. `origin` identifies the
/// resource.
fn controlled_by(origin: &Origin, resource: &Policy) -> Option<String> {
    // Each cluster has its own certificate authority and publishes it in each namespace.
    let of_cluster = *origin.kind() == GroupResource::new("", "configmaps")
        && CA_CONFIG_MAPS.contains(&&*origin.object().name);
    of_cluster
        .then(|| "each cluster".to_owned())
        .or_else(|| resource.controlled_by.as_deref().map(str::to_owned))
}

/// The placement of `resource`, and whether the resource requests placement.
pub(super) fn placed(
    view: View<'_>,
    origin: &Origin,
    resource: &Policy,
    entry: Option<&ResourceToSync>,
) -> (Placed, bool) {
    match placement(view, origin, resource, entry) {
        Ok(Ok(key)) => (decided(view, &key), true),
        // The Placement may be created again, or may not be listed yet. Until it settles, works are kept.
        Ok(Err(NoPlacement::Missing(key))) => (decided(view, &key), true),
        Err(PlacementNotRequested::NoDefault(key)) => {
            (decided(view, &key), view.works_of(origin).next().is_some())
        }
        Ok(Err(_)) => (Placed::default(), true),
        Err(_) => (Placed::default(), false),
    }
}

/// The fields of a resource of `kind` that are copied: its `spec`, if any, and all `others` except the status. Fields
/// that each cluster assigns itself are removed.
///
/// # Errors
///
/// [`Problem::BadSpec`] if they cannot be copied.
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

/// Removes addresses and node ports that the hub assigned. A headless Service keeps `None` as its address.
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

/// Removes the Pod selector of a Job, because the selector contains the uid of the Job. A selector is kept if users set
/// it themselves (`manualSelector`).
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

/// Removes fields from an object.
fn take(value: &mut Value, fields: &[&str]) {
    if let Some(value) = value.as_object_mut() {
        value.retain(|field, _| !fields.contains(&field.as_str()));
    }
}
