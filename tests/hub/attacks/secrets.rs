//! By the owner of a namespace, on a hub that copies TLS Secrets: to have another namespace's, or another kind of Secret.

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{https_gateway, namespace, reference_grant, timeout_policy, tls_secret};
use policy_sync_testenv::wait;
use policy_sync_testenv::world::{LIMIT, all_kinds};
use serde_json::{Value, json};

use super::{STAGE, Stage, stage};
use crate::secrets::{carried, until_carried};

/// What the victim's Secrets hold, and in base64.
const KEYS: [&str; 2] = ["the-victims-key", "dGhlLXZpY3RpbXMta2V5"];

/// A stage whose class copies Secrets. The victim has one, `theirs`, and a grant for its friends.
async fn copying(name: &str) -> Result<Stage> {
    let stage = stage(name).await?;
    let mut params = all_kinds();
    params["tlsSecrets"] = json!("copy");
    stage.world.apply(&tls_secret(&stage.victim(), "theirs", KEYS[0])).await?;
    stage.world.apply(&tls_secret(stage.world.name(), "own", "own")).await?;
    let friends = format!("{name}-friends");
    stage.world.apply(&namespace(&friends)).await?;
    stage.world.apply(&reference_grant(&stage.victim(), "for-friends", &friends, "theirs")).await?;
    stage.world.parameters(&params).await?;
    names(&stage, &[json!({"name": "own"})]).await?;
    until_carried(&stage.world, &[&format!("Secret kuadrant-{name}/own")]).await?;
    Ok(stage)
}

/// The attacker's Gateway names these.
async fn names(stage: &Stage, references: &[Value]) -> Result<()> {
    let world = &stage.world;
    world.apply(&https_gateway(world.name(), "web", world.name(), references)).await.map(drop)
}

/// A reference to the victim's Secret.
fn theirs(stage: &Stage) -> Value {
    json!({"name": "theirs", "namespace": stage.victim()})
}

/// Waits until the attacker has got nothing for it, and checks that no work anywhere carries the victim's key.
async fn got_only(stage: &Stage, expected: &[&str]) -> Result<()> {
    stage.nothing_changed().await?;
    until_carried(&stage.world, expected).await?;
    for work in stage.world.works().await? {
        let text = serde_json::to_string(&work)?;
        ensure!(!KEYS.iter().any(|key| text.contains(key)), "{text}");
        let secrets = carried(&work);
        ensure!(secrets.iter().all(|secret| expected.contains(&secret.as_str())), "{secrets:?}");
    }
    Ok(())
}

/// Waits until an Event of this reason tells of the attacker's Gateway, and returns its note.
async fn until_told(stage: &Stage, reason: &str) -> Result<String> {
    let events = kube::Api::<k8s_openapi::api::core::v1::Event>::namespaced(
        stage.world.client().clone(),
        stage.world.name(),
    );
    wait::until(&format!("an Event says {reason}"), LIMIT, || async {
        let events = events.list(&Default::default()).await?.items;
        let told = events.iter().find(|event| event.reason.as_deref() == Some(reason));
        let note = told.and_then(|event| event.message.clone());
        note.ok_or_else(|| {
            anyhow::anyhow!("found {:?}", events.iter().map(|e| &e.reason).collect::<Vec<_>>())
        })
    })
    .await
}

