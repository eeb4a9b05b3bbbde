//! Webhook configurations that the controller manages: they have entries only while there are Rego policies,
//! exclude exempt namespaces, and use a certificate from the controller or from files.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::fixtures;
use policy_sync_testenv::tenant::rate_limit_policies;
use policy_sync_testenv::webhooks::Webhooks;
use policy_sync_testenv::{Controller, wait};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use serde_json::{Value, json};

use crate::world::{LIMIT, World, denies, modules};

/// Places everything in `eu`, and rejects objects with the name `bad`.
const PLACES: &str = r#"package io.k8s.federation.admission
annotations["kuadrant.io/cluster-selector"] = "region=eu" { true }
errors["nothing is called bad"] { input.metadata.name == "bad" }
"#;
const SELECTOR: &str = "kuadrant.io/cluster-selector";

/// A controller with a class of its own, and the webhooks that it manages.
pub(crate) struct ManagedWebhooks {
    pub(crate) world: World,
    pub(crate) webhooks: Webhooks,
    controller: Option<Controller>,
}

impl ManagedWebhooks {
    /// Starts a controller with installed webhook configurations.
    pub(crate) async fn start(namespace: &str) -> Result<Self> {
        let webhooks = Webhooks::new(namespace)?;
        let mut registered = Self::prepare(namespace, webhooks).await?;
        registered.webhooks.install(&registered.world.client).await?;
        registered.run(&[]).await?;
        Ok(registered)
    }

    /// Prepares a controller with installed webhook configurations and a certificate in files. The controller
    /// does not run yet.
    pub(crate) async fn prepare_with_files(namespace: &str) -> Result<Self> {
        let registered = Self::prepare(namespace, Webhooks::with_files(namespace)?).await?;
        registered.webhooks.install(&registered.world.client).await?;
        Ok(registered)
    }

