//! The objects of the chart for several sets of values, and the values that the chart rejects.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use kube::Api;
use kube::api::{DynamicObject, ObjectMeta, PostParams};
use policy_sync_api::names::GroupResource;
use policy_sync_rego::exemptions::Exemptions;
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::{ControlPlane, Fleet, fixtures};
use serde_json::{Value, json};

use crate::binary;
use crate::helm::{Helm, Release, Rendered, chart, required};
use crate::prometheus::{definition, prometheus_rules};

/// `required` with additional values.
fn with(more: &Value) -> Value {
    let mut values = required();
    merge(&mut values, more);
    values
}

fn merge(values: &mut Value, more: &Value) {
    match (values, more) {
        (Value::Object(values), Value::Object(more)) => {
            for (key, more) in more {
                merge(values.entry(key.as_str()).or_insert(Value::Null), more);
            }
        }
        (values, more) => *values = more.clone(),
    }
}

/// All optional values.
fn everything() -> Value {
    with(&json!({
        "image": { "digest": format!("sha256:{}", "0".repeat(64)), "pullPolicy": "Always" },
        "imagePullSecrets": [{ "name": "registry" }],
        "replicas": 3,
        "controller": {
            "name": "example.com/everything",
            "downstreamNamespacePrefix": "hub-",
            "reservedNamespaces": ["kube-*", "default"],
            "statusWindow": "500ms",
            "leaseDuration": "30s",
            "logLevel": "debug",
            "extraArgs": ["--metrics-bind-address=:8080"],
            "extraEnv": [{ "name": "RUST_BACKTRACE", "value": "1" }],
        },
        "gatewayClass": {
            "create": true,
            "name": "everything",
            "parameters": {
                "tlsSecrets": "copy",
                "policiesToSync": [
                    { "group": "kuadrant.io", "version": "v1", "resource": "ratelimitpolicies" },
                    { "group": "kuadrant.io", "version": "v1", "resource": "authpolicies" },
                ],
                "resourcesToSync": [{ "group": "", "version": "v1", "resource": "configmaps" }],
            },
        },
        "rego": {
            "namespace": { "name": "policies-of-everything" },
            "replicate": ["deployments.apps", "services"],
            "replicateBytes": "64Mi",
            "kinds": [
                { "group": "apps", "resources": ["deployments"] },
                { "group": "", "resources": ["services"] },
            ],
            "failurePolicy": "Ignore",
            "exemptNamespaces": ["kube-*", "default"],
            "remediate": "manual",
            "allowManualRemediation": false,
            "auditInterval": "5m",
            "certificateSecret": "certificate",
        },
        "opa": {
            "sidecar": true,
            "image": { "repository": "registry.example.com/opa", "tag": "1.22.2" },
            "resources": { "limits": { "memory": "2Gi" } },
        },
        // Another release of the shared hub has installed the CustomResourceDefinition.
        "crds": { "enabled": false },
        "topology": { "enabled": false },
        "rbac": {
            "policyKinds": [{ "group": "policies.example.com", "resources": ["timeoutpolicies"] }],
            "tlsSecrets": true,
            "parametersNamespaces": ["teams"],
        },
        "serviceAccount": { "name": "syncer", "annotations": { "example.com/owner": "platform" } },
        "topologySpreadConstraints":
            [{ "maxSkew": 2, "topologyKey": "example.com/rack", "whenUnsatisfiable": "ScheduleAnyway" }],
        "nodeSelector": { "example.com/pool": "control" },
        "tolerations": [{ "key": "example.com/control", "operator": "Exists" }],
        "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [] } },
        "priorityClassName": "system-cluster-critical",
        "podLabels": { "example.com/team": "platform" },
        "podAnnotations": { "example.com/note": "a: b # c" },
        "commonLabels": { "example.com/cost": "hub" },
        "podMonitor": { "enabled": true, "labels": { "release": "prometheus" }, "interval": "15s" },
        "prometheusRule": { "enabled": true, "labels": { "release": "prometheus" } },
        "dashboard": {
            "enabled": true,
            "labels": { "example.com/dashboard": "yes" },
            "annotations": { "grafana_folder": "Gateways" },
        },
        "networkPolicy": { "enabled": true },
    }))
}

