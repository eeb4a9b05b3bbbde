//! `policy-sync placement diff` and `apply`: comparing existing objects with placement policies, and updating
//! them.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::remediation::{SELECTOR, Shop};
use crate::world::BINARY;

struct ScriptOutput {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Shop {
    async fn run(&self, arguments: &[&str]) -> Result<ScriptOutput> {
        let name = format!("--controller-name=example.com/{}", self.world.namespace);
        let output = Command::new(Path::new(BINARY))
            .arg("placement")
            .args(arguments)
            .args(["--rego-namespace", &self.world.namespace, &name])
            .arg("--kubeconfig")
            .arg(self.world.hub().kubeconfig())
            .output()
            .await?;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).context("the output is not UTF-8");
        Ok(ScriptOutput {
            code: output.status.code(),
            stdout: text(output.stdout)?,
            stderr: text(output.stderr)?,
        })
    }
}

#[tokio::test]
async fn placement_diff_prints_differences_and_apply_resolves_them() -> Result<()> {
    let shop = Shop::open("rego-hands").await?;
    let (limits, bad) = (shop.limits("limits", json!({})), shop.limits("bad", json!({})));
    shop.apply(&limits).await?;
    shop.apply(&bad).await?;
    let none = shop.run(&["diff"]).await?;
    ensure!((none.code, none.stdout.as_str()) == (Some(0), ""), "{} {}", none.stdout, none.stderr);
    shop.world.write("places", shop.policy()).await?;
    shop.locate("asia").await?;
    let expected = format!(
        "RateLimitPolicy {0}/bad\n  not allowed on its clusters, but not removed: nothing bad goes to Asia\n\
         RateLimitPolicy {0}/limits\n  annotation {SELECTOR}: \"region=asia\"\n",
        shop.name
    );
    let diff = shop.run(&["diff"]).await?;
    ensure!(
        (diff.code, diff.stdout.as_str()) == (Some(1), expected.as_str()),
        "{}\n{}",
        diff.stdout,
        diff.stderr
    );
    let elsewhere = shop.run(&["diff", "-n", "default", "-o", "json"]).await?;
    let printed: Value = serde_json::from_str(&elsewhere.stdout)?;
    ensure!((elsewhere.code, printed) == (Some(0), json!({"items": []})), "{}", elsewhere.stdout);
    let listed = shop.run(&["diff", "-n", &shop.name, "-o", "json"]).await?;
    let items = serde_json::from_str::<Value>(&listed.stdout)?["items"].take();
    ensure!(items[0]["violation"] == "nothing bad goes to Asia", "{items}");
    ensure!(items[1]["annotations"][SELECTOR] == "region=asia", "{items}");

    let applied = shop.run(&["apply"]).await?;
    ensure!(applied.code == Some(1), "expected exit code 1 for the violation: {}", applied.stderr);
    ensure!(
        applied.stderr.contains(&format!("RateLimitPolicy {}/limits changed", shop.name)),
        "{}",
        applied.stderr
    );
    shop.until(&limits, Some("region=asia")).await?;
    shop.locate("eu").await?;
    let applied = shop.run(&["apply", "-n", &shop.name]).await?;
    ensure!(applied.code == Some(0), "{}", applied.stderr);
    shop.until(&bad, Some("region=eu")).await?;
    let none = shop.run(&["diff"]).await?;
    ensure!((none.code, none.stdout.as_str()) == (Some(0), ""), "{} {}", none.stdout, none.stderr);

    // A module that cannot be loaded decides nothing.
    shop.world.write("places", json!({"places.rego": "package io.k8s.federation.admission\n{"})).await?;
    let unasked = shop.run(&["diff"]).await?;
    ensure!(unasked.code == Some(2), "{}", unasked.stdout);
    ensure!(
        unasked
            .stderr
            .contains(&format!("Rego policy {}/places/places.rego is unavailable", shop.world.namespace)),
        "{}",
        unasked.stderr
    );
    let namespaceless = shop.run(&["diff", "-n", "Not A Name"]).await?;
    ensure!(
        namespaceless.code == Some(2) && namespaceless.stderr.contains("--namespace"),
        "{}",
        namespaceless.stderr
    );
    Ok(())
}
