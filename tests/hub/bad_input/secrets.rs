//! TLS Secrets that a Gateway names and that are not copied.

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::fixtures::{
    https_gateway, namespace, rate_limit_policy, reference_grant, tls_secret,
};
use policy_sync_testenv::tenant::{Tenant, all_kinds};
use serde_json::{Value, json};

use super::page::{Row, holds};
use super::{syncs_changes, until_event};
use crate::kinds::{limited, limited_controller};
use crate::secrets::secrets_in_work;
use crate::tenant;

const PLACE: &str = "Event on the Gateway, message of its `Accepted`; synced without that Secret";

/// Creates a Gateway on `eu-1` with this certificate reference.
async fn naming(tenant: &Tenant<'_>, name: &str, reference: Value) -> Result<Value> {
    let gateway = https_gateway(tenant.name(), name, tenant.name(), &[reference]);
    tenant.apply(&gateway).await?;
    Ok(gateway)
}

/// Waits for the Event on the Gateway and the same message in `Accepted`, and checks that no Secret is
/// copied.
async fn row(tenant: &Tenant<'_>, input: &'static str, gateway: &Value) -> Result<Row> {
    let (reason, message) = until_event(tenant, gateway, "Secret").await?;
    super::until_gateway_message(tenant, gateway, &message).await?;
    let name = gateway["metadata"]["name"].as_str().context("the Gateway has no name")?;
    let work = tenant.until_work("eu-1", &format!("gateway-{name}"), |_| true).await?;
    ensure!(secrets_in_work(&work).is_empty(), "{:?}", secrets_in_work(&work));
    Ok(Row { input, place: PLACE, reason, message })
}

#[tokio::test]
async fn messages_for_secrets_that_are_not_copied() -> Result<()> {
    let tenant = tenant("certificates", &["eu-1"]).await?;
    let mut params = all_kinds();
    params["tlsSecrets"] = json!("copy");
    tenant.parameters(&params).await?;
    for name in ["system", "certificates-tls"] {
        tenant.apply(&namespace(name)).await?;
        tenant.apply(&tls_secret(name, "certificates", "key")).await?;
    }
    let mut opaque = tls_secret(tenant.name(), "opaque", "key");
    opaque["type"] = "Opaque".into();
    tenant.apply(&opaque).await?;
    tenant.apply(&reference_grant("system", "certificates", tenant.name(), "certificates")).await?;
    tenant.apply(&reference_grant("certificates-tls", "other", tenant.name(), "another")).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let controller = tenant.controller().await?;
    let of = |namespace: &str| json!({"name": "certificates", "namespace": namespace});
    let mut rows = Vec::new();
    for (input, name, reference) in [
        ("a Secret that does not exist", "missing", json!({"name": "missing"})),
        ("a Secret of another type", "opaque", json!({"name": "opaque"})),
        ("a Secret in another namespace that grants a different Secret", "ungranted", of("certificates-tls")),
        ("a Secret in a namespace that does not exist", "nowhere", of("nowhere")),
        ("a Secret in the namespace `system`, which grants it", "reserved", of("system")),
    ] {
        let gateway = naming(&tenant, name, reference).await?;
        rows.push(row(&tenant, input, &gateway).await?);
    }
    syncs_changes(&tenant, &limits).await?;
    controller.terminate().await?;

    let user = limited(&tenant, &["get", "list", "watch", "patch"]).await?;
    let _controller = limited_controller(&tenant, user).await?;
    let gateway = https_gateway(tenant.name(), "missing", tenant.name(), &[]);
    let (reason, message) = super::until_gateway_message(&tenant, &gateway, "cannot list").await?;
    let place = "Gateway, `Accepted=False`; frozen. Gateways without Secrets are synced";
    rows.push(Row { input: "the controller may not list Secrets", place, reason, message });
    let mut changed = limits.clone();
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(78);
    tenant.apply(&changed).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |work| crate::limit_of(work) == 78).await?;
    holds("secrets", &rows)
}
