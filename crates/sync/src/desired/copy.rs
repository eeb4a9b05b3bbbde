//! Builds the copy of an object for spokes: its metadata, and the namespaces in its references.

use serde_json::{Map, Value, json};

use crate::rows::Strings;
use crate::{Problem, Settings};
use policy_sync_api::annotations;
use policy_sync_api::json::{BorrowedJson, DEPTH_LIMIT, Hash, depth, type_of};
use policy_sync_api::syntax::LABEL_LIMIT;

/// Labels and annotations that are not copied: those of this controller, those by which other tools manage an object,
/// and those in which Kubernetes controllers record state of the hub.
pub(super) const NOT_COPIED: [&str; 16] = [
    "kuadrant.io/*",
    "clusters.kuadrant.io/*",
    "cluster.open-cluster-management.io/*",
    "argocd.argoproj.io/*",
    "*.toolkit.fluxcd.io/*",
    "meta.helm.sh/*",
    "kubectl.kubernetes.io/*",
    "federation.kubernetes.io/*",
    "federation.alpha.kubernetes.io/*",
    "control-plane.alpha.kubernetes.io/*",
    "deployment.kubernetes.io/*",
    "pv.kubernetes.io/*",
    "volume.beta.kubernetes.io/*",
    "volume.kubernetes.io/*",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/instance",
];

impl Settings {
    /// The namespace on the spokes for the hub namespace `namespace`.
    ///
    /// # Errors
    ///
    /// [`Problem::DownstreamNamespace`] if the name is reserved or too long.
    pub fn downstream_namespace(&self, namespace: &str) -> Result<String, Problem> {
        let downstream = self.prefixed(namespace);
        let fault = if downstream.len() > LABEL_LIMIT {
            "is longer than 63 characters"
        } else if self.reserved_namespaces.iter().any(|pattern| matches(pattern, &downstream)) {
            "is reserved"
        } else {
            return Ok(downstream);
        };
        Err(Problem::DownstreamNamespace { namespace: namespace.to_owned(), downstream, fault })
    }

    /// Adds the prefix without checking the result. Use it only for references, which create nothing in the namespace.
    pub(crate) fn prefixed(&self, namespace: &str) -> String {
        format!("{}{namespace}", self.downstream_namespace_prefix)
    }
}

/// Whether `text` matches `pattern`, in which `*` matches any text.
///
/// A part between two stars is searched only once: its first occurrence leaves the most text for the remaining parts.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut text) = text.strip_prefix(head).and_then(|text| text.strip_suffix(tail)) else {
        return false;
    };
    middle.split('*').all(|part| match text.find(part) {
        Some(at) => {
            text = &text[at + part.len()..];
            true
        }
        None => false,
    })
}

/// The entries of `strings` that are copied. `strings` are the labels or annotations of an object.
pub(super) fn copied_entries(strings: &Strings, skip: &[String]) -> Strings {
    let stays = |key: &str| {
        NOT_COPIED.iter().any(|pattern| matches(pattern, key))
            || skip.iter().any(|pattern| matches(pattern, key))
    };
    strings.iter().filter(|(key, _)| !stays(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The size in bytes of the labels or annotations that are copied if the parameters exclude none.
pub(super) fn copied_bytes(strings: &Strings) -> usize {
    let stays = |key: &str| NOT_COPIED.iter().any(|pattern| matches(pattern, key));
    strings.iter().filter(|(key, _)| !stays(key)).map(|(key, value)| key.len() + value.len()).sum()
}

/// The spec of a hub object; null if it has none.
///
/// # Errors
///
/// [`Problem::BadSpec`] if it cannot be copied.
pub(super) fn read_spec(spec: &str) -> Result<Value, Problem> {
    let spec: Value = serde_json::from_str(spec).map_err(|error| Problem::BadSpec(error.to_string()))?;
    if !matches!(spec, Value::Object(_) | Value::Null) {
        return Err(Problem::BadSpec(format!("expected an object, found {}", type_of(&spec))));
    }
    if depth(&spec) > DEPTH_LIMIT {
        return Err(Problem::BadSpec(format!("more than {DEPTH_LIMIT} nested lists and objects")));
    }
    Ok(spec)
}

/// A copy: the whole object, and its revision. The revision in a report shows which copy the report is about.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    pub(super) object: Value,
    pub(super) revision: String,
}

/// Builds a copy from its metadata and the fields `content`, and writes the revision into the copy.
pub(super) fn copy(
    (api_version, kind): (&str, &str),
    (namespace, name): (&str, &str),
    labels: &Strings,
    annotations: Strings,
    content: Map<String, Value>,
) -> Copy {
    let mut metadata = Map::from_iter([("name".into(), json!(name)), ("namespace".into(), json!(namespace))]);
    if !labels.is_empty() {
        metadata.insert("labels".into(), json!(labels));
    }
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    if let Some(fields) = object.as_object_mut() {
        fields.extend(content);
    }
    let mut annotations = json!(annotations);
    let hashed = BorrowedJson::List(vec![BorrowedJson::Value(&object), BorrowedJson::Value(&annotations)]);
    let revision = Hash::of_borrowed(&hashed).to_string();
    annotations[annotations::REVISION] = revision.as_str().into();
    object["metadata"]["annotations"] = annotations;
    Copy { object, revision }
}

/// Fields whose keys users choose freely, such as labels. The keys `name` and `namespace` in these fields are not a
/// reference.
pub(super) const USER_KEYED_MAPS: [&str; 5] = ["annotations", "binaryData", "data", "labels", "matchLabels"];

/// Rewrites the namespaces in references: every JSON object with a `name` and a `namespace` counts as a reference.
pub(super) fn rewrite_namespaces(value: &mut Value, prefix: &str) {
    match value {
        Value::Object(fields) => {
            if fields.get("name").is_some_and(Value::is_string)
                && let Some(Value::String(namespace)) = fields.get_mut("namespace")
            {
                *namespace = format!("{prefix}{namespace}");
            }
            let others = fields.iter_mut().filter(|(key, _)| !USER_KEYED_MAPS.contains(&key.as_str()));
            others.for_each(|(_, value)| rewrite_namespaces(value, prefix));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| rewrite_namespaces(value, prefix)),
        _ => {}
    }
}
