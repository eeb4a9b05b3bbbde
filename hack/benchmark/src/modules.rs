//! Rego modules of the benchmark: the published placement policy, and deny policies.

use anyhow::{Result, anyhow};
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::module::{ModuleId, Text};

/// Default number of deny policies.
pub(super) const DENYING: usize = 20;

const PLACEMENT: (&str, &str) = ("pci.rego", include_str!("../../../docs/examples/rego/placement/pci.rego"));

const EXEC: (&str, &str) = ("exec.rego", include_str!("../../../docs/examples/rego/gates/exec.rego"));

/// The first two published examples for OPA's former kubernetes-policy-controller. The import of `data.k8s.matches` and
/// the namespace are added, because the published texts lack them.
const PUBLISHED: [(&str, &str); 2] = [
    (
        "image-pull-policy.rego",
        r#"package admission

import data.k8s.matches

deny[{
	"id": "image-pull-policy",
	"resource": {"kind": "pods", "namespace": namespace, "name": name},
	"resolution": {"message": "image pull policy must be Always"},
}] {
	matches[["pods", namespace, name, pod]]
	container := pod.spec.containers[_]
	container.imagePullPolicy != "Always"
}
"#,
    ),
    (
        "ingress-conflict.rego",
        r#"package admission

import data.k8s.matches

deny[{
	"id": "ingress-conflict",
	"resource": {"kind": "ingresses", "namespace": namespace, "name": name},
	"resolution": {"message": "another Ingress has the host"},
}] {
	matches[["ingresses", namespace, name, ingress]]
	matches[["ingresses", other_namespace, other_name, other]]
	namespace != other_namespace
	other.spec.rules[_].host == ingress.spec.rules[_].host
}
"#,
    ),
];

/// Deny policies with their keys in a ConfigMap. The published Rego policies come first, then Rego policies about pod
/// labels. Every third Rego policy about labels denies the pods of the benchmark.
pub(super) fn denying(count: usize) -> Vec<(String, String)> {
    let published = PUBLISHED.map(|(key, text)| (key.to_owned(), text.to_owned()));
    let of_labels = (0..count.saturating_sub(PUBLISHED.len())).map(|number| {
        let (id, wrong) = match number % 3 {
            0 => (format!("owner-{number:02}"), format!("not pod.metadata.labels[\"owner-{number:02}\"]")),
            _ => {
                let wrong = format!("startswith(pod.metadata.labels.tier, \"retired-{number:02}\")");
                (format!("tier-{number:02}"), wrong)
            }
        };
        let text = format!(
            r#"package admission

import data.k8s.matches

deny[{{
	"id": "{id}",
	"resource": {{"kind": "pods", "namespace": namespace, "name": name}},
	"resolution": {{"message": message}},
}}] {{
	matches[["pods", namespace, name, pod]]
	{wrong}
	message := sprintf("%s lacks a required label", [name])
}}
"#
        );
        (format!("{id}.rego"), text)
    });
    published.into_iter().take(count).chain(of_labels).collect()
}

/// The keys of the labels that the first `count` Rego policies of [`denying`] require on each pod.
pub(super) fn owners(count: usize) -> impl Iterator<Item = String> {
    (0..count.saturating_sub(PUBLISHED.len())).step_by(3).map(|number| format!("owner-{number:02}"))
}

/// `count` authorization policies, each with its key in a ConfigMap. The first is the documented example `exec.rego`.
/// All other policies deny reads of Secrets in namespaces that do not exist.
pub(super) fn authorizing(count: usize) -> Vec<(String, String)> {
    let (key, text) = EXEC;
    let of_secrets = (1..count).map(|number| {
        let text = format!(
            r#"package authorization

import data.k8s.matches

deny[{{
	"id": "closed-{number:02}",
	"resource": {{"kind": "secrets", "namespace": namespace, "name": name}},
	"resolution": {{"message": "its Secrets are closed"}},
}}] {{
	matches[["secrets", namespace, name, review]]
	namespace == "closed-{number:02}"
	review.spec.resourceAttributes.verb == "get"
}}
"#
        );
        (format!("closed-{number:02}.rego"), text)
    });
    [(key.to_owned(), text.to_owned())].into_iter().chain(of_secrets).collect()
}

/// The placement policy, and `count` deny policies.
pub(super) fn with_placement(count: usize) -> Vec<(String, String)> {
    let (key, text) = PLACEMENT;
    [(key.to_owned(), text.to_owned())].into_iter().chain(denying(count)).collect()
}

/// Parses the modules.
pub(super) fn bundle(modules: &[(String, String)]) -> Result<Bundle> {
    let text = |(key, text): &(String, String)| Text {
        id: ModuleId::new(&format!("policies/policies/{key}")),
        text: text.as_str().into(),
    };
    let texts: Vec<Text> = modules.iter().map(text).collect();
    Bundle::read(&texts)
        .map_err(|faults| anyhow!("{}", faults.first().map(ToString::to_string).unwrap_or_default()))
}