    async fn prepare(namespace: &str, webhooks: Webhooks) -> Result<Self> {
        let world = World::alone(namespace).await?;
        let params = json!({"policiesToSync": [rate_limit_policies()]});
        let params = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "params", "namespace": Self::shop(namespace)},
            "data": {"params": params.to_string()}});
        let class = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": namespace},
            "spec": {"controllerName": format!("example.com/{namespace}"), "parametersRef":
                {"group": "", "kind": "ConfigMap", "namespace": Self::shop(namespace), "name": "params"}}});
        apply(&world.client, &fixtures::namespace(&Self::shop(namespace))).await?;
        apply(&world.client, &params).await?;
        apply(&world.client, &class).await?;
        Ok(Self { world, webhooks, controller: None })
    }

    pub(crate) async fn run(&mut self, more: &[&str]) -> Result<()> {
        let mut arguments = self.webhooks.arguments();
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.controller = Some(self.world.controller(&arguments).await?);
        Ok(())
    }

    /// Runs `binary` instead of the program under test.
    pub(crate) async fn run_as(&mut self, binary: &Path) -> Result<()> {
        let arguments = self.webhooks.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let arguments = self.world.arguments(&arguments);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.controller = Some(Controller::start(binary, self.world.hub(), &arguments).await?);
        Ok(())
    }

    pub(crate) async fn stop(&mut self) -> Result<()> {
        if let Some(controller) = self.controller.take() {
            controller.terminate().await?;
        }
        Ok(())
    }

    pub(crate) fn client(&self) -> &Client {
        &self.world.client
    }

    /// The running controller.
    pub(crate) fn controller(&self) -> Result<&Controller> {
        self.controller.as_ref().context("no controller runs")
    }

    /// Deletes the webhook configurations, as after a lockout, or installs them again.
    pub(crate) async fn lock(&self, locked: bool) -> Result<()> {
        match locked {
            true => self.webhooks.install(self.client()).await,
            false => self.webhooks.uninstall(self.client()).await,
        }
    }

    pub(crate) async fn delete(&self, object: &Value) -> Result<()> {
        let (api, name) = api_for(self.client(), object).await?;
        api.delete(&name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// A namespace whose objects are reviewed.
    pub(crate) fn shop(namespace: &str) -> String {
        format!("{namespace}-shop")
    }

    fn limits(&self, name: &str, namespace: &str) -> Value {
        json!({
            "apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"targetRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"},
                "limits": {"all": {"rates": [{"limit": 1, "window": "1s"}]}}},
        })
    }

    fn gateway(&self, name: &str, class: &str) -> Value {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": name, "namespace": Self::shop(&self.world.namespace)},
            "spec": {"gatewayClassName": class, "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
        })
    }

    /// Creates `object`, and returns it as stored, after all webhooks.
    pub(crate) async fn create(&self, object: &Value) -> Result<DynamicObject> {
        let (api, _) = api_for(self.client(), object).await?;
        Ok(api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await?)
    }

    /// Creates a RateLimitPolicy in the shop, and returns it as stored.
    async fn create_limits(&self, name: &str) -> Result<DynamicObject> {
        self.create(&self.limits(name, &Self::shop(&self.world.namespace))).await
    }

    /// The entries of both webhook configurations.
    async fn entries(&self) -> Result<[Vec<Value>; 2]> {
        let mut found = [Vec::new(), Vec::new()];
        for (configuration, found) in self.webhooks.configurations().iter().zip(&mut found) {
            let (api, name) = api_for(self.client(), configuration).await?;
            let webhooks = api.get(&name).await?.data["webhooks"].take();
            *found = serde_json::from_value::<Option<_>>(webhooks)?.unwrap_or_default();
        }
        Ok(found)
    }

    pub(crate) async fn until_entries(
        &self,
        what: &str,
        are: impl Fn(&[Vec<Value>; 2]) -> bool,
    ) -> Result<[Vec<Value>; 2]> {
        wait::until(what, LIMIT, || async {
            let entries = self.entries().await?;
            ensure!(are(&entries), "{entries:?}");
            Ok(entries)
        })
        .await
    }

    async fn until_registered(&self) -> Result<[Vec<Value>; 2]> {
        self.until_entries("both configurations have an entry", |[one, other]| {
            one.len() == 1 && other.len() == 1
        })
        .await
    }

    /// Waits until the API server calls the webhook, a moment after it was configured.
    async fn until_called(&self) -> Result<()> {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let object = self.limits("dry", &Self::shop(&self.world.namespace));
        let (api, _) = api_for(self.client(), &object).await?;
        let object: DynamicObject = serde_json::from_value(object)?;
        wait::until("the API server calls the webhook", LIMIT, || async {
            let stored = api.create(&dry, &object).await?;
            ensure!(stored.annotations().contains_key(SELECTOR), "the object has no selector");
            Ok(())
        })
        .await
    }

    /// Waits until the status of the ConfigMap contains all of these texts.
    async fn until_status_contains(&self, parts: &[String]) -> Result<Value> {
        let is_told = |status: &Value| {
            let message = status["error"]["message"].as_str().unwrap_or_default();
            parts.iter().all(|part| message.contains(part))
        };
        self.world.until_status("places", is_told).await
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client().clone(), "default")
    }

    fn secret(&self) -> String {
        format!("{}-webhook", self.webhooks.name())
    }
}

fn bundle(entry: &Value) -> Result<String> {
    let bundle: ByteString = serde_json::from_value(entry["clientConfig"]["caBundle"].clone())?;
    Ok(String::from_utf8(bundle.0)?)
}

