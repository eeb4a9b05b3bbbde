//! TLS Secrets of Gateways on real spokes: copied, rotated and removed.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject};
use kube::{Client, ResourceExt};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::fixtures::{https_gateway, namespace, reference_grant, tls_secret};
use policy_sync_testenv::tenant::Tenant;
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use crate::{LIMIT, downstream, tenant, until_copied, until_gone};

/// A Gateway of the tenant with these certificate references.
fn naming(tenant: &Tenant<'_>, name: &str, references: &[Value]) -> Value {
    https_gateway(tenant.name(), name, tenant.name(), references)
}

/// Waits until the copy of a Secret holds `key`, which is in base64.
async fn until_holds(spoke: &Client, secret: &Value, key: &str) -> Result<DynamicObject> {
    until_copied(spoke, secret, |copy| copy.data["data"]["tls.key"] == key).await
}

/// Waits until a namespace of a spoke has `count` ReferenceGrants, and returns them.
async fn until_grants(spoke: &Client, namespace: &str, count: usize) -> Result<Vec<Value>> {
    let (api, _) = api_for(spoke, &reference_grant(namespace, "any", "", "")).await?;
    wait::until(&format!("{namespace} has {count} grants"), LIMIT, || async {
        let found = api.list(&Default::default()).await?.items;
        ensure!(found.len() == count, "found {found:?}");
        Ok(found.into_iter().map(|grant| grant.data).collect())
    })
    .await
}

/// Waits until the agent reports the current generation of the work as applied. After this report, the agent records
/// the applied objects. Later, the agent removes only recorded objects.
async fn until_applied(tenant: &Tenant<'_>, readable: &str) -> Result<()> {
    let is_readable = |work: &ManifestWork| {
        let mut conditions = work.status.iter().flat_map(|status| &status.conditions);
        let applied = conditions.find(|condition| condition.type_ == "Applied");
        applied.is_some_and(|applied| applied.observed_generation == work.metadata.generation)
    };
    tenant.until_work("eu-1", readable, is_readable).await.map(drop)
}

async fn namespace_stays(spoke: &Client, name: &str) -> Result<()> {
    let found = Api::<Namespace>::all(spoke.clone()).get(name).await?;
    ensure!(found.metadata.deletion_timestamp.is_none(), "{name} is being deleted");
    Ok(())
}

#[tokio::test]
async fn secrets_are_copied_rotated_and_removed_with_their_gateway() -> Result<()> {
    let (tenant, fleet) = tenant("certified", &["eu-1"]).await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    tenant.parameters(&json!({"tlsSecrets": "copy"})).await?;
    tenant.apply(&namespace("certified-tls")).await?;
    let own = |key: &str| tls_secret(tenant.name(), "own", key);
    let theirs = |key: &str| tls_secret("certified-tls", "theirs", key);
    let grant = reference_grant("certified-tls", "for-certified", tenant.name(), "theirs");
    for object in [&own("first"), &theirs("first"), &grant] {
        tenant.apply(object).await?;
    }
    let references = [json!({"name": "own"}), json!({"name": "theirs", "namespace": "certified-tls"})];
    tenant.apply(&naming(&tenant, "web", &references)).await?;
    let controller = tenant.controller().await?;

    for secret in [own(""), theirs("")] {
        let copy = until_holds(&spoke, &secret, "Zmlyc3Q=").await?;
        ensure!(copy.data["type"] == "kubernetes.io/tls", "{}", copy.data["type"]);
    }
    let grants = until_grants(&spoke, "kuadrant-certified-tls", 1).await?;
    let expected = json!({
        "from": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "kuadrant-certified"}],
        "to": [{"group": "", "kind": "Secret", "name": "theirs"}],
    });
    ensure!(grants[0]["spec"] == expected, "{}", grants[0]);
    let web = until_copied(&spoke, &naming(&tenant, "web", &[]), |_| true).await?;
    let reference = &web.data["spec"]["listeners"][0]["tls"]["certificateRefs"][1];
    ensure!(reference["namespace"] == "kuadrant-certified-tls", "{reference}");

    // The Secrets are rotated.
    for secret in [own("second"), theirs("second")] {
        tenant.apply(&secret).await?;
        until_holds(&spoke, &secret, "c2Vjb25k").await?;
    }

    // Without the grant on the hub, the copy and the spoke's grant are removed; the namespace stays.
    until_applied(&tenant, "gateway-web").await?;
    tenant.delete(&grant).await?;
    until_gone(&spoke, &theirs("")).await?;
    until_grants(&spoke, "kuadrant-certified-tls", 0).await?;
    namespace_stays(&spoke, "kuadrant-certified-tls").await?;
    until_holds(&spoke, &own(""), "c2Vjb25k").await?;
    tenant.apply(&grant).await?;
    until_holds(&spoke, &theirs(""), "c2Vjb25k").await?;

    // Once the Gateway no longer refers to a Secret, the copy of the Secret is removed.
    until_applied(&tenant, "gateway-web").await?;
    tenant.apply(&naming(&tenant, "web", &references[1..])).await?;
    until_gone(&spoke, &own("")).await?;
    until_holds(&spoke, &theirs(""), "c2Vjb25k").await?;

    tenant.place("all", &[]).await?;
    tenant.until_works(&[]).await?;
    until_gone(&spoke, &theirs("")).await?;
    until_grants(&spoke, "kuadrant-certified-tls", 0).await?;
    for name in ["kuadrant-certified", "kuadrant-certified-tls"] {
        namespace_stays(&spoke, name).await?;
    }
    tenant.settled(&controller).await.map(drop)
}