/// `required` with additional values, next to a release that has installed the CustomResourceDefinition and
/// the namespace for Rego policies.
fn beside_another(more: &Value) -> Value {
    let mut values = with(&json!({
        "rego": { "namespace": { "create": false } },
        "crds": { "enabled": false },
    }));
    merge(&mut values, more);
    values
}

/// The sets of values with their names. The first set installs objects that the other sets need.
fn choices() -> [(&'static str, Value); 6] {
    let account = json!({ "serviceAccount": { "create": false, "name": "there-already" } });
    [
        ("defaults", required()),
        ("everything", everything()),
        ("one-replica", beside_another(&json!({ "replicas": 1 }))),
        ("no-rights", beside_another(&json!({ "rbac": { "create": false } }))),
        ("own-account", beside_another(&account)),
        ("no-rego", with(&json!({ "rego": { "enabled": false } }))),
    ]
}

/// The shared hub, with the CustomResourceDefinitions of the Prometheus operator and the namespace that
/// [`everything`] names.
async fn hub() -> Result<&'static ControlPlane> {
    let hub = Fleet::shared_hub().await?.hub();
    let client = hub.client()?;
    apply(&client, &fixtures::namespace("teams")).await?;
    for definition in [pod_monitors(), prometheus_rules()] {
        apply(&client, &definition).await?;
        let kind = &definition["spec"]["names"]["kind"];
        let any =
            json!({ "apiVersion": "monitoring.coreos.com/v1", "kind": kind, "metadata": { "name": "any" } });
        policy_sync_testenv::wait::until(
            &format!("{kind} is served"),
            std::time::Duration::from_secs(30),
            || async { api_for(&client, &any).await.map(drop) },
        )
        .await?;
    }
    Ok(hub)
}

/// The Prometheus operator's CustomResourceDefinition for PodMonitors, with only the fields that the chart uses.
fn pod_monitors() -> Value {
    let text = json!({ "type": "string" });
    let labels = json!({ "type": "object", "additionalProperties": text });
    let endpoint = json!({ "type": "object", "properties": { "port": text, "interval": text } });
    let selector = json!({ "type": "object", "properties": { "matchLabels": labels } });
    let spec = json!({
        "type": "object",
        "properties": { "selector": selector, "podMetricsEndpoints": { "type": "array", "items": endpoint } },
    });
    definition("PodMonitor", "podmonitors", &spec)
}