#[tokio::test]
async fn covered_objects_are_reviewed_while_there_are_rego_policies() -> Result<()> {
    let name = "rego-entries";
    let mut hub = ManagedWebhooks::start(name).await?;
    ensure!(hub.entries().await?.iter().all(Vec::is_empty), "there are entries without a Rego policy");
    hub.world.write("places", json!({"a.rego": PLACES})).await?;
    hub.world.until_ok("places").await?;
    let [placement, policies] = hub.until_registered().await?;
    ensure!(placement[0]["failurePolicy"] == "Fail" && policies[0]["failurePolicy"] == "Ignore");
    hub.until_called().await?;
    let stored = hub.create_limits("limits").await?;
    ensure!(stored.annotations()[SELECTOR] == "region=eu", "{:?}", stored.annotations());
    let error = hub.create_limits("bad").await.err().context("the write is admitted")?;
    ensure!(format!("{error:#}").contains("nothing is called bad"), "{error:#}");
    let gateway = hub.create(&hub.gateway("web", name)).await?;
    ensure!(
        gateway.annotations().contains_key(SELECTOR),
        "a Gateway of the controller's class is not reviewed"
    );

    // Gateways of another controller and objects in exempt namespaces are not reviewed. A namespace is exempt by its
    // name, by a pattern, by a label, or because it contains the Rego policies.
    let theirs = hub.create(&hub.gateway("theirs", "somebodys")).await?;
    ensure!(!theirs.annotations().contains_key(SELECTOR), "{:?}", theirs.annotations());
    let mut labelled = fixtures::namespace("rego-entries-labelled");
    labelled["metadata"]["labels"] = json!({"openpolicyagent.org/webhook": "ignore"});
    apply(hub.client(), &labelled).await?;
    for namespace in [name, "kube-system", "rego-entries-labelled"] {
        let stored = hub.create(&hub.limits("bad", namespace)).await?;
        ensure!(!stored.annotations().contains_key(SELECTOR), "{namespace} is not exempt");
    }
    // An update of the status is not reviewed.
    let (api, _) = api_for(hub.client(), &hub.limits("limits", &ManagedWebhooks::shop(name))).await?;
    let status = json!({"metadata": {"annotations": {SELECTOR: null}}, "status": {"observedGeneration": 1}});
    api.patch_status("limits", &PatchParams::default(), &Patch::Merge(&status)).await?;

    // While no replica runs, writes of reviewed kinds fail.
    let finalizer = json!({"metadata": {"finalizers": ["example.com/wait"]}});
    api.patch("limits", &PatchParams::default(), &Patch::Merge(&finalizer)).await?;
    hub.stop().await?;
    let error = hub.create_limits("later").await.err().context("the write is admitted without a review")?;
    ensure!(format!("{error:#}").contains("failed calling webhook"), "{error:#}");
    hub.create(&hub.gateway("theirs-2", "somebodys")).await?;
    hub.create(&hub.limits("exempt", "kube-system")).await?;
    // Deletions of reviewed objects succeed.
    api.delete("limits", &DeleteParams::default()).await?;
    let finalizer = json!({"metadata": {"finalizers": null}});
    api.patch("limits", &PatchParams::default(), &Patch::Merge(&finalizer)).await?;
    // Rego policies can be changed and deleted.
    hub.world.write("places", json!({"a.rego": format!("{PLACES}\n# mended\n")})).await?;
    hub.world.delete("places").await?;
    hub.run(&[]).await?;
    hub.until_entries("the configurations have no entries", |entries| entries.iter().all(Vec::is_empty))
        .await?;
    hub.stop().await?;
    wait::until("writes are not reviewed", LIMIT, || async { hub.create_limits("free").await.map(drop) })
        .await?;
    Ok(())
}

