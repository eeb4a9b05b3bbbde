//! `policy-sync topology` and `policy-sync effective` for a hub and a spoke, with a real API server.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use kube::Client;
use policy_sync_testenv::apply::{apply, apply_status};
use policy_sync_testenv::crds::{self, ClusterType, Crd};
use policy_sync_testenv::fixtures::topology::{object, objects, targets};
use policy_sync_testenv::fixtures::{gateway_class, namespace};
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, binaries};
use serde_json::{Value, json};

use crate::run::{CommandOutput, command, finish};
use crate::status::reader;

const POLICY_LABEL: &str = "gateway.networking.k8s.io/policy";

/// The API server of a hub or a spoke; a hub has all kinds of routes. The CustomResourceDefinitions in `labelled` have
/// the label of GEP-713.
async fn cluster(name: &str, side: ClusterType, labelled: &[(&str, &str)]) -> Result<ControlPlane> {
    let binaries = binaries::ensure().await?;
    let mut crds = crds::for_cluster_type(side, &binaries)?;
    if side == ClusterType::Hub {
        crds.extend(crds::more_routes(&binaries)?);
    }
    let label = |crd: &Crd| {
        let mut value = crd.value().clone();
        // Published CustomResourceDefinitions may already have the label.
        value["metadata"]["labels"].as_object_mut().map(|labels| labels.remove(POLICY_LABEL));
        if let Some((_, label)) = labelled.iter().find(|(name, _)| *name == crd.name()) {
            value["metadata"]["labels"][POLICY_LABEL] = (*label).into();
        }
        Crd::new(value)
    };
    if side == ClusterType::Spoke
        && !crds.iter().any(|crd| crd.name() == "planpolicies.extensions.kuadrant.io")
    {
        crds.push(plan_policies()?);
    }
    let crds = crds.iter().map(label).collect::<Result<Vec<Crd>>>()?;
    ControlPlane::start(ControlPlaneOptions { crds, ..ControlPlaneOptions::named(name) }).await
}

/// An extension kind of Kuadrant. Its CustomResourceDefinition has no label for policies.
fn plan_policies() -> Result<Crd> {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}});
    Crd::new(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "planpolicies.extensions.kuadrant.io", "labels": {}},
        "spec": {
            "group": "extensions.kuadrant.io", "scope": "Namespaced",
            "names": {"kind": "PlanPolicy", "listKind": "PlanPolicyList", "plural": "planpolicies", "singular": "planpolicy"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}],
        },
    }))
}

fn run_command(kubeconfig: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = command(arguments);
    command.arg("--kubeconfig").arg(kubeconfig);
    finish(command, "")
}

async fn all(client: &Client, objects: &[Value]) -> Result<()> {
    for object in objects {
        apply(client, object).await.with_context(|| object.to_string())?;
    }
    Ok(())
}

fn json_of(ran: &CommandOutput) -> Result<Value> {
    serde_json::from_str(&ran.stdout).with_context(|| format!("{ran:#?}"))
}

/// Removes the objects that every cluster has.
fn without_its_own(mut json: Value) -> Value {
    if let Some(nodes) = json.get_mut("nodes").and_then(Value::as_array_mut) {
        nodes.retain(|node| node["namespace"] != "default");
    }
    if let Some(links) = json.get_mut("links").and_then(Value::as_array_mut) {
        links.retain(|link| !link[0].as_str().is_some_and(|from| from.contains(":default/")));
    }
    json
}

