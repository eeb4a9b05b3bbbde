//! The steps of the demo of Rego policies for admission, audit and authorization.

mod access;
mod standing;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::{Client, ResourceExt};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::{fixtures, wait};
use serde_json::{Value, json};

use super::demo::Demo;
use super::look;
use super::placement::{POLICIES, status_of};
use super::report::Report;

/// The namespace of the teams' objects.
const SHOP: &str = "shop";
/// The published Rego policies, with their keys in the ConfigMap.
const GATES: [(&str, &str); 3] = [
    ("image-pull-policy.rego", include_str!("../../../docs/examples/rego/gates/image-pull-policy.rego")),
    ("ingress-conflict.rego", include_str!("../../../docs/examples/rego/gates/ingress-conflict.rego")),
    ("load-balancers.rego", include_str!("../../../docs/examples/rego/gates/load-balancers.rego")),
];
/// Time limit of each step on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs all steps.
pub(super) async fn run_steps(demo: &Demo, report: &Report) -> Result<()> {
    let hub = demo.hub()?;
    for namespace in [POLICIES, SHOP] {
        apply(&hub, &fixtures::namespace(namespace)).await?;
    }
    demo.webhooks().install(&hub).await?;
    write_policies(&hub, report).await?;
    take_a_host(&hub, report).await?;
    run_an_old_image(&hub, report).await?;
    open_a_third_door(&hub, report).await?;
    warn_only(demo, &hub, report).await?;
    take_policies_away(&hub, report).await?;
    standing::run_steps(demo, &hub, report).await?;
    access::run_steps(demo, &hub, report).await
}

fn policies(enforcement: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "gates", "namespace": POLICIES, "annotations": {"kuadrant.io/enforcement": enforcement}},
        "data": GATES.into_iter().collect::<BTreeMap<_, _>>(),
    })
}

async fn write_policies(hub: &Client, report: &Report) -> Result<()> {
    report.step("An administrator creates admission policies, while an Ingress and two load balancers exist");
    for object in [ingress("front", "shop.example.com"), balancer("one"), balancer("two")] {
        apply(hub, &object).await?;
    }
    apply(hub, &policies("deny")).await?;
    let found = look::there(hub, "the policies are loaded", &policies("deny"), |object| {
        let status = status_of(object.annotations());
        ensure!(status["status"] == "ok", "the result is {status}");
        Ok(())
    })
    .await?;
    report.print(&format!("ConfigMap {POLICIES}/gates: {}", GATES.map(|(key, _)| key).join(", ")));
    report.print_result(
        "they are loaded, and the API server sends reviews only for Pods, Ingresses and Services:",
    );
    report.excerpt(&status_of(found.annotations()));
    Ok(())
}

fn ingress(name: &str, host: &str) -> Value {
    let backend = json!({"service": {"name": name, "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name, "namespace": SHOP},
        "spec": {"rules": [{"host": host, "http": {"paths": [path]}}]},
    })
}

fn balancer(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": SHOP},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    })
}

/// Waits until a dry-run create of `object` is rejected with this text.
async fn until_refused(hub: &Client, object: &Value, words: &str) -> Result<()> {
    let (api, _) = api_for(hub, object).await?;
    let trial: DynamicObject = serde_json::from_value(object.clone())?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    // The API server calls a new webhook only after a delay.
    wait::until("the object is rejected", LIMIT, || async {
        let error = api.create(&dry_run, &trial).await.err().context("the object is admitted")?;
        ensure!(error.to_string().contains(words), "{error}");
        Ok(())
    })
    .await
}

async fn take_a_host(hub: &Client, report: &Report) -> Result<()> {
    report.step("A team creates an Ingress for a host that another Ingress has");
    let words = "ingress-conflict: host shop.example.com is taken by Ingress shop/front";
    let other = ingress("other", "shop.example.com");
    until_refused(hub, &other, words).await?;
    let error = apply(hub, &other).await.err().context("the Ingress is admitted")?;
    ensure!(format!("{error:#}").contains(words), "{error:#}");
    report.print_result("the API server rejects it, with the policy's message:");
    report.excerpt(&words.into());
    let events: Api<Event> = Api::namespaced(hub.clone(), SHOP);
    wait::until("an Event AdmissionDenied exists", LIMIT, || async {
        let events = events.list(&ListParams::default()).await?.items.into_iter();
        let mut denials = events.filter(|event| event.reason.as_deref() == Some("AdmissionDenied"));
        let message = denials.find_map(|event| event.message).context("no such Event")?;
        ensure!(message == words, "{message}");
        Ok(())
    })
    .await?;
    report
        .print_result(&format!("and an Event AdmissionDenied in the namespace {SHOP} has the same message"));
    Ok(())
}

async fn run_an_old_image(hub: &Client, report: &Report) -> Result<()> {
    report.step("A Pod would use the image that its node has stored");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "till", "namespace": SHOP},
        "spec": {"containers": [{"name": "till", "image": "registry.example/till:1", "imagePullPolicy": "IfNotPresent"}]},
    });
    let (api, _) = api_for(hub, &pod).await?;
    let object: DynamicObject = serde_json::from_value(pod)?;
    // The Pod needs the namespace's ServiceAccount, which another controller creates.
    let stored = wait::until("the Pod is created", LIMIT, || async {
        Ok(api.create(&PostParams::default(), &object).await?)
    })
    .await?;
    let policy = &stored.data["spec"]["containers"][0]["imagePullPolicy"];
    ensure!(policy == "Always", "it is stored with {policy}");
    report.print_result(
        "it is created, with a change by the policy: spec.containers[0].imagePullPolicy is Always",
    );
    Ok(())
}

