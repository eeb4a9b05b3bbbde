//! Attacks by the owner of a hub namespace.

use anyhow::{Result, ensure};
use policy_sync_api::names::{ControllerName, Origin, WorkName};
use policy_sync_testenv::fixtures::{gateway, namespace, rate_limit_policy, timeout_policy};
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use super::{Neighbours, UNHARMED, neighbours};
use crate::limit_of;

#[tokio::test]
async fn reference_cannot_target_a_gateway_of_another_namespace() -> Result<()> {
    let neighbours = neighbours("refers").await?;
    let mut reaching = timeout_policy(neighbours.tenant.name(), "reaching", &["victim", "victim"]);
    reaching["spec"]["targetRefs"][1]["namespace"] = neighbours.victim().into();
    neighbours.tenant.apply(&reaching).await?;
    wait::until("the message names the dropped reference", LIMIT, || async {
        let annotations = neighbours.tenant.annotations(&reaching).await?;
        let message = annotations.get("kuadrant.io/policy-sync-message").cloned().unwrap_or_default();
        ensure!(message.contains("/victim is ignored"), "{annotations:?}");
        Ok(())
    })
    .await?;
    neighbours.nothing_changed().await
}

#[tokio::test]
async fn names_cannot_refer_to_copies_of_another_namespace() -> Result<()> {
    let neighbours = neighbours("names").await?;
    // If names were joined with dashes, names-victim/x and names/victim-x would have works of the same name.
    let policy = rate_limit_policy(neighbours.tenant.name(), "victim-victim", "web");
    neighbours.tenant.apply(&policy).await?;
    neighbours.tenant.until_work("eu-1", "ratelimitpolicy-victim-victim", |_| true).await?;
    neighbours.nothing_else_changed().await?;
    for work in neighbours.tenant.works().await? {
        let on_eu = work.metadata.namespace.as_deref() == Some("eu-1");
        let own = work.spec.workload.manifests.iter().all(|manifest| {
            let namespace = &manifest.0["metadata"]["namespace"];
            namespace.is_null() || *namespace == "kuadrant-names"
        });
        ensure!(own || !on_eu, "{:?}", work.spec.workload);
    }
    Ok(())
}

#[tokio::test]
async fn namespace_that_maps_to_a_reserved_one_is_not_synced() -> Result<()> {
    let neighbours = neighbours("spokes-own").await?;
    for name in ["system", "operator-system-of-nobody"] {
        neighbours.tenant.apply(&namespace(name)).await?;
        neighbours.tenant.apply(&gateway(name, "spokes-own", neighbours.tenant.name(), None)).await?;
    }
    neighbours.tenant.apply(&rate_limit_policy("system", "spokes-own", "spokes-own")).await?;
    neighbours.nothing_changed().await
}

#[tokio::test]
async fn placement_of_another_namespace_selects_no_clusters() -> Result<()> {
    let neighbours = neighbours("borrows").await?;
    neighbours
        .tenant
        .apply(&gateway(neighbours.tenant.name(), "borrowing", neighbours.tenant.name(), Some("theirs")))
        .await?;
    neighbours.tenant.apply(&rate_limit_policy(neighbours.tenant.name(), "borrowing", "borrowing")).await?;
    neighbours.nothing_changed().await
}

#[tokio::test]
async fn selector_cannot_select_clusters_outside_the_placement() -> Result<()> {
    let neighbours = neighbours("selects").await?;
    let everywhere = json!({"metadata": {"annotations": {"kuadrant.io/cluster-selector": "!none-has-this"}}});
    neighbours.tenant.merge(&neighbours.limits, &everywhere).await?;
    neighbours.nothing_changed().await
}