/// Checks by a dry run that a namespace with the profile `restricted` admits a pod of the chart's Deployment.
async fn pod_is_restricted(hub: &ControlPlane, rendered: &Rendered) -> Result<()> {
    let client = hub.client()?;
    let mut namespace = fixtures::namespace("restricted");
    namespace["metadata"]["labels"] = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
    apply(&client, &namespace).await?;
    let template = &rendered.one("Deployment")?["spec"]["template"];
    let pods: Api<DynamicObject> = Api::namespaced_with(
        client,
        "restricted",
        &kube::api::ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&()),
    );
    let create = async |spec: &Value| {
        let metadata =
            ObjectMeta { name: Some("pod".into()), ..serde_json::from_value(template["metadata"].clone())? };
        let data = json!({ "spec": spec });
        let pod = DynamicObject { types: None, metadata, data };
        let trial = PostParams { dry_run: true, ..PostParams::default() };
        anyhow::Ok(pods.create(&trial, &pod).await)
    };
    create(&template["spec"]).await?.context("the pod is rejected")?;
    // The namespace rejects the pod without `runAsNonRoot`.
    let mut careless = template["spec"].clone();
    careless["securityContext"].as_object_mut().context("no securityContext")?.remove("runAsNonRoot");
    let refusal =
        create(&careless).await?.err().context("a pod that may run as root is accepted")?.to_string();
    ensure!(refusal.contains(r#"violates PodSecurity "restricted:latest""#), "{refusal}");
    Ok(())
}

#[tokio::test]
async fn every_set_of_values_passes_lint_renders_reproducibly_and_installs() -> Result<()> {
    let hub = hub().await?;
    let helm = Helm::of(hub).await?;
    for (name, values) in choices() {
        let release = Release(name, name);
        helm.run(&["lint", "--strict", &chart().display().to_string()], Some(&values))?;
        let rendered = helm.template(release, &values)?;
        ensure!(rendered.text == helm.template(release, &values)?.text, "{name}: two renderings differ");
        // The chart must not generate a Secret's data: it would differ with each rendering, and would be stored in Git.
        // An upgrade would overwrite the controller's data.
        let is_empty = |secret: &Value| secret.get("data").or(secret.get("stringData")).is_none();
        ensure!(rendered.all("Secret").all(is_empty), "{name}: a Secret has data");
        ensure!(!rendered.text.contains("helm.sh/hook"), "{name}: a Helm hook exists");
        pod_is_restricted(hub, &rendered).await.with_context(|| name.to_owned())?;
        // Helm applies the objects on the server, which rejects unknown fields.
        let notes = helm.install(release, &values)?;
        let kinds = match name {
            "everything" => "timeoutpolicies.policies.example.com",
            "no-rights" => "The chart created no roles",
            _ => "The controller has no rights to sync policies yet",
        };
        for text in
            ["kubectl rollout status deployment/", kinds, "Next: ", "Uninstalling leaves ManifestWorks"]
        {
            ensure!(notes.contains(text), "{name}: no {text:?} in {notes}");
        }
        let policies = match name {
            "no-rego" => None,
            "everything" => Some(("policies-of-everything", "are written without a review")),
            _ => Some(("kube-federation-scheduling-policy", "writes of objects that they cover fail")),
        };
        ensure!(notes.contains("Policies in Rego") == policies.is_some(), "{name}: {notes}");
        for text in policies.into_iter().flat_map(|(namespace, without)| [namespace, without]) {
            ensure!(notes.contains(text), "{name}: no {text:?} in {notes}");
        }
        for object in &rendered.objects {
            let (api, object_name) = api_for(&hub.client()?, object).await?;
            api.get(&object_name).await.with_context(|| format!("{name}: {object}"))?;
        }
        let budgets = rendered.all("PodDisruptionBudget").count();
        ensure!(budgets == usize::from(name != "one-replica"), "{name}: {budgets} budgets");
        let roles = ["Role", "ClusterRole"].map(|kind| rendered.all(kind).count());
        ensure!((roles == [0, 0]) == (name == "no-rights"), "{name}: {roles:?}");
        if name == "everything" {
            let rule = json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "patch"] });
            let mut rules = rendered.all("ClusterRole").filter_map(|role| role["rules"].as_array()).flatten();
            ensure!(rules.any(|found| *found == rule), "no rule for resourcesToSync");
        }
        let accounts = rendered.all("ServiceAccount").count();
        ensure!(accounts == usize::from(name != "own-account"), "{name}: {accounts} accounts");
    }
    Ok(())
}

#[tokio::test]
async fn controller_accepts_every_rendered_flag() -> Result<()> {
    let helm = Helm::alone().await?;
    let rendered = helm.template(Release("flags", "flags"), &everything())?;
    // The controller parses all flags, and fails because there is no kubeconfig.
    let output = std::process::Command::new(binary())
        .arg("controller")
        .args(rendered.arguments()?)
        .args(["--kubeconfig", "/does/not/exist"])
        .output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(error.contains("cannot read kubeconfig /does/not/exist"), "{error}");
    // By default, the chart sets only the log level and flags that the controller cannot derive.
    let minimal = [
        "--log-level=info",
        "--topology=true",
        "--route-status=true",
        "--rego-namespace=kube-federation-scheduling-policy",
        "--webhook-name=flags-policy-sync",
    ];
    let arguments = helm.template(Release("flags", "flags"), &required())?.arguments()?;
    ensure!(arguments == minimal, "{arguments:?}");
    // An empty `replicate` disables the replication of objects, and an empty `exemptNamespaces` exempts no namespaces.
    let empty = with(&json!({ "rego": { "replicate": [], "exemptNamespaces": [] } }));
    let arguments = helm.template(Release("flags", "flags"), &empty)?.arguments()?;
    ensure!(arguments == [&minimal[..], &["--exempt-namespaces="]].concat(), "{arguments:?}");
    Ok(())
}

