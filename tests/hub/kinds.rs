//! Policy kinds that are installed, removed or forbidden while the controller runs.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::{Api, Client};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::apply::apply_all;
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::fixtures::{
    auth_policy, gateway, gateway_class, params_config_map, rate_limit_policy,
};
use policy_sync_testenv::tenant::{Tenant, all_kinds, auth_policies, rate_limit_policies};
use policy_sync_testenv::{Controller, wait};
use serde_json::{Value, json};

use crate::freezing::{until_class, until_class_condition};
use crate::secrets::rights::until_accepted;
use crate::{ON_EU, limit_of, tenant};

/// The definition of `QuotaPolicy` in `group`. The first of `versions` is stored, and all except `hidden` are
/// served.
fn definition(group: &str, versions: &[&str], hidden: &[&str]) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "targetRef": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
    }}});
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(index, name)| json!({"name": name, "served": !hidden.contains(name), "storage": index == 0, "schema": schema}))
        .collect();
    definition_of(group, "QuotaPolicy", "quotapolicies", &json!(versions))
}

/// The CustomResourceDefinition of a namespaced kind.
pub(crate) fn definition_of(group: &str, kind: &str, plural: &str, versions: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": versions,
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
        },
    })
}

fn quota_policy(group: &str, version: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/{version}"),
        "kind": "QuotaPolicy",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"targetRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"}},
    })
}

fn quota_policies(group: &str, version: &str) -> Value {
    json!({"policiesToSync": [{"group": group, "version": version, "resource": "quotapolicies"}]})
}

/// Waits until the class has `reason` in `PoliciesResolved`, with `part` in the message.
pub(crate) async fn until_resolved(tenant: &Tenant<'_>, class: &str, reason: &str, part: &str) -> Result<()> {
    let class = gateway_class(class, &tenant.controller_name(), None);
    wait::until(&format!("PoliciesResolved is {reason}"), Duration::from_secs(60), || async {
        let class = tenant.get(&class).await?;
        let conditions = class.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let says = |found: &Value| {
            let message = found["message"].as_str().unwrap_or_default();
            found["type"] == "PoliciesResolved" && found["reason"] == reason && message.contains(part)
        };
        ensure!(conditions.iter().any(says), "found {conditions:?}");
        Ok(())
    })
    .await
}

/// Applies `object`, and retries until its kind is served.
pub(crate) async fn apply_once_served(tenant: &Tenant<'_>, object: &Value) -> Result<()> {
    wait::until("the kind is served", Duration::from_secs(30), || async {
        tenant.apply(object).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn kind_is_synced_once_installed_and_withdrawn_once_removed() -> Result<()> {
    let group = "arrives.example.com";
    let tenant = tenant("arrives", &["eu-1"]).await?;
    tenant.parameters(&quota_policies(group, "v1")).await?;
    let _controller = tenant.controller().await?;
    let message = format!("{group}/v1 quotapolicies: the hub has no such custom resource");
    until_resolved(&tenant, "arrives", "UnknownResource", &message).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web"]).await?;

    tenant.apply(&definition(group, &["v1"], &[])).await?;
    apply_once_served(&tenant, &quota_policy(group, "v1", tenant.name())).await?;
    until_resolved(&tenant, "arrives", "Resolved", "1 kinds are synced").await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web", "eu-1/quotapolicy-quota"]).await?;

    // A kind whose listed version is no longer served is frozen, because its objects still exist.
    tenant.apply(&definition(group, &["v1", "v2"], &["v1"])).await?;
    until_resolved(&tenant, "arrives", "UnknownResource", "the hub serves v2").await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web", "eu-1/quotapolicy-quota"]).await?;

    tenant.delete(&definition(group, &["v1"], &[])).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web"]).await
}

#[tokio::test]
async fn a_kind_is_watched_while_any_class_lists_it() -> Result<()> {
    let tenant = tenant("kinds-shared", &["eu-1"]).await?;
    let second =
        params_config_map(tenant.name(), "second", &json!({"policiesToSync": [rate_limit_policies()]}));
    tenant.apply(&second).await?;
    let class = gateway_class("shares-second", &tenant.controller_name(), Some((tenant.name(), "second")));
    tenant.apply(&class).await?;
    tenant.apply(&gateway(tenant.name(), "api", "shares-second", Some("all"))).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "first", "web")).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "second", "api")).await?;
    let _controller = tenant.controller().await?;
    tenant
        .until_works(&[
            "eu-1/access",
            "eu-1/gateway-api",
            "eu-1/gateway-web",
            "eu-1/ratelimitpolicy-first",
            "eu-1/ratelimitpolicy-second",
        ])
        .await?;
    // The first class no longer lists the kind. Only the policies of its Gateways are withdrawn.
    tenant.parameters(&json!({"policiesToSync": [auth_policies()]})).await?;
    let rest = ["eu-1/access", "eu-1/gateway-api", "eu-1/gateway-web", "eu-1/ratelimitpolicy-second"];
    tenant.until_works(&rest).await?;
    let mut changed = rate_limit_policy(tenant.name(), "second", "api");
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(77);
    tenant.apply(&changed).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-second", |work| limit_of(work) == 77).await?;
    // Deleting the class withdraws nothing at first, because the class may be created again. Here, the class is created
    // again with another controller, so the works of the class are withdrawn.
    tenant.delete(&class).await?;
    tenant
        .apply(&gateway_class(
            class["metadata"]["name"].as_str().unwrap_or_default(),
            "example.com/other",
            None,
        ))
        .await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web"]).await
}

