//! Contents of Secrets are in no response, warning, Event, report or log, and in OPA only with `--replicate secrets`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use http::{Request, StatusCode};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DynamicObject};
use kube::client::Body;
use policy_sync_rego::confined::{Checker, Lane};
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::secrets::names;
use policy_sync_testenv::apply::{api_for, apply, apply_all};
use policy_sync_testenv::rights::{audit_reader, token};
use policy_sync_testenv::{Opa, crds, fixtures, wait};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::registration::ManagedWebhooks;
use crate::sent;
use crate::world::{BINARY, LIMIT, World, denies};

/// `hunter2` in base64.
const PLANTED: &str = "aHVudGVyMg==";
/// `hunter3` in base64.
const PLANTED_IN_WORK: &str = "aHVudGVyMw==";
/// A module whose evaluation fails for each Secret.
const FAILS: &str = r#"package admission
import rego.v1
import data.k8s.matches
deny contains {
	"id": "fails",
	"resource": {"kind": "secrets", "namespace": namespace, "name": name},
	"resolution": {"message": message},
} if {
	matches[["secrets", namespace, name, secret]]
	message := base64.decode(secret.data.password) & {"a"}
}
"#;
/// A module that requires a label on Secrets, and prints the metadata of Secrets without the label.
const LABELS: &str = r#"package admission
import rego.v1
deny contains {
	"id": "labels",
	"resolution": {"message": sprintf("no owner: %v", [input.request.object.metadata])},
} if {
	input.request.kind.kind == "Secret"
	not input.request.object.metadata.labels.owner
}
"#;
/// A module that would write the contents of Secrets into Events.
const LEAKS_SECRETS: &str = r#"package admission
import rego.v1
deny contains msg if {
	input.request.kind.kind == "Secret"
	msg := sprintf("%v", [input.request.object.data])
}
"#;

fn secret(namespace: &str, name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": PLANTED},
        "metadata": {"name": name, "namespace": namespace, "labels": labels}})
}

/// Fails unless `text` contains `expected` and none of the planted Secret values.
fn is_clean(what: &str, text: &str, expected: &str) -> Result<()> {
    ensure!(!text.contains(PLANTED) && !text.contains("hunter2"), "{what}: {text}");
    ensure!(text.contains(expected), "{what} does not contain {expected:?}: {text}");
    Ok(())
}

/// The Events of all namespaces.
async fn events(hub: &ManagedWebhooks) -> Result<String> {
    let events: Api<Event> = Api::all(hub.client().clone());
    Ok(serde_json::to_string(&events.list(&Default::default()).await?.items)?)
}

/// The ConfigMap `name` in the namespace of the Rego policies.
async fn carrier(hub: &ManagedWebhooks, name: &str) -> Result<String> {
    Ok(serde_json::to_string(&hub.world.config_maps().get(name).await?)?)
}

#[tokio::test]
async fn failed_evaluations_of_secrets_leak_no_contents() -> Result<()> {
    let mut hub = ManagedWebhooks::prepare_with_files("rego-secrets").await?;
    crds::install(hub.client(), &crds::reports()?).await?;
    apply_all(hub.client(), &[fixtures::namespace("vault")]).await?;
    apply_all(hub.client(), &audit_reader("vault", "reader")).await?;
    apply(hub.client(), &secret("vault", "db", json!({}))).await?;
    hub.run(&["--audit-interval=10s", "--replicate=secrets"]).await?;
    let reader = token(hub.client(), "vault", "reader", &[]).await?;
    hub.world.write("fails", json!({"fails.rego": FAILS})).await?;
    hub.world.until_ok("fails").await?;

    let kind = "operand of the wrong type for";
    wait::until("a Secret is denied", LIMIT, || async {
        let error =
            hub.create(&secret("vault", "new", json!({}))).await.err().context("the write is admitted")?;
        is_clean("the response", &format!("{error:#}"), kind)
    })
    .await?;
    wait::until("the Event exists", LIMIT, || async { is_clean("Events", &events(&hub).await?, kind) })
        .await?;
    wait::until("the report has the error", LIMIT, || async {
        let report = json!({"apiVersion": "openreports.io/v1alpha1", "kind": "Report",
            "metadata": {"name": hub.webhooks.name(), "namespace": "vault"}});
        let (api, name) = api_for(hub.client(), &report).await?;
        let report: DynamicObject = api.get(&name).await?;
        is_clean("the report", &report.data.to_string(), kind)
    })
    .await?;
    wait::until("/audit returns the error", LIMIT, || async {
        let head = format!("GET /audit HTTP/1.1\r\nAuthorization: Bearer {reader}");
        let (code, text) = sent::ask(&hub.webhooks, &head, &[]).await?;
        ensure!(code == 200, "{code} {text}");
        is_clean("/audit", &text, kind)
    })
    .await?;
    let audited = Command::new(Path::new(BINARY))
        .args(["audit", "--replicate=secrets", "--rego-namespace", &hub.world.namespace])
        .arg(format!("--controller-name=example.com/{}", hub.world.namespace))
        .arg("--kubeconfig")
        .arg(hub.world.hub().kubeconfig())
        .output()
        .await?;
    is_clean("policy-sync audit", &String::from_utf8(audited.stdout)?, kind)?;
    is_clean("the warnings of policy-sync audit", &String::from_utf8(audited.stderr)?, "")?;
    is_clean("the ConfigMap", &carrier(&hub, "fails").await?, "fails.rego")?;
    is_clean("the log", &hub.controller()?.log()?, "")
}

