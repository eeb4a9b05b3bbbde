//! `policy-sync plan --diff`: what it says is what the controller then does, and it does nothing itself.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use kube::api::DeleteParams;
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::audit::{Request, requests_of};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::fixtures::{rate_limit_policy, timeout_policy};
use policy_sync_testenv::world::{Answer, LIMIT};
use policy_sync_testenv::{Fleet, World, wait};
use serde_json::{Value, json};

use crate::run::{Ran, command, finish};

/// A world of its own, on the hub that all tests share.
async fn world(name: &str, clusters: &[&str]) -> Result<World<'static>> {
    let fleet = Fleet::shared_hub().await?;
    World::new(fleet.hub(), Path::new(env!("CARGO_BIN_EXE_policy-sync")), name, clusters).await
}

fn diff_as(kubeconfig: &Path, world: &World<'_>, arguments: &[&str]) -> Ran {
    let mut command = command(&["plan", "--diff", "--controller-name", &world.controller_name()]);
    command.args(arguments).arg("--kubeconfig").arg(kubeconfig);
    finish(command, "")
}

fn diff(world: &World<'_>, arguments: &[&str]) -> Ran {
    diff_as(world.hub().kubeconfig(), world, arguments)
}

/// `text` without the hash that ends a work's name.
fn readable(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((readable, hash)) if hash.len() == 32 => readable,
        _ => name,
    }
}

/// What is said to change: `create ManifestWork eu-1/gateway-web`.
fn changes(list: &Value) -> Vec<String> {
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
    let change = |item: &Value| {
        let (namespace, name) = (text(item, "namespace"), text(item, "name"));
        let place = if namespace.is_empty() { namespace } else { format!("{namespace}/") };
        format!("{} {} {place}{}", text(item, "action"), text(item, "kind"), readable(&name))
    };
    list["items"].as_array().unwrap().iter().map(change).collect()
}

/// The same in the words of requests: `create manifestworks eu-1/<name>`.
fn requests(list: &Value) -> BTreeSet<String> {
    let request = |item: &Value| {
        let verb = match item["action"].as_str().unwrap() {
            "change" => "patch",
            verb => verb,
        };
        let resource = match item["kind"].as_str().unwrap() {
            "GatewayClass" => "gatewayclasses".to_owned(),
            kind => kind.to_lowercase().replace("policy", "policie") + "s",
        };
        let [namespace, name] = ["namespace", "name"].map(|field| item[field].as_str().unwrap());
        format!("{verb} {resource} {namespace}/{name}")
    };
    list["items"].as_array().unwrap().iter().map(request).collect()
}

/// What was sent, in the same words. What is created or deleted may be patched on the way, as an access work is while
/// other works come and go.
fn sent(writes: &[Request]) -> BTreeSet<String> {
    let write = |write: &Request| {
        let object = write.object();
        format!("{} {} {}/{}", write.verb, object.resource, object.namespace, object.name)
    };
    let all: BTreeSet<String> = writes.iter().map(write).collect();
    let on_the_way = |write: &String| {
        let object = write.strip_prefix("patch ");
        object.is_some_and(|object| {
            ["create", "delete"].iter().any(|verb| all.contains(&format!("{verb} {object}")))
        })
    };
    all.iter().filter(|write| !on_the_way(write)).cloned().collect()
}

/// The differences are these; the controller, once started, writes exactly these objects; then nothing differs.
async fn comes_true(world: &World<'_>, expected: &[&str]) -> Result<Ran> {
    let (text, list) = (diff(world, &[]), diff(world, &["-o", "json"]));
    ensure!((text.code, text.stderr.as_str()) == (1, ""), "{text:?}");
    ensure!((list.code, list.stderr.as_str()) == (1, ""), "{list:?}");
    let list: Value = serde_json::from_str(&list.stdout)?;
    ensure!(changes(&list) == expected, "{:#?}", changes(&list));

    let controller = world.controller().await?;
    let writes = world.settled(&controller).await?;
    ensure!(sent(&writes) == requests(&list), "planned {:#?}, sent {:#?}", requests(&list), sent(&writes));
    let settled = diff(world, &[]);
    ensure!((settled.code, settled.stdout.as_str(), settled.stderr.as_str()) == (0, "", ""), "{settled:?}");
    controller.terminate().await?;
    Ok(text)
}