#[tokio::test]
async fn disabled_rego_renders_no_webhooks_or_rights() -> Result<()> {
    let helm = Helm::alone().await?;
    let release = Release("policy-sync", "policy-sync");
    let network = json!({ "networkPolicy": { "enabled": true } });
    let mut values = with(&network);
    values["rego"] = json!({ "enabled": false, "certificateSecret": "certificate" });
    values["opa"] = json!({ "sidecar": true, "tokenSecret": "certificate" });
    let text = helm.template(release, &values)?.text;
    for word in [
        "webhook",
        "rego",
        "federation",
        "admission",
        "9443",
        "preStop",
        "Namespace\n",
        "authentication",
        "CustomResourceDefinition",
        "certificate",
        "opa",
    ] {
        ensure!(!text.contains(word), "unexpected {word}: {text}");
    }
    let arguments = helm.template(release, &values)?.arguments()?;
    ensure!(arguments == ["--log-level=info", "--topology=true", "--route-status=true"], "{arguments:?}");
    Ok(())
}

/// The controller adds entries to configurations that the chart leaves empty. The Service of the entries
/// selects the controller's pods.
#[tokio::test]
async fn service_of_the_webhooks_selects_the_controller() -> Result<()> {
    let helm = Helm::alone().await?;
    let rendered =
        helm.template(Release("web", "hub"), &with(&json!({ "networkPolicy": { "enabled": true } })))?;
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let configuration = rendered.one(kind)?;
        ensure!(configuration["metadata"]["name"] == "web-policy-sync", "{configuration}");
        // If the chart set `webhooks` to an empty list, each upgrade would remove the controller's entries.
        ensure!(configuration.get("webhooks").is_none(), "{configuration}");
    }
    let (service, secret) = (rendered.one("Service")?, rendered.one("Secret")?);
    for object in [service, secret] {
        ensure!(object["metadata"]["name"] == "web-policy-sync-webhook", "{object}");
        ensure!(object["metadata"]["namespace"] == "hub", "{object}");
    }
    ensure!(secret["type"] == "Opaque", "{secret}");
    let deployment = &rendered.one("Deployment")?["spec"];
    ensure!(service["spec"]["selector"] == deployment["selector"]["matchLabels"], "{service}");
    let port = json!([{ "name": "webhooks", "port": 443, "targetPort": "webhooks" }]);
    ensure!(service["spec"]["ports"] == port, "{service}");
    let container = &deployment["template"]["spec"]["containers"][0];
    let ports = container["ports"].as_array().context("no ports")?;
    ensure!(ports.contains(&json!({ "name": "webhooks", "containerPort": 9443 })), "{ports:?}");
    ensure!(container["lifecycle"] == json!({ "preStop": { "sleep": { "seconds": 5 } } }), "{container}");
    let ingress = &rendered.one("NetworkPolicy")?["spec"]["ingress"];
    ensure!(*ingress == json!([{ "ports": [{ "port": "metrics" }, { "port": "webhooks" }] }]), "{ingress}");
    Ok(())
}

#[tokio::test]
async fn provided_certificate_is_mounted_and_no_secret_is_created() -> Result<()> {
    let helm = Helm::alone().await?;
    let values = with(&json!({ "rego": { "certificateSecret": "from-cert-manager" } }));
    let rendered = helm.template(Release("policy-sync", "hub"), &values)?;
    let pod = &rendered.one("Deployment")?["spec"]["template"]["spec"];
    let folder = "/etc/policy-sync/webhook";
    let mount = json!([{ "name": "webhook", "mountPath": folder, "readOnly": true }]);
    ensure!(pod["containers"][0]["volumeMounts"] == mount, "{pod}");
    let volume = json!([{ "name": "webhook", "secret": { "secretName": "from-cert-manager" } }]);
    ensure!(pod["volumes"] == volume, "{pod}");
    let arguments = rendered.arguments()?;
    ensure!(arguments.contains(&format!("--webhook-cert-dir={folder}")), "{arguments:?}");
    ensure!(rendered.all("Secret").next().is_none(), "a Secret is rendered");
    let reads_secrets = |role: &Value| role["rules"].to_string().contains("secrets");
    ensure!(!rendered.all("Role").any(reads_secrets), "a role reads Secrets");

    let pod = &helm.template(Release("policy-sync", "hub"), &required())?;
    let pod = &pod.one("Deployment")?["spec"]["template"]["spec"];
    ensure!(pod.get("volumes").is_none() && pod["containers"][0].get("volumeMounts").is_none(), "{pod}");
    Ok(())
}