#[tokio::test]
async fn override_can_change_only_the_spec_of_its_own_policy() -> Result<()> {
    let neighbours = neighbours("overrides-all").await?;
    let victim = neighbours.victim();
    let gateway = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "victim", "namespace": victim});
    let metadata =
        json!({"name": "victim", "namespace": format!("kuadrant-{victim}"), "annotations": {"a": "b"}});
    for (item, place) in [
        (json!({"clusterSelector": "", "patch": {"targetRef": gateway}}), "[0].patch.targetRef: "),
        (json!({"clusterSelector": "", "patch": {"targetRefs": [gateway]}}), "[0].patch.targetRefs: "),
        (json!({"clusterSelector": "", "patch": null}), "[0].patch: "),
        (
            json!({"clusterSelector": "", "patch": [{"op": "replace", "path": "/metadata", "value": metadata}]}),
            "[0].patch: ",
        ),
        (json!({"clusterSelector": "", "patch": {}, "metadata": metadata}), "[0].metadata: "),
        (json!({"clusterSelector": "", "patch": {}, "kind": "ClusterRole"}), "[0].kind: "),
        (json!({"clusterSelector": "", "patch": {}, "namespace": victim}), "[0].namespace: "),
    ] {
        override_with(&neighbours, &json!([item])).await?;
        wait::until(&format!("the message rejects the override {item}"), LIMIT, || async {
            let annotations = neighbours.tenant.annotations(&neighbours.limits).await?;
            let message = annotations.get("kuadrant.io/policy-sync-message").cloned().unwrap_or_default();
            let place = format!("annotation kuadrant.io/cluster-overrides{place}");
            ensure!(message.starts_with(&place), "{message:?}");
            Ok(())
        })
        .await?;
    }
    neighbours.nothing_changed().await?;

    // A valid override applies only to the clusters of its policy, for any selector, and changes only the
    // patched fields.
    let own = neighbours.copy().await?;
    let rates = json!({"limits": {"all": {"rates": [{"limit": 5, "window": "10s"}], "counters": [{"expression": victim}]}}});
    override_with(&neighbours, &json!([{"clusterSelector": "region", "patch": rates}])).await?;
    neighbours.tenant.until_work("eu-1", "ratelimitpolicy-limits", |work| limit_of(work) == 5).await?;
    neighbours.nothing_changed().await?;
    let mut copy = neighbours.copy().await?;
    for field in ["apiVersion", "kind"] {
        ensure!(copy[field] == own[field], "{copy}");
    }
    copy["metadata"]["annotations"]["kuadrant.io/revision"] =
        own["metadata"]["annotations"]["kuadrant.io/revision"].clone();
    ensure!(copy["metadata"] == own["metadata"], "{copy}");
    ensure!(copy["spec"]["targetRef"] == own["spec"]["targetRef"], "{copy}");
    ensure!(copy["spec"]["limits"] == rates["limits"], "{copy}");
    Ok(())
}

/// Sets the overrides of the attacker's policy.
async fn override_with(neighbours: &Neighbours, overrides: &Value) -> Result<()> {
    let annotation = json!({"kuadrant.io/cluster-overrides": overrides.to_string()});
    neighbours
        .tenant
        .merge(&neighbours.limits, &json!({"metadata": {"annotations": annotation}}))
        .await
        .map(drop)
}

