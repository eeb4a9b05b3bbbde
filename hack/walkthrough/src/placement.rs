//! The steps of the demo of placement: a Rego policy selects clusters for apps that handle card data.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use policy_sync_api::cluster::ManagedCluster;
use policy_sync_testenv::apply::{api_for, apply, apply_with_status};
use policy_sync_testenv::webhooks::Webhooks;
use policy_sync_testenv::{FleetOptions, fixtures, wait};
use serde_json::{Value, json};

use super::demo::Demo;
use super::look;
use super::report::Report;

/// The spokes: one in a zone of the EU, certified for card data, and one elsewhere.
pub(super) const SPOKES: [&str; 2] = ["c1", "c2"];
/// The namespace of the Rego policies.
pub(super) const POLICIES: &str = "kube-federation-scheduling-policy";
/// The controller name of the class and of the controller.
const CONTROLLER: &str = "kuadrant.io/policy-sync";
/// The Placement in the namespace [`SHOP`].
const FLEET: &str = "fleet";
/// The namespace of the apps.
const SHOP: &str = "shop";
/// Annotation of an app: the clusters of the app, and the share of the replicas on each cluster.
const PREFERENCES: &str = "federation.kubernetes.io/replica-set-preferences";
/// Annotation of an app: the part of the preferences that a Rego policy has set.
const PLACED: &str = "kuadrant.io/placed-by-policy";
/// Annotation of a ConfigMap: the status of its Rego modules.
const STATUS: &str = "openpolicyagent.org/kube-mgmt-status";
/// The published Rego policy.
const PCI: &str = include_str!("../../../docs/examples/rego/placement/pci.rego");
/// Time limit for a corrected Rego policy to take effect.
const SOON: Duration = Duration::from_secs(1);

/// The spokes with the labels of their ManagedClusters.
pub(super) fn fleet() -> FleetOptions {
    let labels = |zone: &str| {
        BTreeMap::from([("zone".to_owned(), zone.to_owned()), ("pci".to_owned(), "certified".to_owned())])
    };
    let [c1, c2] = SPOKES.map(str::to_owned);
    FleetOptions { spokes: vec![(c1, labels("eu")), (c2, labels("us"))], ..FleetOptions::spokes([]) }
}

/// The controller's arguments.
pub(super) fn arguments(webhooks: &Webhooks) -> Vec<String> {
    let mut arguments = webhooks.arguments();
    arguments.push(format!("--rego-namespace={POLICIES}"));
    arguments
}

/// Runs all steps.
pub(super) async fn run_steps(demo: &Demo, report: &Report) -> Result<()> {
    let hub = demo.hub()?;
    apply(&hub, &fixtures::namespace(POLICIES)).await?;
    demo.webhooks().install(&hub).await?;
    prepare(&hub, report).await?;
    write_a_policy_with_a_fault(&hub, report).await?;
    fix_policy(&hub, report).await?;
    evaluate_placement(demo, &hub, report).await?;
    write_an_app(&hub, report).await?;
    check_placement(demo, &hub, report).await?;
    request_another_cluster(&hub, report).await?;
    change_fleet(demo, &hub, report).await?;
    delete_policy(demo, &hub, report).await
}

/// Creates a class that syncs Deployments, and a Placement that selects both spokes.
async fn prepare(hub: &Client, report: &Report) -> Result<()> {
    report.step("The platform team enables the sync of Deployments");
    let mut deployments = fixtures::resources("apps", "deployments");
    deployments["placement"] = FLEET.into();
    let parameters = json!({"resourcesToSync": [deployments]});
    report.print("parameters of the GatewayClass:");
    report.excerpt(&parameters);
    for object in [
        fixtures::namespace(SHOP),
        fixtures::params_config_map(POLICIES, "parameters", &parameters),
        fixtures::gateway_class("multi-cluster", CONTROLLER, Some((POLICIES, "parameters"))),
    ] {
        apply(hub, &object).await?;
    }
    let placement = fixtures::placement(SHOP, FLEET, SPOKES.len());
    for object in [fixtures::placement_decision(SHOP, FLEET, 0, &SPOKES), placement] {
        apply_with_status(hub, &object).await?;
    }
    report.print_result(&format!(
        "those in the namespace {SHOP} are synced to the clusters of its Placement {FLEET}: c1 and c2"
    ));
    Ok(())
}