#[tokio::test]
async fn outage_of_the_hub_changes_no_registrations() -> Result<()> {
    let name = "rego-outage";
    let hub = ManagedWebhooks::start(name).await?;
    hub.world.write("places", json!({"a.rego": PLACES})).await?;
    hub.world.until_ok("places").await?;
    hub.until_registered().await?;
    hub.until_called().await?;
    let versions = async || {
        let mut versions = Vec::new();
        for configuration in hub.webhooks.configurations() {
            let (api, name) = api_for(hub.client(), &configuration).await?;
            versions.push(serde_json::to_value(api.get(&name).await?)?);
        }
        versions.push(serde_json::to_value(hub.world.config_maps().get("places").await?)?);
        anyhow::Ok(versions)
    };
    let controller = hub.controller()?;
    let before = versions().await?;

    hub.world.hub().stop_api_server();
    let stopped = Instant::now();
    let least = wait::until("the outage ends", LIMIT, || async {
        let loaded = modules(controller, "loaded").await?;
        ensure!(loaded < 1.0 || stopped.elapsed() > Duration::from_secs(30), "the outage has not ended");
        Ok(loaded)
    })
    .await?;
    ensure!(least == 1.0, "the Rego policy is unloaded after {:?}", stopped.elapsed());
    hub.world.hub().start_api_server().await?;
    hub.until_called().await?;
    let text = PLACES.replace("nothing is called bad", "nobody calls anything bad");
    hub.world.write("library", json!({"a.rego": "package lib\np = 1 { true }\n"})).await?;
    hub.world.until_ok("library").await?;
    let after = versions().await?;
    for (after, before) in after.iter().zip(&before) {
        ensure!(after == before, "found {after}\nexpected {before}");
    }
    hub.world.write("places", json!({"a.rego": text})).await?;
    wait::until("the new module is in force", LIMIT, || async {
        let error = hub.create_limits("bad").await.err().context("the write is admitted")?;
        ensure!(format!("{error:#}").contains("nobody calls anything bad"), "{error:#}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn changed_entries_are_restored_and_missing_configurations_are_reported() -> Result<()> {
    let name = "rego-changed";
    let mut hub = ManagedWebhooks::prepare(name, Webhooks::with_files(name)?).await?;
    hub.webhooks.forget_authority()?;
    hub.run(&[]).await?;
    hub.world.write("places", json!({"a.rego": PLACES})).await?;
    let away =
        format!("waits for its webhook registration (there is no MutatingWebhookConfiguration {name})");
    hub.until_status_contains(&[away]).await?;
    let (_, ready) = hub.controller.as_ref().context("no controller runs")?.readiness().await?;
    ensure!(
        ready.contains(&format!("[!]webhooks: there is no MutatingWebhookConfiguration {name}")),
        "{ready}"
    );

    hub.webhooks.install(hub.client()).await?;
    hub.world.until_ok("places").await?;
    let before = hub.until_registered().await?;
    ensure!(before[0][0]["clientConfig"].get("caBundle").is_none(), "{before:?}");
    // Injects a CA bundle as cert-manager does.
    let (api, _) = api_for(hub.client(), &hub.webhooks.configurations()[0]).await?;
    let injected = json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle",
        "value": ByteString(hub.webhooks.authority()?.into_bytes())}]);
    let injector = PatchParams { field_manager: Some("injector".to_owned()), ..PatchParams::default() };
    let patch = Patch::Json::<()>(serde_json::from_value(injected)?);
    api.patch(name, &injector, &patch).await?;
    hub.until_called().await?;

    // Another client weakens the entry, so that writes pass without a review.
    let never = json!({"name": "never", "expression": "false"});
    let edit = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"},
        {"op": "add", "path": "/webhooks/0/matchConditions/-", "value": never},
        {"op": "replace", "path": "/webhooks/0/rules/0/operations", "value": ["CREATE"]}]);
    api.patch(name, &PatchParams::default(), &Patch::Json::<()>(serde_json::from_value(edit)?)).await?;
    hub.until_entries("the entry is restored", |entries| {
        let mut found = entries[0][0].clone();
        let has_bundle =
            found["clientConfig"].as_object_mut().is_some_and(|config| config.remove("caBundle").is_some());
        has_bundle && found == before[0][0]
    })
    .await?;
    // Entries of other owners stay. After the Rego policy is deleted, only these entries are left, even if another
    // client has changed the controller's entry.
    let theirs = json!([{"op": "add", "path": "/webhooks/0", "value": {
        "name": "theirs.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore", "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": []}}]);
    api.patch(name, &PatchParams::default(), &Patch::Json::<()>(serde_json::from_value(theirs)?)).await?;
    hub.world.delete("places").await?;
    let is_theirs = |entries: &[Vec<Value>; 2]| {
        entries[1].is_empty() && entries[0].len() == 1 && entries[0][0]["name"] == "theirs.example.com"
    };
    hub.until_entries("only the entry of the other client exists", is_theirs).await?;
    Ok(())
}

