//! The aggregated role keeps its rules during upgrades, rollbacks and `kubectl apply`, and the controller writes
//! nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use parking_lot::Mutex;
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::fixtures::{rate_limit_policy, timeout_policy};
use policy_sync_testenv::{ControlPlane, Fleet, FleetOptions, Tenant, wait};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::helm::{Helm, Release, required};
use crate::kubectl::kubectl;
use crate::{binary, rights};

const LIMIT: Duration = Duration::from_secs(60);

/// The number of rules in each version of a ClusterRole.
struct Rules(
    Arc<Mutex<Vec<usize>>>,
    #[expect(dead_code, reason = "keeps the watch running")] AbortOnDropHandle<()>,
);

impl Rules {
    fn watch(hub: &ControlPlane, name: &str) -> Result<Self> {
        let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
        let roles: Api<ClusterRole> = Api::all(hub.client()?);
        let versions = watcher(roles, watcher::Config::default().fields(&format!("metadata.name={name}")));
        let rules = Arc::clone(&seen);
        let watch = tokio::spawn(versions.default_backoff().for_each(move |event| {
            if let Ok(Event::Apply(role) | Event::InitApply(role)) = event {
                rules.lock().push(role.rules.map_or(0, |rules| rules.len()));
            }
            std::future::ready(())
        }));
        Ok(Self(seen, AbortOnDropHandle::new(watch)))
    }

    /// Waits until a version has this number of rules.
    async fn until(&self, expected: usize) -> Result<()> {
        wait::until(&format!("the role has {expected} rules"), LIMIT, || async {
            let seen = self.0.lock().clone();
            ensure!(seen.last() == Some(&expected), "{seen:?}");
            Ok(())
        })
        .await
    }
}

/// A ClusterRole of a team that allows a kind of `group` to be synced.
fn labelled_role(group: &str, resource: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": format!("team-{resource}"),
            "labels": { "kuadrant.io/aggregate-to-policy-sync": "true" },
        },
        "rules": [{ "apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch", "patch"] }],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn team_can_add_a_kind_and_upgrades_remove_no_rights() -> Result<()> {
    let options = FleetOptions { agents: false, policy_controllers: false, ..FleetOptions::spokes(["eu-1"]) };
    let fleet = Fleet::start(options).await?;
    let hub = fleet.hub();
    let tenant = Tenant::new(hub, binary(), "team", &["eu-1"]).await?;
    let mut values = required();
    values["controller"] = json!({ "name": tenant.controller_name() });
    values["rbac"] = json!({
        "policyKinds": [{ "group": "kuadrant.io", "resources": ["authpolicies", "ratelimitpolicies"] }],
        "parametersNamespaces": [tenant.name()],
    });
    let (helm, release) = (Helm::of(hub).await?, Release("policy-sync", "policy-sync"));
    let rules = Rules::watch(hub, "policy-sync-policies")?;
    helm.install(release, &values)?;
    let rendered = helm.template(release, &values)?;
    let controller = rights::controller(hub, release, &rendered).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |_| true).await?;

    // The parameters list TimeoutPolicies, but the controller may not read them.
    tenant.apply(&timeout_policy(tenant.name(), "slow", &["web"])).await?;
    let class = json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": { "name": tenant.name() } });
    wait::until("the class reports the forbidden kind", LIMIT, || async {
        let found = tenant.get(&class).await?.data["status"].to_string();
        ensure!(found.contains("timeoutpolicies") && found.contains("Forbidden"), "{found}");
        Ok(())
    })
    .await?;
    let added = Instant::now();
    apply(tenant.client(), &labelled_role("policies.example.com", "timeoutpolicies")).await?;
    tenant.until_work("eu-1", "timeoutpolicy-slow", |_| true).await?;
    ensure!(added.elapsed() < Duration::from_secs(30), "syncing took {:?}", added.elapsed());
    rules.until(1).await?;
    let first = rules.0.lock().len();

    tenant.settled(&controller).await?;
    let (works, written) = (tenant.works().await?, tenant.writes(&controller)?.len());
    values["podAnnotations"] = json!({ "example.com/upgrade": "1" });
    helm.upgrade(release, &values)?;
    values["podAnnotations"] = json!({ "example.com/upgrade": "2" });
    values["rbac"]["policyKinds"][0]["resources"] =
        json!(["authpolicies", "ratelimitpolicies", "dnspolicies"]);
    helm.upgrade(release, &values)?;
    helm.run(&["rollback", release.0, "1", "--namespace", release.1], None)?;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), &rendered.text)?;
    let file = file.path().to_str().context("the path is not UTF-8")?;
    kubectl(hub, &["apply", "--filename", file])?;
    kubectl(hub, &["apply", "--filename", file, "--server-side", "--force-conflicts"])?;
    // When the watch reports this rule, it has reported all earlier versions of the aggregated role.
    apply(tenant.client(), &labelled_role("policies.example.com", "retrypolicies")).await?;
    rules.until(2).await?;
    let seen = rules.0.lock().split_off(first - 1);
    ensure!(seen.len() > 1 && !seen.contains(&0), "number of rules per version: {seen:?}");

    tenant.settled(&controller).await?;
    ensure!(
        tenant.writes(&controller)?.len() == written,
        "the controller wrote: {:?}",
        tenant.writes(&controller)?
    );
    ensure!(tenant.works().await? == works, "works changed");
    Ok(())
}