#[tokio::test]
async fn hub_and_files_give_the_same_output_and_missing_rights_are_one_line() -> Result<()> {
    let hub = cluster("topology-hub", ClusterType::Hub, &[]).await?;
    let objects = objects();
    all(&hub.client()?, &objects).await?;
    let files = tempfile::NamedTempFile::with_suffix(".json")?;
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(files.path(), list.to_string())?;
    let file = files.path().to_str().context("the path is not UTF-8")?;
    for command in [
        &["topology"][..],
        &["effective"],
        &["effective", "--host", "shop.example.com"],
        &["topology", "--gateway", "web"],
    ] {
        let of_hub = run_command(hub.kubeconfig(), &[command, &["-o", "json"]].concat());
        let of_files = finish(crate::run::command(&[command, &["-o", "json", "-f", file]].concat()), "");
        ensure!(
            of_hub.stderr == of_files.stderr && of_hub.code == of_files.code,
            "{of_hub:#?} {of_files:#?}"
        );
        let [hub, files] = [&of_hub, &of_files].map(json_of);
        let (hub, files) = (without_its_own(hub?), files?);
        ensure!(hub == files, "{command:?}: from the hub {hub:#}\nfrom files {files:#}");
    }
    let ran = run_command(hub.kubeconfig(), &["topology"]);
    ensure!(
        ran.code == 1 && ran.stdout.contains("NotAllowedByListeners") && ran.stderr.is_empty(),
        "{ran:#?}"
    );
    ensure!(
        ran.stdout.contains(
            "HTTPRoute shop/shop: shop.example.com [RateLimitPolicy shop/own, TimeoutPolicy shop/timeouts]"
        ),
        "{ran:#?}"
    );

    // A developer with rights in one namespace sees the namespace's objects, and a message about the missing rights.
    let rights = [
        (None, "gateway.networking.k8s.io", "gatewayclasses"),
        (Some("shop"), "gateway.networking.k8s.io", "*"),
        (Some("shop"), "kuadrant.io", "*"),
        (Some("infra"), "", "configmaps"),
    ];
    let developer = reader(&hub, "developer", &rights).await;
    let ran = run_command(&developer, &["topology", "-n", "shop"]);
    let says = "policy-sync: cannot list CustomResourceDefinition, Gateway, ListenerSet, GRPCRoute, HTTPRoute, TCPRoute, TLSRoute, UDPRoute, RateLimitPolicy, TimeoutPolicy, Service, ReferenceGrant on the hub at";
    ensure!(ran.code == 2 && ran.stderr.lines().count() == 1 && ran.stderr.starts_with(says), "{ran:#?}");
    ensure!(
        ran.stdout.contains("Gateway infra/web (unknown)")
            && ran.stdout.contains("HTTPRoute shop/shop: shop.example.com [RateLimitPolicy shop/own]"),
        "{ran:#?}"
    );
    ensure!(!ran.stdout.contains("Not attached") && !ran.stdout.contains("TimeoutPolicy"), "{ran:#?}");
    let ran = run_command(&developer, &["topology"]);
    ensure!(
        ran.code == 2 && ran.stderr.trim_end().ends_with(": use -n with a namespace that you may read"),
        "{ran:#?}"
    );
    // A user without any rights gets a message.
    let nobody = reader(&hub, "nobody", &[]).await;
    let ran = run_command(&nobody, &["topology"]);
    ensure!(
        ran.code == 2
            && ran.stdout == "Unknown: not all Gateways can be read.\n"
            && ran
                .stderr
                .starts_with("policy-sync: cannot list CustomResourceDefinition, GatewayClass, Gateway"),
        "{ran:#?}"
    );
    let json = json_of(&run_command(&nobody, &["topology", "-o", "json"]))?;
    ensure!(json["unread"][0].as_str().is_some_and(|line| line.contains("Gateway")), "{json:#}");
    let ran = run_command(&nobody, &["effective", "--host", "shop.example.com"]);
    ensure!(
        ran.code == 2
            && ran.stdout
                == "It is unknown whether a route matches this request: some objects cannot be read.\n"
            && ran.stderr.starts_with("policy-sync: cannot list"),
        "{ran:#?}"
    );
    Ok(())
}

#[tokio::test]
async fn absent_namespace_or_gateway_is_reported() -> Result<()> {
    let hub = cluster("topology-absent", ClusterType::Hub, &[]).await?;
    let client = hub.client()?;
    all(&client, &[namespace("shop")]).await?;
    let ran = run_command(hub.kubeconfig(), &["topology", "-n", "shop"]);
    ensure!((ran.code, &*ran.stdout, &*ran.stderr) == (0, "There are no Gateways.\n", ""), "{ran:#?}");
    for command in ["topology", "effective"] {
        let ran = run_command(hub.kubeconfig(), &[command, "-n", "shpo"]);
        let says = format!("policy-sync: --namespace: the cluster at {} has no namespace shpo\n", hub.url());
        ensure!(ran.code == 1 && ran.stderr == says, "{ran:#?}");
        let ran = run_command(hub.kubeconfig(), &[command, "-n", "shop", "--gateway", "wbe"]);
        ensure!(
            ran.code == 1 && ran.stderr == "policy-sync: --gateway: there is no Gateway shop/wbe\n",
            "{ran:#?}"
        );
    }
    // Without the right to list Gateways, the number of Gateways is unknown.
    let nobody = reader(&hub, "nobody", &[]).await;
    let ran = run_command(&nobody, &["topology", "-n", "shpo", "--gateway", "wbe"]);
    ensure!(ran.code == 2 && !ran.stderr.contains("no Gateway"), "{ran:#?}");
    Ok(())
}