#[tokio::test]
async fn secret_of_two_gateways_stays_until_both_release_it() -> Result<()> {
    let (tenant, fleet) = tenant("shares-one", &["eu-1"]).await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    tenant.parameters(&json!({"tlsSecrets": "copy"})).await?;
    let secret = |key: &str| tls_secret(tenant.name(), "shared", key);
    tenant.apply(&secret("first")).await?;
    let reference = [json!({"name": "shared"})];
    let gateways = ["web", "api"].map(|name| naming(&tenant, name, &reference));
    for gateway in &gateways {
        tenant.apply(gateway).await?;
    }
    let _controller = tenant.controller().await?;
    for gateway in &gateways {
        until_copied(&spoke, gateway, |_| true).await?;
    }
    let owned = |copy: &DynamicObject| copy.owner_references().len();
    let copy = until_copied(&spoke, &secret(""), |copy| owned(copy) == 2).await?;
    tenant.apply(&secret("second")).await?;
    until_holds(&spoke, &secret(""), "c2Vjb25k").await?;

    tenant.delete(&gateways[0]).await?;
    until_gone(&spoke, &gateways[0]).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-api"]).await?;
    let kept = until_copied(&spoke, &secret(""), |copy| owned(copy) == 1).await?;
    ensure!(kept.metadata.uid == copy.metadata.uid, "the Secret was recreated");
    tenant.apply(&secret("third")).await?;
    until_holds(&spoke, &secret(""), "dGhpcmQ=").await?;

    tenant.delete(&gateways[1]).await?;
    tenant.until_works(&[]).await?;
    until_gone(&spoke, &secret("")).await
}

#[tokio::test]
async fn secret_of_the_spokes_users_is_not_changed() -> Result<()> {
    let (tenant, fleet) = tenant("theirs-first", &["eu-1"]).await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    tenant.parameters(&json!({"tlsSecrets": "copy"})).await?;
    let secret = |key: &str| tls_secret(tenant.name(), "taken", key);
    apply(&spoke, &namespace("kuadrant-theirs-first")).await?;
    let mut made = downstream(&secret(""));
    made.as_object_mut().context("the Secret is not an object")?.remove("stringData");
    made["data"] = json!({"tls.crt": "", "tls.key": "dGhlaXJz"});
    apply(&spoke, &made).await?;
    tenant.apply(&secret("first")).await?;
    let web = naming(&tenant, "web", &[json!({"name": "taken"})]);
    tenant.apply(&web).await?;
    let _controller = tenant.controller().await?;
    wait::until("the message names the conflicting Secret", LIMIT, || async {
        let found = serde_json::to_value(tenant.get(&web).await?)?;
        let mut conditions = found["status"]["conditions"].as_array().into_iter().flatten();
        let programmed = conditions
            .find(|condition| condition["type"] == "Programmed")
            .context("no condition Programmed")?;
        let message = programmed["message"].as_str().unwrap_or_default();
        ensure!(message.contains("conflict") && !message.contains("Zmlyc3Q"), "{message}");
        Ok(())
    })
    .await?;
    until_holds(&spoke, &secret(""), "dGhlaXJz").await?;
    tenant.delete(&web).await?;
    tenant.until_works(&[]).await?;
    until_holds(&spoke, &secret(""), "dGhlaXJz").await.map(drop)
}