#[tokio::test]
async fn opa_runs_as_a_sidecar_or_by_url_with_mounted_secrets() -> Result<()> {
    let helm = Helm::alone().await?;
    let rendered = async |more: Value| helm.template(Release("policy-sync", "hub"), &with(&more));
    let beside = rendered(json!({ "opa": { "sidecar": true, "url": "https://opa.example" } })).await?;
    let pod = &beside.one("Deployment")?["spec"]["template"]["spec"];
    let opa = &pod["initContainers"][0];
    ensure!(opa["restartPolicy"] == "Always", "the init container is not a sidecar: {opa}");
    ensure!(opa["image"] == "docker.io/openpolicyagent/opa:1.22.2-static", "{opa}");
    let listens = opa["args"].as_array().is_some_and(|args| args.contains(&json!("--addr=127.0.0.1:8181")));
    ensure!(listens, "not on 127.0.0.1: {opa}");
    ensure!(beside.arguments()?.contains(&"--opa-url=http://127.0.0.1:8181".to_owned()), "{pod}");

    let secrets = json!({ "tokenSecret": "t", "caSecret": "a", "certificateSecret": "c" });
    let mut elsewhere = json!({ "opa": secrets });
    elsewhere["opa"]["url"] = json!("https://opa.example");
    let elsewhere = rendered(elsewhere).await?;
    let arguments = elsewhere.arguments()?;
    for expected in [
        "--opa-url=https://opa.example",
        "--opa-token-file=/etc/policy-sync/opa-token/token",
        "--opa-ca-file=/etc/policy-sync/opa-ca/ca.crt",
        "--opa-cert-file=/etc/policy-sync/opa-certificate/tls.crt",
        "--opa-key-file=/etc/policy-sync/opa-certificate/tls.key",
    ] {
        ensure!(arguments.iter().any(|argument| argument == expected), "no {expected}: {arguments:?}");
    }
    let pod = &elsewhere.one("Deployment")?["spec"]["template"]["spec"];
    ensure!(pod.get("initContainers").is_none(), "unexpected sidecar: {pod}");
    for (name, secret) in [("opa-token", "t"), ("opa-ca", "a"), ("opa-certificate", "c")] {
        let volume = json!({ "name": name, "secret": { "secretName": secret } });
        ensure!(
            pod["volumes"].as_array().is_some_and(|volumes| volumes.contains(&volume)),
            "no {name}: {pod}"
        );
    }

    let authorizes = rendered(json!({ "rego": { "authorizeTokenSecret": "t" } })).await?;
    let argument = "--authorize-token-file=/etc/policy-sync/authorize-token/token".to_owned();
    ensure!(authorizes.arguments()?.contains(&argument), "{:?}", authorizes.arguments()?);
    let volumes = &authorizes.one("Deployment")?["spec"]["template"]["spec"]["volumes"];
    let volume = json!({ "name": "authorize-token", "secret": { "secretName": "t" } });
    ensure!(volumes.as_array().is_some_and(|volumes| volumes.contains(&volume)), "{volumes}");
    ensure!(!elsewhere.arguments()?.contains(&argument), "the flag is set by default");

    let placed = rendered(json!({ "placement": {
        "url": "https://placement.example/v1", "tokenSecret": "t", "caSecret": "a", "always": true, "resync": "5m",
    } }))
    .await?;
    let arguments = placed.arguments()?;
    let of_placement: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| argument.starts_with("--placement")).collect();
    let expected = [
        "--placement-url=https://placement.example/v1",
        "--placement-token-file=/etc/policy-sync/placement-token/token",
        "--placement-ca-file=/etc/policy-sync/placement-ca/ca.crt",
        "--placement-url-always",
        "--placement-resync=5m",
    ];
    ensure!(of_placement == expected, "{of_placement:?}");
    Ok(())
}

