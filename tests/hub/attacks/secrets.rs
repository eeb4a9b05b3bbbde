//! Attacks by the owner of a namespace on a hub that copies TLS Secrets: getting Secrets of another namespace
//! or of another type.

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{https_gateway, namespace, reference_grant, timeout_policy, tls_secret};
use policy_sync_testenv::tenant::{LIMIT, all_kinds};
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use super::{Neighbours, UNHARMED, neighbours};
use crate::secrets::{secrets_in_work, until_secrets_in_work};

/// The private key in the victim's Secrets, as text and in base64.
const KEYS: [&str; 2] = ["the-victims-key", "dGhlLXZpY3RpbXMta2V5"];

/// [`neighbours`] with a class that copies Secrets. The victim has a Secret `theirs` and a ReferenceGrant for
/// a third namespace.
async fn copying(name: &str) -> Result<Neighbours> {
    let neighbours = neighbours(name).await?;
    let mut params = all_kinds();
    params["tlsSecrets"] = json!("copy");
    neighbours.tenant.apply(&tls_secret(&neighbours.victim(), "theirs", KEYS[0])).await?;
    neighbours.tenant.apply(&tls_secret(neighbours.tenant.name(), "own", "own")).await?;
    let friends = format!("{name}-friends");
    neighbours.tenant.apply(&namespace(&friends)).await?;
    neighbours
        .tenant
        .apply(&reference_grant(&neighbours.victim(), "for-friends", &friends, "theirs"))
        .await?;
    neighbours.tenant.parameters(&params).await?;
    names(&neighbours, &[json!({"name": "own"})]).await?;
    until_secrets_in_work(&neighbours.tenant, &[&format!("Secret kuadrant-{name}/own")]).await?;
    Ok(neighbours)
}

/// Sets the certificate references of the attacker's Gateway.
async fn names(neighbours: &Neighbours, references: &[Value]) -> Result<()> {
    let tenant = &neighbours.tenant;
    tenant.apply(&https_gateway(tenant.name(), "web", tenant.name(), references)).await.map(drop)
}

/// A reference to the victim's Secret.
fn theirs(neighbours: &Neighbours) -> Value {
    json!({"name": "theirs", "namespace": neighbours.victim()})
}

/// Checks that the attacker's works carry only the `expected` objects, and that no work contains the victim's
/// key.
async fn check_copied_only(neighbours: &Neighbours, expected: &[&str]) -> Result<()> {
    neighbours.nothing_changed().await?;
    until_secrets_in_work(&neighbours.tenant, expected).await?;
    for work in neighbours.tenant.works().await? {
        let text = serde_json::to_string(&work)?;
        ensure!(!KEYS.iter().any(|key| text.contains(key)), "{text}");
        let secrets = secrets_in_work(&work);
        ensure!(secrets.iter().all(|secret| expected.contains(&secret.as_str())), "{secrets:?}");
    }
    Ok(())
}

/// Waits for an Event with this reason in the attacker's namespace, and returns its note.
async fn until_event(neighbours: &Neighbours, reason: &str) -> Result<String> {
    let events = kube::Api::<k8s_openapi::api::core::v1::Event>::namespaced(
        neighbours.tenant.client().clone(),
        neighbours.tenant.name(),
    );
    wait::until(&format!("an Event has reason {reason}"), LIMIT, || async {
        let events = events.list(&Default::default()).await?.items;
        let event = events.iter().find(|event| event.reason.as_deref() == Some(reason));
        let note = event.and_then(|event| event.message.clone());
        note.ok_or_else(|| {
            anyhow::anyhow!("found {:?}", events.iter().map(|e| &e.reason).collect::<Vec<_>>())
        })
    })
    .await
}

