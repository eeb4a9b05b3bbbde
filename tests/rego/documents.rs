//! Objects of the hub in `data`, as Rego policies read them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use k8s_openapi::api::core::v1::PodTemplate;
use kube::api::{Api, DeleteParams};
use policy_sync_controller::rego_loading::{Loaded, RegoLoading, RegoMetrics, Settings};
use policy_sync_hub::clock::Clock;
use policy_sync_rego::confined::Checker;
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::bad_input::{self, code};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::{Controller, flow, wait};
use regorus::Value as Rego;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::world::{BINARY, LIMIT, World, modules, until_loaded};

/// The Rego part of a controller in this process. Dropping it stops the controller.
struct InProcessController {
    loaded: Loaded,
    stop: CancellationToken,
}

impl Drop for InProcessController {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl InProcessController {
    fn start(world: &World) -> Result<Self> {
        let settings = Settings {
            namespaces: BTreeSet::from([world.namespace.clone()]),
            replicate: BTreeSet::new(),
            aliases: BTreeMap::from([(
                "clusters".to_owned(),
                "managedclusters.cluster.open-cluster-management.io".to_owned(),
            )]),
            packages: Default::default(),
            evaluator: Default::default(),
            limit: 100_000,
            bytes: 128 << 20,
        };
        let mut flow =
            flow::flow(world.client.clone(), &format!("example.com/{}", world.namespace), Clock::start())?;
        let check = Checker::new(PathBuf::from(BINARY)).into_check();
        let loading = RegoLoading::new(flow.controller.clone(), settings, flow.clock, check)?;
        let loaded = loading.loaded();
        flow.rego = Some((loading, RegoMetrics::new(&flow.metrics)?));
        let stop = CancellationToken::new();
        flow.start(stop.clone());
        Ok(Self { loaded, stop })
    }

    /// Waits until `is` accepts the result of the query.
    async fn until(&self, query: &str, is: impl Fn(Option<&Rego>) -> bool) -> Result<()> {
        wait::until(query, LIMIT, || async {
            let answer = self.loaded.snapshot().query_value("admission", query, &Rego::new_object())?;
            ensure!(is(answer.as_ref()), "the result is {answer:?}");
            Ok(())
        })
        .await
    }
}

fn template(world: &World, name: &str) -> Value {
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    json!({
        "apiVersion": "v1", "kind": "PodTemplate", "template": {"spec": spec},
        "metadata": {"name": name, "namespace": world.namespace, "finalizers": [], "annotations": {"a": "b"}},
    })
}

#[tokio::test]
async fn listed_and_watched_objects_are_complete_in_data_until_their_deletion() -> Result<()> {
    let world = World::new("rego-documents").await?;
    let rule = "found = data.kubernetes.podtemplates[\"rego-documents\"].web { true }";
    world.write("reads", json!({"a.rego": format!("package admission\n{rule}\n")})).await?;
    let watched = InProcessController::start(&world)?;
    world.until_ok("reads").await?;
    let query = "data.admission.found";
    watched.until(query, |answer| answer.is_none()).await?;
    apply(&world.client, &template(&world, "web")).await?;
    watched.until(query, |answer| answer.is_some()).await?;
    let listed = InProcessController::start(&world)?;
    listed.until(query, |answer| answer.is_some()).await?;
    let (api, name) = api_for(&world.client, &template(&world, "web")).await?;
    let mut stored = serde_json::to_value(api.get(&name).await?)?;
    stored["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
    for here in [&watched, &listed] {
        let found = here.loaded.snapshot().query_value("admission", query, &Rego::new_object())?;
        let found = serde_json::to_value(found)?;
        ensure!(found == stored, "found {found}\nexpected {stored}");
    }
    api.delete(&name, &DeleteParams::default()).await?;
    watched.until(query, |answer| answer.is_none()).await?;
    listed.until(query, |answer| answer.is_none()).await
}

#[tokio::test]
async fn clusters_are_managed_clusters_and_config_map_data_is_under_its_name() -> Result<()> {
    let world = World::new("rego-data").await?;
    let mut data = world.config_map("geo", &json!({"zones": "[\"eu\"]"}));
    data["metadata"]["labels"] = json!({"openpolicyagent.org/data": "opa"});
    apply(&world.client, &data).await?;
    let rules = "eu[name] { some name; data.kubernetes.clusters[name].metadata.labels.region == data[\"rego-data\"].geo.zones[_] }";
    world.write("reads", json!({"a.rego": format!("package admission\n{rules}\n")})).await?;
    let here = InProcessController::start(&world)?;
    let status = world.until_ok("reads").await?;
    let alias = "clusters are managedclusters.cluster.open-cluster-management.io";
    ensure!(status["notes"] == json!([alias]), "{status}");
    world.until_ok("geo").await?;
    let cluster = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": "rego-eu-1", "labels": {"region": "eu"}}, "spec": {"hubAcceptsClient": true},
    });
    apply(&world.client, &cluster).await?;
    let has = |answer: Option<&Rego>| {
        answer.and_then(|answer| answer.as_set().ok()).is_some_and(|set| set.contains(&"rego-eu-1".into()))
    };
    here.until("data.admission.eu", has).await?;
    // Invalid JSON leaves the last valid data in force, and is reported in the status.
    data["data"]["zones"] = "[\"eu\"".into();
    apply(&world.client, &data).await?;
    let status = world.until_refused("geo").await?;
    ensure!(status["error"]["errors"][0]["location"]["file"] == "zones", "{status}");
    here.until("data.admission.eu", has).await?;
    data["data"]["zones"] = "[]".into();
    apply(&world.client, &data).await?;
    here.until("data.admission.eu", |answer| !has(answer)).await
}

