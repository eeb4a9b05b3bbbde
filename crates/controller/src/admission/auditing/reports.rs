//! Builds OpenReports resources from the violations of an audit: one for each namespace, and one for the cluster. See
//! <https://github.com/openreports/reports-api>.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::audit::{Findings, Violation};
use policy_sync_api::annotations::{CONTROLLER, MANAGED_BY, MANAGED_BY_US, REPORTED};
use policy_sync_api::json::Hash;
use policy_sync_api::names::{ControllerName, GroupResource, GroupVersionResource};

/// The API group of reports.
const GROUP: &str = "openreports.io";
/// The API version of written reports.
const VERSION: &str = "v1alpha1";
/// The `source` field of reports.
const SOURCE: &str = "policy-sync";
/// How many violations one report lists.
const MAX_RESULTS: usize = 100;

/// The resource for reports on a namespace, or on the cluster.
pub(super) fn kind(of_cluster: bool) -> GroupResource {
    GroupResource::new(GROUP, if of_cluster { "clusterreports" } else { "reports" })
}

/// Like [`kind`], with the version used for writes.
pub(super) fn resource(of_cluster: bool) -> GroupVersionResource {
    GroupVersionResource { kind: kind(of_cluster), version: VERSION.into() }
}

/// Violations by namespace; the empty key is the cluster.
#[derive(Debug, Default)]
pub(super) struct ByNamespace(BTreeMap<Arc<str>, Findings>);

impl ByNamespace {
    /// Adds a violation, unless it is `dryrun`.
    pub(super) fn add(&mut self, mut violation: Violation) {
        if result(&violation.enforcement).is_none() {
            return;
        }
        // Reports have no field for patches.
        violation.resolution.patches = Vec::new();
        let namespace: Arc<str> = violation.resource.namespace.as_str().into();
        self.0.entry(namespace).or_insert_with(|| Findings::with_limit(MAX_RESULTS)).add(violation);
    }

    /// Builds one report for each namespace, all called `name`, written by `controller`.
    pub(super) fn reports(self, name: &str, controller: &ControllerName) -> BTreeMap<Arc<str>, Report> {
        let of = |(namespace, findings): (Arc<str>, Findings)| {
            let report = Report::new(name, &namespace, &findings.sorted(), controller);
            (namespace, report)
        };
        self.0.into_iter().map(of).collect()
    }
}

/// A desired report.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// The hash of the report's content.
    pub hash: String,
    /// The Report or ClusterReport resource.
    pub object: Value,
}

impl Report {
    fn new(name: &str, namespace: &str, findings: &Findings, controller: &ControllerName) -> Self {
        let count = |word: &str| findings.counts().get(word).copied().unwrap_or_default();
        let content = json!({
            "source": SOURCE,
            "configuration": {"limits": {"maxResults": MAX_RESULTS, "statusFilter": ["fail", "warn", "error"]}},
            "summary": {"pass": 0, "fail": count("deny"), "warn": count("warn"), "error": count("error"), "skip": 0},
            "results": findings.kept().iter().map(report_entry).collect::<Vec<_>>(),
        });
        let hash = Hash::of_value(&content).to_string();
        let mut object = content;
        object["apiVersion"] = format!("{GROUP}/{VERSION}").into();
        object["kind"] = if namespace.is_empty() { "ClusterReport" } else { "Report" }.into();
        object["metadata"] = json!({
            "name": name,
            "labels": {MANAGED_BY: MANAGED_BY_US, CONTROLLER: controller.hash()},
            "annotations": {REPORTED: hash},
        });
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        Self { hash, object }
    }
}

/// The `result` value for an enforcement; `None` if reports omit it.
fn result(enforcement: &str) -> Option<&'static str> {
    match enforcement {
        "deny" => Some("fail"),
        "warn" => Some("warn"),
        "error" => Some("error"),
        _ => None,
    }
}

fn report_entry(violation: &Violation) -> Value {
    let Violation { resource, id, resolution, policy, enforcement, type_meta } = violation;
    let policy = policy.as_deref().unwrap_or(SOURCE);
    let mut report_entry = json!({
        "policy": policy, "rule": id, "result": result(enforcement), "message": resolution.message,
        // `scored` marks results that need action; warnings do not.
        "scored": enforcement != "warn",
    });
    if !resource.name.is_empty() {
        let mut subject =
            json!({"apiVersion": type_meta.api_version, "kind": type_meta.kind, "name": resource.name});
        if !resource.namespace.is_empty() {
            subject["namespace"] = resource.namespace.as_str().into();
        }
        report_entry["resources"] = json!([subject]);
    }
    report_entry
}

#[cfg(test)]
mod tests;
