//! Requests without effects: gets, lists, discovery, access reviews.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds::Kind;
use super::request::Request;
use super::selector::Selector;
use super::status_error::StatusError;
use super::store::{KindKey, ObjectKey, Store};

/// Separator in continue tokens: `<version>/<namespace>/<name>` of the last object of the page.
const SEPARATOR: char = '/';

pub(super) fn get(store: &Store, kind: &Kind, request: &Request) -> Result<Value, StatusError> {
    let key = (request.info.namespace.clone(), request.info.name.clone());
    let found = store.get(&(kind.group.clone(), kind.resource.clone()), &key);
    let found = found.ok_or_else(|| StatusError::not_found(kind, &request.info.name))?;
    Ok(shown(kind, request, &found.object))
}

pub(super) fn list(store: &Store, kind: &Kind, request: &Request) -> Result<Value, StatusError> {
    let selector = Selector::parse(request.parameter("labelSelector"), request.parameter("fieldSelector"))?;
    let (version, after) = match request.parameter("continue") {
        "" => (store.version, None),
        token => {
            let (version, key) = position(token).ok_or_else(|| {
                StatusError::bad_request("continue key is not valid: it is of another server")
            })?;
            if version < store.compacted {
                return Err(StatusError::expired(
                    "The provided continue parameter is too old to display a consistent list result.".into(),
                ));
            }
            (version, Some(key))
        }
    };
    let limit = request.parameter("limit").parse().ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let namespace = &request.info.namespace;
    let key: KindKey = (kind.group.clone(), kind.resource.clone());
    let objects = store.at(&key, version);
    let mut selected = objects.iter().filter(|(key, object)| {
        (namespace.is_empty() || key.0 == *namespace)
            && after.as_ref().is_none_or(|after| *key > after)
            && selector.selects(object)
    });
    let page: Vec<(&ObjectKey, &Arc<Value>)> = selected.by_ref().take(limit).collect();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    let rest = selected.count();
    if let Some((last, _)) = page.last().filter(|_| rest > 0) {
        metadata["continue"] = json!(format!("{version}{SEPARATOR}{}{SEPARATOR}{}", last.0, last.1));
        metadata["remainingItemCount"] = json!(rest);
    }
    let items: Vec<Value> = page.iter().map(|(_, object)| shown(kind, request, object)).collect();
    let (api_version, name) = if request.metadata_only {
        ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList".to_owned())
    } else {
        (kind.api_version(&request.info.version), format!("{}List", kind.kind))
    };
    // An empty list of metadata is null, unlike an empty list of objects.
    let items = if request.metadata_only && items.is_empty() { Value::Null } else { json!(items) };
    Ok(json!({"apiVersion": api_version, "kind": name, "metadata": metadata, "items": items}))
}

fn position(token: &str) -> Option<(u64, ObjectKey)> {
    let (version, key) = token.split_once(SEPARATOR)?;
    let (namespace, name) = key.split_once(SEPARATOR)?;
    Some((version.parse().ok()?, (namespace.to_owned(), name.to_owned())))
}

/// An object as `request` expects it: converted to its version, and possibly reduced to its metadata.
pub(super) fn shown(kind: &Kind, request: &Request, object: &Value) -> Value {
    if request.metadata_only && object["kind"] != "Status" {
        return json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"],
        });
    }
    let mut object = object.clone();
    if object["kind"] != "Status" {
        object["apiVersion"] = json!(kind.api_version(&request.info.version));
    }
    object
}

/// Reviews access: allowed unless [`MemoryServer::deny`](super::MemoryServer::deny) was called for the verb and kind.
pub(super) fn review(store: &Store, body: &[u8]) -> Result<Value, StatusError> {
    let mut review: Value =
        serde_json::from_slice(body).map_err(|error| StatusError::bad_request(&error.to_string()))?;
    let attributes = &review["spec"]["resourceAttributes"];
    let text = |field: &str| attributes[field].as_str().unwrap_or_default().to_owned();
    let allowed = !store.denied.contains(&(text("verb"), text("group"), text("resource")));
    review["status"] = json!({"allowed": allowed});
    Ok(review)
}

/// A SelfSubjectReview for `user`.
pub(super) fn self_subject_review(user: &str) -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {},
        "status": {"userInfo": {"username": user}}})
}

/// Discovery of the groups, or of the kinds in a group.
pub(super) fn discovery(store: &Store, path: &str, aggregated: bool) -> Result<Value, StatusError> {
    if aggregated && matches!(path, "api" | "apis") {
        return Ok(all(store, path == "api"));
    }
    let groups = |kind: &&Arc<Kind>| !kind.group.is_empty();
    let mut steps = path.split('/');
    match (steps.next(), steps.next(), steps.next()) {
        (Some("version"), None, _) => Ok(json!({
            "major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "clean",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
        })),
        (Some("api"), None, _) => {
            Ok(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}))
        }
        (Some("apis"), None, _) => {
            let mut found: Vec<Value> = Vec::new();
            for kind in store.kinds.values().filter(groups) {
                if found.last().is_none_or(|last| last["name"] != kind.group) {
                    let versions: Vec<Value> = kind
                        .versions
                        .iter()
                        .map(|version| json!({"groupVersion": kind.api_version(version), "version": version}))
                        .collect();
                    found.push(json!({
                        "name": kind.group, "preferredVersion": versions.first(), "versions": versions,
                    }));
                }
            }
            Ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": found}))
        }
        (Some("api"), Some(version), None) => resources(store, "", version),
        (Some("apis"), Some(group), Some(version)) => resources(store, group, version),
        _ => Err(StatusError::unknown_path()),
    }
}

/// Aggregated discovery: all groups with their kinds, either of the core group or of all other groups.
fn all(store: &Store, core: bool) -> Value {
    let mut groups: BTreeMap<&str, BTreeMap<&str, Vec<Value>>> = BTreeMap::new();
    for kind in store.kinds.values().filter(|kind| kind.group.is_empty() == core) {
        let scope = if kind.namespaced { "Namespaced" } else { "Cluster" };
        let response = json!({"group": kind.group, "version": "", "kind": kind.kind});
        let served = json!({"resource": kind.resource, "responseKind": response, "scope": scope, "verbs": ["get", "list", "watch"]});
        for version in &kind.versions {
            groups.entry(&kind.group).or_default().entry(version).or_default().push(served.clone());
        }
    }
    let group = |(name, versions): (&str, BTreeMap<&str, Vec<Value>>)| {
        let version = |(version, resources)| json!({"version": version, "resources": resources});
        let versions: Vec<Value> = versions.into_iter().map(version).collect();
        json!({"metadata": {"name": name}, "versions": versions})
    };
    let items: Vec<Value> = groups.into_iter().map(group).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn resources(store: &Store, group: &str, version: &str) -> Result<Value, StatusError> {
    let verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
    let served =
        |kind: &&Arc<Kind>| kind.group == group && kind.versions.iter().any(|found| found == version);
    let mut found = Vec::new();
    let mut group_version = None;
    for kind in store.kinds.values().filter(served) {
        group_version = Some(kind.api_version(version));
        let entry = |name: String, verbs: &[&str]| {
            json!({
                "name": name, "singularName": kind.kind.to_lowercase(), "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": verbs,
            })
        };
        found.push(entry(kind.resource.clone(), &verbs));
        if kind.status {
            found.push(entry(format!("{}/status", kind.resource), &["get", "patch", "update"]));
        }
    }
    let group_version = group_version.ok_or_else(StatusError::unknown_path)?;
    Ok(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": found,
    }))
}
