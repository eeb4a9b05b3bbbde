//! The kinds that a server in memory serves: a few built-in kinds, and the kinds of CustomResourceDefinitions.

use serde_json::Value;

use super::fields::ListKeys;

/// A served kind.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) group: String,
    /// The served versions. Objects are the same in all versions.
    pub(super) versions: Vec<String>,
    pub(super) resource: String,
    pub(super) kind: String,
    pub(super) namespaced: bool,
    /// Whether `status` is a subresource.
    pub(super) status: bool,
    /// Whether changes increment the object's generation.
    pub(super) generation: bool,
    /// Whether a CustomResourceDefinition defines the kind.
    pub(super) custom: bool,
    pub(super) lists: ListKeys,
}

const ADMISSION: &str = "admissionregistration.k8s.io";

/// Built-in kinds: group, version, resource, kind, whether namespaced, whether `status` is a subresource.
const CORE: [(&str, &str, &str, &str, bool, bool); 12] = [
    ("", "v1", "namespaces", "Namespace", false, true),
    ("", "v1", "configmaps", "ConfigMap", true, false),
    ("", "v1", "secrets", "Secret", true, false),
    ("", "v1", "events", "Event", true, false),
    ("events.k8s.io", "v1", "events", "Event", true, false),
    ("apps", "v1", "deployments", "Deployment", true, true),
    ("coordination.k8s.io", "v1", "leases", "Lease", true, false),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false, true),
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false, false),
    ("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", false, false),
    (ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", false, false),
    (ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false, false),
];

impl Kind {
    pub(super) fn core() -> impl Iterator<Item = Self> {
        CORE.into_iter().map(|(group, version, resource, kind, namespaced, status)| Self {
            group: group.to_owned(),
            versions: vec![version.to_owned()],
            resource: resource.to_owned(),
            kind: kind.to_owned(),
            namespaced,
            status,
            generation: matches!(resource, "customresourcedefinitions" | "deployments") || group == ADMISSION,
            custom: false,
            lists: if group == ADMISSION { ListKeys::of("webhooks", "name") } else { ListKeys::default() },
        })
    }

    /// The kind of a CustomResourceDefinition, or `None` if it has no served version.
    pub(super) fn defined_by(definition: &Value) -> Option<Self> {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let served: Vec<&Value> =
            spec["versions"].as_array()?.iter().filter(|version| version["served"] == true).collect();
        let first = served.first()?;
        Some(Self {
            group: text(&spec["group"]),
            versions: served.iter().map(|version| text(&version["name"])).collect(),
            resource: text(&spec["names"]["plural"]),
            kind: text(&spec["names"]["kind"]),
            namespaced: spec["scope"] == "Namespaced",
            status: first["subresources"].get("status").is_some(),
            generation: true,
            custom: true,
            lists: ListKeys::of_schema(&first["schema"]["openAPIV3Schema"]),
        })
    }

    /// The qualified name in messages, such as `manifestworks.work.open-cluster-management.io`.
    pub(super) fn name(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }

    /// The `apiVersion` of an object in `version`.
    pub(super) fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }
}
