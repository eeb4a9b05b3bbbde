//! Writes of the controller: only to its own objects and fields, only on a difference, and unaffected by
//! edits that a spoke makes to its works.

use anyhow::{Result, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use policy_sync_api::names::ControllerName;
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::apply::api_for;
use policy_sync_testenv::fixtures::{gateway, gateway_class, rate_limit_policy, timeout_policy};
use policy_sync_testenv::tenant::{LIMIT, Tenant};
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use crate::bad_input::until_event;
use crate::{limit_of, synced, tenant};

#[tokio::test]
async fn annotating_a_deleted_policy_does_not_recreate_it() -> Result<()> {
    let tenant = tenant("gone", &["eu-1"]).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    let seen = tenant.apply(&limits).await?;
    tenant.delete(&limits).await?;
    // A request as the controller would send it, with the uid of the deleted policy.
    let mut body = json!({
        "apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy",
        "metadata": {"name": "limits", "namespace": tenant.name(), "uid": seen.metadata.uid, "annotations": {"a": "b"}},
    });
    let (api, name): (Api<DynamicObject>, _) = api_for(tenant.client(), &limits).await?;
    let parameters = PatchParams::apply("policy-sync-test").force();
    let refused = api.patch(&name, &parameters, &Patch::Apply(&body)).await;
    ensure!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 409), "{refused:?}");
    // The API server also rejects the request if a new policy has the same name.
    tenant.apply(&limits).await?;
    body["metadata"]["annotations"] = json!({"c": "d"});
    let refused = api.patch(&name, &parameters, &Patch::Apply(&body)).await;
    ensure!(
        matches!(&refused, Err(kube::Error::Api(status)) if matches!(status.code, 409 | 422)),
        "{refused:?}"
    );
    Ok(())
}

#[tokio::test]
async fn two_controllers_on_one_hub_do_not_affect_each_other() -> Result<()> {
    let first = tenant("first", &["eu-1"]).await?;
    let second = tenant("second", &["us-1"]).await?;
    let first_controller = first.controller().await?;
    // A Gateway of the second controller's class in the first controller's namespace, and a policy for both
    // Gateways.
    first.apply(&gateway(first.name(), "api", second.name(), Some("all"))).await?;
    let timeouts = timeout_policy(first.name(), "timeouts", &["web", "api"]);
    first.apply(&timeouts).await?;
    let expected = ["eu-1/access", "eu-1/gateway-web", "eu-1/timeoutpolicy-timeouts"];
    first.until_works(&expected).await?;
    let (entries, _) = first.until_folded(&timeouts, |entries, _| entries.len() == 1).await?;

    let second_controller = second.controller().await?;
    let theirs =
        ["eu-1/access", "eu-1/gateway-api", "eu-1/timeoutpolicy-timeouts", "us-1/access", "us-1/gateway-web"];
    second.until_works(&theirs).await?;
    let writes =
        first.settled(&first_controller).await?.len() + second.settled(&second_controller).await?.len();
    first.until_works(&expected).await?;
    second.until_works(&theirs).await?;
    let (after, _) = first.until_folded(&timeouts, |_, _| true).await?;
    ensure!(after == entries, "{after:?}");
    let later =
        first.settled(&first_controller).await?.len() + second.settled(&second_controller).await?.len();
    ensure!(later == writes, "writes do not end");
    first.delete(&gateway_class(first.name(), "", None)).await?;
    first.apply(&gateway_class(first.name(), "example.com/other", None)).await?;
    first.until_works(&[]).await?;
    second.until_works(&theirs).await
}

