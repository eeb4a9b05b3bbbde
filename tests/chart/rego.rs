//! Rego policies with the flags and rights of the chart. The controller loads them, and the API server calls the
//! webhooks in the chart's configurations. The API server stops calling the webhooks once the policies are deleted.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use policy_sync_testenv::apply::{api_for, apply, apply_all, delete};
use policy_sync_testenv::audit::all_requests_of;
use policy_sync_testenv::ports::Port;
use policy_sync_testenv::rights::{audit_reader, token};
use policy_sync_testenv::webhooks::audit;
use policy_sync_testenv::{ControlPlane, Fleet, FleetOptions, crds, fixtures, wait};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::helm::{Helm, Release, Rendered, required};
use crate::kubectl::{kubectl, refused};
use crate::rights;

const LIMIT: Duration = Duration::from_secs(60);
/// The interval at which changed Rego policies are written, until the API server enforces the
/// ValidatingAdmissionPolicy.
const STEP: Duration = Duration::from_secs(1);
/// The chart's default namespace for Rego policies.
const NAMESPACE: &str = "kube-federation-scheduling-policy";
/// The annotation with the status of a ConfigMap's modules.
const STATUS: &str = "openpolicyagent.org/kube-mgmt-status";
/// The annotation that the Rego policy sets on objects called `reviewed`.
const ANNOTATION: &str = "example.com/reviewed";
/// A Rego policy that sets [`ANNOTATION`]. It reads Services, which the test lists in the values of the chart.
const PLACES: &str = r#"package io.k8s.federation.admission

annotations["example.com/reviewed"] = "yes" {
	input.metadata.name == "reviewed"
	count(data.kubernetes.services) >= 0
}
"#;
/// The kinds of webhook configurations.
const CONFIGURATIONS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// A ConfigMap with Rego modules.
fn config_map(modules: &Value) -> Value {
    let metadata = json!({ "name": "places", "namespace": NAMESPACE });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": modules })
}

fn rego_policy(number: usize) -> Value {
    json!({
        "apiVersion": "policysync.kuadrant.io/v1alpha1",
        "kind": "RegoPolicy",
        "metadata": { "name": "library" },
        "spec": { "rego": format!("package lib.numbers\n\nnumber = {number}\n") },
    })
}

/// Writes Rego policies, checks that they are evaluated, and deletes them.
pub(crate) async fn check_evaluation(
    hub: &ControlPlane,
    release: Release<'_>,
    rendered: &Rendered,
    port: &Port,
) -> Result<()> {
    let client = hub.client()?;
    let policies = [config_map(&json!({ "places.rego": PLACES })), rego_policy(0)];
    apply_all(&client, &policies).await?;
    are_in_force(hub, &policies).await?;
    are_registered(hub, rendered, Some(port)).await?;
    check_is_evaluated(hub).await?;
    audits(hub, rendered, port).await?;
    reads_what_it_may_not_write(hub, release, rendered).await?;
    for policy in &policies {
        let (api, name) = api_for(&client, policy).await?;
        api.delete(&name, &DeleteParams::default()).await?;
    }
    are_registered(hub, rendered, None).await
}

/// Waits until the ConfigMap and the RegoPolicy report in their statuses that their modules are in force.
async fn are_in_force(hub: &ControlPlane, [config_map, rego_policy]: &[Value; 2]) -> Result<()> {
    let client = hub.client()?;
    let (config_maps, name) = api_for(&client, config_map).await?;
    wait::until("the ConfigMap is loaded", LIMIT, || async {
        let found = config_maps.get(&name).await?;
        let status = found.annotations().get(STATUS).context("no status annotation")?;
        let status: Value = serde_json::from_str(status)?;
        ensure!(status["status"] == "ok", "{status}");
        Ok(())
    })
    .await?;
    let (rego_policies, name) = api_for(&client, rego_policy).await?;
    wait::until("the RegoPolicy is loaded", LIMIT, || async {
        let found = rego_policies.get(&name).await?;
        let condition = &found.data["status"]["conditions"][0];
        ensure!(condition["reason"] == "Loaded" && condition["status"] == "True", "{condition}");
        Ok(())
    })
    .await
}