#[tokio::test]
async fn unserved_version_in_one_class_does_not_block_another_class() -> Result<()> {
    let tenant = tenant("unserved", &["eu-1"]).await?;
    // The class `a-first` is older than the tenant's class.
    let unserved = json!({"policiesToSync": [{"group": "kuadrant.io", "version": "v9", "resource": "ratelimitpolicies"}]});
    tenant.delete(&gateway_class(tenant.name(), &tenant.controller_name(), None)).await?;
    tenant.apply(&params_config_map(tenant.name(), "first", &unserved)).await?;
    tenant
        .apply(&gateway_class("a-first", &tenant.controller_name(), Some((tenant.name(), "first"))))
        .await?;
    tenant
        .apply(&gateway_class(tenant.name(), &tenant.controller_name(), Some((tenant.name(), "params"))))
        .await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let _controller = tenant.controller().await?;
    tenant.until_works(&ON_EU).await?;
    until_class_condition(&tenant, "PoliciesResolved", "Resolved").await?;
    let message = until_class(&tenant, "a-first", "PoliciesResolved", "UnknownResource").await?;
    ensure!(message.contains("kuadrant.io/v9 ratelimitpolicies: the hub serves v1"), "{message}");
    tenant.delete(&limits).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web"]).await
}

#[tokio::test]
async fn kind_in_two_versions_is_synced_in_the_version_of_the_older_class() -> Result<()> {
    let group = "versions.example.com";
    let tenant = tenant("versions", &["eu-1"]).await?;
    tenant.apply(&definition(group, &["v1", "v2"], &[])).await?;
    tenant.parameters(&quota_policies(group, "v1")).await?;
    let quota = quota_policy(group, "v1", tenant.name());
    apply_once_served(&tenant, &quota).await?;
    let _controller = tenant.controller().await?;
    let synced = ["eu-1/access", "eu-1/gateway-web", "eu-1/quotapolicy-quota"];
    tenant.until_works(&synced).await?;
    tenant.apply(&params_config_map(tenant.name(), "second", &quota_policies(group, "v2"))).await?;
    let class = gateway_class("versions-second", &tenant.controller_name(), Some((tenant.name(), "second")));
    tenant.apply(&class).await?;
    let message = until_class(&tenant, "versions-second", "PoliciesResolved", "VersionConflict").await?;
    let names = "is synced in version v1, which GatewayClass versions lists";
    ensure!(message.contains(names), "{message}");
    until_class_condition(&tenant, "PoliciesResolved", "Resolved").await?;
    tenant.until_works(&synced).await?;
    // Neither a change nor a deletion of the policy is blocked.
    tenant.merge(&quota, &json!({"metadata": {"labels": {"team": "shop"}}})).await?;
    let labelled = |work: &ManifestWork| !work.spec.workload.manifests[1].0["metadata"]["labels"].is_null();
    tenant.until_work("eu-1", "quotapolicy-quota", labelled).await?;
    tenant.delete(&quota).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web"]).await
}

