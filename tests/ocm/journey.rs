//! The life of a policy: synced to the spokes, status reported back, changed, and withdrawn.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use policy_sync_api::names::ControllerName;
use policy_sync_testenv::fixtures::{gateway, rate_limit_policy, timeout_policy};
use policy_sync_testenv::wait;
use serde_json::json;

use crate::{LIMIT, downstream, tenant, until_copied, until_gone};

#[tokio::test]
async fn policy_is_synced_and_its_status_reported() -> Result<()> {
    let (tenant, fleet) = tenant("journey", &["eu-1", "us-1"]).await?;
    let controller = tenant.controller().await?;
    let (eu, us) = (fleet.spoke("eu-1")?.client()?, fleet.spoke("us-1")?.client()?);
    let mut limits = rate_limit_policy(tenant.name(), "limits", "web");
    limits["metadata"]["labels"] = json!({"team": "shop", "argocd.argoproj.io/instance": "apps"});
    tenant.apply(&limits).await?;

    for spoke in [&eu, &us] {
        let copy = until_copied(spoke, &limits, |_| true).await?;
        let labels = copy.metadata.labels.unwrap_or_default();
        ensure!(
            labels.keys().map(String::as_str).collect::<Vec<_>>() == ["team"],
            "the labels of the copy are {labels:?}"
        );
        let annotations = copy.metadata.annotations.unwrap_or_default();
        ensure!(annotations["kuadrant.io/policy-synced"] == "journey/limits", "{annotations:?}");
        ensure!(copy.data["spec"]["targetRef"]["name"] == "web", "{}", copy.data);
        let web = gateway(tenant.name(), "web", tenant.name(), None);
        let web = until_copied(spoke, &web, |_| true).await?;
        ensure!(web.data["spec"]["gatewayClassName"] == "istio", "{}", web.data);
    }
    tenant
        .until_folded(&limits, |_, summary| summary.enforced == 2 && summary.synced && summary.pending == 0)
        .await?;

    // The spoke's own policy takes precedence over the copy. The hub reports this until the spoke's policy is deleted.
    let mut local = downstream(&limits);
    local["metadata"]["name"] = "local".into();
    policy_sync_testenv::apply::apply(&eu, &local).await?;
    let (entries, _) =
        tenant.until_folded(&limits, |_, summary| summary.overridden == 1 && summary.enforced == 1).await?;
    let eu_entry = entries.iter().find(|entry| &*entry.cluster.0 == "eu-1");
    ensure!(eu_entry.is_some_and(|entry| entry.conditions.iter().any(|c| c.is_overridden())), "{entries:?}");
    let (api, name) = policy_sync_testenv::apply::api_for(&eu, &local).await?;
    api.delete(&name, &Default::default()).await?;
    tenant.until_folded(&limits, |_, summary| summary.overridden == 0 && summary.enforced == 2).await?;

    limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(20);
    tenant.apply(&limits).await?;
    for spoke in [&eu, &us] {
        until_copied(spoke, &limits, |copy| copy.data["spec"]["limits"]["all"]["rates"][0]["limit"] == 20)
            .await?;
    }
    tenant.until_folded(&limits, |_, summary| summary.enforced == 2 && summary.pending == 0).await?;

    tenant.place("all", &["eu-1"]).await?;
    until_gone(&us, &limits).await?;
    until_copied(&eu, &limits, |_| true).await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 1).await?;

    tenant.delete(&limits).await?;
    until_gone(&eu, &limits).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web"]).await?;
    let namespaces: Api<Namespace> = Api::all(us.clone());
    ensure!(
        namespaces.get("kuadrant-journey").await?.metadata.deletion_timestamp.is_none(),
        "the namespace is being deleted"
    );
    tenant.settled(&controller).await?;
    Ok(())
}

#[tokio::test]
async fn each_copy_has_the_targets_of_its_own_cluster() -> Result<()> {
    let (tenant, fleet) = tenant("plural", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    tenant.place("second", &["us-1"]).await?;
    tenant.apply(&gateway(tenant.name(), "api", tenant.name(), Some("second"))).await?;
    let timeouts = timeout_policy(tenant.name(), "timeouts", &["web", "api"]);
    tenant.apply(&timeouts).await?;
    for (cluster, gateway) in [("eu-1", "web"), ("us-1", "api")] {
        let only = |copy: &kube::api::DynamicObject| {
            let references = copy.data["spec"]["targetRefs"].as_array().cloned().unwrap_or_default();
            references.len() == 1 && references[0]["name"] == gateway
        };
        until_copied(&fleet.spoke(cluster)?.client()?, &timeouts, only).await?;
    }
    tenant.until_folded(&timeouts, |_, summary| summary.clusters == 2 && summary.enforced == 2).await?;
    Ok(())
}

#[tokio::test]
async fn access_is_removed_with_the_last_work() -> Result<()> {
    let (tenant, fleet) = tenant("access", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_folded(&limits, |_, summary| summary.enforced == 1).await?;
    let roles: Api<ClusterRole> = Api::all(fleet.spoke("eu-1")?.client()?);
    let role = format!("policy-sync-{}", ControllerName::new(&tenant.controller_name()).hash());
    ensure!(roles.get_opt(&role).await?.is_some(), "the role {role} is missing");
    tenant.place("all", &[]).await?;
    tenant.until_works(&[]).await?;
    until_gone(&fleet.spoke("eu-1")?.client()?, &limits).await?;
    wait::until("the role is deleted", LIMIT, || async {
        ensure!(roles.get_opt(&role).await?.is_none(), "the role exists");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn status_of_an_old_copy_is_not_reported_as_current() -> Result<()> {
    let fleet =
        policy_sync_testenv::Fleet::start(policy_sync_testenv::FleetOptions::spokes(["eu-1"])).await?;
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_policy-sync"));
    let tenant = policy_sync_testenv::Tenant::new(fleet.hub(), binary, "stale", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    let mut limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_folded(&limits, |_, summary| summary.enforced == 1).await?;

    let spoke = fleet.spoke("eu-1")?;
    spoke.stop_agent().await;
    limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(30);
    tenant.apply(&limits).await?;
    let (entries, _) = tenant.until_folded(&limits, |_, summary| summary.pending == 1).await?;
    ensure!(!entries[0].applied && entries[0].conditions.is_empty(), "{entries:?}");
    spoke.start_agent().await?;
    tenant.until_folded(&limits, |_, summary| summary.enforced == 1 && summary.pending == 0).await?;

    // The agent runs, but the policy's controller does not: the status in the copy is for the previous
    // generation.
    spoke.stop_policy_controller().await;
    limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(40);
    tenant.apply(&limits).await?;
    let fits = |_: &[_], summary: &policy_sync_api::annotations::Summary| {
        (summary.applied, summary.pending) == (1, 1)
    };
    let (entries, summary) = tenant.until_folded(&limits, fits).await?;
    ensure!(entries[0].conditions.is_empty() && entries[0].fields.is_empty(), "{entries:?}");
    ensure!(summary.enforced == 0 && summary.synced, "{summary:?}");
    spoke.start_policy_controller().await?;
    tenant.until_folded(&limits, |_, summary| summary.enforced == 1 && summary.pending == 0).await?;
    Ok(())
}
