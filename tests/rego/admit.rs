//! Denials and patches by admission policies when objects are written to a real API server.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject};
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::fixtures;
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use crate::registration::ManagedWebhooks;
use crate::world::LIMIT;

/// The published Rego policy about image pulls, changed from Pods to PodTemplates, because PodTemplates run nothing.
pub(crate) fn pull() -> String {
    include_str!("../../docs/examples/rego/gates/image-pull-policy.rego")
        .replace("\"pods\"", "\"podtemplates\"")
        .replace("pod.spec", "pod.template.spec")
        .replace("/spec/containers", "/template/spec/containers")
}

const LOAD_BALANCERS: &str = include_str!("../../docs/examples/rego/gates/load-balancers.rego");

fn template(namespace: &str, name: &str) -> Value {
    let containers = [json!({"name": "c", "image": "i", "imagePullPolicy": "Never"})];
    json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name, "namespace": namespace},
        "template": {"spec": {"containers": containers}}})
}

fn balancer(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}})
}

/// The resources of the `admit-` entry in each of the two webhook configurations.
fn gated(entries: &[Vec<Value>; 2]) -> Vec<Value> {
    let entries = entries.iter().flatten();
    let admit = entries.filter(|entry| entry["name"].as_str().is_some_and(|name| name.starts_with("admit-")));
    admit.map(|entry| entry["rules"][0]["resources"].clone()).collect()
}

/// The image pull policy of a PodTemplate's first container.
pub(crate) fn policy_of(object: &DynamicObject) -> &Value {
    &object.data["template"]["spec"]["containers"][0]["imagePullPolicy"]
}

