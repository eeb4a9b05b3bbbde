//! TLS Secrets that a Gateway names and that do not travel.

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::fixtures::{
    https_gateway, namespace, rate_limit_policy, reference_grant, tls_secret,
};
use policy_sync_testenv::world::{World, all_kinds};
use serde_json::{Value, json};

use super::page::{Row, holds};
use super::{goes_on, until_event};
use crate::kinds::{limited, limited_controller};
use crate::secrets::carried;
use crate::world;

const PLACE: &str = "Event on the Gateway, in the message of its `Accepted`; it goes out without that Secret";

/// A Gateway of its own that names this Secret, on `eu-1`.
async fn naming(world: &World<'_>, name: &str, reference: Value) -> Result<Value> {
    let gateway = https_gateway(world.name(), name, world.name(), &[reference]);
    world.apply(&gateway).await?;
    Ok(gateway)
}

/// What is told of the Gateway in an Event, and in the message of `Accepted`.
async fn told(world: &World<'_>, input: &'static str, gateway: &Value) -> Result<Row> {
    let (reason, message) = until_event(world, gateway, "Secret").await?;
    super::until_gateway_says(world, gateway, &message).await?;
    let name = gateway["metadata"]["name"].as_str().context("a name")?;
    let work = world.until_work("eu-1", &format!("gateway-{name}"), |_| true).await?;
    ensure!(carried(&work).is_empty(), "{:?}", carried(&work));
    Ok(Row { input, place: PLACE, reason, message })
}

#[tokio::test]
async fn secrets_that_do_not_travel() -> Result<()> {
    let world = world("certificates", &["eu-1"]).await?;
    let mut params = all_kinds();
    params["tlsSecrets"] = json!("copy");
    world.parameters(&params).await?;
    for name in ["system", "certificates-tls"] {
        world.apply(&namespace(name)).await?;
        world.apply(&tls_secret(name, "certificates", "key")).await?;
    }
    let mut opaque = tls_secret(world.name(), "opaque", "key");
    opaque["type"] = "Opaque".into();
    world.apply(&opaque).await?;
    world.apply(&reference_grant("system", "certificates", world.name(), "certificates")).await?;
    world.apply(&reference_grant("certificates-tls", "other", world.name(), "another")).await?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    let controller = world.controller().await?;
    let of = |namespace: &str| json!({"name": "certificates", "namespace": namespace});
    let mut rows = Vec::new();
    for (input, name, reference) in [
        ("a Secret that does not exist", "missing", json!({"name": "missing"})),
        ("a Secret of another type", "opaque", json!({"name": "opaque"})),
        ("a Secret of another namespace, which grants another", "ungranted", of("certificates-tls")),
        ("a Secret of a namespace that does not exist", "nowhere", of("nowhere")),
        ("a Secret of the namespace `system`, which grants it", "reserved", of("system")),
    ] {
        let gateway = naming(&world, name, reference).await?;
        rows.push(told(&world, input, &gateway).await?);
    }
    goes_on(&world, &limits).await?;
    controller.terminate().await?;

    let user = limited(&world, &["get", "list", "watch", "patch"]).await?;
    let _controller = limited_controller(&world, user).await?;
    let gateway = https_gateway(world.name(), "missing", world.name(), &[]);
    let (reason, message) = super::until_gateway_says(&world, &gateway, "cannot list").await?;
    let place = "`Accepted=False` of the Gateway; frozen. One that names no Secret goes on";
    rows.push(Row { input: "the controller may not list Secrets", place, reason, message });
    let mut changed = limits.clone();
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(78);
    world.apply(&changed).await?;
    world.until_work("eu-1", "ratelimitpolicy-limits", |work| crate::limit_of(work) == 78).await?;
    holds("secrets", &rows)
}
