//! RegoPolicies. They are cluster-scoped, so these tests have a hub of their own.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams};
use policy_sync_api::rego_policy::RegoPolicy;
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::{Controller, Fleet, FleetOptions, fixtures, wait};
use serde_json::{Value, json};

use crate::world::{BINARY, LIMIT, denies, until_loaded};

/// Waits until the condition `Loaded` has this reason, and returns its message.
async fn until_loaded_reason(client: &Client, name: &str, reason: &str) -> Result<String> {
    let policies: Api<RegoPolicy> = Api::all(client.clone());
    wait::until(&format!("{name} is {reason}"), LIMIT, || async {
        let policy = policies.get(name).await?;
        let conditions = policy.status.unwrap_or_default().conditions;
        let loaded = conditions
            .into_iter()
            .find(|condition| condition.type_ == "Loaded")
            .context("condition Loaded is missing")?;
        ensure!(loaded.reason == reason, "{loaded:?}");
        ensure!(loaded.observed_generation == policy.metadata.generation, "{loaded:?}");
        Ok(loaded.message)
    })
    .await
}

fn policy(name: &str, rego: &str) -> Value {
    json!({
        "apiVersion": "policysync.kuadrant.io/v1alpha1", "kind": "RegoPolicy",
        "metadata": {"name": name}, "spec": {"rego": rego},
    })
}

#[tokio::test]
async fn rego_policy_has_the_loaded_condition_even_if_its_crd_is_installed_later() -> Result<()> {
    let fleet = Fleet::start(FleetOptions { agents: false, ..FleetOptions::spokes([]) }).await?;
    let client = fleet.hub().client()?;
    apply(&client, &fixtures::namespace("policies")).await?;
    let controller = Controller::start(
        Path::new(BINARY),
        fleet.hub(),
        &["--rego-namespace=policies", "--webhook-bind-address=0"],
    )
    .await?;
    until_loaded(&controller, 0).await?;
    let definition = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/policy-sync/files/regopolicies.yaml");
    let definition: Value = serde_saphyr::from_str(&std::fs::read_to_string(definition)?)?;
    apply(&client, &definition).await?;
    wait::until("the kind is served", LIMIT, || async {
        apply(&client, &policy("good", &denies("a"))).await.map(drop)
    })
    .await?;
    ensure!(until_loaded_reason(&client, "good", "Loaded").await? == "in force");
    until_loaded(&controller, 1).await?;

    apply(&client, &policy("bad", "package admission\ndeny[\"x\"] { foo.bar(1) }")).await?;
    let message = until_loaded_reason(&client, "bad", "Refused").await?;
    ensure!(
        message.starts_with("rejected; everything that it would evaluate is denied\nregopolicies/bad:2:"),
        "{message}"
    );
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::all(client.clone());
    wait::until("the Event exists", LIMIT, || async {
        let events = events.list(&ListParams::default()).await?.items;
        let is_it = |event: &&k8s_openapi::api::core::v1::Event| {
            event.reason.as_deref() == Some("PolicyRefused")
                && event.involved_object.name.as_deref() == Some("bad")
        };
        ensure!(events.iter().filter(is_it).count() == 1, "{events:?}");
        Ok(())
    })
    .await?;
    // A valid RegoPolicy becomes invalid. Its last valid text stays in force.
    apply(&client, &policy("good", "package admission\ndeny[")).await?;
    let message = until_loaded_reason(&client, "good", "Refused").await?;
    ensure!(message.starts_with("rejected; the previous version stays in force\n"), "{message}");

    // The API server rejects a value of `enforcement` that its enumeration lacks.
    let mut loud = policy("loud", &denies("a"));
    loud["spec"]["enforcement"] = "loud".into();
    let error = format!(
        "{:#}",
        apply(&client, &loud).await.err().context("the API server accepts an invalid enforcement")?
    );
    ensure!(error.contains("spec.enforcement"), "{error}");
    let mut warns = policy("good", &denies("a"));
    warns["spec"]["enforcement"] = "warn".into();
    apply(&client, &warns).await?;
    until_loaded_reason(&client, "good", "Loaded").await?;

    // Deleting the CustomResourceDefinition unloads all RegoPolicies.
    let definitions: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(client.clone());
    definitions.delete("regopolicies.policysync.kuadrant.io", &DeleteParams::default()).await?;
    until_loaded(&controller, 0).await
}
