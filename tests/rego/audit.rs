//! The audit of existing objects on a real hub: violations in metrics, in reports, at `/audit`, and in the
//! output of `policy-sync audit`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::DynamicObject;
use policy_sync_testenv::apply::{api_for, apply, apply_all};
use policy_sync_testenv::bad_input::{self, code};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::rights::{audit_reader, token};
use policy_sync_testenv::{Controller, crds, fixtures, wait};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::registration::ManagedWebhooks;
use crate::sent;
use crate::world::{BINARY, LIMIT, World};

/// A module that denies PodTemplates with the label `bad: "yes"`.
const DENIES: &str = r#"package admission
import rego.v1
import data.k8s.matches
deny contains {
	"id": "bad",
	"resource": {"kind": "podtemplates", "namespace": namespace, "name": name},
	"resolution": {"message": "it says that it is bad"},
} if {
	matches[["podtemplates", namespace, name, object]]
	object.metadata.labels.bad == "yes"
}
"#;
/// The namespaces of the tests, and whether objects in them are reviewed.
const NAMESPACES: [(&str, bool); 3] = [("shop", true), ("quiet", false), ("kube-public", false)];

fn template(namespace: &str, name: &str, bad: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": namespace, "labels": {"bad": bad}},
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}})
}

fn namespaces() -> [Value; 2] {
    let mut quiet = fixtures::namespace("quiet");
    quiet["metadata"]["labels"] = json!({"openpolicyagent.org/webhook": "ignore"});
    [fixtures::namespace("shop"), quiet]
}

/// The response to a request for `/audit` by a ServiceAccount with this token.
async fn audit_response(hub: &ManagedWebhooks, method: &str, token: Option<&str>) -> Result<(u16, String)> {
    let mut head = format!("{method} /audit HTTP/1.1");
    if let Some(token) = token {
        head.push_str(&format!("\r\nAuthorization: Bearer {token}"));
    }
    sent::ask(&hub.webhooks, &head, &[]).await
}

/// The report of the namespace `shop`, if it exists.
async fn reported(hub: &ManagedWebhooks) -> Result<Option<DynamicObject>> {
    let report = json!({"apiVersion": "openreports.io/v1alpha1", "kind": "Report",
        "metadata": {"name": hub.webhooks.name(), "namespace": "shop"}});
    let (api, name) = api_for(hub.client(), &report).await?;
    Ok(api.get_opt(&name).await?)
}

/// Waits until metrics, the report, `/audit` and the command all list exactly these objects of `shop`.
async fn until_listed(hub: &ManagedWebhooks, token: &str, names: &[&str]) -> Result<()> {
    let expected: BTreeSet<&str> = names.iter().copied().collect();
    wait::until(&format!("policy_sync_violations is {}", names.len()), LIMIT, || async {
        let metrics = hub.controller()?.metrics().await?;
        let count = metrics.value("policy_sync_violations", &[("enforcement", "deny")])?;
        ensure!(count == names.len() as f64, "it is {count}");
        ensure!(
            metrics.value("policy_sync_audit_last_success_timestamp_seconds", &[])? > 1.7e9,
            "no audit has ended"
        );
        Ok(())
    })
    .await?;
    wait::until("the report has the violations", LIMIT, || async {
        let report = reported(hub).await?;
        let Some(report) = report else {
            ensure!(names.is_empty(), "the report is missing");
            return Ok(());
        };
        let results = report.data["results"].as_array().cloned().unwrap_or_default();
        let found: BTreeSet<&str> =
            results.iter().filter_map(|result| result["resources"][0]["name"].as_str()).collect();
        ensure!(found == expected && report.data["summary"]["fail"] == names.len(), "{:?}", report.data);
        Ok(())
    })
    .await?;
    // The controller caches the response for ten seconds.
    wait::until("/audit returns the violations", LIMIT, || async {
        let (code, text) = audit_response(hub, "GET", Some(token)).await?;
        ensure!(code == 200, "{code} {text}");
        let audit_response: Value = serde_json::from_str(&text)?;
        let violations = audit_response["violations"].as_array().cloned().unwrap_or_default();
        let found: BTreeSet<&str> =
            violations.iter().filter_map(|of| of["resource"]["name"].as_str()).collect();
        ensure!(found == expected, "{audit_response}");
        ensure!(audit_response["message"] == format!("total violations:{}", names.len()), "{audit_response}");
        ensure!(audit_response["at"].is_string() && audit_response["truncated"] == false, "{audit_response}");
        Ok(())
    })
    .await?;
    let Output { status, stdout, stderr } = audit(&hub.world, &[]).await?;
    let (stdout, stderr) = (String::from_utf8(stdout)?, String::from_utf8(stderr)?);
    let row = |name: &&str| format!("deny podtemplates shop {name} bad it says that it is bad");
    let rows: Vec<String> = names.iter().map(row).collect();
    let found: Vec<String> = table_rows(&stdout).collect();
    ensure!(found == rows, "{stdout}{stderr}");
    ensure!(status.code() == Some(i32::from(!names.is_empty())), "{status} {stderr}");
    Ok(())
}