/// The lines that are taken away and added, without indentation, below the heading of each object.
fn edits(text: &str) -> Vec<String> {
    let mut edits = Vec::new();
    for line in text.lines() {
        match line.split_at_checked(1) {
            Some((sign @ ("-" | "+"), edit)) if !line.starts_with("---") && !line.starts_with("+++") => {
                edits.push(format!("{sign} {}", edit.trim()));
            }
            Some((" " | "@" | "-" | "+", _)) | None => {}
            Some(_) => edits.push(readable(line).to_owned()),
        }
    }
    edits
}

#[tokio::test]
async fn first_everything_is_created_and_then_what_changed_is() -> Result<()> {
    let world = world("diff-changes", &["eu-1", "us-1"]).await?;
    let mut limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    comes_true(
        &world,
        &[
            "change GatewayClass diff-changes",
            "create ManifestWork eu-1/access",
            "create ManifestWork eu-1/gateway-web",
            "create ManifestWork eu-1/ratelimitpolicy-limits",
            "create ManifestWork us-1/access",
            "create ManifestWork us-1/gateway-web",
            "create ManifestWork us-1/ratelimitpolicy-limits",
            "change RateLimitPolicy diff-changes/limits",
        ],
    )
    .await?;

    limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(20);
    world.apply(&limits).await?;
    let text = comes_true(
        &world,
        &[
            "change ManifestWork eu-1/ratelimitpolicy-limits",
            "change ManifestWork us-1/ratelimitpolicy-limits",
        ],
    )
    .await?;
    let edits = edits(&text.stdout);
    let (revisions, others): (Vec<_>, Vec<_>) =
        edits.iter().partition(|edit| edit.contains("kuadrant.io/revision"));
    let edited = |cluster: &str| {
        format!("change ManifestWork {cluster}/ratelimitpolicy-limits|- - limit: 10|+ - limit: 20")
    };
    let expected = ["eu-1", "us-1"].map(edited).join("|");
    ensure!(revisions.len() == 4, "{revisions:#?}");
    ensure!(others.iter().map(|edit| edit.as_str()).collect::<Vec<_>>().join("|") == expected, "{others:#?}");
    Ok(())
}

#[tokio::test]
async fn answers_are_for_the_copy_that_was_there() -> Result<()> {
    let world = world("diff-answers", &["eu-1"]).await?;
    let mut limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    let controller = world.controller().await?;
    let work = world.until_work("eu-1", "ratelimitpolicy-limits", |_| true).await?;
    world.answer(&work, &Answer::applied()).await?;
    world.until_folded(&limits, |_, summary| summary.applied == 1).await?;
    world.settled(&controller).await?;
    controller.terminate().await?;

    limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(20);
    world.apply(&limits).await?;
    let text = comes_true(
        &world,
        &["change ManifestWork eu-1/ratelimitpolicy-limits", "change RateLimitPolicy diff-answers/limits"],
    )
    .await?;
    for edit in ["- - applied: true", "+ - applied: false", "+ pending: true", "- pending: 0", "+ pending: 1"]
    {
        ensure!(edits(&text.stdout).iter().any(|found| found == edit), "{edit}: {}", text.stdout);
    }
    Ok(())
}

#[tokio::test]
async fn what_is_gone_goes_and_a_new_kind_needs_access() -> Result<()> {
    let world = world("diff-deletes", &["eu-1"]).await?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    let controller = world.controller().await?;
    world.until_folded(&limits, |entries, _| entries.len() == 1).await?;
    world.settled(&controller).await?;
    controller.terminate().await?;

    world.delete(&limits).await?;
    world.apply(&timeout_policy(world.name(), "timeouts", &["web"])).await?;
    let text = comes_true(
        &world,
        &[
            "change ManifestWork eu-1/access",
            "delete ManifestWork eu-1/ratelimitpolicy-limits",
            "create ManifestWork eu-1/timeoutpolicy-timeouts",
            "change TimeoutPolicy diff-deletes/timeouts",
        ],
    )
    .await?;
    for edit in ["- - ratelimitpolicies", "+ - timeoutpolicies"] {
        ensure!(edits(&text.stdout).iter().any(|found| found == edit), "{edit}: {}", text.stdout);
    }
    Ok(())
}