/// Waits until both webhook configurations refer to `port` with a trusted certificate, or have no entries if `port` is
/// `None`.
async fn are_registered(hub: &ControlPlane, rendered: &Rendered, port: Option<&Port>) -> Result<()> {
    for kind in CONFIGURATIONS {
        let (api, name) = api_for(&hub.client()?, rendered.one(kind)?).await?;
        wait::until(&format!("the {kind} is as expected"), LIMIT, || async {
            let found = api.get(&name).await?;
            let entries = found.data["webhooks"].as_array().cloned().unwrap_or_default();
            ensure!(entries.is_empty() == port.is_none(), "webhooks: {entries:?}");
            for entry in entries {
                let client = &entry["clientConfig"];
                let url = client["url"].as_str().unwrap_or_default();
                let expected = format!("https://127.0.0.1:{}/", port.map_or(0, Port::number));
                ensure!(url.starts_with(&expected), "{entry}");
                ensure!(client["caBundle"].as_str().is_some_and(|bundle| !bundle.is_empty()), "{entry}");
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Waits until a written object gets [`ANNOTATION`].
async fn check_is_evaluated(hub: &ControlPlane) -> Result<()> {
    let client = hub.client()?;
    // The Gateway of this policy does not exist, so no spoke receives the policy.
    let reviewed = fixtures::rate_limit_policy("shop", "reviewed", "nowhere");
    wait::until("the Rego policy is evaluated", LIMIT, || async {
        let written = apply(&client, &reviewed).await?;
        ensure!(written.annotations().get(ANNOTATION).is_some_and(|value| value == "yes"), "{written:?}");
        Ok(())
    })
    .await?;
    let (api, name) = api_for(&client, &reviewed).await?;
    api.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

/// A Rego module that denies a Service and a Namespace with this message.
fn denies(words: &str) -> Value {
    let deny = |kind: &str, name: &str| {
        format!(
            "deny[{{\"id\": \"audited\", \"resource\": {{\"kind\": \"{kind}\", \"namespace\": namespace, \"name\": name}}, \
             \"resolution\": {{\"message\": \"{words}\"}}}}] {{\n\tmatches[[\"{kind}\", namespace, name, _]]\n\tname == \"{name}\"\n}}\n"
        )
    };
    let module =
        format!("package admission\n\n{}\n{}", deny("services", "audited"), deny("namespaces", "shop"));
    let mut carrier = config_map(&json!({ "denies.rego": module }));
    carrier["metadata"]["name"] = "denies".into();
    carrier
}

/// The expected audit reports: one for a namespace, and one for the cluster.
fn reports() -> [Value; 2] {
    [("Report", json!("shop")), ("ClusterReport", json!(null))].map(|(kind, namespace)| {
        json!({
            "apiVersion": "openreports.io/v1alpha1", "kind": kind,
            "metadata": { "name": "policy-sync", "namespace": namespace },
        })
    })
}

/// Checks that violations of existing objects are reported, and that an authorized user can read the reports.
async fn audits(hub: &ControlPlane, rendered: &Rendered, port: &Port) -> Result<()> {
    let client = hub.client()?;
    crds::install(&client, &crds::reports()?).await?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "audited", "namespace": "shop" },
        "spec": { "ports": [{ "port": 80 }] },
    });
    apply(&client, &service).await?;
    // Creates a report, and then changes its message.
    for words in ["no", "no, no"] {
        apply(&client, &denies(words)).await?;
        for report in reports() {
            let (reports, name) = api_for(&client, &report).await?;
            wait::until(&format!("the {} reports {words}", report["kind"]), LIMIT, || async {
                let found = reports.get(&name).await?;
                ensure!(found.data["results"][0]["message"] == words, "{:?}", found.data);
                Ok(())
            })
            .await?;
        }
    }
    is_read(hub, rendered, port).await?;
    let (carriers, name) = api_for(&client, &denies("")).await?;
    carriers.delete(&name, &DeleteParams::default()).await?;
    for report in reports() {
        let (reports, name) = api_for(&client, &report).await?;
        wait::until(&format!("the {} is deleted", report["kind"]), LIMIT, || async {
            ensure!(reports.get_opt(&name).await?.is_none(), "the report exists");
            Ok(())
        })
        .await?;
    }
    let (services, name) = api_for(&client, &service).await?;
    services.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

/// Checks that a ServiceAccount with the right to read the audit gets all violations.
async fn is_read(hub: &ControlPlane, rendered: &Rendered, port: &Port) -> Result<()> {
    let client = hub.client()?;
    apply_all(&client, &audit_reader("shop", "auditor")).await?;
    let (secrets, name) = api_for(&client, rendered.one("Secret")?).await?;
    let secret: Secret = secrets.get(&name).await?.try_parse()?;
    let authority = secret.data.unwrap_or_default().remove("ca.crt").context("no CA certificate")?;
    let authority = String::from_utf8(authority.0)?;
    let token = token(&client, "shop", "auditor", &[]).await?;
    wait::until("the ServiceAccount reads the audit", LIMIT, || async {
        let audit = audit(port.number(), &authority, &token).await?;
        ensure!(audit["message"] == "total violations:2", "{audit}");
        Ok(())
    })
    .await
}

/// Checks that the controller reads an object after the API server has rejected a write of the object as invalid,
/// because the object may have changed.
async fn reads_what_it_may_not_write(
    hub: &ControlPlane,
    release: Release<'_>,
    rendered: &Rendered,
) -> Result<()> {
    let client = hub.client()?;
    let controller = rights::service_account(release, rendered)?.name;
    let refusal = refusal(&controller);
    apply_all(&client, &refusal).await?;
    let secret = rendered.one("Secret")?;
    let (secrets, secret_name) = api_for(&client, secret).await?;
    let mut number = 0;
    wait::until_seen("the controller gets the objects after rejected writes", LIMIT, STEP, || {
        number += 1;
        let (client, secrets, secret_name) = (&client, &secrets, &secret_name);
        let controller = &controller;
        async move {
            // Every second attempt adds an unused library, which causes a warning. So each attempt changes the status,
            // and the controller writes it.
            let mut modules = json!({ "places.rego": PLACES });
            if number % 2 == 1 {
                modules["unused.rego"] = "package lib.unused\n\nnumber = 1\n".into();
            }
            apply_all(client, &[config_map(&modules), rego_policy(number)]).await?;
            let no_certificate = json!({ "data": { "tls.crt": null } });
            secrets.patch(secret_name, &PatchParams::default(), &Patch::Merge(no_certificate)).await?;
            let requests = all_requests_of(hub, controller)?;
            for (resource, namespace) in
                [("configmaps", NAMESPACE), ("regopolicies", ""), ("secrets", release.1)]
            {
                let is_got = requests.iter().any(|request| {
                    let object = request.object();
                    request.verb == "get"
                        && (object.resource.as_str(), object.namespace.as_str()) == (resource, namespace)
                });
                ensure!(is_got, "no get of {resource}");
            }
            Ok(())
        }
    })
    .await?;
    // Deletes the binding before the policy.
    for object in refusal.iter().rev() {
        let (api, name) = api_for(&client, object).await?;
        api.delete(&name, &DeleteParams::default()).await?;
    }
    wait::until("the certificate is written again", LIMIT, || async {
        let found = secrets.get(&secret_name).await?;
        ensure!(found.data["data"]["tls.crt"].is_string(), "no certificate");
        Ok(())
    })
    .await
}

/// A ValidatingAdmissionPolicy that rejects all writes of `user` to Rego policies, and to the Secret with the
/// controller's certificate.
fn refusal(user: &str) -> [Value; 2] {
    let updates = json!(["UPDATE"]);
    let rule = |group: &str, resources: &[&str]| {
        let groups = [group];
        json!({ "apiGroups": groups, "apiVersions": ["*"], "resources": resources, "operations": updates })
    };
    let by_it = format!("request.userInfo.username == '{user}'");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "not-now" },
        "spec": {
            "matchConstraints": { "resourceRules": [
                rule("", &["configmaps", "secrets"]),
                rule("policysync.kuadrant.io", &["regopolicies/status"]),
            ] },
            "matchConditions": [{ "name": "by-the-controller", "expression": by_it }],
            "validations": [{ "expression": "false", "message": "not now" }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "not-now" },
        "spec": { "policyName": "not-now", "validationActions": ["Deny"] },
    });
    [policy, binding]
}

#[tokio::test]
async fn controller_can_be_reinstalled_under_a_rego_policy_that_denies_everything() -> Result<()> {
    let fleet = Fleet::start(FleetOptions::spokes([])).await?;
    let (hub, release) = (fleet.hub(), Release("policy-sync", "policy-sync"));
    let client = hub.client()?;
    let mut values = required();
    values["rego"]["enabled"] = true.into();
    let rendered = Helm::alone().await?.template(release, &values)?;
    let mut manifests = NamedTempFile::with_suffix(".yaml")?;
    manifests.write_all(rendered.text.as_bytes())?;
    let file = manifests.path().display().to_string();
    let manifests = ["apply", "--filename", &file];
    apply(&client, &fixtures::namespace(release.1)).await?;
    kubectl(hub, &manifests)?;
    let port = Port::reserve()?;
    let controller = rights::reviewer(hub, release, &rendered, &port).await?;
    let everything = "package admission\n\ndeny[\"nothing is written\"] { true }\n";
    apply(&client, &config_map(&json!({ "everything.rego": everything }))).await?;
    let written = ["create", "configmap", "any", "--dry-run=server"];
    let until_refused = async |words: &str| {
        wait::until("all writes are denied", LIMIT, || async {
            let text = refused(hub, &written)?;
            ensure!(text.contains(words), "{text}");
            Ok(())
        })
        .await
    };
    until_refused("nothing is written").await?;
    controller.kill();
    until_refused("failed calling webhook").await?;
    // Deletes everything except the webhook configurations, the Rego policies, and the objects that other objects
    // depend on.
    let stays = |object: &Value| {
        let kind = object["kind"].as_str().unwrap_or_default();
        CONFIGURATIONS.contains(&kind) || ["Namespace", "CustomResourceDefinition"].contains(&kind)
    };
    for object in rendered.objects.iter().filter(|object| !stays(object)) {
        delete(&client, object).await?;
    }
    let text = kubectl(hub, &manifests)?;
    for created in
        ["deployment.apps/policy-sync created", "clusterrole.rbac.authorization.k8s.io/policy-sync created"]
    {
        ensure!(text.contains(created), "{text}");
    }
    // The CustomResourceDefinition of RegoPolicies can be changed even while no controller runs.
    let definition =
        rendered.one("CustomResourceDefinition")?["metadata"]["name"].as_str().context("no name")?;
    kubectl(hub, &["annotate", "customresourcedefinition", definition, "example.com/changed=yes"])?;
    until_refused("failed calling webhook").await?;
    let role =
        refused(hub, &["create", "clusterrole", "policy-sync-other", "--verb=get", "--resource=pods"])?;
    ensure!(role.contains("failed calling webhook"), "{role}");
    let _controller = rights::reviewer(hub, release, &rendered, &port).await?;
    until_refused("nothing is written").await
}