/// A user with the permissions of a controller. In the group `kuadrant.io`, the user has only `verbs`, and only
/// on RateLimitPolicies.
pub(crate) async fn limited(tenant: &Tenant<'_>, verbs: &[&str]) -> Result<User> {
    let user = User::new(format!("limited-{}", tenant.name()));
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let read = ["get", "list", "watch"];
    let rules = [
        rule(&[""], &["configmaps"], &read),
        rule(&[""], &["namespaces"], &["get"]),
        rule(&["gateway.networking.k8s.io"], &["gateways", "gatewayclasses"], &read),
        rule(
            &["gateway.networking.k8s.io"],
            &["gatewayclasses/status", "gateways", "gateways/status"],
            &["patch"],
        ),
        rule(
            &["cluster.open-cluster-management.io"],
            &["managedclusters", "placements", "placementdecisions"],
            &read,
        ),
        rule(
            &["work.open-cluster-management.io"],
            &["manifestworks"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], &read),
        rule(&["kuadrant.io"], &["ratelimitpolicies"], verbs),
        rule(&["coordination.k8s.io"], &["leases"], &["get", "create", "update"]),
    ];
    grant(tenant.client(), &user.name, &cluster_role(&user.name, &json!(rules))).await?;
    Ok(user)
}

pub(crate) fn cluster_role(name: &str, rules: &Value) -> Value {
    let metadata = json!({"name": name});
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules})
}

/// Applies the ClusterRole `role`, and binds the user to it.
pub(crate) async fn grant(client: &Client, user: &str, role: &Value) -> Result<()> {
    let (group, name) = ("rbac.authorization.k8s.io", &role["metadata"]["name"]);
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    });
    apply_all(client, [role, &binding]).await
}

pub(crate) async fn limited_controller(tenant: &Tenant<'_>, user: User) -> Result<Controller> {
    let name = format!("--controller-name={}", tenant.controller_name());
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_policy-sync"));
    let mut controller = Controller::launch(binary, tenant.hub(), &[&name], Some(user))?;
    controller.ready().await?;
    controller.leads().await?;
    Ok(controller)
}

#[tokio::test]
async fn missing_permission_is_reported_and_blocks_no_other_kind() -> Result<()> {
    let tenant = tenant("forbidden", &["eu-1"]).await?;
    tenant.parameters(&all_kinds()).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    tenant.apply(&auth_policy(tenant.name(), "auth", "web")).await?;
    let user = limited(&tenant, &["get", "list", "watch", "patch"]).await?;
    let controller = limited_controller(&tenant, user).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits"]).await?;
    let message = "kuadrant.io/v1 authpolicies: the controller may not get it";
    until_resolved(&tenant, "forbidden", "Forbidden", message).await?;
    let (code, text) = controller.readiness().await?;
    ensure!(code == 200 && text.contains("[!]authpolicies.kuadrant.io failing"), "{code}: {text}");
    Ok(())
}

#[tokio::test]
async fn permission_changes_take_effect_without_a_restart() -> Result<()> {
    let tenant = tenant("grants", &["eu-1"]).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let user = limited(&tenant, &["get"]).await?;
    let _controller = limited_controller(&tenant, user).await?;
    until_resolved(&tenant, "grants", "Forbidden", "ratelimitpolicies: the controller may not list it")
        .await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web"]).await?;
    limited(&tenant, &["get", "list", "watch", "patch"]).await?;
    tenant.until_works(&ON_EU).await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 1).await?;

    // No event reports the revoked permission: an open watch continues for minutes.
    limited(&tenant, &["get", "list", "watch"]).await?;
    until_resolved(
        &tenant,
        "grants",
        "Forbidden",
        "ratelimitpolicies: the controller has no right to patch it",
    )
    .await?;
    tenant.until_works(&ON_EU).await?;
    limited(&tenant, &["get"]).await?;
    until_resolved(&tenant, "grants", "Forbidden", "ratelimitpolicies: the controller may not list it")
        .await?;
    tenant.until_works(&ON_EU).await
}

#[tokio::test]
async fn kind_without_list_permission_is_not_withdrawn() -> Result<()> {
    let tenant = tenant("revoked", &["eu-1"]).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    let user = limited(&tenant, &["get", "list", "watch", "patch"]).await?;
    let controller = limited_controller(&tenant, user).await?;
    let synced = ["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits"];
    tenant.until_works(&synced).await?;
    controller.kill();

    let user = limited(&tenant, &["get"]).await?;
    let controller = limited_controller(&tenant, user).await?;
    until_resolved(&tenant, "revoked", "Forbidden", "ratelimitpolicies: the controller may not list it")
        .await?;
    tenant.settled(&controller).await?;
    tenant.until_works(&synced).await?;
    // Works of known policies can still be deleted.
    tenant.place("all", &[]).await?;
    tenant.until_works(&[]).await
}

