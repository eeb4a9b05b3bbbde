//! Copies with the same target are created on a spoke in the order in which their policies were created on the
//! hub, not in the order of names.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::DynamicObject;
use policy_sync_api::annotations::POLICY_SYNC_MESSAGE;
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::fixtures::{namespace, rate_limit_policy};
use policy_sync_testenv::tenant::{Tenant, rate_limit_policies};
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use crate::{LIMIT, downstream, tenant, until_copied, until_gone};

/// The policies `zzz` and, created in a later second, `aaa`.
async fn zzz_and_aaa(tenant: &Tenant<'_>) -> Result<(Value, Value)> {
    let (zzz, aaa) =
        (rate_limit_policy(tenant.name(), "zzz", "web"), rate_limit_policy(tenant.name(), "aaa", "web"));
    let older = tenant.apply(&zzz).await?.creation_timestamp();
    wait::until("the second policy is younger", LIMIT, || async {
        let younger = tenant.apply(&aaa).await?.creation_timestamp();
        if younger <= older {
            tenant.delete(&aaa).await?;
        }
        ensure!(younger > older, "both were created at {older:?}");
        Ok(())
    })
    .await?;
    Ok((zzz, aaa))
}

/// Waits until the message of `policy` about the order contains `part`, or until there is no message.
async fn until_message(tenant: &Tenant<'_>, policy: &Value, part: Option<&str>) -> Result<()> {
    wait::until("the message about the order is as expected", LIMIT, || async {
        let annotations = tenant.annotations(policy).await?;
        let message = annotations.get(POLICY_SYNC_MESSAGE);
        let fits = match (message, part) {
            (Some(message), Some(part)) => message.contains(part),
            (message, part) => message.is_none() && part.is_none(),
        };
        ensure!(fits, "{message:?}");
        Ok(())
    })
    .await
}

fn created(copy: &DynamicObject) -> Result<i64> {
    Ok(copy.creation_timestamp().context("no creation time")?.0.as_second())
}

#[tokio::test]
async fn copies_are_created_in_the_order_of_their_policies() -> Result<()> {
    let (tenant, fleet) = tenant("age", &["eu-1"]).await?;
    let parameters = json!({"policiesToSync": [rate_limit_policies()], "policyWaitSeconds": 60});
    tenant.parameters(&parameters).await?;
    let (zzz, aaa) = zzz_and_aaa(&tenant).await?;
    let _controller = tenant.controller().await?;
    let eu = fleet.spoke("eu-1")?.client()?;
    let copies = (until_copied(&eu, &zzz, |_| true).await?, until_copied(&eu, &aaa, |_| true).await?);
    ensure!(created(&copies.0)? < created(&copies.1)?, "{copies:?}");
    tenant.until_folded(&aaa, |_, summary| summary.applied == 1).await?;
    until_message(&tenant, &aaa, None).await?;

    // A user deletes the older copy. The next change of the policy creates the copy again.
    let (api, name) = api_for(&eu, &downstream(&zzz)).await?;
    api.delete(&name, &Default::default()).await?;
    let mut changed = zzz.clone();
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(77);
    tenant.apply(&changed).await?;
    let again = until_copied(&eu, &zzz, |copy| copy.uid() != copies.0.uid()).await?;
    ensure!(created(&again)? >= created(&copies.1)?, "{again:?}");
    let name = tenant.name();
    until_message(&tenant, &zzz, Some(&format!("its copy was created after that of {name}/aaa"))).await?;
    until_message(&tenant, &aaa, Some(&format!("its copy was created before that of {name}/zzz"))).await?;
    ensure!(
        until_copied(&eu, &aaa, |_| true).await?.uid() == copies.1.uid(),
        "the copy of aaa was recreated"
    );

    // The younger policy is recreated, as the message recommends.
    tenant.delete(&aaa).await?;
    until_gone(&eu, &aaa).await?;
    tenant.apply(&aaa).await?;
    let last = until_copied(&eu, &aaa, |_| true).await?;
    ensure!(created(&last)? > created(&again)?, "{last:?}");
    until_message(&tenant, &zzz, None).await?;
    until_message(&tenant, &aaa, None).await
}

#[tokio::test]
async fn younger_policy_waits_no_longer_than_policy_wait_seconds() -> Result<()> {
    let (tenant, fleet) = tenant("age-waits", &["eu-1"]).await?;
    let wait = 3;
    tenant.parameters(&json!({"policiesToSync": [rate_limit_policies()], "policyWaitSeconds": wait})).await?;
    let (zzz, aaa) = zzz_and_aaa(&tenant).await?;
    let eu = fleet.spoke("eu-1")?.client()?;
    // The older policy cannot be applied, because the spoke's users have an object with the policy's name.
    apply(&eu, &namespace(&format!("kuadrant-{}", tenant.name()))).await?;
    let mut theirs = downstream(&zzz);
    theirs["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(7);
    apply(&eu, &theirs).await?;
    let _controller = tenant.controller().await?;
    let younger = until_copied(&eu, &aaa, |_| true).await?;
    let work = tenant.work("eu-1", "ratelimitpolicy-zzz").await?;
    let waited = created(&younger)? - work.creation_timestamp().context("no creation time")?.0.as_second();
    ensure!(waited >= wait, "the younger copy was created after {waited} s");

    // The older policy gets its copy later, and the hub reports the wrong order.
    let (api, name) = api_for(&eu, &theirs).await?;
    api.delete(&name, &Default::default()).await?;
    let mut changed = zzz.clone();
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(77);
    tenant.apply(&changed).await?;
    let name = tenant.name();
    until_message(&tenant, &zzz, Some(&format!("its copy was created after that of {name}/aaa"))).await?;
    until_message(&tenant, &aaa, Some(&format!("its copy was created before that of {name}/zzz"))).await
}