/// The name of a Service has at most 63 characters, and all objects of the webhooks share a name.
#[tokio::test]
async fn long_names_are_shortened_for_webhooks() -> Result<()> {
    let values = with(&json!({ "fullnameOverride": format!("{}-{}", "a".repeat(54), "b".repeat(8)) }));
    let rendered = Helm::alone().await?.template(Release("policy-sync", "policy-sync"), &values)?;
    let name = "a".repeat(54);
    ensure!(rendered.arguments()?.contains(&format!("--webhook-name={name}")), "{:?}", rendered.arguments()?);
    for (kind, name) in [
        ("MutatingWebhookConfiguration", name.clone()),
        ("ValidatingWebhookConfiguration", name.clone()),
        ("Service", format!("{name}-webhook")),
        ("Secret", format!("{name}-webhook")),
    ] {
        ensure!(rendered.one(kind)?["metadata"]["name"] == *name, "{}", rendered.one(kind)?);
    }
    let names: Vec<&Value> = rendered
        .all("ClusterRole")
        .chain(rendered.all("Role"))
        .flat_map(|role| role["rules"].as_array().into_iter().flatten())
        .filter_map(|rule| rule.get("resourceNames"))
        .collect();
    let expected = [json!([name]), json!([format!("{name}-webhook")]), json!(["topology"])];
    ensure!(names == expected.iter().collect::<Vec<_>>(), "{names:?}");
    Ok(())
}

#[tokio::test]
async fn rego_namespace_is_created_if_it_is_missing() -> Result<()> {
    let helm = Helm::alone().await?;
    for (rego, namespace, expected) in [
        (json!({}), "hub", Some("kube-federation-scheduling-policy")),
        (json!({ "namespace": { "name": "policies" } }), "hub", Some("policies")),
        (json!({ "namespace": { "create": false } }), "hub", None),
        // Helm creates the release's namespace.
        (json!({ "namespace": { "name": "policies" } }), "policies", None),
    ] {
        let rendered = helm.template(Release("policy-sync", namespace), &with(&json!({ "rego": rego })))?;
        let names: Vec<&Value> =
            rendered.all("Namespace").map(|namespace| &namespace["metadata"]["name"]).collect();
        ensure!(names == expected.into_iter().collect::<Vec<_>>(), "{rego}: {names:?}");
        let name = rego["namespace"]["name"].as_str().unwrap_or("kube-federation-scheduling-policy");
        let is_in_namespace = |role: &&Value| {
            role["metadata"]["name"] == "policy-sync-rego" && role["metadata"]["namespace"] == name
        };
        ensure!(rendered.all("Role").filter(is_in_namespace).count() == 1, "{rego}: no Role in {name}");
        ensure!(rendered.arguments()?.contains(&format!("--rego-namespace={name}")), "{rego}");
    }
    Ok(())
}

#[tokio::test]
async fn deprecated_policy_namespace_is_used_and_warned_about() -> Result<()> {
    let helm = Helm::alone().await?;
    let release = Release("policy-sync", "hub");
    let with = |rego: Value| with(&json!({ "rego": rego }));
    for namespace in [
        json!({ "name": "policies" }),
        json!({ "create": false }),
        // `helm upgrade --reuse-values` passes these values if they were the defaults of the earlier chart.
        json!({ "create": true, "name": "kube-federation-scheduling-policy" }),
    ] {
        let (old, new) =
            (with(json!({ "policyNamespace": namespace })), with(json!({ "namespace": namespace })));
        ensure!(
            helm.template(release, &old)?.text == helm.template(release, &new)?.text,
            "{namespace} renders differently"
        );
        let notes = |values| {
            helm.run(&[&release.arguments("install")[..], &["--dry-run=client"]].concat(), Some(values))
        };
        let warning = "WARNING: rego.policyNamespace is deprecated: use rego.namespace";
        ensure!(notes(&old)?.contains(warning), "{namespace}: the warning is missing");
        ensure!(!notes(&new)?.contains(warning), "{namespace}: unexpected warning");
    }
    let name = |name| json!({ "name": name });
    for rego in [
        json!({ "namespace": name("a"), "policyNamespace": name("b") }),
        json!({ "namespace": name("a"), "policyNamespace": name("a") }),
        json!({ "namespace": { "create": false }, "policyNamespace": name("a") }),
        json!({ "namespace": name("a"), "policyNamespace": name("b"), "enabled": false }),
    ] {
        let error = helm.refused(&release.arguments("template"), Some(&with(rego.clone())))?;
        let why = "rego.policyNamespace is the deprecated name of rego.namespace, and both are set: set rego.namespace alone";
        ensure!(error.contains(why), "{rego}: {error}");
    }
    Ok(())
}

