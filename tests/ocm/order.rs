//! A spoke never has a Gateway without its policies. The Gateway is created after all its policies and deleted before
//! them, even if there are more policies than the agent applies at once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use policy_sync_testenv::apply::{api_for, apply, apply_all};
use policy_sync_testenv::fixtures::{gateway, namespace, rate_limit_policy};
use policy_sync_testenv::tenant::{Tenant, rate_limit_policies};
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use crate::{downstream, tenant};

const LIMIT: Duration = Duration::from_secs(300);
const OFTEN: Duration = Duration::from_millis(50);

/// The tenant's Gateways and policies on a spoke.
struct Spoke {
    gateways: Api<DynamicObject>,
    policies: Api<DynamicObject>,
}

impl Spoke {
    async fn of(client: &Client, tenant: &Tenant<'_>) -> Result<Self> {
        let web = downstream(&gateway(tenant.name(), "web", tenant.name(), None));
        let limits = downstream(&rate_limit_policy(tenant.name(), "limits", "web"));
        Ok(Self { gateways: api_for(client, &web).await?.0, policies: api_for(client, &limits).await?.0 })
    }

    async fn has_gateway(&self) -> Result<bool> {
        Ok(self.gateways.get_opt("web").await?.is_some())
    }

    /// Returns whether the Gateway exists, and the number of policies. Panics if the Gateway exists with fewer policies
    /// than `all`.
    async fn looked_at(&self, all: usize) -> Result<(bool, usize)> {
        let before = self.has_gateway().await?;
        let policies = self.policies.list_metadata(&ListParams::default()).await?.items.len();
        // The Gateway existed during the whole time, or was recreated.
        let serves = before && self.has_gateway().await?;
        if serves && policies < all {
            // The test panics, because waiting cannot correct this state.
            panic!("the Gateway exists with {policies} of {all} policies");
        }
        Ok((before, policies))
    }

    /// Waits until `fits` accepts the existence of the Gateway and the number of policies.
    async fn until(&self, what: &str, all: usize, fits: impl Fn(bool, usize) -> bool) -> Result<()> {
        wait::until_seen(what, LIMIT, OFTEN, || async {
            let (gateway, policies) = self.looked_at(all).await?;
            ensure!(fits(gateway, policies), "{policies} policies, Gateway exists: {gateway}");
            Ok(())
        })
        .await
    }
}

fn named(tenant: &Tenant<'_>, index: usize) -> Value {
    rate_limit_policy(tenant.name(), &format!("limits-{index}"), "web")
}

/// Waits until the reason and message of `Programmed` begin with `begins`.
async fn until_programmed(tenant: &Tenant<'_>, begins: &str) -> Result<()> {
    let web = gateway(tenant.name(), "web", tenant.name(), Some("all"));
    wait::until(&format!("Programmed of the Gateway is {begins}"), LIMIT, || async {
        let found = serde_json::to_value(tenant.get(&web).await?)?;
        let conditions = found["status"]["conditions"].as_array().context("no conditions")?;
        let programmed = conditions
            .iter()
            .find(|condition| condition["type"] == "Programmed")
            .context("no condition Programmed")?;
        let text = |field: &str| programmed[field].as_str().unwrap_or_default().to_owned();
        let text = format!("{}: {}", text("reason"), text("message"));
        ensure!(text.starts_with(begins), "it is {text}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn gateway_never_exists_without_its_policies() -> Result<()> {
    let (tenant, fleet) = tenant("order", &["eu-1"]).await?;
    let parameters = json!({
        "policiesToSync": [rate_limit_policies()], "policyWaitSeconds": 10, "policyWaitAction": "hold",
    });
    tenant.parameters(&parameters).await?;
    // At its default rate, OCM's agent needs more time for these policies than the class waits.
    let all = if std::env::var_os("POLICY_SYNC_WORK_AGENT").is_some() { 200 } else { 100 };
    let client = fleet.spoke("eu-1")?.client()?;
    let spoke = Spoke::of(&client, &tenant).await?;
    // One policy can never be applied, because the spoke's users have an object with the policy's name.
    apply(&client, &namespace(&format!("kuadrant-{}", tenant.name()))).await?;
    let mut theirs = downstream(&named(&tenant, 0));
    theirs["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(7);
    apply(&client, &theirs).await?;

    let policies: Vec<Value> = (0..all).map(|index| named(&tenant, index)).collect();
    apply_all(tenant.client(), &policies).await?;
    let controller = tenant.controller().await?;
    spoke.until("a quarter of the policies exists", all, |_, found| found >= all / 4).await?;
    controller.kill();
    let controller = tenant.controller().await?;
    spoke
        .until("all policies exist without the Gateway", all, |gateway, found| !gateway && found == all)
        .await?;
    let held = "PoliciesPending: not programmed on 1 of 1 clusters: eu-1 (waits for its policies: \
                ratelimitpolicies/limits-0)";
    until_programmed(&tenant, held).await?;
    ensure!(!spoke.has_gateway().await?, "the Gateway exists");

    // After the blocked policy is deleted, the foreign object still has the policy's name. So the number of policies is
    // the same as before.
    tenant.delete(&policies[0]).await?;
    spoke.until("the Gateway exists", all, |gateway, found| gateway && found == all).await?;
    until_programmed(&tenant, "Programmed: programmed on all of its clusters: 1").await?;
    tenant.place("all", &[]).await?;
    spoke.until("the Gateway is deleted", all, |gateway, _| !gateway).await?;
    spoke.until("the policies are deleted", all, |gateway, found| !gateway && found == 1).await?;
    tenant.settled(&controller).await.map(drop)
}