#[tokio::test]
async fn annotations_of_the_controller_are_not_accepted_from_users() -> Result<()> {
    let neighbours = neighbours("forges").await?;
    let forged = json!({"metadata": {
        "annotations": {
            "kuadrant.io/policy-synced": format!("{}/victim", neighbours.victim()),
            "kuadrant.io/revision": "1",
            "kuadrant.io/parent": format!("ratelimitpolicies.kuadrant.io/{}/victim", neighbours.victim()),
            "kuadrant.io/gateways": "[\"victim\"]",
            "kuadrant.io/policies-synced-summary": "{\"clusters\":9,\"enforced\":9,\"synced\":true}",
            "kuadrant.io/downstream-namespace": "kuadrant-system",
        },
        "labels": {
            "kuadrant.io/managed": "true", "kuadrant.io/controller": "x", "kuadrant.io/work-for": "access",
            "app.kubernetes.io/managed-by": "argocd", "app.kubernetes.io/instance": "theirs",
        },
    }});
    neighbours.tenant.merge(&neighbours.limits, &forged).await?;
    neighbours
        .tenant
        .until_folded(&neighbours.limits, |entries, summary| entries.len() == 1 && summary.enforced == 0)
        .await?;
    let copy = neighbours.copy().await?;
    let annotations = copy["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    ensure!(annotations["kuadrant.io/policy-synced"] == "forges/limits", "{annotations:?}");
    ensure!(annotations["kuadrant.io/revision"] != "1" && annotations.len() == 2, "{annotations:?}");
    let labels = copy["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    ensure!(labels.is_empty(), "{labels:?}");
    neighbours.nothing_changed().await
}

#[tokio::test]
async fn owners_and_finalizers_are_not_copied() -> Result<()> {
    let neighbours = neighbours("owned-by").await?;
    let own = neighbours.tenant.get(&namespace(neighbours.tenant.name())).await?.metadata.uid;
    let owner =
        json!({"apiVersion": "v1", "kind": "Namespace", "name": neighbours.tenant.name(), "uid": own});
    let metadata = json!({"metadata": {"finalizers": ["example.com/stay"], "ownerReferences": [owner], "labels": {"a": "b"}}});
    neighbours.tenant.merge(&neighbours.limits, &metadata).await?;
    neighbours
        .tenant
        .until_work("eu-1", "ratelimitpolicy-limits", |work| {
            work.spec.workload.manifests[1].0["metadata"]["labels"]["a"] == "b"
        })
        .await?;
    let metadata = neighbours.copy().await?["metadata"].as_object().cloned().unwrap_or_default();
    let keys: Vec<&str> = metadata.keys().map(String::as_str).collect();
    ensure!(keys == ["annotations", "labels", "name", "namespace"], "{keys:?}");
    neighbours.tenant.merge(&neighbours.limits, &json!({"metadata": {"finalizers": null}})).await?;
    neighbours.nothing_changed().await
}

#[tokio::test]
async fn secrets_named_by_a_gateway_are_not_copied_by_default() -> Result<()> {
    let neighbours = neighbours("names-secrets").await?;
    let secret = |namespace: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": "certificate", "namespace": namespace},
            "stringData": {"tls.crt": "TOPSECRET", "tls.key": "TOPSECRET"},
        })
    };
    let victim = neighbours.victim();
    for namespace in [neighbours.tenant.name(), &victim] {
        neighbours.tenant.apply(&secret(namespace)).await?;
    }
    let mut web = gateway(neighbours.tenant.name(), "web", neighbours.tenant.name(), Some("all"));
    web["spec"]["listeners"] = json!([{
        "name": "https", "port": 443, "protocol": "HTTPS",
        "tls": {"certificateRefs": [{"name": "certificate"}, {"name": "certificate", "namespace": victim}]},
    }]);
    neighbours.tenant.apply(&web).await?;
    neighbours
        .tenant
        .until_work("eu-1", "gateway-web", |work| {
            work.spec.workload.manifests[1].0["spec"]["listeners"][0]["name"] == "https"
        })
        .await?;
    neighbours.nothing_changed().await?;
    for work in neighbours.tenant.works().await? {
        let text = serde_json::to_string(&work)?;
        let carries = work.spec.workload.manifests.iter().any(|manifest| manifest.0["kind"] == "Secret");
        ensure!(!text.contains("TOPSECRET") && !carries, "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn invalid_policy_is_removed_from_clusters_that_are_no_longer_placed() -> Result<()> {
    let neighbours = neighbours("clings").await?;
    let invalid = json!({"metadata": {"annotations": {"kuadrant.io/cluster-selector": "((("}}});
    neighbours.tenant.merge(&neighbours.limits, &invalid).await?;
    neighbours.tenant.place("all", &[]).await?;
    neighbours.tenant.until_works(&UNHARMED[3..]).await?;
    neighbours.nothing_else_changed().await
}

#[tokio::test]
async fn policy_held_by_a_finalizer_is_withdrawn() -> Result<()> {
    let neighbours = neighbours("lingers").await?;
    neighbours
        .tenant
        .merge(&neighbours.limits, &json!({"metadata": {"finalizers": ["example.com/stay"]}}))
        .await?;
    let (api, name) =
        policy_sync_testenv::apply::api_for(neighbours.tenant.client(), &neighbours.limits).await?;
    api.delete(&name, &Default::default()).await?;
    let rest: Vec<&str> = UNHARMED.into_iter().filter(|work| !work.ends_with("policy-limits")).collect();
    neighbours.tenant.until_works(&rest).await?;
    neighbours.nothing_else_changed().await?;
    neighbours.tenant.merge(&neighbours.limits, &json!({"metadata": {"finalizers": null}})).await.map(drop)
}

#[tokio::test]
async fn forged_work_in_a_tenant_namespace_changes_nothing_elsewhere() -> Result<()> {
    let neighbours = neighbours("smuggles").await?;
    let origin = format!("ratelimitpolicies.kuadrant.io/{}/victim", neighbours.victim());
    let controller = ControllerName::new(&neighbours.tenant.controller_name());
    let victims = Origin::parse(&origin).ok_or_else(|| anyhow::anyhow!("invalid origin"))?;
    let name = WorkName::planned(&controller, "RateLimitPolicy", &victims);
    let theirs = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {
            "name": name.0, "namespace": neighbours.tenant.name(),
            "labels": {"app.kubernetes.io/managed-by": "policy-sync", "kuadrant.io/controller": controller.hash(), "kuadrant.io/work-for": "policy"},
            "annotations": {"kuadrant.io/parent": origin, "kuadrant.io/gateways": "[\"victim\"]"},
        },
        "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "kube-system"}}]}},
    });
    neighbours.tenant.apply(&theirs).await?;
    neighbours.nothing_else_changed().await?;
    let mut elsewhere = neighbours.tenant.work_names().await?;
    elsewhere.retain(|work| !work.starts_with("smuggles/"));
    ensure!(elsewhere == UNHARMED, "{elsewhere:?}");
    Ok(())
}