#[tokio::test]
async fn roles_allow_reading_the_kinds_listed_in_values() -> Result<()> {
    let rendered = Helm::alone().await?.template(Release("policy-sync", "policy-sync"), &everything())?;
    let role = rendered.all("ClusterRole").find(|role| role["metadata"]["name"] == "policy-sync-rego");
    let rules = role.and_then(|role| role["rules"].as_array()).context("no role")?;
    for (group, resource) in [("apps", "deployments"), ("", "services")] {
        let rule = json!({ "apiGroups": [group], "resources": [resource], "verbs": ["list", "watch"] });
        ensure!(rules.contains(&rule), "no {rule} in {rules:?}");
    }
    Ok(())
}

#[tokio::test]
async fn cluster_scoped_objects_of_the_chart_are_exempt_from_reviews() -> Result<()> {
    let release = Release("ours", "policy-sync");
    let mut values = everything();
    values["fullnameOverride"] = "ours".into();
    values["crds"]["enabled"] = true.into();
    values["topology"]["enabled"] = true.into();
    let rendered = Helm::alone().await?.template(release, &values)?;
    let exemptions = Exemptions::default().with_own("ours");
    let mut found = BTreeSet::new();
    for (kind, group, plural) in [
        ("ClusterRole", "rbac.authorization.k8s.io", "clusterroles"),
        ("ClusterRoleBinding", "rbac.authorization.k8s.io", "clusterrolebindings"),
        ("CustomResourceDefinition", "apiextensions.k8s.io", "customresourcedefinitions"),
    ] {
        for object in rendered.all(kind) {
            let name = object["metadata"]["name"].as_str().context("no name")?;
            ensure!(
                exemptions.is_own(&GroupResource::new(group, plural), name),
                "{kind} {name} is not exempt"
            );
            found.insert(kind);
        }
    }
    ensure!(found.len() == 3, "only {found:?} are rendered");
    Ok(())
}

#[tokio::test]
async fn two_releases_coexist_unless_they_have_the_same_name() -> Result<()> {
    let hub = hub().await?;
    let helm = Helm::of(hub).await?;
    // The values in the chart's README.
    let readme = fs::read_to_string(chart().join("README.md"))?;
    let written =
        "    rego:\n      namespace:\n        name: other-policies\n    crds:\n      enabled: false\n";
    ensure!(readme.contains(written), "the README does not contain these values");
    let blue = with(&json!({
        "rego": { "namespace": { "name": "other-policies" } },
        "crds": { "enabled": false },
    }));
    helm.install(Release("blue", "two"), &blue)?;
    // Helm rejects a second release with the same values. Two releases cannot share objects: neither the
    // namespace, nor objects with the release's name.
    let namespace = helm.refused(&Release("green", "two").arguments("install"), Some(&blue))?;
    ensure!(namespace.contains("Namespace \"other-policies\""), "{namespace}");
    ensure!(namespace.contains("invalid ownership metadata"), "{namespace}");
    ensure!(readme.contains("`rego.namespace.create=false`"), "the README does not contain this value");
    let mut green = blue.clone();
    green["rego"]["namespace"]["create"] = false.into();
    helm.install(Release("green", "two"), &green)?;
    let again = helm.refused(&Release("blue", "two").arguments("install"), Some(&green))?;
    ensure!(again.contains("cannot reuse a name that is still in use"), "{again}");
    let elsewhere = helm.refused(&Release("blue", "teams").arguments("install"), Some(&green))?;
    ensure!(elsewhere.contains("invalid ownership metadata"), "{elsewhere}");
    Ok(())
}