#[tokio::test]
async fn modules_are_checked_when_written_and_fixes_always_pass() -> Result<()> {
    let name = "rego-written";
    let hub = ManagedWebhooks::start(name).await?;
    hub.world.write("first", json!({"a.rego": denies("a")})).await?;
    hub.world.until_ok("first").await?;
    let is_of = |entry: &Value, what: &str| entry["name"].as_str().is_some_and(|name| name.starts_with(what));
    let has_check = |[_, last]: &[Vec<Value>; 2]| last.iter().any(|entry| is_of(entry, "policies-"));
    let [first, _] = hub.until_entries("the entry for checks of modules exists", has_check).await?;
    ensure!(
        !first.iter().any(|entry| is_of(entry, "placement-")),
        "unexpected entry for placement: {first:?}"
    );
    let faulty = "package admission\ndeny[{\"id\": \"b\"}] { foo.bar(1) }\n";
    let error = wait::until("the module is rejected", LIMIT, || async {
        // The API server calls a new webhook a moment after it was configured.
        let written = hub.world.write("second", json!({"b.rego": faulty})).await;
        let Err(error) = written else {
            // A faulty module that is already stored is not rejected again, so the object is deleted first.
            hub.world.delete("second").await?;
            bail!("the write is admitted");
        };
        Ok(format!("{error:#}"))
    })
    .await?;
    ensure!(error.contains(&format!("{name}/second/b.rego:2:21:")) && error.contains("foo.bar"), "{error}");
    // The webhook does not reject a module that conflicts with other modules, so that users can change conflicting
    // objects one after the other.
    let conflicting = "package admission\ndeny = 1 { true }\n";
    hub.world.write("third", json!({"c.rego": conflicting})).await?;
    hub.world.until_refused("third").await?;
    hub.world.delete("third").await?;
    let lib = |arguments: &str| json!({"l.rego": format!("package lib\nf({arguments}) = 1 {{ true }}\n")});
    let main = |arguments: &str| json!({"m.rego": format!("package admission\nimport data.lib\nfound = lib.f({arguments}) {{ true }}\n")});
    hub.world.write("lib", lib("x")).await?;
    hub.world.until_ok("lib").await?;
    hub.world.write("main", main("1")).await?;
    hub.world.until_ok("main").await?;
    hub.world.write("lib", lib("x, y")).await?;
    hub.world.write("main", main("1, 2")).await?;
    hub.world.until_ok("lib").await?;
    hub.world.until_ok("main").await?;
    // A module with an endless check is rejected, and other modules are checked afterwards.
    let hangs = format!("package admission\nx = {}1{}\n", "[".repeat(25), "]".repeat(25));
    wait::until("the module is rejected", LIMIT, || async {
        let written = hub.world.write("fourth", json!({"d.rego": hangs})).await;
        // On a busy machine, the check may not have finished in time.
        let Err(error) = written else {
            hub.world.delete("fourth").await?;
            bail!("the write is admitted");
        };
        ensure!(format!("{error:#}").contains("the check took more than 0.5 s"), "{error:#}");
        Ok(())
    })
    .await?;
    // Existing ConfigMaps can be annotated and fixed.
    let patch = json!({"metadata": {"annotations": {"example.com/note": "x"}}});
    hub.world.config_maps().patch("first", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    hub.world.write("first", json!({"a.rego": denies("b")})).await?;
    hub.world.until_ok("first").await?;
    // ConfigMaps in other namespaces are not checked.
    let shop = ManagedWebhooks::shop(name);
    apply(
        hub.client(),
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"b.rego": faulty},
        "metadata": {"name": "second", "namespace": shop}}),
    )
    .await?;
    Ok(())
}

/// An authority that expires on this day, and the parameters of its certificate.
fn authority(year: i32, month: u8, day: u8) -> Result<(KeyPair, CertificateParams)> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.not_after = date_time_ymd(year, month, day);
    Ok((KeyPair::generate()?, params))
}