#[tokio::test]
async fn what_others_wrote_is_put_back() -> Result<()> {
    let world = world("diff-edits", &["eu-1"]).await?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    let controller = world.controller().await?;
    world.until_folded(&limits, |entries, _| entries.len() == 1).await?;
    world.settled(&controller).await?;
    controller.terminate().await?;

    let work = serde_json::to_value(world.work("eu-1", "ratelimitpolicy-limits").await?)?;
    world.merge(&work, &json!({"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}})).await?;
    // What the controller does not write is nobody's difference.
    world.merge(&work, &json!({"metadata": {"labels": {"example.com/kept": "yes"}}})).await?;
    let summary = "kuadrant.io/policies-synced-summary";
    let written = world.annotations(&limits).await?[summary].clone();
    world
        .merge(&limits, &json!({"metadata": {"annotations": {summary: written.replace(',', ", ")}}}))
        .await?;
    let text = comes_true(
        &world,
        &["change ManifestWork eu-1/ratelimitpolicy-limits", "change RateLimitPolicy diff-edits/limits"],
    )
    .await?;
    let edits = edits(&text.stdout);
    ensure!(
        edits[1..3] == ["- propagationPolicy: Orphan", "+ propagationPolicy: SelectivelyOrphan"],
        "{edits:#?}"
    );
    // The same JSON is shown as it is written.
    ensure!(edits.len() == 6 && edits[5] == format!("+ {summary}: {}", json!(written)), "{edits:#?}");
    Ok(())
}

#[tokio::test]
async fn a_work_on_its_way_out_is_waited_for() -> Result<()> {
    let world = world("diff-waits", &["eu-1"]).await?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    let controller = world.controller().await?;
    world.until_folded(&limits, |entries, _| entries.len() == 1).await?;
    world.settled(&controller).await?;
    controller.terminate().await?;

    let work = serde_json::to_value(world.work("eu-1", "ratelimitpolicy-limits").await?)?;
    let finalizers = |finalizers: &[&str]| json!({"metadata": {"finalizers": finalizers}});
    world.merge(&work, &finalizers(&["example.com/hold"])).await?;
    let (works, name) = api_for(world.client(), &work).await?;
    works.delete(&name, &DeleteParams::default()).await?;
    let ran = diff(&world, &["-o", "json"]);
    let list: Value = serde_json::from_str(&ran.stdout)?;
    let expected =
        ["create ManifestWork eu-1/ratelimitpolicy-limits", "change RateLimitPolicy diff-waits/limits"];
    ensure!(ran.code == 1 && changes(&list) == expected, "{ran:?}");
    ensure!(list["items"][0]["waits"] == "once the one that is being deleted is gone", "{list}");
    let folded = &list["items"][1]["after"]["metadata"]["annotations"]["kuadrant.io/policies-synced"];
    ensure!(folded.as_str().is_some_and(|folded| folded.contains("\"deleting\":true")), "{folded}");

    world.merge(&work, &finalizers(&[])).await?;
    let list: Value = serde_json::from_str(&diff(&world, &["-o", "json"]).stdout)?;
    ensure!(changes(&list) == expected[..1] && list["items"][0]["waits"].is_null(), "{list}");
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_left_is_marked_as_one_to_wait_for() -> Result<()> {
    let world = world("diff-leaves", &["eu-1", "us-1"]).await?;
    let controller = world.controller().await?;
    world.until_works(&["eu-1/access", "eu-1/gateway-web", "us-1/access", "us-1/gateway-web"]).await?;
    world.settled(&controller).await?;
    controller.terminate().await?;

    // While the decisions are fewer than the Placement says, nothing is withdrawn.
    world.decide("all", 1, &["eu-1"]).await?;
    let ran = diff(&world, &[]);
    ensure!((ran.code, ran.stdout.as_str()) == (0, ""), "{ran:?}");
    ensure!(
        ran.stderr
            == "Gateway diff-leaves/web: warning: Placement diff-leaves/all has chosen 2 clusters, its \
                PlacementDecisions name 1: until they are complete, nothing is withdrawn\n",
        "{ran:?}"
    );

    world.select("all", 1).await?;
    let rows = diff(&world, &["-o", "table"]);
    let rows: Vec<Vec<&str>> = rows
        .stdout
        .lines()
        .map(|row| row.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let waits: Vec<&str> = rows.iter().map(|row| *row.last().unwrap_or(&"")).collect();
    ensure!(
        waits
            == [
                "WAITS",
                "once the other works of the cluster are gone",
                "once its Placement has not changed for 5 s"
            ],
        "{rows:?}"
    );
    let text =
        comes_true(&world, &["delete ManifestWork us-1/access", "delete ManifestWork us-1/gateway-web"])
            .await?;
    ensure!(text.stdout.contains(" (once its Placement has not changed for 5 s)\n"), "{}", text.stdout);
    Ok(())
}

#[tokio::test]
async fn problems_are_named_and_freeze_nothing_else() -> Result<()> {
    let world = world("diff-problems", &["eu-1"]).await?;
    let mut limits = rate_limit_policy(world.name(), "limits", "web");
    limits["metadata"]["annotations"] = json!({"kuadrant.io/cluster-selector": "region in"});
    world.apply(&limits).await?;
    let none = json!({"group": "example.com", "version": "v1", "resource": "nonepolicies"});
    let limits = json!({"group": "kuadrant.io", "version": "v1", "resource": "ratelimitpolicies"});
    world.parameters(&json!({"policiesToSync": [limits, none]})).await?;
    let ran = diff(&world, &["-o", "json"]);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    ensure!(ran.code == 1 && lines.len() == 2, "{ran:?}");
    ensure!(
        lines[0]
            == "GatewayClass diff-problems: error: example.com/v1 nonepolicies: the hub has no such custom resource",
        "{lines:?}"
    );
    ensure!(
        lines[1].starts_with(
            "RateLimitPolicy diff-problems/limits: error: annotation kuadrant.io/cluster-selector: "
        ),
        "{lines:?}"
    );
    ensure!(
        changes(&serde_json::from_str(&ran.stdout)?)
            == [
                "change GatewayClass diff-problems",
                "create ManifestWork eu-1/access",
                "create ManifestWork eu-1/gateway-web",
                "change RateLimitPolicy diff-problems/limits",
            ],
        "{ran:?}"
    );
    let yaml: Value = serde_saphyr::from_str(&diff(&world, &["-o", "yaml"]).stdout)?;
    ensure!(yaml == serde_json::from_str::<Value>(&ran.stdout)?, "{yaml}");
    Ok(())
}

/// Lets `user` read the kinds `resources`.
async fn allow(world: &World<'_>, user: &str, resources: &[&str]) -> Result<()> {
    let rbac = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": user},
        "rules": [{"apiGroups": ["*"], "resources": resources, "verbs": ["get", "list"]}],
    });
    let binding = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
    });
    apply(world.client(), &role).await?;
    apply(world.client(), &binding).await.map(drop)
}

#[tokio::test]
async fn reading_is_enough_and_is_all_that_it_does() -> Result<()> {
    let world = world("diff-reads", &["eu-1"]).await?;
    world.apply(&rate_limit_policy(world.name(), "limits", "web")).await?;
    let needed = [
        "gatewayclasses",
        "gateways",
        "managedclusters",
        "placements",
        "placementdecisions",
        "manifestworks",
        "customresourcedefinitions",
        "configmaps",
        "ratelimitpolicies",
        "authpolicies",
        "timeoutpolicies",
    ];
    let user = User::new("diff-reader");
    let kubeconfig = world.hub().kubeconfig_for(&user)?;
    for missing in needed {
        let others: Vec<&str> = needed.into_iter().filter(|resource| *resource != missing).collect();
        allow(&world, &user.name, &others).await?;
        // The server takes a changed role up a moment later.
        let ran = wait::until(missing, LIMIT, || async {
            let ran = diff_as(&kubeconfig, &world, &[]);
            ensure!(ran.stderr.contains(&format!("resource \"{missing}\" in API group")), "{ran:?}");
            Ok(ran)
        })
        .await?;
        ensure!((ran.code, ran.stdout.as_str(), ran.stderr.lines().count()) == (2, "", 1), "{ran:?}");
        ensure!(ran.stderr.starts_with("policy-sync: cannot "), "{ran:?}");
    }
    allow(&world, &user.name, &needed).await?;
    let ran = wait::until("all may be read", LIMIT, || async {
        let ran = diff_as(&kubeconfig, &world, &[]);
        ensure!(ran.code == 1, "{ran:?}");
        Ok(ran)
    })
    .await?;
    ensure!(ran.stdout == diff(&world, &[]).stdout, "{ran:?}");
    let requests = requests_of(world.hub(), &user.name)?;
    let writes: Vec<_> = requests.iter().filter(|request| request.is_write()).collect();
    ensure!(requests.len() > needed.len() && writes.is_empty(), "{writes:?}");
    Ok(())
}
