//! Tests with a hub, spokes and agents. By default, the agents are the built-in agents of the test environment. If
//! `POLICY_SYNC_WORK_AGENT` names the agent of Open Cluster Management, the tests use that agent. The tests check the
//! state that users see on the spokes and on the hub.

mod age;
mod ancestors;
mod conditions;
mod conflicts;
mod effective;
mod fields;
mod gateways;
mod hierarchy;
mod journey;
mod order;
mod overrides;
mod resources;
mod secrets;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use kube::Client;
use kube::api::DynamicObject;
use policy_sync_testenv::apply::api_for;
use policy_sync_testenv::{Fleet, Tenant, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

/// Creates a tenant on the fleet that all tests share.
async fn tenant(name: &str, clusters: &[&str]) -> Result<(Tenant<'static>, &'static Fleet)> {
    let fleet = Fleet::shared().await?;
    let tenant =
        Tenant::new(fleet.hub(), Path::new(env!("CARGO_BIN_EXE_policy-sync")), name, clusters).await?;
    Ok((tenant, fleet))
}

/// The copy of `object` on a spoke: the same kind and name, in the mapped namespace.
fn downstream(object: &Value) -> Value {
    let mut copy = object.clone();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    copy["metadata"]["namespace"] = format!("kuadrant-{namespace}").into();
    copy
}

/// Waits until `fits` accepts the copy of `object` on a spoke.
async fn until_copied(
    spoke: &Client,
    object: &Value,
    fits: impl Fn(&DynamicObject) -> bool,
) -> Result<DynamicObject> {
    let (api, name) = api_for(spoke, &downstream(object)).await?;
    wait::until(&format!("the copy of {name} is as expected"), LIMIT, || async {
        let copy = api.get(&name).await?;
        ensure!(fits(&copy), "it has {}", serde_json::to_string(&copy)?);
        Ok(copy)
    })
    .await
}

/// Waits until a spoke has no copy of `object`.
async fn until_gone(spoke: &Client, object: &Value) -> Result<()> {
    let (api, name) = api_for(spoke, &downstream(object)).await?;
    wait::until(&format!("the copy of {name} is deleted"), LIMIT, || async {
        ensure!(api.get_opt(&name).await?.is_none(), "the copy exists");
        Ok(())
    })
    .await
}