fn policy(text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"pci.rego": text},
        "metadata": {"name": "pci", "namespace": POLICIES},
    })
}

/// Waits until the ConfigMap of the Rego policy has this status, and returns it.
async fn until_status(hub: &Client, status: &str) -> Result<Value> {
    let what = format!("the policy's status is {status}");
    let found = look::there(hub, &what, &policy(PCI), |object| {
        let found = status_of(object.annotations());
        ensure!(found["status"] == status, "the result is {found}");
        Ok(())
    })
    .await?;
    Ok(status_of(found.annotations()))
}

pub(super) fn status_of(annotations: &BTreeMap<String, String>) -> Value {
    annotations.get(STATUS).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

async fn write_a_policy_with_a_fault(hub: &Client, report: &Report) -> Result<()> {
    report.step(
        "An administrator creates a placement policy for apps that handle card data, with a typing error",
    );
    let faulty = PCI.replacen("count(certified) > 0", "cuont(certified) > 0", 1);
    ensure!(faulty != PCI, "the policy has no such line");
    let line = faulty.lines().position(|line| line.contains("cuont")).context("no such line")? + 1;
    report.print(&format!("ConfigMap {POLICIES}/pci, whose line {line} is:"));
    report.excerpt(&faulty.lines().nth(line - 1).unwrap_or_default().trim().into());
    apply(hub, &policy(&faulty)).await?;
    let status = until_status(hub, "error").await?;
    let error = &status["error"]["errors"][0];
    ensure!(error["location"]["row"] == line, "{status}");
    ensure!(error["message"].as_str().is_some_and(|text| text.contains("cuont")), "{status}");
    report
        .print_result(&format!("it is rejected, with the location of the error in the annotation {STATUS}:"));
    report.excerpt(&status);
    Ok(())
}

async fn fix_policy(hub: &Client, report: &Report) -> Result<()> {
    report.step("The administrator fixes it");
    let began = Instant::now();
    apply(hub, &policy(PCI)).await?;
    let status = until_status(hub, "ok").await?;
    let took = began.elapsed();
    ensure!(took < SOON, "loading took {took:?}");
    report.print_result(&format!("it is loaded after {} ms:", took.as_millis()));
    report.excerpt(&status);
    Ok(())
}

async fn evaluate_placement(demo: &Demo, hub: &Client, report: &Report) -> Result<()> {
    report.step("Before it affects users: to which clusters would an app go?");
    let clusters = Api::<ManagedCluster>::all(hub.clone()).list(&ListParams::default()).await?.items;
    let clusters: BTreeMap<String, ManagedCluster> =
        clusters.into_iter().map(|cluster| (cluster.name_any(), cluster)).collect();
    let folder = tempfile::tempdir().context("creating a directory")?;
    let files = [
        ("pci.rego", PCI.to_owned()),
        ("hub.json", json!({"kubernetes": {"clusters": clusters}}).to_string()),
        ("app.yaml", include_str!("../../../docs/examples/rego/app.yaml").to_owned()),
    ];
    for (name, text) in files {
        fs::write(folder.path().join(name), text).with_context(|| format!("writing {name}"))?;
    }
    let query = "data.io.k8s.federation.admission";
    let arguments = ["rego", "eval", query, "-f", "pci.rego", "--data", "hub.json", "--input", "app.yaml"];
    report.print(&format!("$ policy-sync {}", arguments.join(" ")));
    let answer = run(demo.program(), folder.path(), &arguments)?;
    report.excerpt(&answer["annotations"]);
    let preferences = &answer["annotations"][PREFERENCES];
    ensure!(*preferences == json!({"clusters": {"c1": {"weight": 1}}, "rebalance": true}), "{answer}");
    report.print_result("only to c1: the cluster in the EU that is certified for card data");
    Ok(())
}

/// The app of the documentation, with additional annotations.
fn app(name: &str, annotations: &Value) -> Value {
    let labels = json!({"app": name});
    let container = json!({"name": "shop", "image": "registry.example/shop:1"});
    let mut app = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": SHOP, "annotations": annotations},
        "spec": {"replicas": 4, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
    });
    app["metadata"]["annotations"]["requires-pci"] = "true".into();
    app
}