async fn kinds(controller: &Controller) -> Result<BTreeSet<String>> {
    let metrics = controller.metrics().await?;
    Ok(metrics.labels("policy_sync_rego_documents", "kind").into_iter().map(str::to_owned).collect())
}

#[tokio::test]
async fn kind_is_watched_while_a_module_reads_it() -> Result<()> {
    let world = World::new("rego-kinds").await?;
    // Audits are disabled, because audits would also watch Namespaces.
    let controller = world.controller(&["--audit-interval=0"]).await?;
    ensure!(kinds(&controller).await?.is_empty());
    let reads =
        |kind: &str| format!("package admission\ndeny[\"x\"] {{ data.kubernetes.{kind}[_][_].bad }}\n");
    world.write("reads", json!({"a.rego": reads("services"), "b.rego": reads("endpoints")})).await?;
    world.until_ok("reads").await?;
    let expected = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    ensure!(kinds(&controller).await? == expected(&["endpoints", "services"]));
    world.write("reads", json!({"a.rego": reads("services")})).await?;
    wait::until("endpoints are not watched", LIMIT, || async {
        let kinds = kinds(&controller).await?;
        ensure!(kinds == expected(&["services"]), "{kinds:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn module_that_reads_a_forbidden_kind_is_rejected_until_it_can_be_listed() -> Result<()> {
    let world = World::new("rego-forbidden").await?;
    let groups = json!([
        "gateway.networking.k8s.io",
        "cluster.open-cluster-management.io",
        "work.open-cluster-management.io",
        "apiextensions.k8s.io",
        "authorization.k8s.io",
        "coordination.k8s.io",
        "events.k8s.io",
        "kuadrant.io",
    ]);
    let role = |name: &str, rules: Value| {
        let api = "rbac.authorization.k8s.io/v1";
        let subject =
            json!({"kind": "User", "name": "rego-forbidden", "apiGroup": "rbac.authorization.k8s.io"});
        let role = json!({"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
        [
            json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
            json!({
                "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": role, "subjects": [subject],
            }),
        ]
    };
    let rules = json!([
        {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "patch"]},
    ]);
    for object in role("rego-forbidden", rules) {
        apply(&world.client, &object).await?;
    }
    let mut controller = world.launch(User::new("rego-forbidden"), &[])?;
    controller.ready().await?;
    controller.leads().await?;
    let reads = "package admission\ndeny[\"x\"] { data.kubernetes.limitranges[_][_].bad }\n";
    world.write("reads", json!({"a.rego": reads})).await?;
    let status = world.until_refused("reads").await?;
    let message = status["error"]["errors"][0]["message"].as_str().unwrap_or_default();
    ensure!(message.starts_with("limitranges cannot be listed: limitranges is forbidden"), "{status}");
    ensure!(status["error"]["errors"][0]["location"]["row"] == 2, "{status}");
    // The controller retries a failed list only a limited number of times.
    controller.settled(world.hub()).await?;
    let lists = controller.requests(world.hub())?;
    let lists = lists.iter().filter(|request| request.object().resource == "limitranges").count();
    ensure!((1..=8).contains(&lists), "{lists} lists");
    ensure!(modules(&controller, "refused").await? == 1.0);
    let rules = json!([{"apiGroups": [""], "resources": ["limitranges"], "verbs": ["list", "watch"]}]);
    for object in role("rego-forbidden-more", rules) {
        apply(&world.client, &object).await?;
    }
    world.until_ok("reads").await?;
    Ok(())
}

#[tokio::test]
async fn cluster_scoped_kind_over_the_limit_is_rejected_with_both_numbers() -> Result<()> {
    let world = World::new("rego-many").await?;
    let controller = world.controller(&["--replicate-limit=10", "--audit-interval=0"]).await?;
    let reads = "package admission\ndeny[\"x\"] { data.kubernetes.clusterroles[_].bad }\n";
    world.write("reads", json!({"a.rego": reads})).await?;
    let status = world.until_refused("reads").await?;
    let message = status["error"]["errors"][0]["message"].as_str().unwrap_or_default();
    ensure!(
        message.starts_with("clusterroles have ")
            && message.contains("at most 10 are allowed for all kinds together (--replicate-limit)"),
        "{status}"
    );
    ensure!(kinds(&controller).await?.is_empty(), "objects of this kind are kept");
    let templates: Api<PodTemplate> = Api::namespaced(world.client.clone(), &world.namespace);
    ensure!(templates.list(&Default::default()).await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn kind_that_the_hub_does_not_serve_is_empty_until_it_is_installed() -> Result<()> {
    let world = World::new("rego-later").await?;
    let reads = "package admission\ndeny[\"x\"] { data.kubernetes.quotas[_][_].bad }\n";
    world.write("reads", json!({"a.rego": reads})).await?;
    let controller = world.controller(&[]).await?;
    let status = world.until_ok("reads").await?;
    let expected = "quotas: the hub does not serve this kind, so there are no such objects";
    ensure!(status["warnings"][0]["message"] == expected, "{status}");
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "quotas.rego-later.example.com"},
        "spec": {
            "group": "rego-later.example.com", "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            "names": {"kind": "Quota", "listKind": "QuotaList", "plural": "quotas", "singular": "quota"},
        },
    });
    apply(&world.client, &definition).await?;
    world.until_status("reads", |status| *status == json!({"status": "ok"})).await?;
    ensure!(kinds(&controller).await?.contains("quotas.rego-later.example.com"));
    let (api, name) = api_for(&world.client, &definition).await?;
    api.delete(&name, &DeleteParams::default()).await?;
    world.until_status("reads", |status| status["warnings"][0]["message"] == expected).await?;
    until_loaded(&controller, 1).await
}

/// The messages of a status, each with its file, row and column.
fn messages(status: &Value) -> Result<String> {
    let (part, found) = match status["status"].as_str() {
        Some("ok") => ("warning", &status["warnings"]),
        Some("error") => ("error", &status["error"]["errors"]),
        _ => bail!("the status is {status}"),
    };
    let one = |found: &Value| {
        let place = &found["location"];
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let parts = [&place["file"], &place["row"], &place["col"]].into_iter().filter(|part| !part.is_null());
        let place = parts.map(text).collect::<Vec<_>>().join(":");
        format!("{part}, {place}: {}", text(&found["message"]))
    };
    let found: Vec<String> = found.as_array().into_iter().flatten().map(one).collect();
    Ok(if found.is_empty() { "ok".to_owned() } else { found.join("; ") })
}

#[tokio::test]
async fn messages_about_kinds_and_data_are_documented() -> Result<()> {
    let world = World::new("rego-said").await?;
    let _controller = world.controller(&[]).await?;
    let reads = |kind: &str| format!("package admission\nbad {{ data.kubernetes{kind}[_][_].bad }}\n");
    let modules = [
        ("a kind that the hub does not serve", reads(".unicorns"), "unicorns"),
        ("a kind instead of its plural name", reads(".Pod"), "use the plural"),
        ("a plural name in two groups: the first group is used", reads(".events"), "ok"),
        ("a kind that cannot be listed", reads(".tokenreviews"), "error"),
        ("Secrets without `--replicate secrets`", reads(".secrets"), "error"),
        (
            "a rule that reads the contents of a Secret under review",
            "package admission\ndeny[\"no\"] { input.request.kind.kind == \"Secret\"; input.request.object.data.x }\n".to_owned(),
            "error",
        ),
        (
            "a rule that reads `data` of any object",
            "package admission\ndeny[\"no\"] { input.request.namespace == \"no\"; input.request.object.data.x }\n".to_owned(),
            "may read",
        ),
        ("a kind that the input determines", reads("[input.kind]"), "does not name"),
        (
            "a package with objects that another module reads",
            "package kubernetes.events\nbad = 1 { true }\n".to_owned(),
            "error",
        ),
        ("a package that is neither queried nor imported", "package rego_said\nbad = 1 { true }\n".to_owned(), "neither evaluated"),
    ];
    let data = [
        ("data that is not JSON", "[\"eu\"", "error"),
        ("empty data", "", "error"),
        ("data with a duplicate key: the last value is used", r#"{"a": 1, "a": 2}"#, "ok"),
        ("data nested 200 levels deep", &format!("{}{}", "[".repeat(200), "]".repeat(200)), "error"),
    ];
    let mut rows = "| module or data | status |\n|---|---|\n".to_owned();
    let module = |(what, text, part)| (what, json!({"a.rego": text}), json!({}), part);
    let labels = json!({"openpolicyagent.org/data": "opa"});
    let zones = |(what, text, part)| (what, json!({"zones": text}), labels.clone(), part);
    let carriers = modules.into_iter().map(module).chain(data.into_iter().map(zones));
    for (number, (what, keys, labels, part)) in carriers.enumerate() {
        let name = format!("carrier-{number}");
        let mut object = world.config_map(&name, &keys);
        object["metadata"]["labels"] = labels;
        apply(&world.client, &object).await?;
        let has_part = |status: &Value| messages(status).is_ok_and(|messages| messages.contains(part));
        let status = world.until_status(&name, has_part).await?;
        rows += &format!("| {what} | {} |\n", code(&messages(&status)?));
    }
    bad_input::holds("rego kinds", &rows)
}
