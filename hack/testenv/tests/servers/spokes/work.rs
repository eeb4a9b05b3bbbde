//! Builds ManifestWorks as a producer does, and reads their statuses.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use policy_sync_api::work::ManifestWork;
use serde_json::{Value, json};

/// A work that grants the agent access to one kind. Several tests write the same work.
pub(crate) fn access(name: &str, group: &str, resource: &str) -> Work {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"open-cluster-management.io/aggregate-to-work": "true"}},
        "rules": [{"apiGroups": [group], "resources": [resource],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]}],
    });
    Work::new(name).manifest(role).config(server_side_apply(
        "rbac.authorization.k8s.io",
        "clusterroles",
        "",
        name,
    ))
}

/// A CRD without schema.
pub(crate) fn crd(group: &str, plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

/// A builder of ManifestWorks.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) name: String,
    manifests: Vec<Value>,
    configs: Vec<Value>,
    orphans: Vec<Value>,
}

impl Work {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), manifests: Vec::new(), configs: Vec::new(), orphans: Vec::new() }
    }

    pub(crate) fn manifest(mut self, manifest: Value) -> Self {
        self.manifests.push(manifest);
        self
    }

    pub(crate) fn config(mut self, config: Value) -> Self {
        self.configs.push(config);
        self
    }

    pub(crate) fn last_config(&mut self) -> &mut Value {
        self.configs.last_mut().unwrap()
    }

    pub(crate) fn orphan(mut self, group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        self.orphans.push(identifier(group, resource, namespace, name));
        self
    }

    pub(crate) fn in_cluster(&self, cluster: &str) -> Value {
        let mut work = json!({
            "apiVersion": "work.open-cluster-management.io/v1",
            "kind": "ManifestWork",
            "metadata": {"name": self.name, "namespace": cluster},
            "spec": {"workload": {"manifests": self.manifests}, "manifestConfigs": self.configs},
        });
        if !self.orphans.is_empty() {
            work["spec"]["deleteOption"] = json!({"propagationPolicy": "SelectivelyOrphan",
                "selectivelyOrphans": {"orphaningRules": self.orphans}});
        }
        work
    }
}

pub(crate) fn orphaned_namespace(name: &str) -> Value {
    policy_sync_testenv::fixtures::namespace(name)
}

fn identifier(group: &str, resource: &str, namespace: &str, name: &str) -> Value {
    json!({"group": group, "resource": resource, "namespace": namespace, "name": name})
}

pub(crate) fn create_only(group: &str, resource: &str, namespace: &str, name: &str) -> Value {
    json!({"resourceIdentifier": identifier(group, resource, namespace, name),
        "updateStrategy": {"type": "CreateOnly"}})
}

pub(crate) fn server_side_apply(group: &str, resource: &str, namespace: &str, name: &str) -> Value {
    json!({"resourceIdentifier": identifier(group, resource, namespace, name),
        "updateStrategy": {"type": "ServerSideApply",
            "serverSideApply": {"force": false, "fieldManager": "work-agent-test"}}})
}

/// Server-side apply, with these feedback paths in watch mode.
pub(crate) fn config(
    group: &str,
    resource: &str,
    namespace: &str,
    name: &str,
    paths: &[(&str, &str)],
) -> Value {
    let paths: Vec<_> = paths.iter().map(|(name, path)| json!({"name": name, "path": path})).collect();
    let mut config = server_side_apply(group, resource, namespace, name);
    config["feedbackRules"] = json!([{"type": "JSONPaths", "jsonPaths": paths}]);
    config["feedbackScrapeType"] = json!("Watch");
    config
}

/// The feedback value called `name`, or null.
pub(crate) fn reads(work: &ManifestWork, manifest: usize, name: &str) -> Value {
    let manifests = work.status.iter().flat_map(|status| &status.resource_status.manifests);
    let values = manifests.skip(manifest).take(1).flat_map(|manifest| &manifest.status_feedback.values);
    let mut found = values.filter(|value| value.name == name).map(|value| &value.field_value);
    found.next().map_or(Value::Null, |value| {
        json!(value.integer).as_i64().map(Value::from).unwrap_or_else(|| {
            match (&value.string, value.boolean) {
                (Some(text), _) => json!(text),
                (None, boolean) => json!(boolean),
            }
        })
    })
}

pub(crate) fn manifest_condition<'a>(
    work: &'a ManifestWork,
    manifest: usize,
    kind: &str,
) -> Option<&'a Condition> {
    let manifest = work.status.as_ref()?.resource_status.manifests.get(manifest)?;
    manifest.conditions.iter().find(|condition| condition.type_ == kind)
}

pub(crate) fn work_condition<'a>(work: &'a ManifestWork, kind: &str) -> Option<&'a Condition> {
    work.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == kind)
}