#[tokio::test]
async fn secret_of_another_namespace_needs_a_grant() -> Result<()> {
    let neighbours = copying("tls-names").await?;
    names(&neighbours, &[theirs(&neighbours), json!({"name": "own"})]).await?;
    let existing = until_event(&neighbours, "SecretNotGranted").await?;
    check_copied_only(&neighbours, &["Secret kuadrant-tls-names/own"]).await?;
    // The message does not reveal whether the Secret exists.
    names(
        &neighbours,
        &[json!({"name": "not-there", "namespace": neighbours.victim()}), json!({"name": "own"})],
    )
    .await?;
    let absent = wait::until("the message names the missing Secret", LIMIT, || async {
        let gateway = https_gateway(neighbours.tenant.name(), "web", neighbours.tenant.name(), &[]);
        let found = serde_json::to_value(neighbours.tenant.get(&gateway).await?)?;
        let message = found["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned();
        ensure!(message.contains("not-there"), "{message}");
        Ok(message)
    })
    .await?;
    ensure!(
        absent.contains(&existing.replace("theirs", "not-there")),
        "{absent:?} differs from {existing:?}"
    );
    Ok(())
}

#[tokio::test]
async fn grant_for_another_kind_namespace_or_name_permits_nothing() -> Result<()> {
    let neighbours = copying("tls-grants").await?;
    let tenant = &neighbours.tenant;
    let fits = || reference_grant(&neighbours.victim(), "odd", tenant.name(), "theirs");
    let edited = |field: &str, key: &str, value: &str| {
        let mut grant = fits();
        grant["spec"][field][0][key] = value.into();
        grant
    };
    // A grant in the attacker's own namespace has no effect.
    tenant.apply(&reference_grant(tenant.name(), "own", tenant.name(), "theirs")).await?;
    names(&neighbours, &[theirs(&neighbours)]).await?;
    until_event(&neighbours, "SecretNotGranted").await?;
    for grant in [
        edited("from", "kind", "HTTPRoute"),
        edited("from", "group", "example.com"),
        edited("from", "namespace", "tls-grants-friends"),
        edited("to", "name", "other"),
        edited("to", "kind", "ConfigMap"),
        edited("to", "group", "example.com"),
    ] {
        tenant.apply(&grant).await?;
        check_copied_only(&neighbours, &[]).await?;
    }
    // A matching grant allows the copy.
    tenant.apply(&fits()).await?;
    let copy = format!("Secret kuadrant-{}/theirs", neighbours.victim());
    let grant = format!("ReferenceGrant kuadrant-{}", neighbours.victim());
    until_secrets_in_work(tenant, &[&copy, &grant]).await?;
    tenant.delete(&fits()).await?;
    until_secrets_in_work(tenant, &[]).await.map(drop)
}

#[tokio::test]
async fn secret_that_is_not_of_type_tls_is_not_copied() -> Result<()> {
    let neighbours = copying("tls-opaque").await?;
    let mut opaque = tls_secret(neighbours.tenant.name(), "token", KEYS[0]);
    opaque["type"] = "Opaque".into();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": neighbours.tenant.name()}});
    neighbours.tenant.apply(&account).await?;
    let mut token = tls_secret(neighbours.tenant.name(), "robot", KEYS[0]);
    token["type"] = "kubernetes.io/service-account-token".into();
    token["metadata"]["annotations"]["kubernetes.io/service-account.name"] = "robot".into();
    for secret in [&opaque, &token] {
        neighbours.tenant.apply(secret).await?;
    }
    names(&neighbours, &[json!({"name": "token"}), json!({"name": "robot"})]).await?;
    until_event(&neighbours, "SecretMissing").await?;
    check_copied_only(&neighbours, &[]).await
}

#[tokio::test]
async fn secret_named_in_a_policy_is_not_copied() -> Result<()> {
    let neighbours = copying("tls-policy").await?;
    let reference =
        json!({"group": "", "kind": "Secret", "name": "theirs", "namespace": neighbours.victim()});
    // The test uses TimeoutPolicies, because the published schemas of the Kuadrant kinds prune unknown fields.
    let mut policy = timeout_policy(neighbours.tenant.name(), "naming", &["web"]);
    policy["spec"]["listeners"] =
        json!([{"name": "https", "tls": {"certificateRefs": [reference, {"name": "own"}]}}]);
    policy["spec"]["certificateRefs"] = json!([reference]);
    neighbours.tenant.apply(&policy).await?;
    neighbours
        .tenant
        .until_work("eu-1", "timeoutpolicy-naming", |work| secrets_in_work(work).is_empty())
        .await?;
    let overrides =
        json!([{"clusterSelector": "", "patch": {"tls": {"certificateRefs": [reference]}}}]).to_string();
    let annotation = json!({"metadata": {"annotations": {"kuadrant.io/cluster-overrides": overrides}}});
    for object in [&policy, &https_gateway(neighbours.tenant.name(), "web", neighbours.tenant.name(), &[])] {
        neighbours.tenant.merge(object, &annotation).await?;
    }
    neighbours.nothing_else_changed().await?;
    let own = "Secret kuadrant-tls-policy/own";
    until_secrets_in_work(&neighbours.tenant, &[own]).await?;
    for work in neighbours.tenant.works().await? {
        let text = serde_json::to_string(&work)?;
        ensure!(!KEYS.iter().any(|key| text.contains(key)), "{text}");
        ensure!(secrets_in_work(&work).iter().all(|secret| secret == own), "{:?}", secrets_in_work(&work));
    }
    Ok(())
}

#[tokio::test]
async fn secret_is_not_copied_into_a_reserved_namespace() -> Result<()> {
    let neighbours = copying("tls-reserved").await?;
    let tenant = &neighbours.tenant;
    tenant.apply(&namespace("system")).await?;
    tenant.apply(&tls_secret("system", "tls-reserved", KEYS[0])).await?;
    let grant = reference_grant("system", "tls-reserved", tenant.name(), "tls-reserved");
    tenant.apply(&grant).await?;
    names(&neighbours, &[json!({"name": "tls-reserved", "namespace": "system"})]).await?;
    until_event(&neighbours, "SecretNamespace").await?;
    check_copied_only(&neighbours, &[]).await
}

#[tokio::test]
async fn copied_secret_has_no_forged_metadata_of_the_original() -> Result<()> {
    let neighbours = copying("tls-forged").await?;
    let victim = neighbours.victim();
    let mut forged = tls_secret(neighbours.tenant.name(), "own", "own");
    forged["metadata"]["annotations"] = json!({
        "kuadrant.io/revision": "1", "kuadrant.io/parent": format!("gateways.gateway.networking.k8s.io/{victim}/victim"),
        "kuadrant.io/downstream-namespace": "kube-system", "meta.helm.sh/release-name": "theirs",
    });
    forged["metadata"]["labels"] =
        json!({"kuadrant.io/managed": "true", "app.kubernetes.io/managed-by": "helm", "team": "a"});
    neighbours.tenant.apply(&forged).await?;
    let secret = |work: &policy_sync_api::work::ManifestWork| work.spec.workload.manifests[1].0.clone();
    let work = neighbours
        .tenant
        .until_work("eu-1", "gateway-web", |work| secret(work)["metadata"]["labels"]["team"] == "a")
        .await?;
    let expected = json!({"name": "own", "namespace": "kuadrant-tls-forged", "labels": {"team": "a"}});
    ensure!(secret(&work)["metadata"] == expected, "{}", secret(&work)["metadata"]);
    neighbours.nothing_changed().await?;
    neighbours.tenant.until_works(&UNHARMED).await
}