#[tokio::test]
async fn without_patch_permission_policies_are_synced_but_not_annotated() -> Result<()> {
    let tenant = tenant("readonly", &["eu-1"]).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let user = limited(&tenant, &["get", "list", "watch"]).await?;
    let controller = limited_controller(&tenant, user).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits"]).await?;
    for write in tenant.settled(&controller).await? {
        ensure!(write.code() != 403, "the hub denied {write:?}");
    }
    let annotations = tenant.annotations(&limits).await?;
    ensure!(annotations.is_empty(), "{annotations:?}");
    Ok(())
}

#[tokio::test]
async fn hub_without_server_side_apply_makes_the_controller_unready() -> Result<()> {
    let fleet = policy_sync_testenv::Fleet::start(policy_sync_testenv::FleetOptions::spokes([])).await?;
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_policy-sync"));
    let api: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(fleet.hub().client()?);
    let name = "manifestworks.work.open-cluster-management.io";
    let full = api.get(name).await?;
    let mut old = serde_json::to_value(&full)?;
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/manifestConfigs/items/properties/updateStrategy/properties/type/enum";
    *old.pointer_mut(path).ok_or_else(|| anyhow::anyhow!("no {path}"))? = json!(["Update", "CreateOnly"]);
    api.replace(name, &Default::default(), &serde_json::from_value(old)?).await?;

    let controller = Controller::launch(binary, fleet.hub(), &[], None)?;
    wait::until("/readyz reports the missing update strategy", Duration::from_secs(30), || async {
        let (code, text) = controller.readiness().await?;
        ensure!(code == 503 && text.contains("no update strategy ServerSideApply"), "{code}: {text}");
        Ok(())
    })
    .await?;
    let latest = api.get(name).await?;
    let mut full = full;
    full.metadata.resource_version = latest.metadata.resource_version;
    api.replace(name, &Default::default(), &full).await?;
    wait::until("the controller is ready", Duration::from_secs(30), || async {
        let (code, text) = controller.readiness().await?;
        ensure!(code == 200, "{code}: {text}");
        Ok(())
    })
    .await
}

/// Grants or revokes list and watch on ConfigMaps.
async fn may_read_parameters(tenant: &Tenant<'_>, user: &User, may: bool) -> Result<()> {
    let metadata = json!({"name": user.name});
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata});
    let mut rules = tenant.get(&role).await?.data["rules"].take();
    let config_maps =
        rules.as_array_mut().into_iter().flatten().find(|rule| rule["resources"][0] == "configmaps");
    let verbs: &[&str] = if may { &["get", "list", "watch"] } else { &["get"] };
    config_maps.context("no rule for ConfigMaps")?["verbs"] = json!(verbs);
    tenant.merge(&role, &json!({"rules": rules})).await.map(drop)
}

#[tokio::test]
async fn unreadable_parameters_are_reported_and_known_ones_stay_in_effect() -> Result<()> {
    let tenant = tenant("kinds-unread", &["eu-1"]).await?;
    let user = limited(&tenant, &["get", "list", "watch", "patch"]).await?;
    may_read_parameters(&tenant, &user, false).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let controller = limited_controller(&tenant, user.clone()).await?;
    let message = until_class_condition(&tenant, "Accepted", "ParametersUnread").await?;
    ensure!(message.starts_with("parameters kinds-unread/params cannot be read: configmaps"), "{message}");
    until_class_condition(&tenant, "PoliciesResolved", "ParametersUnread").await?;
    let web = gateway(tenant.name(), "web", tenant.name(), Some("all"));
    until_accepted(&tenant, &web, "Unknown ParametersUnread").await?;
    let metrics = controller.metrics().await?;
    ensure!(metrics.problems("ParametersUnread") > 0.0, "{metrics}");

    may_read_parameters(&tenant, &user, true).await?;
    tenant.until_works(&ON_EU).await?;
    until_class_condition(&tenant, "Accepted", "Accepted").await?;
    // After the permission is revoked, the known parameters stay in effect.
    may_read_parameters(&tenant, &user, false).await?;
    tenant.settled(&controller).await?;
    controller.terminate().await?;
    let controller = limited_controller(&tenant, user).await?;
    until_class_condition(&tenant, "Accepted", "ParametersUnread").await?;
    tenant.settled(&controller).await?;
    tenant.until_works(&ON_EU).await
}
