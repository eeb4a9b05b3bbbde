//! Events on policies and Gateways.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use policy_sync_testenv::fixtures::gateway;
use policy_sync_testenv::tenant::WorkReport;
use serde_json::json;

use crate::bad_input::until_event;
use crate::synced;

#[tokio::test]
async fn each_state_of_a_policy_or_gateway_gets_one_event() -> Result<()> {
    let (tenant, controller, limits) = synced("told-of").await?;
    let web = gateway(tenant.name(), "web", tenant.name(), Some("all"));
    let programmed = WorkReport::applied().condition("Programmed", "True", "Programmed", "");
    for cluster in ["eu-1", "us-1"] {
        let work = tenant.work(cluster, "ratelimitpolicy-limits").await?;
        tenant.report(&work, &WorkReport::applied().condition("Enforced", "True", "Enforced", "")).await?;
        let work = tenant.work(cluster, "gateway-web").await?;
        tenant.report(&work, &programmed).await?;
    }
    let event = until_event(&tenant, &limits, "applied on all").await?;
    ensure!(
        event == ("Synced".into(), "generation 1 is applied on all of its clusters: 2".into()),
        "{event:?}"
    );
    let event = until_event(&tenant, &web, "programmed on all of its clusters: 2").await?;
    ensure!(event.0 == "Programmed", "{event:?}");

    let overridden = WorkReport::applied().condition("Enforced", "False", "Overridden", "by another");
    let work = tenant.work("us-1", "ratelimitpolicy-limits").await?;
    tenant.report(&work, &overridden).await?;
    let event = until_event(&tenant, &limits, "takes precedence on").await?;
    ensure!(
        event == ("Overridden".into(), "a policy of the cluster takes precedence on: us-1".into()),
        "{event:?}"
    );
    let broken =
        WorkReport::applied().condition("Programmed", "False", "AddressNotUsable", "no such address");
    let work = tenant.work("us-1", "gateway-web").await?;
    tenant.report(&work, &broken).await?;
    let event = until_event(&tenant, &web, "no such address").await?;
    ensure!(event.0 == "NotProgrammed", "{event:?}");

    // A repeated state is not reported again, neither after unrelated changes nor after a restart.
    tenant.merge(&limits, &json!({"metadata": {"labels": {"team": "shop"}}})).await?;
    tenant.settled(&controller).await?;
    let events: Api<Event> = Api::namespaced(tenant.client().clone(), tenant.name());
    let count = || async {
        let found = events.list(&ListParams::default()).await?.items;
        let reasons = found.iter().filter_map(|event| event.reason.clone());
        let mut reasons: Vec<String> = reasons.filter(|reason| reason != "NotPlaced").collect();
        reasons.sort();
        anyhow::Ok(reasons)
    };
    let before = count().await?;
    ensure!(before == ["NotProgrammed", "Overridden", "Programmed", "Synced"], "{before:?}");
    controller.kill();
    let controller = tenant.controller().await?;
    tenant.report(&work, &programmed).await?;
    tenant.settled(&controller).await?;
    let after = count().await?;
    ensure!(after.iter().filter(|reason| *reason == "Synced").count() == 1, "{after:?}");
    Ok(())
}