#[tokio::test]
async fn secrets_are_reviewed_without_their_contents() -> Result<()> {
    let mut hub = ManagedWebhooks::prepare_with_files("rego-labels").await?;
    apply_all(hub.client(), &[fixtures::namespace("vault")]).await?;
    hub.run(&[]).await?;
    hub.world.write("labels", json!({"labels.rego": LABELS})).await?;
    hub.world.until_ok("labels").await?;
    wait::until("a Secret without an owner is denied", LIMIT, || async {
        let error =
            hub.create(&secret("vault", "a", json!({}))).await.err().context("the write is admitted")?;
        is_clean("the response", &format!("{error:#}"), "labels: no owner")
    })
    .await?;
    hub.create(&secret("vault", "b", json!({"owner": "me"}))).await?;

    let written = hub.world.write("tells", json!({"tells.rego": LEAKS_SECRETS})).await;
    let refused = match written {
        // The webhook that checks modules rejects the module.
        Err(error) => format!("{error:#}"),
        Ok(()) => hub.world.until_refused("tells").await?.to_string(),
    };
    is_clean("the rejection", &refused, "reads the contents of a Secret")?;
    wait::until("the Events exist", LIMIT, || async {
        is_clean("Events", &events(&hub).await?, "labels: no owner")
    })
    .await?;
    is_clean("the log", &hub.controller()?.log()?, "")
}

/// The response of the API server to the creation of a Secret.
struct Created {
    code: StatusCode,
    warnings: String,
    body: String,
}

/// Creates `secret`; `query` is appended to the path of the request.
async fn created(hub: &ManagedWebhooks, secret: &Value, query: &str) -> Result<Created> {
    let namespace = secret["metadata"]["namespace"].as_str().context("no namespace")?;
    let request = Request::post(format!("/api/v1/namespaces/{namespace}/secrets{query}"))
        .header("Content-Type", "application/json")
        .body(Body::from(secret.to_string().into_bytes()))?;
    let (head, body) = hub.client().send(request).await?.into_parts();
    let warnings = head.headers.get_all("warning").into_iter();
    let warnings: Vec<_> = warnings.map(|warning| String::from_utf8_lossy(warning.as_bytes())).collect();
    let body = String::from_utf8(body.collect_bytes().await?.to_vec())?;
    Ok(Created { code: head.status, warnings: warnings.join("\n"), body })
}

/// Creates `secret` once the warnings or the error of a dry run contain `expected`.
async fn created_once(hub: &ManagedWebhooks, secret: &Value, expected: &str) -> Result<Created> {
    let check_response = |created: &Created| {
        // The body contains the Secret that was created.
        let error = if created.code.is_success() { "" } else { created.body.as_str() };
        is_clean("the response", &format!("{error}{}", created.warnings), expected)
    };
    wait::until(&format!("the response contains {expected:?}"), LIMIT, || async {
        check_response(&created(hub, secret, "?dryRun=All").await?)
    })
    .await?;
    let created = created(hub, secret, "").await?;
    check_response(&created)?;
    Ok(created)
}

/// Loads `text` with enforcement `warn`.
async fn warn_by(hub: &ManagedWebhooks, name: &str, text: &str) -> Result<()> {
    let mut carrier = hub.world.config_map(name, &json!({"warns.rego": text}));
    carrier["metadata"]["annotations"] = json!({"kuadrant.io/enforcement": "warn"});
    apply(hub.client(), &carrier).await?;
    hub.world.until_ok(name).await.map(drop)
}

