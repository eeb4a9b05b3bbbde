//! RBAC rules of a work agent: on the hub, for the works of its cluster; on the spoke, the rules of a klusterlet.
//!
//! If the agent had more rights, tests would miss that a policy kind needs an additional permission. The rules follow
//! those of a [klusterlet](https://open-cluster-management.io/docs/concepts/work-distribution/manifestwork/) for the
//! kinds in this environment.

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::certificates::User;

/// Label of ClusterRoles whose rules are aggregated into the agent's rights on its spoke.
pub const AGGREGATE_LABEL: &str = "open-cluster-management.io/aggregate-to-work";
/// The aggregated ClusterRole.
const AGGREGATED_ROLE: &str = "open-cluster-management:klusterlet-work:aggregate";

/// Resources that the agent may create only with aggregated ClusterRoles: resource, group and namespace.
pub(crate) const AGGREGATED: [(&str, &str, &str); 3] =
    [("clusterroles", RBAC, ""), ("configmaps", "", "default"), ("secrets", "", "default")];

const RBAC: &str = "rbac.authorization.k8s.io";

/// The user of the agent of `cluster` on the hub.
pub fn hub_user(cluster: &str) -> User {
    User::new(format!("system:open-cluster-management:{cluster}:agent1")).in_group(hub_group(cluster))
}

/// The user of an agent on its spoke.
pub fn spoke_user() -> User {
    User::new("klusterlet-work-sa")
}

fn hub_group(cluster: &str) -> String {
    format!("system:open-cluster-management:{cluster}")
}

/// Objects on the hub: the namespace of `cluster`, and the agent's rights in it.
pub fn on_hub(cluster: &str) -> Vec<Value> {
    let work = "work.open-cluster-management.io";
    let name = format!("open-cluster-management:{cluster}:work");
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": cluster } }),
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "Role",
            "metadata": { "name": name, "namespace": cluster },
            "rules": [
                rule(work, &["manifestworks"], &["get", "list", "watch", "update", "patch"]),
                rule(work, &["manifestworks/status"], &["patch", "update"]),
                rule("", &["events"], &["create", "patch", "update"]),
                rule("events.k8s.io", &["events"], &["create", "patch", "update"]),
            ],
        }),
        binding("RoleBinding", &name, Some(cluster), ("Role", &name), &group(&hub_group(cluster))),
    ]
}

/// Objects on a spoke: the rights that a klusterlet grants its agent.
pub fn on_spoke() -> Vec<Value> {
    let agent = "open-cluster-management:klusterlet-work:agent";
    let execution = "open-cluster-management:klusterlet-work:execution";
    let admin = "open-cluster-management:klusterlet-work:execution-admin";
    let all = &["get", "list", "watch", "create", "update", "patch", "delete"];
    let work = "work.open-cluster-management.io";
    let user = user(&spoke_user().name);
    vec![
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "ClusterRole",
            "metadata": { "name": agent },
            "rules": [
                rule(work, &["appliedmanifestworks"], all),
                rule(work, &["appliedmanifestworks/status"], &["patch", "update"]),
                rule(work, &["appliedmanifestworks/finalizers"], &["update"]),
                rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
                rule("", &["serviceaccounts"], &["impersonate"]),
            ],
        }),
        binding("ClusterRoleBinding", agent, None, ("ClusterRole", agent), &user),
        binding("ClusterRoleBinding", admin, None, ("ClusterRole", "admin"), &user),
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "ClusterRole",
            "metadata": { "name": execution, "labels": { AGGREGATE_LABEL: "true" } },
            "rules": [
                rule("apiextensions.k8s.io", &["customresourcedefinitions"],
                     &["get", "list", "watch", "create", "update", "delete"]),
                rule("", &["namespaces"], &["create", "update", "patch", "delete"]),
                rule(RBAC, &["clusterrolebindings", "rolebindings"], all),
                rule(RBAC, &["clusterroles", "roles"],
                     &["get", "list", "watch", "create", "update", "patch", "delete", "escalate", "bind"]),
            ],
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "ClusterRole",
            "metadata": { "name": AGGREGATED_ROLE },
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { AGGREGATE_LABEL: "true" } }] },
        }),
        binding("ClusterRoleBinding", AGGREGATED_ROLE, None, ("ClusterRole", AGGREGATED_ROLE), &user),
        // OCM's agent exits if it cannot read the client authentication configuration.
        binding(
            "RoleBinding",
            "open-cluster-management:klusterlet-work:authentication-reader",
            Some("kube-system"),
            ("Role", "extension-apiserver-authentication-reader"),
            &user,
        ),
    ]
}

/// Binds the user `name`, who needs no group, to `cluster-admin`.
#[must_use]
pub fn everything(name: &str) -> Value {
    let binding_name = format!("everything-{}", name.replace(':', "-"));
    binding("ClusterRoleBinding", &binding_name, None, ("ClusterRole", "cluster-admin"), &user(name))
}

/// A ServiceAccount with the right to read audit results.
#[must_use]
pub fn audit_reader(namespace: &str, name: &str) -> [Value; 3] {
    let role = format!("audit-of-{namespace}-{name}");
    let subject = json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name });
    [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": namespace } }),
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "ClusterRole",
            "metadata": { "name": role },
            "rules": [{ "nonResourceURLs": ["/audit"], "verbs": ["get"] }],
        }),
        binding("ClusterRoleBinding", &role, None, ("ClusterRole", &role), &subject),
    ]
}

/// A token of a ServiceAccount for `audiences`, by default for the API server.
///
/// # Errors
///
/// Returns an error if the API server issues no token.
pub async fn token(client: &Client, namespace: &str, name: &str, audiences: &[&str]) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let audiences = audiences.iter().map(|audience| (*audience).to_owned()).collect();
    let spec = TokenRequestSpec { audiences: Some(audiences), ..Default::default() };
    let request = TokenRequest { spec: Some(spec), ..Default::default() };
    let made = accounts.create_token_request(name, &PostParams::default(), &request).await?;
    made.status.and_then(|status| status.token).context("no token")
}

/// Reviews whether `client` has a permission; the namespace `""` means all namespaces.
///
/// # Errors
///
/// Returns an error if the review fails.
pub async fn may(client: &Client, verb: &str, resource: &str, group: &str, namespace: &str) -> Result<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.into()),
                resource: Some(resource.into()),
                group: Some(group.into()),
                namespace: Some(namespace.into()),
                ..Default::default()
            }),
            ..Default::default()
        },
        ..Default::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer =
        reviews.create(&PostParams::default(), &review).await.context("creating an access review")?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

fn user(name: &str) -> Value {
    json!({ "apiGroup": RBAC, "kind": "User", "name": name })
}

fn group(name: &str) -> Value {
    json!({ "apiGroup": RBAC, "kind": "Group", "name": name })
}

fn binding(kind: &str, name: &str, namespace: Option<&str>, role: (&str, &str), subject: &Value) -> Value {
    let mut metadata = json!({ "name": name });
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": kind,
        "metadata": metadata,
        "roleRef": { "apiGroup": RBAC, "kind": role.0, "name": role.1 },
        "subjects": [subject],
    })
}