#[tokio::test]
async fn control_characters_are_removed_from_messages() -> Result<()> {
    let neighbours = neighbours("writes").await?;
    let selector = "a\n\u{1b}[2Jkuadrant.io/policies-synced: [] <script>\u{0}";
    let annotated = json!({"metadata": {"annotations": {"kuadrant.io/cluster-selector": selector}}});
    neighbours.tenant.merge(&neighbours.limits, &annotated).await?;
    wait::until("the policy has a message without control characters", LIMIT, || async {
        let annotations = neighbours.tenant.annotations(&neighbours.limits).await?;
        let message = annotations.get("kuadrant.io/policy-sync-message").cloned().unwrap_or_default();
        ensure!(!message.is_empty() && !message.contains(['\n', '\u{1b}', '\u{0}']), "{message:?}");
        Ok(())
    })
    .await?;
    neighbours.nothing_changed().await
}

#[tokio::test]
async fn target_of_a_kind_other_than_gateway_is_not_synced() -> Result<()> {
    let neighbours = neighbours("embeds").await?;
    // The test uses TimeoutPolicies, because the published schemas of the Kuadrant kinds reject a ClusterRole as
    // target.
    let mut odd = timeout_policy(neighbours.tenant.name(), "odd", &["web"]);
    odd["spec"]["targetRefs"][0] =
        json!({"group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    neighbours.tenant.apply(&odd).await?;
    neighbours.nothing_changed().await
}