#[tokio::test]
async fn warnings_about_secrets_leak_no_contents() -> Result<()> {
    let mut hub = ManagedWebhooks::prepare_with_files("rego-secrets-warn").await?;
    apply_all(hub.client(), &[fixtures::namespace("vault")]).await?;
    hub.run(&[]).await?;
    warn_by(&hub, "labels", LABELS).await?;
    hub.world.write("denies", json!({"denies.rego": denies("bad")})).await?;
    hub.world.until_ok("denies").await?;
    let named = |name: &str| {
        let mut secret = secret("vault", name, json!({}));
        let applied = json!({"data": {"password": PLANTED}}).to_string();
        secret["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": applied});
        secret
    };
    let stored = created_once(&hub, &named("stored"), "labels: no owner").await?;
    ensure!(stored.code == StatusCode::CREATED, "{}: {}", stored.code, stored.body);
    // The Event of a later write shows that all Events about the warning have been written.
    let denied = created_once(&hub, &named("bad"), "bad: denied").await?;
    is_clean("the response", &denied.body, "bad: denied")?;
    wait::until("the Event exists", LIMIT, || async {
        is_clean("Events", &events(&hub).await?, "bad: denied")
    })
    .await?;
    is_clean("the log", &hub.controller()?.log()?, "")?;

    // A failed evaluation denies the write under each enforcement.
    hub.world.delete("labels").await?;
    hub.world.delete("denies").await?;
    hub.stop().await?;
    hub.run(&["--replicate=secrets"]).await?;
    warn_by(&hub, "fails", FAILS).await?;
    let kind = "operand of the wrong type for";
    let denied = created_once(&hub, &named("new"), kind).await?;
    is_clean("the response", &denied.body, kind)?;
    wait::until("the Event exists", LIMIT, || async { is_clean("Events", &events(&hub).await?, kind) })
        .await?;
    is_clean("the ConfigMap", &carrier(&hub, "fails").await?, "fails")?;
    is_clean("the log", &hub.controller()?.log()?, "")
}

/// The data and the modules of `opa`.
async fn opa_contents(opa: &Opa) -> Result<String> {
    let mut all = String::new();
    for path in ["/v1/data", "/v1/policies"] {
        let (status, found) = opa.ask("GET", path, Vec::new()).await?;
        ensure!(status.is_success(), "{path}: {status} {found}");
        all += &found.to_string();
    }
    Ok(all)
}

#[tokio::test]
async fn contents_of_secrets_are_in_opa_only_with_the_flag_and_those_in_works_never() -> Result<()> {
    let opa = Opa::start().await?;
    let url = format!("--opa-url={}", opa.url());
    let world = World::new("rego-secrets-opa").await?;
    apply(&world.client, &secret(&world.namespace, "db", json!({}))).await?;
    let mut manifest = secret("default", "in-work", json!({}));
    manifest["data"]["password"] = PLANTED_IN_WORK.into();
    let work = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "work", "namespace": world.namespace}, "spec": {"workload": {"manifests": [manifest]}}});
    apply(&world.client, &work).await?;
    let reads =
        |kind: &str| format!("package admission\ndeny[\"no\"] {{ data.kubernetes.{kind}[_][_].bad }}\n");
    world.write("works", json!({"works.rego": reads("manifestworks")})).await?;
    world.write("secrets", json!({"secrets.rego": reads("secrets")})).await?;
    // When the last process starts without `--replicate secrets`, OPA still has the data of the previous process.
    for is_replicated in [false, true, false] {
        let mut arguments = vec![url.as_str()];
        arguments.extend(is_replicated.then_some("--replicate=secrets"));
        let controller = world.controller(&arguments).await?;
        match is_replicated {
            true => world.until_ok("secrets").await?,
            false => world.until_refused("secrets").await?,
        };
        world.until_ok("works").await?;
        wait::until(&format!("OPA is filled, replicated: {is_replicated}"), LIMIT, || async {
            let (_, marker) = opa.ask("GET", "/v1/data/policysync/revision", Vec::new()).await?;
            ensure!(marker["result"].is_string(), "the marker is {marker}");
            let all = opa_contents(&opa).await?;
            ensure!(all.contains("in-work"), "the work is missing");
            ensure!(
                !all.contains(PLANTED_IN_WORK) && !all.contains("hunter3"),
                "OPA has the Secret in the work: {all}"
            );
            ensure!(!all.contains("hunter2"), "{all}");
            ensure!(all.contains(PLANTED) == is_replicated, "{all}");
            Ok(())
        })
        .await?;
        controller.terminate().await?;
    }
    Ok(())
}

#[tokio::test]
async fn aliases_of_secrets_reach_the_process_that_checks() -> Result<()> {
    let reads =
        "package admission\ndeny[\"no\"] { input.reviewed[0] == \"passwords\"; input.reviewed[3].data }\n";
    let text = Text { id: ModuleId::new("policies/a/a.rego"), text: reads.into() };
    let aliases = BTreeMap::from([("passwords".to_owned(), "secrets".to_owned())]);
    let faults = async |names: BTreeSet<String>| {
        let checker = Checker::new(PathBuf::from(BINARY)).with_secrets(names);
        let checked = checker.check(std::slice::from_ref(&text), Lane::Load).await?;
        ensure!(checked.faults.is_empty(), "{}", checked.faults);
        anyhow::Ok(checked.secrets.faults().len())
    };
    ensure!(faults(names(&aliases)).await? == 1, "the reference to passwords is not detected");
    ensure!(faults(names(&BTreeMap::new())).await? == 0, "passwords is read as Secrets without an alias");
    Ok(())
}