#[tokio::test]
async fn umbrella_chart_can_enable_or_disable_the_chart() -> Result<()> {
    let helm = Helm::alone().await?;
    let umbrella = tempfile::tempdir()?;
    let charts = umbrella.path().join("charts").display().to_string();
    helm.run(&["package", &chart().display().to_string(), "--destination", &charts], None)?;
    let dependency = json!({
        "name": "policy-sync", "version": env!("CARGO_PKG_VERSION"), "condition": "policy-sync.enabled",
    });
    let description = json!({
        "apiVersion": "v2", "name": "hub", "version": "1.0.0", "dependencies": [dependency],
    });
    fs::write(umbrella.path().join("Chart.yaml"), description.to_string())?;
    let folder = umbrella.path().display().to_string();
    let render = |enabled: bool| {
        let mut part = required();
        part["enabled"] = enabled.into();
        let values = json!({ "global": { "region": "eu" }, "policy-sync": part });
        helm.run(&["template", "hub", &folder], Some(&values))
    };
    ensure!(render(true)?.contains("kind: Deployment"), "the subchart is not rendered");
    ensure!(render(false)?.trim().is_empty(), "the disabled subchart is rendered");
    Ok(())
}

#[tokio::test]
async fn invalid_values_are_rejected_with_their_path() -> Result<()> {
    let helm = Helm::of(Fleet::shared_hub().await?.hub()).await?;
    let cases = [
        (json!({ "image": { "tagg": "x" } }), "at '/image': additional properties 'tagg' not allowed"),
        (json!({ "replicas": "two" }), "at '/replicas': got string, want integer"),
        (json!({ "image": { "digest": "abc" } }), "at '/image/digest': 'abc' does not match pattern"),
        (json!({ "image": { "repository": "" } }), "image.repository is required: "),
        (
            json!({ "gatewayClass": { "parameters": { "conflicts": "maybe" } } }),
            "at '/gatewayClass/parameters/conflicts': value must be ",
        ),
        (
            json!({ "gatewayClass": { "parameters": { "policiesToSync": [{ "group": "g", "version": 1, "resource": "r" }] } } }),
            "at '/gatewayClass/parameters/policiesToSync/0/version': got number, want string",
        ),
        (
            json!({ "gatewayClass": { "parameters": { "tlsSecrets": "copy" } } }),
            r#"gatewayClass.parameters: "tlsSecrets": "copy" needs rbac.tlsSecrets=true, which lets the controller read all Secrets of the hub"#,
        ),
        (
            json!({ "rbac": { "policyKinds": [{ "group": "kuadrant.io" }] } }),
            "at '/rbac/policyKinds/0': missing property 'resources'",
        ),
        (json!({ "controller": { "statusWindow": "soon" } }), "at '/controller/statusWindow': "),
        (json!({ "serviceAccount": { "create": false } }), "serviceAccount.name is required "),
        (json!({ "rego": { "remediate": "never" } }), "at '/rego/remediate': value must be one of "),
        (json!({ "rego": { "auditInterval": "daily" } }), "at '/rego/auditInterval': "),
        (json!({ "rego": { "failurePolicy": "fail" } }), "at '/rego/failurePolicy': value must be one of "),
        (json!({ "rego": { "replicate": "pods" } }), "at '/rego/replicate': got string, want null or array"),
        (
            json!({ "rego": { "kinds": [{ "group": "apps" }] } }),
            "at '/rego/kinds/0': missing property 'resources'",
        ),
        (
            json!({ "rego": { "namespace": { "name": "" } } }),
            "at '/rego/namespace/name': '' does not match pattern",
        ),
        (json!({ "crds": { "enable": true } }), "at '/crds': additional properties 'enable' not allowed"),
    ];
    for (values, expected) in cases {
        let error = helm.refused(&Release("bad", "bad").arguments("template"), Some(&with(&values)))?;
        ensure!(error.contains(expected), "{values}: {error}");
    }
    Ok(())
}

#[tokio::test]
async fn pod_monitor_requires_its_crd() -> Result<()> {
    let hub = ControlPlane::start(policy_sync_testenv::ControlPlaneOptions::named("bare")).await?;
    let values = with(&json!({ "podMonitor": { "enabled": true } }));
    let error =
        Helm::of(&hub).await?.refused(&Release("bad", "default").arguments("install"), Some(&values))?;
    ensure!(error.contains(r#"no matches for kind "PodMonitor""#), "{error}");
    Ok(())
}
