//! `effective --clusters`: the effective policies on each spoke, with overrides, and with the spoke's own policies.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::fixtures::{gateway, rate_limit_policy};
use policy_sync_testenv::{Tenant, wait};
use serde_json::{Value, json};

use crate::{LIMIT, downstream, tenant, until_copied};

const KIND: &str = "RateLimitPolicy.kuadrant.io";

/// The output of `effective` with `arguments`.
fn answers(tenant: &Tenant<'_>, arguments: &[&str]) -> Result<Vec<Value>> {
    let output = Command::new(env!("CARGO_BIN_EXE_policy-sync"))
        .args([
            "effective",
            "-o",
            "json",
            "-n",
            tenant.name(),
            "--controller-name",
            &tenant.controller_name(),
        ])
        .args(arguments)
        .arg("--kubeconfig")
        .arg(tenant.hub().kubeconfig())
        .output()?;
    let json: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
    json["answers"].as_array().cloned().with_context(|| json.to_string())
}

/// The element of `answers` that includes `cluster`.
fn on<'a>(answers: &'a [Value], cluster: &str) -> Result<&'a Value> {
    let is_of =
        |answer: &&Value| answer["clusters"].as_array().into_iter().flatten().any(|name| name == cluster);
    answers.iter().find(is_of).with_context(|| format!("{cluster}: {answers:#?}"))
}

fn id(answer: &Value) -> &Value {
    &answer["effective"][KIND]["id"]
}

#[tokio::test]
async fn effective_policies_differ_by_override_and_local_policy() -> Result<()> {
    let (tenant, fleet) = tenant("effective", &["eu-1", "us-1"]).await?;
    let _controller = tenant.controller().await?;
    let eu = fleet.spoke("eu-1")?.client()?;
    let mut limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_folded(&limits, |_, summary| summary.enforced == 2 && summary.pending == 0).await?;
    until_copied(&eu, &gateway(tenant.name(), "web", tenant.name(), None), |_| true).await?;
    let same = answers(&tenant, &["--clusters"])?;
    ensure!(id(on(&same, "eu-1")?) == id(on(&same, "us-1")?), "{same:#?}");

    let patch = json!({"limits": {"all": {"rates": [{"limit": 5, "window": "10s"}]}}});
    let overrides = json!([{"clusterSelector": "region in (us)", "patch": patch}]);
    limits["metadata"]["annotations"] = json!({"kuadrant.io/cluster-overrides": overrides.to_string()});
    tenant.apply(&limits).await?;
    let us = fleet.spoke("us-1")?.client()?;
    until_copied(&us, &limits, |copy| copy.data["spec"]["limits"]["all"]["rates"][0]["limit"] == 5).await?;
    // The works have the new revision before the annotations do.
    let differing = wait::until("both clusters enforce their copies", LIMIT, || async {
        let answers = answers(&tenant, &["--clusters"])?;
        for cluster in ["eu-1", "us-1"] {
            let state = &on(&answers, cluster)?["policies"][0]["state"];
            ensure!(state == "Enforced", "{cluster}: {answers:#?}");
        }
        Ok(answers)
    })
    .await?;
    let (of_eu, of_us) = (on(&differing, "eu-1")?, on(&differing, "us-1")?);
    ensure!(id(of_eu) == id(on(&same, "eu-1")?) && id(of_us) != id(of_eu), "{differing:#?}");
    ensure!(of_us["policies"][0]["differs"] == json!(["/limits/all/rates"]), "{of_us:#}");
    ensure!(of_us["policies"][0]["state"] == "Enforced", "{of_us:#}");
    let one = answers(&tenant, &["--cluster", "us-1"])?;
    ensure!(id(&one[0]) == id(of_us) && one[0]["policies"] == of_us["policies"], "{one:#?}");
    // The listener serves requests for `shop.example.com`, so `--host` leaves out no result.
    ensure!(answers(&tenant, &["--clusters", "--host", "shop.example.com"])?.len() == differing.len());

    let generation = tenant.get(&limits).await?.metadata.generation;
    let mut local = downstream(&limits);
    local["metadata"] = json!({"name": "local", "namespace": local["metadata"]["namespace"]});
    apply(&eu, &local).await?;
    tenant.until_folded(&limits, |_, summary| summary.overridden == 1).await?;
    let overridden = answers(&tenant, &["--clusters"])?;
    let of_eu = on(&overridden, "eu-1")?;
    let policy = &of_eu["policies"][0];
    ensure!(of_eu["effective"] == json!({}) && of_eu["certain"] == false, "{of_eu:#}");
    ensure!(
        policy["reason"] == "Overridden"
            && policy["message"].as_str().is_some_and(|text| text.contains("local")),
        "{of_eu:#}"
    );
    ensure!(id(on(&overridden, "us-1")?) == id(of_us), "{overridden:#?}");
    // On the spoke, the same binary shows that the policy is a copy.
    let ran = Command::new(env!("CARGO_BIN_EXE_policy-sync"))
        .args(["topology", "-n", local["metadata"]["namespace"].as_str().unwrap_or_default(), "--kubeconfig"])
        .arg(fleet.spoke("eu-1")?.kubeconfig())
        .output()?;
    let tree = String::from_utf8_lossy(&ran.stdout).into_owned();
    ensure!(tree.contains("(copy of the hub's effective/web)"), "{tree} {ran:?}");

    let (api, name) = api_for(&eu, &local).await?;
    api.delete(&name, &Default::default()).await?;
    tenant.until_folded(&limits, |_, summary| summary.enforced == 2 && summary.overridden == 0).await?;
    let after = answers(&tenant, &["--clusters"])?;
    ensure!(id(on(&after, "eu-1")?) == id(on(&same, "eu-1")?), "{after:#?}");
    ensure!(tenant.get(&limits).await?.metadata.generation == generation, "the policy on the hub changed");
    Ok(())
}