async fn write_an_app(hub: &Client, report: &Report) -> Result<()> {
    report.step("A team creates the app, without a choice of clusters");
    // The API server calls a new webhook only after a delay.
    let (api, _) = api_for(hub, &app("shop", &json!({}))).await?;
    let trial: DynamicObject = serde_json::from_value(app("shop", &json!({})))?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("the API server sends reviews", Duration::from_secs(30), || async {
        let reviewed = api.create(&dry_run, &trial).await?;
        ensure!(reviewed.annotations().contains_key(PREFERENCES), "no annotation by the policy");
        Ok(())
    })
    .await?;
    let written = apply(hub, &app("shop", &json!({}))).await?;
    let placed = written.annotations();
    report.print("Deployment shop/shop, as it is stored:");
    report.excerpt(&json!({"metadata": {"annotations": placed}}));
    let preferences = placed.get(PREFERENCES).context("no annotation by the policy")?;
    ensure!(preferences == r#"{"clusters":{"c1":{"weight":1}},"rebalance":true}"#, "{preferences}");
    report.print_result("the policy places it on c1");
    Ok(())
}

async fn check_placement(demo: &Demo, hub: &Client, report: &Report) -> Result<()> {
    report.step("It runs only there, with all of its replicas");
    let copy = copy();
    let spoke = demo.spoke("c1")?;
    look::there(&spoke, "the app is on c1", &copy, |copy| {
        ensure!(copy.data["spec"]["replicas"] == 4, "spec: {}", copy.data["spec"]);
        Ok(())
    })
    .await?;
    report.print_result(&format!("Deployment kuadrant-{SHOP}/shop is on c1, with 4 replicas"));
    // Writes the status in place of the controllers of a real spoke.
    let (api, name) = api_for(&spoke, &copy).await?;
    let generation = api.get(&name).await?.metadata.generation;
    let status = json!({"status": {"observedGeneration": generation, "replicas": 4, "readyReplicas": 4}});
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    let fold = look::folded(hub, "the ready replicas are reported", &app("shop", &json!({})), |fold| {
        let ready: Vec<_> = fold.entries.iter().map(|entry| entry.fields.get("readyReplicas")).collect();
        ensure!(ready == [Some(&json!(4))], "the status is {ready:?}");
        Ok(())
    })
    .await?;
    report.print_result("the status of the hub's Deployment, as reported by the cluster:");
    report.excerpt(&json!(fold.entries));
    ensure!(fold.entries[0].cluster.0.as_ref() == "c1", "the entry is for {}", fold.entries[0].cluster);
    let (api, name) = api_for(&demo.spoke("c2")?, &copy).await?;
    ensure!(api.get_opt(&name).await?.is_none(), "c2 has a copy");
    report.print_result("c2 has no copy");
    Ok(())
}

async fn request_another_cluster(hub: &Client, report: &Report) -> Result<()> {
    report.step("Another team selects c2");
    let wish = json!({PREFERENCES: r#"{"clusters":{"c2":{"weight":1}}}"#});
    let error = apply(hub, &app("till", &wish)).await.err().context("the Deployment is admitted")?;
    let words = "till handles card data: cluster c2 is not certified for it";
    let error = format!("{error:#}");
    ensure!(error.contains(words), "{error}");
    report.print_result("the API server rejects it, with the policy's message:");
    report.excerpt(&words.into());
    let events: Api<Event> = Api::namespaced(hub.clone(), SHOP);
    let event = wait::until("an Event PlacementRefused exists", Duration::from_secs(30), || async {
        let events = events.list(&ListParams::default()).await?.items.into_iter();
        events
            .filter(|event| event.reason.as_deref() == Some("PlacementRefused"))
            .find_map(|event| event.message)
            .context("no such Event")
    })
    .await?;
    ensure!(event == words, "{event}");
    report.print_result("and an Event PlacementRefused on Deployment shop/till has the same message");
    Ok(())
}

/// Labels a cluster.
async fn label(hub: &Client, cluster: &str, labels: Value) -> Result<()> {
    let clusters: Api<ManagedCluster> = Api::all(hub.clone());
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    clusters.patch(cluster, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// The app's copy on a spoke.
fn copy() -> Value {
    let mut copy = app("shop", &json!({}));
    copy["metadata"]["namespace"] = format!("kuadrant-{SHOP}").into();
    copy
}

async fn change_fleet(demo: &Demo, hub: &Client, report: &Report) -> Result<()> {
    report.step("Cluster c2 moves to the EU, and c1 loses its certificate");
    label(hub, "c2", json!({"zone": "eu"})).await?;
    look::there(hub, "the app can run on both", &app("shop", &json!({})), |app| {
        let preferences = app.annotations().get(PREFERENCES).context("no such annotation")?;
        ensure!(preferences.contains("c1") && preferences.contains("c2"), "{preferences}");
        Ok(())
    })
    .await?;
    report.print_result("once both are in the EU, it can run on both");
    label(hub, "c1", json!({"pci": null})).await?;
    let moved = look::there(hub, "the app is placed only on c2", &app("shop", &json!({})), |app| {
        let preferences = app.annotations().get(PREFERENCES).context("no such annotation")?;
        ensure!(preferences == r#"{"clusters":{"c2":{"weight":1}},"rebalance":true}"#, "{preferences}");
        Ok(())
    })
    .await?;
    report
        .print_result("without the label pci, c1 is not allowed; the app did not have to be applied again:");
    report.excerpt(&json!({"metadata": {"annotations": {PREFERENCES: moved.annotations()[PREFERENCES]}}}));
    look::there(&demo.spoke("c2")?, "the app is on c2", &copy(), |copy| {
        ensure!(copy.data["spec"]["replicas"] == 4, "spec: {}", copy.data["spec"]);
        Ok(())
    })
    .await?;
    look::gone(&demo.spoke("c1")?, "the app is deleted from c1", &copy()).await?;
    report.print_result("it runs on c2 with 4 replicas, and no longer on c1");
    Ok(())
}

async fn delete_policy(demo: &Demo, hub: &Client, report: &Report) -> Result<()> {
    report.step("The policy is deleted");
    let (api, name) = api_for(hub, &policy(PCI)).await?;
    api.delete(&name, &DeleteParams::default()).await?;
    let back = look::there(hub, "the app is as its team created it", &app("shop", &json!({})), |app| {
        let left = app.annotations().keys().find(|key| [PREFERENCES, PLACED].contains(&key.as_str()));
        ensure!(left.is_none(), "an annotation remains: {left:?}");
        Ok(())
    })
    .await?;
    ensure!(back.annotations()["requires-pci"] == "true", "{:?}", back.annotations());
    report.print_result("the app is as its team created it, without a choice of clusters");
    look::there(&demo.spoke("c1")?, "the app is on c1 again", &copy(), |_| Ok(())).await?;
    report.print_result("it runs on both clusters again");
    Ok(())
}

/// Runs the program and parses its output as JSON.
fn run(program: &Path, folder: &Path, arguments: &[&str]) -> Result<Value> {
    let Output { status, stdout, stderr } =
        Command::new(program).args(arguments).current_dir(folder).output().context("running policy-sync")?;
    ensure!(status.success(), "the command exited with {status}: {}", String::from_utf8_lossy(&stderr));
    serde_json::from_slice(&stdout).context("parsing the output")
}