async fn open_a_third_door(hub: &Client, report: &Report) -> Result<()> {
    report.step("A team creates a third load balancer, but only two are allowed");
    let words = "load-balancers: shop would have 3 load balancers, 2 are allowed";
    let error = apply(hub, &balancer("three")).await.err().context("the Service is admitted")?;
    ensure!(format!("{error:#}").contains(words), "{error:#}");
    report.print_result("it is rejected:");
    report.excerpt(&words.into());
    let mut two = balancer("two");
    two["metadata"]["labels"] = json!({"team": SHOP});
    apply(hub, &two).await?;
    report.print_result("the second can be applied again: it counts once");
    Ok(())
}

async fn warn_only(demo: &Demo, hub: &Client, report: &Report) -> Result<()> {
    report.step("The same policies only warn");
    apply(hub, &policies("warn")).await?;
    report.print("annotation kuadrant.io/enforcement: warn");
    let words = "Warning: load-balancers: shop would have 3 load balancers, 2 are allowed";
    let output = wait::until("kubectl shows the warning", LIMIT, || async {
        let output = kubectl(demo, &["create", "-f", "-", "--dry-run=server"], &balancer("three"))?;
        ensure!(output.contains(words), "{output}");
        Ok(output)
    })
    .await?;
    report.print("$ kubectl create -f three.yaml --dry-run=server");
    report.excerpt(&output.trim().into());
    apply(hub, &balancer("three")).await?;
    report.print_result("and the third is created");
    Ok(())
}

/// Runs `kubectl` with this input. Returns its standard error output, such as warnings.
fn kubectl(demo: &Demo, arguments: &[&str], input: &Value) -> Result<String> {
    let mut running = demo
        .kubectl()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("running kubectl")?;
    running.stdin.take().context("no input")?.write_all(input.to_string().as_bytes())?;
    let Output { status, stderr, .. } = running.wait_with_output()?;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    ensure!(status.success(), "kubectl exited with {status}: {stderr}");
    Ok(stderr)
}

async fn take_policies_away(hub: &Client, report: &Report) -> Result<()> {
    report.step("The policies are deleted");
    let (api, name) = api_for(hub, &policies("deny")).await?;
    api.delete(&name, &DeleteParams::default()).await?;
    for configuration in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": configuration,
            "metadata": {"name": "policy-sync"}});
        look::there(hub, "no reviews are sent", &object, |object| {
            let entries = object.data["webhooks"].as_array().map_or(0, Vec::len);
            ensure!(entries == 0, "{} has {entries} webhooks", object.name_any());
            Ok(())
        })
        .await?;
    }
    report.print_result(
        "no webhook configuration has a webhook any more: the hub does not depend on the controller",
    );
    Ok(())
}