#[tokio::test]
async fn a_spoke_that_edits_its_works_changes_nothing_elsewhere() -> Result<()> {
    let (tenant, controller, limits) = synced("hostile").await?;
    let other = rate_limit_policy(tenant.name(), "other", "web");
    tenant.apply(&other).await?;
    tenant.until_work("us-1", "ratelimitpolicy-other", |_| true).await?;
    let ours = tenant.work("eu-1", "ratelimitpolicy-limits").await?;
    let object = serde_json::to_value(&ours)?;
    let elsewhere = tenant.work("us-1", "ratelimitpolicy-limits").await?;
    let origins = [
        format!("ratelimitpolicies.kuadrant.io/{}/other", tenant.name()),
        format!("ratelimitpolicies.kuadrant.io/{}/missing", tenant.name()),
        format!("gateways.gateway.networking.k8s.io/{}/web", tenant.name()),
        "nonsense".to_owned(),
    ];
    for origin in origins {
        tenant.merge(&object, &json!({"metadata": {"annotations": {"kuadrant.io/parent": origin}}})).await?;
        wait::until("the policy's message names the work", policy_sync_testenv::tenant::LIMIT, || async {
            let annotations = tenant.annotations(&limits).await?;
            let message = annotations.get("kuadrant.io/policy-sync-message").cloned().unwrap_or_default();
            ensure!(message.contains("cluster eu-1 has a ManifestWork"), "{message:?}");
            Ok(())
        })
        .await?;
    }
    // Forged Gateway names in the annotations have no effect.
    let patch = json!({"metadata": {"annotations": {
        "kuadrant.io/parent": ours.metadata.annotations.clone().unwrap_or_default()["kuadrant.io/parent"],
        "kuadrant.io/gateways": "[\"missing\"]",
    }}});
    tenant.merge(&object, &patch).await?;
    tenant
        .until_work("eu-1", "ratelimitpolicy-limits", |work| {
            work.metadata.annotations == ours.metadata.annotations
        })
        .await?;
    tenant.settled(&controller).await?;
    let after = tenant.work("us-1", "ratelimitpolicy-limits").await?;
    ensure!(
        after.metadata.uid == elsewhere.metadata.uid
            && after.metadata.generation == elsewhere.metadata.generation
    );
    for write in tenant.writes(&controller)? {
        ensure!(write.verb != "delete", "the controller deleted {write:?}");
    }
    Ok(())
}

#[tokio::test]
async fn dead_spoke_does_not_block_other_clusters() -> Result<()> {
    let (tenant, _controller, limits) = synced("dead").await?;
    let stuck = serde_json::to_value(tenant.work("eu-1", "ratelimitpolicy-limits").await?)?;
    tenant.merge(&stuck, &json!({"metadata": {"finalizers": ["example.com/agent"]}})).await?;
    tenant.place("all", &["us-1"]).await?;
    let rest = [
        "eu-1/access",
        "eu-1/ratelimitpolicy-limits",
        "us-1/access",
        "us-1/gateway-web",
        "us-1/ratelimitpolicy-limits",
    ];
    tenant.until_works(&rest).await?;
    tenant.until_folded(&limits, |entries, _| entries.iter().any(|entry| entry.deleting)).await?;
    let mut changed = limits.clone();
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(5);
    tenant.apply(&changed).await?;
    tenant.until_work("us-1", "ratelimitpolicy-limits", |work| limit_of(work) == 5).await?;
    tenant.merge(&stuck, &json!({"metadata": {"finalizers": null}})).await?;
    tenant.until_works(&["us-1/access", "us-1/gateway-web", "us-1/ratelimitpolicy-limits"]).await
}

#[tokio::test]
async fn cluster_without_a_namespace_does_not_block_others() -> Result<()> {
    let tenant = tenant("homeless", &["eu-1", "nowhere-1"]).await?;
    let _controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits"]).await?;
    let (entries, summary) = tenant.until_folded(&limits, |entries, _| entries.len() == 2).await?;
    ensure!(!summary.synced && entries.iter().any(|entry| &*entry.cluster.0 == "nowhere-1"), "{entries:?}");
    Ok(())
}

#[tokio::test]
async fn large_user_annotation_leaves_room_for_the_controllers_own() -> Result<()> {
    let (tenant, controller, limits) = synced("large").await?;
    let large = "x".repeat(100_000);
    tenant.merge(&limits, &json!({"metadata": {"annotations": {"example.com/large": large}}})).await?;
    let carries = |work: &policy_sync_api::work::ManifestWork| {
        work.spec.workload.manifests[1].0["metadata"]["annotations"]["example.com/large"] == large
    };
    tenant.until_work("us-1", "ratelimitpolicy-limits", carries).await?;
    for write in tenant.settled(&controller).await? {
        ensure!(!write.is_rejected(), "the hub rejected {write:?}");
    }
    Ok(())
}