#[tokio::test]
async fn a_name_is_not_enough_for_the_secret_of_another_namespace() -> Result<()> {
    let stage = copying("tls-names").await?;
    names(&stage, &[theirs(&stage), json!({"name": "own"})]).await?;
    let there = until_told(&stage, "SecretNotGranted").await?;
    got_only(&stage, &["Secret kuadrant-tls-names/own"]).await?;
    // Nor is it told whether there is one.
    names(&stage, &[json!({"name": "not-there", "namespace": stage.victim()}), json!({"name": "own"})])
        .await?;
    let absent = wait::until("the other is told, too", LIMIT, || async {
        let gateway = https_gateway(stage.world.name(), "web", stage.world.name(), &[]);
        let found = serde_json::to_value(stage.world.get(&gateway).await?)?;
        let message = found["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned();
        ensure!(message.contains("not-there"), "{message}");
        Ok(message)
    })
    .await?;
    ensure!(absent.contains(&there.replace("theirs", "not-there")), "{absent:?} is not as {there:?}");
    Ok(())
}

#[tokio::test]
async fn a_grant_for_another_kind_namespace_or_name_lets_nobody_in() -> Result<()> {
    let stage = copying("tls-grants").await?;
    let world = &stage.world;
    let fits = || reference_grant(&stage.victim(), "odd", world.name(), "theirs");
    let edited = |field: &str, key: &str, value: &str| {
        let mut grant = fits();
        grant["spec"][field][0][key] = value.into();
        grant
    };
    // The attacker writes grants of its own as well.
    world.apply(&reference_grant(world.name(), "own", world.name(), "theirs")).await?;
    names(&stage, &[theirs(&stage)]).await?;
    until_told(&stage, "SecretNotGranted").await?;
    for grant in [
        edited("from", "kind", "HTTPRoute"),
        edited("from", "group", "example.com"),
        edited("from", "namespace", "tls-grants-friends"),
        edited("to", "name", "other"),
        edited("to", "kind", "ConfigMap"),
        edited("to", "group", "example.com"),
    ] {
        world.apply(&grant).await?;
        got_only(&stage, &[]).await?;
    }
    // The same grant, once it fits, is what was missing.
    world.apply(&fits()).await?;
    let copy = format!("Secret kuadrant-{}/theirs", stage.victim());
    let grant = format!("ReferenceGrant kuadrant-{}", stage.victim());
    until_carried(world, &[&copy, &grant]).await?;
    world.delete(&fits()).await?;
    until_carried(world, &[]).await.map(drop)
}

#[tokio::test]
async fn a_secret_of_another_type_does_not_travel() -> Result<()> {
    let stage = copying("tls-opaque").await?;
    let mut opaque = tls_secret(stage.world.name(), "token", KEYS[0]);
    opaque["type"] = "Opaque".into();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": stage.world.name()}});
    stage.world.apply(&account).await?;
    let mut token = tls_secret(stage.world.name(), "robot", KEYS[0]);
    token["type"] = "kubernetes.io/service-account-token".into();
    token["metadata"]["annotations"]["kubernetes.io/service-account.name"] = "robot".into();
    for secret in [&opaque, &token] {
        stage.world.apply(secret).await?;
    }
    names(&stage, &[json!({"name": "token"}), json!({"name": "robot"})]).await?;
    until_told(&stage, "SecretMissing").await?;
    got_only(&stage, &[]).await
}

#[tokio::test]
async fn a_policy_takes_no_secret_along() -> Result<()> {
    let stage = copying("tls-policy").await?;
    let reference = json!({"group": "", "kind": "Secret", "name": "theirs", "namespace": stage.victim()});
    // TimeoutPolicies, as the published schemas of others prune what they do not know.
    let mut policy = timeout_policy(stage.world.name(), "naming", &["web"]);
    policy["spec"]["listeners"] =
        json!([{"name": "https", "tls": {"certificateRefs": [reference, {"name": "own"}]}}]);
    policy["spec"]["certificateRefs"] = json!([reference]);
    stage.world.apply(&policy).await?;
    stage.world.until_work("eu-1", "timeoutpolicy-naming", |work| carried(work).is_empty()).await?;
    let overrides =
        json!([{"clusterSelector": "", "patch": {"tls": {"certificateRefs": [reference]}}}]).to_string();
    let annotation = json!({"metadata": {"annotations": {"kuadrant.io/cluster-overrides": overrides}}});
    for object in [&policy, &https_gateway(stage.world.name(), "web", stage.world.name(), &[])] {
        stage.world.merge(object, &annotation).await?;
    }
    stage.nothing_else_changed().await?;
    let own = "Secret kuadrant-tls-policy/own";
    until_carried(&stage.world, &[own]).await?;
    for work in stage.world.works().await? {
        let text = serde_json::to_string(&work)?;
        ensure!(!KEYS.iter().any(|key| text.contains(key)), "{text}");
        ensure!(carried(&work).iter().all(|secret| secret == own), "{:?}", carried(&work));
    }
    Ok(())
}

#[tokio::test]
async fn a_copy_is_written_into_no_reserved_namespace() -> Result<()> {
    let stage = copying("tls-reserved").await?;
    let world = &stage.world;
    world.apply(&namespace("system")).await?;
    world.apply(&tls_secret("system", "tls-reserved", KEYS[0])).await?;
    let grant = reference_grant("system", "tls-reserved", world.name(), "tls-reserved");
    world.apply(&grant).await?;
    names(&stage, &[json!({"name": "tls-reserved", "namespace": "system"})]).await?;
    until_told(&stage, "SecretNamespace").await?;
    got_only(&stage, &[]).await
}

#[tokio::test]
async fn what_a_secret_says_of_itself_makes_it_no_other() -> Result<()> {
    let stage = copying("tls-forged").await?;
    let victim = stage.victim();
    let mut forged = tls_secret(stage.world.name(), "own", "own");
    forged["metadata"]["annotations"] = json!({
        "kuadrant.io/revision": "1", "kuadrant.io/parent": format!("gateways.gateway.networking.k8s.io/{victim}/victim"),
        "kuadrant.io/downstream-namespace": "kube-system", "meta.helm.sh/release-name": "theirs",
    });
    forged["metadata"]["labels"] =
        json!({"kuadrant.io/managed": "true", "app.kubernetes.io/managed-by": "helm", "team": "a"});
    stage.world.apply(&forged).await?;
    let secret = |work: &policy_sync::api::work::ManifestWork| work.spec.workload.manifests[1].0.clone();
    let work = stage
        .world
        .until_work("eu-1", "gateway-web", |work| secret(work)["metadata"]["labels"]["team"] == "a")
        .await?;
    let expected = json!({"name": "own", "namespace": "kuadrant-tls-forged", "labels": {"team": "a"}});
    ensure!(secret(&work)["metadata"] == expected, "{}", secret(&work)["metadata"]);
    stage.nothing_changed().await?;
    stage.world.until_works(&STAGE).await
}