/// The controller fills objects that the chart creates empty. Every way to apply the chart keeps this
/// content.
#[tokio::test]
async fn content_that_the_controller_writes_survives_upgrades() -> Result<()> {
    let hub = Fleet::shared_hub().await?.hub();
    let client = hub.client()?;
    let (helm, release) = (Helm::of(hub).await?, Release("filled-policy-sync", "filled"));
    let mut values = required();
    // The shared hub has other releases, so this release needs a different namespace.
    values["rego"] = json!({ "namespace": { "name": "filled-policies" } });
    values["crds"] = json!({ "enabled": false });
    helm.install(release, &values)?;
    let rendered = helm.template(release, &values)?;
    let rule = json!({
        "apiGroups": ["filled.example.com"], "apiVersions": ["*"], "resources": ["nothings"], "operations": ["CREATE"],
    });
    let webhook = json!({
        "name": "filled.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": { "url": "https://127.0.0.1:1/" }, "rules": [rule],
    });
    let (webhooks, data) = (json!([webhook]), json!({ "tls.crt": "YQ==" }));
    let mut filled = Vec::new();
    for (kind, key, value) in [
        ("MutatingWebhookConfiguration", "webhooks", &webhooks),
        ("ValidatingWebhookConfiguration", "webhooks", &webhooks),
        ("Secret", "data", &data),
    ] {
        let mut object = rendered.one(kind)?.clone();
        object["metadata"].as_object_mut().context("no metadata")?.remove("labels");
        object[key] = value.clone();
        let written = apply(&client, &object).await?;
        filled.push((api_for(&client, &object).await?, key, written.data[key].clone()));
    }
    let stays = async |what: &str| {
        for ((api, name), key, written) in &filled {
            let found = api.get(name).await?.data[key].clone();
            ensure!(found == *written, "after {what}, {key} of {name} is {found}");
        }
        anyhow::Ok(())
    };
    values["podAnnotations"] = json!({ "example.com/upgrade": "1" });
    helm.upgrade(release, &values)?;
    stays("an upgrade").await?;
    helm.run(&["rollback", release.0, "1", "--namespace", release.1], None)?;
    stays("a rollback").await?;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), &rendered.text)?;
    let file = file.path().to_str().context("the path is not UTF-8")?;
    kubectl(hub, &["apply", "--filename", file])?;
    stays("an apply").await?;
    kubectl(hub, &["apply", "--filename", file, "--server-side", "--force-conflicts"])?;
    stays("a server-side apply").await?;

    // Deleting the webhook configurations unblocks all writes, and an upgrade creates the configurations again.
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        kubectl(hub, &["delete", kind, release.0])?;
    }
    helm.upgrade(release, &values)?;
    for ((api, name), key, _) in filled.iter().filter(|(_, key, _)| *key == "webhooks") {
        let found = api.get(name).await.context("not recreated by the upgrade")?;
        ensure!(found.data[key].is_null(), "{found:?}");
    }
    Ok(())
}