#[tokio::test]
async fn writes_are_patched_or_denied_by_rego_policies_and_other_kinds_are_not_reviewed() -> Result<()> {
    let name = "rego-gates";
    let mut hub = ManagedWebhooks::start(name).await?;
    let shop = ManagedWebhooks::shop(name);
    for number in ["a", "b"] {
        hub.create(&balancer(&shop, number)).await?;
    }
    hub.world.write("gates", json!({"pull.rego": pull(), "balancers.rego": LOAD_BALANCERS})).await?;
    let both = [json!(["podtemplates", "services"]), json!(["podtemplates", "services"])];
    hub.until_entries("both configurations have the kinds of the Rego policies", |entries| {
        gated(entries) == both
    })
    .await?;
    hub.world.until_ok("gates").await?;

    // The API server calls a new webhook a moment after it was configured.
    wait::until("the API server calls the webhook", LIMIT, || async {
        let stored = hub.create(&template(&shop, "")).await;
        ensure!(stored.is_err(), "a PodTemplate without a name is admitted");
        let mut named = template(&shop, "");
        named["metadata"] = json!({"generateName": "web-", "namespace": shop});
        let stored = hub.create(&named).await?;
        ensure!(policy_of(&stored) == "Always", "{stored:?}");
        Ok(())
    })
    .await?;
    let words = "load-balancers: rego-gates-shop would have 3 load balancers, 2 are allowed";
    let error = hub.create(&balancer(&shop, "c")).await.err().context("the write is admitted")?;
    ensure!(format!("{error:#}").contains(words), "{error:#}");
    // An object with `generateName: b` does not replace the stored object `b`, so the object is counted as a third
    // load balancer.
    let mut generated = balancer(&shop, "b");
    generated["metadata"] = json!({"generateName": "b", "namespace": shop});
    let error = hub.create(&generated).await.err().context("the object with a generated name is admitted")?;
    ensure!(format!("{error:#}").contains(words), "{error:#}");
    let events: Api<Event> = Api::namespaced(hub.client().clone(), &shop);
    wait::until("the Event exists", LIMIT, || async {
        let events = events.list(&Default::default()).await?.items;
        let event = events.iter().find(|event| event.reason.as_deref() == Some("AdmissionDenied"));
        let event = event.with_context(|| format!("{events:?}"))?;
        ensure!(event.message.as_deref() == Some(words), "{event:?}");
        ensure!(event.involved_object.kind.as_deref() == Some("Namespace"), "{event:?}");
        Ok(())
    })
    .await?;
    // One of the two existing Services may be updated, and exempt namespaces are not reviewed.
    let mut again = balancer(&shop, "b");
    again["metadata"]["labels"] = json!({"again": "yes"});
    apply(hub.client(), &again).await?;
    for number in ["a", "b", "c"] {
        hub.create(&balancer("kube-system", number)).await?;
    }
    let stored = hub.create(&template("kube-system", "web")).await?;
    ensure!(policy_of(&stored) == "Never", "{stored:?}");

    // With the enforcement `warn`, the API server admits the write.
    let mut lenient =
        hub.world.config_map("gates", &json!({"pull.rego": pull(), "balancers.rego": LOAD_BALANCERS}));
    lenient["metadata"]["annotations"] = json!({"kuadrant.io/enforcement": "warn"});
    apply(hub.client(), &lenient).await?;
    wait::until("the write is admitted with enforcement warn", LIMIT, || async {
        hub.create(&balancer(&shop, "d")).await.map(drop)
    })
    .await?;
    let stored = hub.create(&template(&shop, "warned")).await?;
    ensure!(policy_of(&stored) == "Never", "{stored:?}");
    let metrics = hub.controller()?.metrics().await?;
    for (path, verdict) in [
        ("/admit", "changed"),
        ("/admit", "denied"),
        ("/admit", "allowed"),
        ("/admit/validating", "allowed"),
        ("/admit/validating", "warned"),
    ] {
        let labels = [("path", path), ("verdict", verdict)];
        ensure!(
            metrics.value("policy_sync_webhook_requests_total", &labels)? > 0.0,
            "{path}: no request has the verdict {verdict}"
        );
    }
    // While no replica responds, writes of the kinds in Rego policies fail, and all other writes pass.
    hub.stop().await?;
    let error = hub
        .create(&template(&shop, "later"))
        .await
        .err()
        .context("the write is admitted without a review")?;
    ensure!(format!("{error:#}").contains("failed calling webhook"), "{error:#}");
    hub.create(
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any", "namespace": shop}}),
    )
    .await?;
    hub.world.delete("gates").await?;
    hub.run(&[]).await?;
    hub.until_entries("the configurations have no entries", |entries| entries.iter().all(Vec::is_empty))
        .await?;
    wait::until("writes are not reviewed", LIMIT, || async {
        let stored = hub.create(&template(&shop, "later")).await?;
        ensure!(stored.name_any() == "later", "{stored:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn rule_without_a_kind_reviews_all_kinds_and_can_still_be_fixed() -> Result<()> {
    let name = "rego-any";
    let hub = ManagedWebhooks::start(name).await?;
    let shop = ManagedWebhooks::shop(name);
    let everything = "package admission\nimport rego.v1\ndeny contains \"nothing is written\" if true\n";
    hub.world.write("everything", json!({"a.rego": everything})).await?;
    let all = [json!(["*"]), json!(["*"])];
    hub.until_entries("the entries have all kinds", |entries| gated(entries) == all).await?;
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any", "namespace": shop}});
    wait::until("the write is denied", LIMIT, || async {
        let Err(error) = hub.create(&map).await else {
            hub.delete(&map).await?;
            anyhow::bail!("the write is admitted");
        };
        ensure!(format!("{error:#}").contains("nothing is written"), "{error:#}");
        Ok(())
    })
    .await?;
    let error = apply(hub.client(), &fixtures::namespace("rego-any-other"))
        .await
        .err()
        .context("the write is admitted")?;
    ensure!(format!("{error:#}").contains("nothing is written"), "{error:#}");
    // Deleting the webhook configurations ends a lockout. Until the configurations exist again, the status of the
    // ConfigMap reports that the configurations are missing.
    hub.lock(false).await?;
    wait::until("the write is admitted", LIMIT, || async { hub.create(&map).await.map(drop) }).await?;
    hub.delete(&map).await?;
    let is_told = |status: &Value| {
        status["error"]["message"]
            .as_str()
            .is_some_and(|message| message.contains("WebhookConfiguration rego-any"))
    };
    hub.world.until_status("everything", is_told).await?;
    hub.lock(true).await?;
    hub.until_entries("the entries have all kinds again", |entries| gated(entries) == all).await?;
    // The lockout does not affect the leader election, changes of Rego policies, or deletions.
    hub.world.write("everything", json!({"a.rego": everything.replace("if true", "if false")})).await?;
    wait::until("the write is admitted", LIMIT, || async { hub.create(&map).await.map(drop) }).await?;
    hub.delete(&map).await
}