#[tokio::test]
async fn certificate_is_renewed_without_errors_and_recreated_if_lost() -> Result<()> {
    let name = "rego-renewed";
    let mut hub = ManagedWebhooks::prepare(name, Webhooks::new(name)?).await?;
    hub.webhooks.install(hub.client()).await?;
    // An authority with half a year left, and a certificate with ten days left.
    let days = |days: i64| {
        let now = k8s_openapi::jiff::Timestamp::now();
        let at = now + k8s_openapi::jiff::SignedDuration::from_hours(24 * days);
        let date = at.to_zoned(k8s_openapi::jiff::tz::TimeZone::UTC).date();
        (i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    let (year, month, day) = days(180);
    let (key, params) = authority(year, month, day)?;
    let old = params.self_signed(&key)?.pem();
    let issuer = rcgen::Issuer::from_params(&params, &key);
    let mut server = CertificateParams::new(["127.0.0.1".to_owned()])?;
    let (year, month, day) = days(10);
    server.not_after = date_time_ymd(year, month, day);
    let server_key = KeyPair::generate()?;
    let first = server.signed_by(&server_key, &issuer)?.pem();
    let data = json!({"ca.crt": old, "ca.key": key.serialize_pem(), "tls.crt": first, "tls.key": server_key.serialize_pem()});
    apply(
        hub.client(),
        &json!({"apiVersion": "v1", "kind": "Secret", "stringData": data,
        "metadata": {"name": hub.secret(), "namespace": "default"}}),
    )
    .await?;
    hub.world.write("places", json!({"a.rego": PLACES})).await?;
    hub.run(&[]).await?;
    hub.world.until_ok("places").await?;
    hub.until_called().await?;

    // Reviews run during all of the following changes of certificates.
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let object = hub.limits("dry", &ManagedWebhooks::shop(name));
    let (api, _) = api_for(hub.client(), &object).await?;
    let object: DynamicObject = serde_json::from_value(object)?;
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (stop, count, api, object) = (stop.clone(), count.clone(), api.clone(), object.clone());
        asking.spawn(async move {
            let dry = PostParams { dry_run: true, ..PostParams::default() };
            while !stop.load(Ordering::Relaxed) {
                let stored = api.create(&dry, &object).await?;
                ensure!(stored.annotations().contains_key(SELECTOR), "the object is not reviewed");
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
    }
    let text = |secret: &Secret, key: &str| -> String {
        let data = secret.data.as_ref().and_then(|data| data.get(key));
        data.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default()
    };
    let authorities = |secret: &Secret| text(secret, "ca.crt").matches("BEGIN CERTIFICATE").count();
    let renewed = wait::until("the authority and the certificate are renewed", LIMIT, || async {
        let secret = hub.secrets().get(&hub.secret()).await?;
        ensure!(authorities(&secret) == 2 && text(&secret, "tls.crt") != first, "they are not renewed");
        Ok(secret)
    })
    .await?;
    ensure!(text(&renewed, "ca.crt").contains(old.trim()), "the old authority is missing");
    let [placement, policies] = hub.until_registered().await?;
    for entry in [&placement[0], &policies[0]] {
        wait::until("the entry has both authorities", LIMIT, || async {
            let [placement, policies] = hub.entries().await?;
            let entry =
                [&placement[0], &policies[0]].into_iter().find(|found| found["name"] == entry["name"]);
            let bundle = bundle(entry.context("the entry is missing")?)?;
            ensure!(bundle == text(&renewed, "ca.crt"), "an authority is missing");
            Ok(())
        })
        .await?;
    }
    // After the old certificate is restored, the new authority signs another certificate.
    let patch = json!({"stringData": {"tls.crt": first, "tls.key": server_key.serialize_pem()}});
    hub.secrets().patch(&hub.secret(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
    wait::until("the certificate is renewed again", LIMIT, || async {
        let secret = hub.secrets().get(&hub.secret()).await?;
        ensure!(text(&secret, "tls.crt") != first, "the certificate is not renewed");
        Ok(())
    })
    .await?;
    let reviews = count.load(Ordering::Relaxed);
    wait::until("more reviews succeed", LIMIT, || async {
        ensure!(count.load(Ordering::Relaxed) > reviews + 50, "there are fewer than 50");
        Ok(())
    })
    .await?;
    stop.store(true, Ordering::Relaxed);
    while let Some(result) = asking.join_next().await {
        result?.context("a review failed while certificates changed")?;
    }

    let until_another = async || {
        wait::until("the authority is created again", LIMIT, || async {
            let secret = hub.secrets().get(&hub.secret()).await?;
            ensure!(authorities(&secret) == 1, "the authority is missing");
            Ok(())
        })
        .await?;
        hub.until_called().await
    };
    // After the Secret is deleted, a new certificate is created and trusted.
    hub.secrets().delete(&hub.secret(), &DeleteParams::default()).await?;
    until_another().await?;
    // Invalid contents of the Secret are replaced by a new certificate.
    let patch = json!({"stringData": {"ca.crt": "no", "ca.key": "no", "tls.crt": "no", "tls.key": "no"}});
    hub.secrets().patch(&hub.secret(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
    until_another().await?;
    Ok(())
}

#[tokio::test]
async fn replicas_share_the_certificate_and_a_settled_hub_gets_no_writes() -> Result<()> {
    let name = "rego-replicas";
    let mut hub = ManagedWebhooks::start(name).await?;
    hub.world.write("places", json!({"a.rego": PLACES})).await?;
    hub.world.until_ok("places").await?;
    hub.until_called().await?;
    let secret = hub.secrets().get(&hub.secret()).await?;
    let entries = hub.until_registered().await?;
    // Another replica leads, at another port.
    let other = Webhooks::new(name)?;
    let mut arguments = hub.webhooks.arguments();
    arguments.retain(|argument| !argument.starts_with("--webhook-bind-address"));
    arguments.push(format!("--webhook-bind-address=127.0.0.1:{}", other.port()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let user = User::new("second-replica").in_group("system:masters");
    let mut second = hub.world.launch(user, &arguments)?;
    second.ready().await?;
    hub.stop().await?;
    second.leads().await?;
    let writes = second.settled(hub.world.hub()).await?;
    let is_ours = |resource: &str| resource == "secrets" || resource.ends_with("webhookconfigurations");
    let writes: Vec<_> = writes.iter().filter(|write| is_ours(&write.object().resource)).collect();
    ensure!(writes.is_empty(), "{writes:?}");
    ensure!(hub.secrets().get(&hub.secret()).await?.resource_version() == secret.resource_version());
    ensure!(hub.entries().await? == entries);
    if second.readiness().await?.0 != 200 {
        bail!("the second replica is not ready");
    }
    hub.controller = Some(second);
    Ok(())
}

#[tokio::test]
async fn missing_rights_to_write_webhook_configurations_are_reported() -> Result<()> {
    let name = "rego-forbidden-webhooks";
    let hub = ManagedWebhooks::prepare(name, Webhooks::new(name)?).await?;
    hub.webhooks.install(hub.client()).await?;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["coordination.k8s.io", "", "events.k8s.io"], "resources": ["leases", "configmaps", "events"],
                "verbs": ["create", "update", "patch"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]});
    apply(hub.client(), &role).await?;
    apply(hub.client(), &binding).await?;
    let arguments = hub.webhooks.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let controller = hub.world.launch(User::new(name), &arguments)?;
    hub.world.write("places", json!({"a.rego": PLACES})).await?;
    let parts = [format!("Secret default/{name}-webhook"), "cannot patch resource".to_owned()];
    hub.until_status_contains(&parts).await?;
    wait::until("/readyz reports the error", Duration::from_secs(20), || async {
        let (code, text) = controller.readiness().await?;
        let says = [
            "[!]webhooks: no certificate yet, and no webhook is registered",
            "[!]webhooks: cannot write Secret",
        ];
        ensure!(code == 200 && says.iter().all(|part| text.contains(part)), "{code} {text}");
        Ok(())
    })
    .await?;
    Ok(())
}
