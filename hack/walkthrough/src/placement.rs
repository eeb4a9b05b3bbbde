//! Where apps that handle card data run: the steps, in their order.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use policy_sync::api::cluster::ManagedCluster;
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::{FleetOptions, fixtures};
use serde_json::{Value, json};

use super::demo::Demo;
use super::look;
use super::report::Report;

/// The spokes: one in a zone of the EU, certified for card data, and one elsewhere.
pub(super) const SPOKES: [&str; 2] = ["c1", "c2"];
/// Where administrators write policies.
const POLICIES: &str = "kube-federation-scheduling-policy";
/// What a carrier says of its modules.
const STATUS: &str = "openpolicyagent.org/kube-mgmt-status";
/// The policy.
const PCI: &str = include_str!("../../../docs/examples/rego/placement/pci.rego");
/// How soon a policy that was mended counts.
const SOON: Duration = Duration::from_secs(1);

/// The hub, and the spokes with their labels.
pub(super) fn fleet() -> FleetOptions {
    let labels = |zone: &str| {
        BTreeMap::from([("zone".to_owned(), zone.to_owned()), ("pci".to_owned(), "certified".to_owned())])
    };
    let [c1, c2] = SPOKES.map(str::to_owned);
    FleetOptions { spokes: vec![(c1, labels("eu")), (c2, labels("us"))], ..FleetOptions::spokes([]) }
}

/// How the controller is started.
pub(super) fn arguments() -> Vec<&'static str> {
    vec!["--policy-namespace=kube-federation-scheduling-policy"]
}

/// All steps.
pub(super) async fn tell(demo: &Demo, report: &Report) -> Result<()> {
    let hub = demo.hub()?;
    apply(&hub, &fixtures::namespace(POLICIES)).await?;
    write_a_policy_with_a_fault(&hub, report).await?;
    mend_it(&hub, report).await?;
    ask_where_an_app_would_go(demo, &hub, report).await
}

fn policy(text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"pci.rego": text},
        "metadata": {"name": "pci", "namespace": POLICIES},
    })
}

/// Waits until the policy says something of this status.
async fn until_status(hub: &Client, status: &str) -> Result<Value> {
    let what = format!("the policy says {status}");
    let found = look::there(hub, &what, &policy(PCI), |object| {
        let said = said(object.annotations());
        ensure!(said["status"] == status, "it says {said}");
        Ok(())
    })
    .await?;
    Ok(said(found.annotations()))
}

fn said(annotations: &BTreeMap<String, String>) -> Value {
    annotations.get(STATUS).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

async fn write_a_policy_with_a_fault(hub: &Client, report: &Report) -> Result<()> {
    report.step("An administrator writes where apps that handle card data may run, with a slip of the pen");
    let faulty = PCI.replacen("count(certified) > 0", "cuont(certified) > 0", 1);
    ensure!(faulty != PCI, "the policy has no such line");
    let line = faulty.lines().position(|line| line.contains("cuont")).context("no such line")? + 1;
    report.say(&format!("ConfigMap {POLICIES}/pci, whose line {line} is:"));
    report.excerpt(&faulty.lines().nth(line - 1).unwrap_or_default().trim().into());
    apply(hub, &policy(&faulty)).await?;
    let status = until_status(hub, "error").await?;
    let error = &status["error"]["errors"][0];
    ensure!(error["location"]["row"] == line, "{status}");
    ensure!(error["message"].as_str().is_some_and(|text| text.contains("cuont")), "{status}");
    report.seen(&format!("it is refused, and says where: annotation {STATUS}:"));
    report.excerpt(&status);
    Ok(())
}

async fn mend_it(hub: &Client, report: &Report) -> Result<()> {
    report.step("They mend it");
    let began = Instant::now();
    apply(hub, &policy(PCI)).await?;
    let status = until_status(hub, "ok").await?;
    let took = began.elapsed();
    ensure!(took < SOON, "it took {took:?}");
    report.seen(&format!("it is in force after {} ms:", took.as_millis()));
    report.excerpt(&status);
    Ok(())
}

async fn ask_where_an_app_would_go(demo: &Demo, hub: &Client, report: &Report) -> Result<()> {
    report.step("Before anybody is bound by it: where would an app go?");
    let clusters = Api::<ManagedCluster>::all(hub.clone()).list(&ListParams::default()).await?.items;
    let clusters: BTreeMap<String, ManagedCluster> =
        clusters.into_iter().map(|cluster| (cluster.name_any(), cluster)).collect();
    let folder = tempfile::tempdir().context("making a folder")?;
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
    report.say(&format!("$ policy-sync {}", arguments.join(" ")));
    let answer = run(demo.program(), folder.path(), &arguments)?;
    report.excerpt(&answer["annotations"]);
    let preferences = &answer["annotations"]["federation.kubernetes.io/replica-set-preferences"];
    ensure!(*preferences == json!({"clusters": {"c1": {"weight": 1}}, "rebalance": true}), "{answer}");
    report.seen("to c1 alone: it is the cluster in the EU that is certified for card data");
    Ok(())
}

/// What the program prints, as JSON.
fn run(program: &Path, folder: &Path, arguments: &[&str]) -> Result<Value> {
    let Output { status, stdout, stderr } =
        Command::new(program).args(arguments).current_dir(folder).output().context("running policy-sync")?;
    ensure!(status.success(), "it ends with {status}: {}", String::from_utf8_lossy(&stderr));
    serde_json::from_slice(&stdout).context("reading what it prints")
}