#[tokio::test]
async fn spoke_shows_its_routes_policies_and_the_origin_of_copies() -> Result<()> {
    let labelled =
        [("ratelimitpolicies.kuadrant.io", "inherited"), ("timeoutpolicies.policies.example.com", "direct")];
    let spoke = cluster("topology-spoke", ClusterType::Spoke, &labelled).await?;
    let mut gateway = object(
        "Gateway",
        ("kuadrant-shop", "web"),
        json!({"gatewayClassName": "istio",
        "listeners": [{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}]}),
    );
    gateway["metadata"]["labels"] = json!({"kuadrant.io/managed": "true"});
    let limits = json!({"all": {"rates": [{"limit": 10, "window": "10s"}]}});
    let mut copy = object(
        "RateLimitPolicy",
        ("kuadrant-shop", "limits"),
        json!({"targetRef": targets("Gateway", "web"), "limits": limits}),
    );
    copy["metadata"]["annotations"] = json!({"kuadrant.io/policy-synced": "shop/limits"});
    // Copies are found with or without the label on the CustomResourceDefinition of their kind.
    let copy_without_label = json!({
        "apiVersion": "kuadrant.io/v1", "kind": "AuthPolicy",
        "metadata": {"name": "auth", "namespace": "kuadrant-shop", "annotations": {"kuadrant.io/policy-synced": "shop/auth"}},
        "spec": {"targetRef": targets("Gateway", "web"), "rules": {"authentication": {"anyone": {"anonymous": {}}}}},
    });
    let route = json!({"parentRefs": [{"name": "web", "namespace": "kuadrant-shop"}], "rules": [{"backendRefs": [{"name": "api", "port": 80}]}]});
    let objects = [
        namespace("kuadrant-shop"),
        namespace("apps"),
        gateway_class("istio", "istio.io/gateway-controller", None),
        gateway,
        copy,
        copy_without_label,
        object("HTTPRoute", ("apps", "own"), route),
        object("Service", ("apps", "api"), json!({"ports": [{"port": 80}]})),
        object(
            "RateLimitPolicy",
            ("apps", "local"),
            json!({"targetRef": targets("HTTPRoute", "own"), "limits": limits}),
        ),
        object(
            "TimeoutPolicy",
            ("apps", "timeouts"),
            json!({"targetRefs": [targets("HTTPRoute", "own")], "request": "5s"}),
        ),
        // Without the label of GEP-713, a kind is not recognized as a kind of policies.
        json!({"apiVersion": "kuadrant.io/v1", "kind": "AuthPolicy", "metadata": {"name": "a", "namespace": "apps"}, "spec": {"targetRef": targets("HTTPRoute", "own"), "rules": {"authentication": {"anyone": {"anonymous": {}}}}}}),
    ];
    all(&spoke.client()?, &objects).await?;
    let ran = run_command(spoke.kubeconfig(), &["topology"]);
    ensure!(ran.code == 0 && ran.stderr.is_empty(), "{ran:#?}");
    let tree = "\
GatewayClass istio
└─ Gateway kuadrant-shop/web (copy of the hub's shop/web) [AuthPolicy kuadrant-shop/auth (copy of the hub's shop/auth), RateLimitPolicy kuadrant-shop/limits (copy of the hub's shop/limits)]
   └─ listener http: HTTP 80 *
      └─ HTTPRoute apps/own [RateLimitPolicy apps/local, TimeoutPolicy apps/timeouts]
         └─ rule rule-1
            └─ Service apps/api 80
";
    ensure!(ran.stdout == tree, "{}", ran.stdout);
    let json = json_of(&run_command(spoke.kubeconfig(), &["topology", "-o", "json"]))?;
    let named = |list: &str, name: &str| {
        let items = json[list].as_array().into_iter().flatten();
        items.into_iter().find(|item| item["id"].as_str().is_some_and(|id| id.ends_with(name))).cloned()
    };
    ensure!(
        named("nodes", ":kuadrant-shop/web").is_some_and(|node| node["origin"] == "shop/web"),
        "{json:#}"
    );
    ensure!(
        named("policies", ":kuadrant-shop/limits").is_some_and(|policy| policy["origin"] == "shop/limits"),
        "{json:#}"
    );
    ensure!(
        named("policies", ":apps/local").is_some_and(|policy| policy.get("origin").is_none()),
        "{json:#}"
    );
    let direct =
        json!({"TimeoutPolicy.policies.example.com": "timeoutpolicy.policies.example.com:apps/timeouts"});
    ensure!(named("nodes", ":apps/own").is_some_and(|node| node["direct"] == direct), "{json:#}");
    // Copies of Kuadrant's extension kinds are found; the spoke's own policies of these kinds are not found.
    let plan = |annotations: Value| {
        let name = if annotations.is_null() { "own-plan" } else { "plan" };
        json!({
            "apiVersion": "extensions.kuadrant.io/v1alpha1", "kind": "PlanPolicy",
            "metadata": {"name": name, "namespace": "kuadrant-shop", "annotations": annotations},
            "spec": {"targetRef": targets("Gateway", "web"),
                "plans": [{"tier": "gold", "predicate": "true", "limits": {"daily": 1}}]},
        })
    };
    let plans = [plan(json!({"kuadrant.io/policy-synced": "shop/plan"})), plan(Value::Null)];
    all(&spoke.client()?, &plans).await?;
    let ran = run_command(spoke.kubeconfig(), &["topology"]);
    let copy = ", PlanPolicy kuadrant-shop/plan (copy of the hub's shop/plan), ";
    ensure!(ran.code == 0 && ran.stdout.contains(copy) && !ran.stdout.contains("own-plan"), "{ran:#?}");
    for plan in &plans {
        policy_sync_testenv::apply::delete(&spoke.client()?, plan).await?;
    }
    // Objects of a kind that the cluster does not serve are unknown. References to kinds that are never read are
    // no fault.
    let kind = |group: &str, kind: &str| json!({"group": group, "kind": kind, "name": "a", "port": 80});
    let mirror = |backend: Value| json!({"type": "RequestMirror", "requestMirror": {"backendRef": backend}});
    let import = kind("multicluster.x-k8s.io", "ServiceImport");
    let pool = kind("inference.networking.k8s.io", "InferencePool");
    for (rule, is_read) in [
        (json!({"backendRefs": [import]}), false),
        (json!({"filters": [mirror(import.clone())]}), false),
        (json!({"backendRefs": [pool]}), true),
    ] {
        let parent = json!([{"name": "web", "namespace": "kuadrant-shop"}]);
        let other = object("HTTPRoute", ("apps", "other"), json!({"parentRefs": parent, "rules": [rule]}));
        all(&spoke.client()?, std::slice::from_ref(&other)).await?;
        let ran = run_command(spoke.kubeconfig(), &["topology"]);
        let line = "policy-sync: the cluster has no ServiceImport.multicluster.x-k8s.io: referenced objects appear only by name\n";
        let expected = if is_read { (0, "") } else { (2, line) };
        ensure!((ran.code, &*ran.stderr) == expected, "{rule}: {ran:#?}");
        let json = json_of(&run_command(spoke.kubeconfig(), &["topology", "-o", "json"]))?;
        ensure!(json.get("unread").is_none() == is_read, "{rule}: {json:#}");
        policy_sync_testenv::apply::delete(&spoke.client()?, &other).await?;
    }
    // The status that another implementation writes is compared with the graph.
    let mut rejected = object(
        "HTTPRoute",
        ("apps", "own"),
        json!({"parentRefs": [{"name": "web", "namespace": "kuadrant-shop"}]}),
    );
    rejected["status"] = json!({"parents": [{
        "parentRef": {"name": "web", "namespace": "kuadrant-shop"},
        "controllerName": "istio.io/gateway-controller",
        "conditions": [{"type": "Accepted", "status": "False", "reason": "UnsupportedValue", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }]});
    apply_status(&spoke.client()?, &rejected).await?;
    let words = "HTTPRoute apps/own: ImplementationRejects: implementation differs: istio.io/gateway-controller rejects it: UnsupportedValue\n";
    let ran = run_command(spoke.kubeconfig(), &["topology"]);
    ensure!(ran.code == 1 && ran.stdout.ends_with(words), "{ran:#?}");
    // With another prefix of namespaces, the objects are not recognized as copies.
    let ran = run_command(spoke.kubeconfig(), &["topology", "--downstream-namespace-prefix", "mine-"]);
    ensure!(ran.stdout.contains("Gateway kuadrant-shop/web [AuthPolicy"), "{ran:#?}");
    Ok(())
}

#[tokio::test]
async fn cluster_without_gateway_api_is_reported() -> Result<()> {
    let plain = ControlPlane::start(ControlPlaneOptions::named("topology-plain")).await?;
    for command in ["topology", "effective"] {
        let ran = run_command(plain.kubeconfig(), &[command]);
        ensure!(ran.code == 2 && ran.stdout.is_empty(), "{ran:#?}");
        ensure!(ran.stderr.contains("has no GatewayClasses: Gateway API is not installed"), "{ran:#?}");
    }
    Ok(())
}