#[tokio::test]
async fn edited_annotation_is_restored() -> Result<()> {
    let (tenant, _controller, limits) = synced("edited").await?;
    let nonsense = json!({"metadata": {"annotations": {
        "kuadrant.io/policies-synced": "nonsense", "kuadrant.io/policies-synced-summary": null,
        "kuadrant.io/policy-sync-message": "all is well",
    }}});
    tenant.merge(&limits, &nonsense).await?;
    wait::until("the annotations are restored", policy_sync_testenv::tenant::LIMIT, || async {
        let annotations = tenant.annotations(&limits).await?;
        ensure!(!annotations.contains_key("kuadrant.io/policy-sync-message"), "{annotations:?}");
        Ok(())
    })
    .await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 2).await?;
    Ok(())
}

#[tokio::test]
async fn annotations_are_removed_even_if_a_user_has_applied_them() -> Result<()> {
    let (tenant, _controller, limits) = synced("applied").await?;
    // A user edits the output of `kubectl get -o yaml`, and applies the result with `kubectl apply --server-side`.
    let mut owned = limits.clone();
    owned["metadata"]["annotations"] = json!(tenant.annotations(&limits).await?);
    tenant.apply(&owned).await?;
    owned["spec"]["targetRef"]["name"] = json!("other");
    tenant.apply(&owned).await?;
    wait::until("the annotations are removed", policy_sync_testenv::tenant::LIMIT, || async {
        let annotations = tenant.annotations(&limits).await?;
        ensure!(annotations.keys().all(|key| !key.starts_with("kuadrant.io/polic")), "{annotations:?}");
        Ok(())
    })
    .await
}

/// The field managers that own the annotation `policies-synced` of `object`.
async fn owners(tenant: &Tenant<'_>, object: &Value) -> Result<Vec<String>> {
    let fields = tenant.get(object).await?.metadata.managed_fields.unwrap_or_default();
    let tells = |entry: &&ManagedFieldsEntry| {
        json!(entry.fields_v1).to_string().contains("f:kuadrant.io/policies-synced")
    };
    Ok(fields.iter().filter(tells).filter_map(|entry| entry.manager.clone()).collect())
}

#[tokio::test]
async fn of_two_controllers_only_the_first_by_name_annotates_a_policy() -> Result<()> {
    let (one, two) = (tenant("rival-one", &["eu-1"]).await?, tenant("rival-two", &["us-1"]).await?);
    let manager = |tenant: &Tenant<'_>| ControllerName::new(&tenant.controller_name()).hub_field_manager();
    let (first, last) = if manager(&one) < manager(&two) { (&one, &two) } else { (&two, &one) };
    one.apply(&gateway(one.name(), "api", two.name(), Some("all"))).await?;
    let policies: Vec<Value> = (0..5)
        .map(|number| timeout_policy(one.name(), &format!("timeouts-{number}"), &["web", "api"]))
        .collect();
    for policy in &policies {
        one.apply(policy).await?;
    }
    let (first_controller, last_controller) = tokio::try_join!(first.controller(), last.controller())?;
    let only = |tenant: &Tenant<'_>| vec![manager(tenant)];
    for policy in &policies {
        wait::until("only the first controller owns the annotations", LIMIT, || async {
            let found = owners(&one, policy).await?;
            ensure!(found == only(first), "{found:?}");
            Ok(())
        })
        .await?;
        let (reason, _) = until_event(&one, policy, &manager(first)).await?;
        ensure!(reason == "OtherController", "{reason}");
    }
    first.settled(&first_controller).await?;
    let writes = last.settled(&last_controller).await?.len();

    // The first controller ends and does not return. Its works are deleted.
    first_controller.kill();
    let works: Api<ManifestWork> = Api::all(first.client().clone());
    let ours = format!("kuadrant.io/controller={}", ControllerName::new(&first.controller_name()).hash());
    for work in works.list(&ListParams::default().labels(&ours)).await?.items {
        let namespace = work.metadata.namespace.clone().unwrap_or_default();
        let api: Api<ManifestWork> = Api::namespaced(first.client().clone(), &namespace);
        api.delete(&work.metadata.name.clone().unwrap_or_default(), &Default::default()).await?;
    }
    for policy in &policies {
        wait::until("the other controller owns the annotations", LIMIT, || async {
            let found = owners(&one, policy).await?;
            ensure!(found == only(last), "{found:?}");
            Ok(())
        })
        .await?;
    }
    ensure!(last.settled(&last_controller).await?.len() > writes);
    Ok(())
}
