//! RegoPolicies, on a hub of their own: they are of the whole cluster.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams};
use policy_sync_api::rego_policy::RegoPolicy;
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::{Controller, Fleet, FleetOptions, fixtures, wait};
use serde_json::{Value, json};

use crate::world::{BINARY, LIMIT, denies, until_loaded};

/// What it says in `Loaded`: reason and message.
async fn until_loaded_says(client: &Client, name: &str, reason: &str) -> Result<String> {
    let policies: Api<RegoPolicy> = Api::all(client.clone());
    wait::until(&format!("{name} is {reason}"), LIMIT, || async {
        let policy = policies.get(name).await?;
        let conditions = policy.status.unwrap_or_default().conditions;
        let loaded =
            conditions.into_iter().find(|condition| condition.type_ == "Loaded").context("no condition")?;
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
async fn a_rego_policy_says_whether_it_is_loaded_also_where_its_kind_comes_later() -> Result<()> {
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
    ensure!(until_loaded_says(&client, "good", "Loaded").await? == "in force");
    until_loaded(&controller, 1).await?;

    apply(&client, &policy("bad", "package admission\ndeny[\"x\"] { foo.bar(1) }")).await?;
    let message = until_loaded_says(&client, "bad", "Refused").await?;
    ensure!(message.starts_with("refused; what it would decide is denied\nregopolicies/bad:2:"), "{message}");
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::all(client.clone());
    wait::until("the Event", LIMIT, || async {
        let events = events.list(&ListParams::default()).await?.items;
        let is_it = |event: &&k8s_openapi::api::core::v1::Event| {
            event.reason.as_deref() == Some("PolicyRefused")
                && event.involved_object.name.as_deref() == Some("bad")
        };
        ensure!(events.iter().filter(is_it).count() == 1, "{events:?}");
        Ok(())
    })
    .await?;
    // A good one that gets a fault: its last good text stays.
    apply(&client, &policy("good", "package admission\ndeny[")).await?;
    let message = until_loaded_says(&client, "good", "Refused").await?;
    ensure!(message.starts_with("refused; what was in force before stays\n"), "{message}");

    // The API refuses what is none of the three words.
    let mut loud = policy("loud", &denies("a"));
    loud["spec"]["enforcement"] = "loud".into();
    let error = format!("{:#}", apply(&client, &loud).await.err().context("the API takes it")?);
    ensure!(error.contains("spec.enforcement"), "{error}");
    let mut warns = policy("good", &denies("a"));
    warns["spec"]["enforcement"] = "warn".into();
    apply(&client, &warns).await?;
    until_loaded_says(&client, "good", "Loaded").await?;

    // With their kind they all go.
    let definitions: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(client.clone());
    definitions.delete("regopolicies.policysync.kuadrant.io", &DeleteParams::default()).await?;
    until_loaded(&controller, 0).await
}
