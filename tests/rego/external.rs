//! An external OPA with its own bundle decides placement for writes to a real API server.

use std::fs;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::PostParams;
use policy_sync_testenv::{Opa, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::remediation::{SELECTOR, Shop};
use crate::served::{DeploymentWebhooks, PREFERENCES, app, pci};
use crate::world::LIMIT;

/// The path of the placement package in OPA.
const PACKAGE: &str = "/v1/data/io/k8s/federation/admission";

/// An OPA with a bundle of the published Rego policy and of a fleet.
async fn filled() -> Result<(Opa, TempDir)> {
    let bundle = TempDir::new()?;
    let cluster = |zone: &str| json!({"metadata": {"labels": {"zone": zone, "pci": "certified"}}});
    let data = json!({"kubernetes": {"clusters": {"c1": cluster("eu"), "c2": cluster("us")}}});
    fs::write(bundle.path().join("data.json"), data.to_string())?;
    fs::write(bundle.path().join("pci.rego"), pci("eu"))?;
    let opa = Opa::with(&["--bundle".to_owned(), bundle.path().display().to_string()], None).await?;
    Ok((opa, bundle))
}

impl DeploymentWebhooks {
    async fn tried(&self, annotations: Value) -> Result<Deployment> {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        Ok(self.deployments().create(&dry, &app("shop", annotations)?).await?)
    }

    async fn until_placed(&self) -> Result<()> {
        wait::until("an app is placed", LIMIT, || async {
            let found = self.tried(json!({"requires-pci": "true"})).await?;
            let expected = r#"{"clusters":{"c1":{"weight":1}},"rebalance":true}"#;
            ensure!(
                found.annotations().get(PREFERENCES).is_some_and(|found| found == expected),
                "the preferences are missing or different"
            );
            Ok(())
        })
        .await
    }
}

#[tokio::test]
async fn external_engine_is_queried_while_a_config_map_exists_and_its_content_is_ignored() -> Result<()> {
    let (mut opa, _bundle) = filled().await?;
    let url = format!("--placement-url={}{PACKAGE}", opa.url());
    let served = DeploymentWebhooks::with("rego-elsewhere", &[&url]).await?;
    let untouched = served.tried(json!({"requires-pci": "true"})).await?;
    ensure!(!untouched.annotations().contains_key(PREFERENCES), "OPA is queried without a ConfigMap");

    served.world.write("any", json!({"any.rego": "this is no Rego"})).await?;
    let status = served.world.until_ok("any").await?;
    ensure!(
        status["notes"] == json!([format!("not loaded: {}{PACKAGE} decides placement", opa.url())]),
        "{status}"
    );
    served.until_placed().await?;
    let wish = json!({"requires-pci": "true", PREFERENCES: r#"{"clusters":{"c2":{"weight":1}}}"#});
    let error = served.tried(wish).await.err().context("the write is admitted")?.to_string();
    ensure!(error.contains("shop handles card data: cluster c2 is not certified for it"), "{error}");

    opa.kill();
    let error = served.tried(json!({})).await.err().context("the write is admitted")?.to_string();
    ensure!(error.contains(&format!("{}{PACKAGE}: ", opa.url())), "{error}");
    served.world.delete("any").await?;
    wait::until("OPA is not queried", LIMIT, || async { served.tried(json!({})).await.map(drop) }).await?;
    served.stop().await
}

#[tokio::test]
async fn admission_configuration_file_selects_the_engine_and_is_reloaded() -> Result<()> {
    let (opa, _bundle) = filled().await?;
    let folder = TempDir::new()?;
    let file = folder.path().join("admission.json");
    let configure = |path: &str| {
        let policy = json!({"url": format!("{}{path}", opa.url()), "token": "secret"});
        fs::write(&file, json!({"EnforceSchedulingPolicy": policy}).to_string())
    };
    configure("/v1/data/nowhere")?;
    let argument = format!("--admission-control-config-file={}", file.display());
    let served = DeploymentWebhooks::with("rego-configured", &[&argument, "--placement-url-always"]).await?;
    // The API server calls a new webhook a moment after it was configured.
    wait::until("the write is denied", LIMIT, || async {
        let error = served.tried(json!({})).await.err().context("the write is admitted")?.to_string();
        ensure!(error.contains("/v1/data/nowhere returned no result"), "{error}");
        Ok(())
    })
    .await?;
    configure(&format!("{PACKAGE}/annotations"))?;
    served.until_placed().await?;
    let wish = json!({"requires-pci": "true", PREFERENCES: r#"{"clusters":{"c2":{"weight":1}}}"#});
    let error = served.tried(wish).await.err().context("the write is admitted")?.to_string();
    ensure!(error.contains("cluster c2 is not certified for it"), "{error}");

    fs::write(&file, "{")?;
    wait::until("/readyz reports the invalid file", LIMIT, || async {
        let (code, text) = served.controller.readiness().await?;
        ensure!(
            code == 200 && text.contains("admission.json: EOF") && !text.contains("secret"),
            "{code} {text}"
        );
        Ok(())
    })
    .await?;
    // The previous configuration stays in force.
    served.until_placed().await?;
    served.stop().await
}

#[tokio::test]
async fn existing_objects_are_queried_again_at_the_resync_interval() -> Result<()> {
    let opa = Opa::start().await?;
    let shop = Shop::open("rego-resync").await?;
    let says = async |region: &str| {
        let policy = format!(
            "package io.k8s.federation.admission\nannotations[\"{SELECTOR}\"] = \"region={region}\" {{ input.metadata.namespace == \"{}\" }}\n",
            shop.name
        );
        let (status, response) = opa.ask("PUT", "/v1/policies/p", policy.into_bytes()).await?;
        ensure!(status.is_success(), "{response}");
        Ok(())
    };
    says("eu").await?;
    let limits = shop.limits("plain", json!({}));
    shop.apply(&limits).await?;
    let url = format!("--placement-url={}{PACKAGE}", opa.url());
    let controller =
        shop.world.controller(&[&url, "--placement-url-always", "--placement-resync=1s"]).await?;
    shop.until(&limits, Some("region=eu")).await?;
    says("us").await?;
    shop.until(&limits, Some("region=us")).await?;
    opa.ask("DELETE", "/v1/policies/p", Vec::new()).await?;
    controller.terminate().await?;
    Ok(())
}