/// The rows of a table without the header, with one space between cells.
fn table_rows(table: &str) -> impl Iterator<Item = String> {
    table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The output of `policy-sync audit` for the hub of `world`.
async fn audit(world: &World, more: &[&str]) -> Result<Output> {
    let output = Command::new(Path::new(BINARY))
        .args(["audit", "--rego-namespace", &world.namespace])
        .args(more)
        .arg(format!("--controller-name=example.com/{}", world.namespace))
        .arg("--kubeconfig")
        .arg(world.hub().kubeconfig())
        .output()
        .await?;
    Ok(output)
}

#[tokio::test]
async fn existing_violations_are_reported_by_all_four_channels() -> Result<()> {
    let mut hub = ManagedWebhooks::prepare_with_files("rego-audit").await?;
    crds::install(hub.client(), &crds::reports()?).await?;
    apply_all(hub.client(), &namespaces()).await?;
    let nobody = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody", "namespace": "shop"}});
    apply_all(hub.client(), audit_reader("shop", "reader").iter().chain([&nobody])).await?;
    for (namespace, _) in NAMESPACES {
        apply(hub.client(), &template(namespace, "one", "yes")).await?;
        apply(hub.client(), &template(namespace, "fine", "no")).await?;
    }
    apply(hub.client(), &template("shop", "two", "yes")).await?;
    hub.run(&["--audit-interval=10s"]).await?;
    let reader = token(hub.client(), "shop", "reader", &[]).await?;

    hub.world.write("denies", json!({"denies.rego": DENIES})).await?;
    hub.world.until_ok("denies").await?;
    until_listed(&hub, &reader, &["one", "two"]).await?;

    // Webhooks deny new objects in the same namespaces that the audit covers.
    wait::until("the API server calls the webhook", LIMIT, || async {
        ensure!(hub.create(&template("shop", "new", "yes")).await.is_err(), "the write is admitted");
        Ok(())
    })
    .await?;
    for (namespace, is_reviewed) in NAMESPACES {
        let created = hub.create(&template(namespace, "other", "yes")).await;
        ensure!(created.is_err() == is_reviewed, "{namespace}: {created:?}");
    }
    until_listed(&hub, &reader, &["one", "two"]).await?;

    // An object that no longer violates the Rego policy disappears from all outputs.
    apply(hub.client(), &template("shop", "one", "no")).await?;
    until_listed(&hub, &reader, &["two"]).await?;
    let version = reported(&hub).await?.context("no report")?.metadata.resource_version;

    refused_requests(&hub).await?;

    // The report is not written if nothing changed.
    until_audited_twice(hub.controller()?).await?;
    ensure!(
        reported(&hub).await?.context("no report")?.metadata.resource_version == version,
        "the report was written"
    );

    // A report that another client changes is restored, even if the client also removes its label.
    let forged = json!({"apiVersion": "openreports.io/v1alpha1", "kind": "Report", "summary": {"fail": 0},
        "metadata": {"name": hub.webhooks.name(), "namespace": "shop"}});
    apply(hub.client(), &forged).await?;
    until_listed(&hub, &reader, &["two"]).await?;

    hub.world.delete("denies").await?;
    until_listed(&hub, &reader, &[]).await?;
    ensure!(reported(&hub).await?.is_none(), "the report still exists");
    Ok(())
}

/// Waits for two more audits of `controller`. Once the second audit has ended, all writes of the first audit are done.
async fn until_audited_twice(controller: &Controller) -> Result<()> {
    let ended =
        async || controller.metrics().await?.value("policy_sync_audit_last_success_timestamp_seconds", &[]);
    for _ in 0..2 {
        let before = ended().await?;
        wait::until("another audit ends", LIMIT, || async {
            ensure!(ended().await? > before, "no audit has ended");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Requests for `/audit` that are rejected.
async fn refused_requests(hub: &ManagedWebhooks) -> Result<()> {
    let of = async |name, audiences| token(hub.client(), "shop", name, audiences).await;
    let (reader, nobody) = (of("reader", &[]).await?, of("nobody", &[]).await?);
    let elsewhere = of("reader", &["elsewhere"]).await?;
    let mut rows = "| request | response | message |\n|---|---|---|\n".to_owned();
    for (what, method, token, expected, words) in [
        ("no token", "GET", None, 401, "expected a bearer token of a user of this hub"),
        ("an unknown token", "GET", Some("nonsense"), 401, "the API server does not accept this token"),
        (
            "a token for another audience",
            "GET",
            Some(elsewhere.as_str()),
            401,
            "the API server does not accept this token",
        ),
        (
            "a token of a user without the right to read it",
            "GET",
            Some(nobody.as_str()),
            403,
            "system:serviceaccount:shop:nobody cannot get path \"/audit\"",
        ),
        ("another method", "POST", Some(reader.as_str()), 405, ""),
    ] {
        let (found, text) = audit_response(hub, method, token).await?;
        ensure!((found, text.trim()) == (expected, words), "{what}: {found} {text}");
        rows += &format!("| {what} | {expected} | {} |\n", code(words));
    }
    bad_input::holds("requests for the audit", &rows)
}

#[tokio::test]
async fn audit_of_the_hub_and_of_files_report_the_same_violations() -> Result<()> {
    let world = World::alone("rego-same").await?;
    let objects = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/data/objects/objects.yaml");
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/rego/gates");
    let text = std::fs::read_to_string(&objects)?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    let items = documents.iter().flat_map(|document| match document["items"].as_array() {
        Some(items) => items.iter().collect(),
        None => vec![document],
    });
    for object in items {
        apply(&world.client, object).await?;
    }
    let mut modules = serde_json::Map::new();
    for file in std::fs::read_dir(&policies)? {
        let file = file?.path();
        let name = file.file_name().and_then(|name| name.to_str()).context("no name")?.to_owned();
        if name.ends_with(".rego") {
            modules.insert(name, std::fs::read_to_string(&file)?.into());
        }
    }
    world.write("gates", modules.into()).await?;
    let rows = |output: Output| -> Result<Vec<String>> {
        ensure!(output.status.code() == Some(1), "{output:?}");
        let rows = String::from_utf8(output.stdout)?;
        Ok(table_rows(&rows).collect())
    };
    let on_hub = rows(audit(&world, &[]).await?)?;
    let mut command = Command::new(Path::new(BINARY));
    let in_files = command.arg("audit").arg("-f").arg(&objects).arg("-p").arg(&policies).output().await?;
    let in_files = rows(in_files)?;
    // Violations of objects that a new hub contains.
    let of_default = "deny namespaces - default required-labels label cost-center is missing";
    let (own, others): (Vec<String>, Vec<String>) =
        on_hub.into_iter().partition(|row| row.starts_with("deny namespaces - default"));
    ensure!(others == in_files, "{others:#?}\n{in_files:#?}");
    ensure!(own.iter().any(|row| row.starts_with(of_default)), "{own:?}");
    Ok(())
}

#[tokio::test]
async fn failed_evaluations_do_not_hide_other_violations() -> Result<()> {
    let world = World::new("rego-fails").await?;
    // The namespace of the Rego policies is exempt.
    let space = "rego-fails-shop";
    apply(&world.client, &fixtures::namespace(space)).await?;
    for (name, bad) in [("one", "yes"), ("fails", "fails"), ("fine", "no")] {
        apply(&world.client, &template(space, name, bad)).await?;
    }
    let fails = "package admission\nimport rego.v1\nimport data.k8s.matches\ndeny contains {\"id\": \"fails\", \"resource\": \
        {\"kind\": \"podtemplates\", \"namespace\": ns, \"name\": name}} if {\n\tmatches[[\"podtemplates\", ns, name, object]]\n\t\
        object.metadata.labels.bad == \"fails\"\n\tnumbers.range(1, 1000000)\n}\n";
    world
        .write(
            "mixed",
            json!({"denies.rego": DENIES, "fails.rego": fails, "broken.rego": "package admission\ndeny["}),
        )
        .await?;
    let Output { status, stdout, stderr } = audit(&world, &[]).await?;
    let (stdout, stderr) = (String::from_utf8(stdout)?, String::from_utf8_lossy(&stderr).into_owned());
    ensure!(status.code() == Some(1), "{status} {stderr}");
    // Other tests use the hub as well.
    let is_meant = |line: &&str| line.contains(space) || line.contains(&world.namespace);
    let rows: Vec<String> = stdout
        .lines()
        .filter(is_meant)
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let [unasked, failed, denied] = &rows[..] else { anyhow::bail!("{stdout}{stderr}") };
    let expected = "error - - - - Rego policy rego-fails/mixed/broken.rego is unavailable";
    ensure!(unasked.starts_with(expected), "{unasked}");
    ensure!(
        failed.starts_with(&format!("error podtemplates {space} fails - "))
            && failed.contains("numbers.range: the result is above its limit"),
        "{failed}"
    );
    ensure!(*denied == format!("deny podtemplates {space} one bad it says that it is bad"), "{denied}");
    let none = audit(&world, &["--exempt-namespaces", space]).await?;
    let none = String::from_utf8(none.stdout)?;
    ensure!(none.lines().filter(is_meant).count() == 1, "expected only the error of the Rego policy: {none}");
    Ok(())
}

#[tokio::test]
async fn conflicting_patches_are_reported_for_the_newer_rego_policy() -> Result<()> {
    let world = World::new("rego-unfit").await?;
    let space = "rego-unfit-shop";
    apply(&world.client, &fixtures::namespace(space)).await?;
    apply(&world.client, &template(space, "web", "no")).await?;
    let label = |value: &str| {
        format!(
            "package admission\nimport rego.v1\nimport data.k8s.matches\ndeny contains {{\"id\": \"{value}\", \"resource\": \
             {{\"kind\": \"podtemplates\", \"namespace\": ns, \"name\": name}}, \"resolution\": {{\"patches\": [{{\"op\": \"add\", \
             \"path\": \"/metadata/labels/team\", \"value\": \"{value}\"}}]}}}} if {{\n\tmatches[[\"podtemplates\", ns, name, object]]\n\
             \tns == \"{space}\"\n\tobject.metadata.labels.team != \"{value}\"\n}}\n"
        )
    };
    let mut web = template(space, "web", "no");
    web["metadata"]["labels"]["team"] = "none".into();
    apply(&world.client, &web).await?;
    let _controller = world.controller(&["--audit-interval=10s"]).await?;
    world.write("b-older", json!({"a.rego": label("a")})).await?;
    world.until_ok("b-older").await?;
    // Creation times have a resolution of one second.
    let older = world.config_maps().get("b-older").await?.metadata.creation_timestamp;
    wait::until("the second ConfigMap has a later creation time", LIMIT, || async {
        world.write("a-newer", json!({"b.rego": label("b")})).await?;
        let newer = world.config_maps().get("a-newer").await?.metadata.creation_timestamp;
        if newer <= older {
            world.delete("a-newer").await?;
            anyhow::bail!("both have the same creation time");
        }
        Ok(())
    })
    .await?;
    let text = format!(
        "podtemplates {space}/web: a: add /metadata/labels/team conflicts with b: add /metadata/labels/team"
    );
    let status =
        world.until_status("a-newer", |status| status["warnings"][0]["message"] == text.as_str()).await?;
    ensure!(status["status"] == "ok", "{status}");
    ensure!(world.status("b-older").await?["warnings"].is_null(), "the older ConfigMap has a warning, too");
    wait::until("the Event exists", LIMIT, || async {
        let events = world.events("PatchConflict", "a-newer").await?;
        ensure!(events.iter().any(|note| note.contains(&text)), "{events:?}");
        Ok(())
    })
    .await?;
    world.delete("b-older").await?;
    world.until_status("a-newer", |status| status["warnings"].is_null()).await.map(drop)
}

#[tokio::test]
async fn admit_query_selects_another_package() -> Result<()> {
    let world = World::new("rego-gates-package").await?;
    let space = "rego-gates-package-shop";
    apply(&world.client, &fixtures::namespace(space)).await?;
    apply(&world.client, &template(space, "one", "yes")).await?;
    let denies =
        DENIES.replace("package admission", "package gates").replace("import data.k8s.matches\n", "");
    world.write("gates", json!({"denies.rego": denies})).await?;
    let Output { stdout, stderr, .. } = audit(&world, &["--admit-query=data.gates"]).await?;
    let (stdout, stderr) = (String::from_utf8(stdout)?, String::from_utf8_lossy(&stderr).into_owned());
    let rows = stdout.lines().filter(|line| line.contains(space)).count();
    ensure!(rows == 1 && stdout.contains("it says that it is bad"), "{stdout}{stderr}");
    Ok(())
}

/// The number of namespaces with a report.
const SPACES: usize = 12;

#[tokio::test]
async fn new_leader_completes_reports_after_a_crash_and_none_is_ever_partial() -> Result<()> {
    let world = World::alone("rego-audit-crash").await?;
    crds::install(&world.client, &crds::reports()?).await?;
    for space in (0..SPACES).map(|number| format!("crash-{number:02}")) {
        apply(&world.client, &fixtures::namespace(&space)).await?;
        for name in ["one", "two"] {
            apply(&world.client, &template(&space, name, "yes")).await?;
        }
    }
    world.write("denies", json!({"denies.rego": DENIES})).await?;
    let launch = |name: &str| {
        world.launch(
            User::new(name).in_group("system:masters"),
            &["--audit-interval=10s", "--leader-elect-lease-duration=4s"],
        )
    };
    let (mut first, mut second) = (launch("first")?, launch("second")?);
    first.ready().await?;
    second.ready().await?;
    wait::until("a replica leads", LIMIT, || async {
        ensure!(first.is_leader().await? || second.is_leader().await?, "no replica leads");
        Ok(())
    })
    .await?;
    let (leads, follows) = if first.is_leader().await? { (first, second) } else { (second, first) };
    // The leader is killed as soon as the first report is written.
    let begun = wait::until_seen("a report is written", LIMIT, Duration::from_millis(2), || async {
        let reports = whole_reports(&world).await?;
        ensure!(!reports.is_empty(), "there are no reports");
        Ok(reports.len())
    })
    .await?;
    leads.kill();
    println!("{begun} of {SPACES} reports existed when the leader was killed");
    follows.leads().await?;
    let all = wait::until("all reports exist", LIMIT, || async {
        let reports = whole_reports(&world).await?;
        ensure!(reports.len() == SPACES, "there are {} reports", reports.len());
        Ok(reports)
    })
    .await?;
    // The new leader finds the same violations, and does not write the reports again.
    until_audited_twice(&follows).await?;
    ensure!(whole_reports(&world).await? == all, "reports are written again");
    Ok(())
}

/// All reports. Each report must contain the two objects of its namespace.
async fn whole_reports(world: &World) -> Result<Vec<Value>> {
    let list = http::Request::get("/apis/openreports.io/v1alpha1/reports").body(Vec::new())?;
    let mut list: Value = world.client.request(list).await?;
    let reports: Vec<Value> = serde_json::from_value(list["items"].take())?;
    for report in &reports {
        let results = report["results"].as_array().map_or(0, Vec::len);
        ensure!(results == 2 && report["summary"]["fail"] == 2, "the report is incomplete: {report}");
    }
    Ok(reports)
}
