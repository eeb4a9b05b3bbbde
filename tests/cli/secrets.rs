//! `policy-sync plan -f` with TLS Secrets of Gateways: Secrets in the input are copied, and their contents are hidden.

use serde_json::Value;

use crate::run::{CommandOutput, run_with};

const KEY: &str = "VE9QU0VDUkVU";

/// A Gateway on `eu-1`, of a class with these parameters. It refers to a Secret in its own namespace, and to a
/// Secret in another namespace.
fn hub(params: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {{name: multi}}, spec: \
         {{controllerName: kuadrant.io/policy-sync, parametersRef: {{group: '', kind: ConfigMap, namespace: shop, name: params}}}}}}
---
{{apiVersion: v1, kind: ConfigMap, metadata: {{name: params, namespace: shop}}, data: {{params: '{params}'}}}}
---
{{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: PlacementDecision, metadata: {{name: all-1, namespace: shop, \
         labels: {{cluster.open-cluster-management.io/placement: all}}}}, status: {{decisions: [{{clusterName: eu-1, reason: ''}}]}}}}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: web, namespace: shop, \
         labels: {{cluster.open-cluster-management.io/placement: all}}}}, spec: {{gatewayClassName: multi, listeners: [{{name: https, \
         port: 443, protocol: HTTPS, tls: {{certificateRefs: [{{name: own}}, {{name: theirs, namespace: tls}}]}}}}]}}}}
"
    )
}

fn secret(namespace: &str, name: &str) -> String {
    format!(
        "---
{{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {{name: {name}, namespace: {namespace}, \
         annotations: {{example.com/original: {KEY}}}}}, data: {{tls.crt: Y2VydA==, tls.key: {KEY}}}}}
"
    )
}

const GRANT: &str = "---
{apiVersion: gateway.networking.k8s.io/v1beta1, kind: ReferenceGrant, metadata: {name: g, namespace: tls}, spec: {from: \
         [{group: gateway.networking.k8s.io, kind: Gateway, namespace: shop}], to: [{group: '', kind: Secret}]}}
";

fn plan(manifests: &[String], output: &str) -> CommandOutput {
    let ran = run_with(&["plan", "-f", "-", "-o", output], &manifests.concat());
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains(KEY) && !text.contains("Y2VydA"), "{text}");
    }
    ran
}

/// The kinds and names of the objects in the Gateway's work.
fn manifest_names(ran: &CommandOutput) -> Vec<String> {
    let works: Vec<Value> = serde_saphyr::from_multiple(&ran.stdout).unwrap();
    let work = works.iter().find(|work| work["metadata"]["name"].as_str().unwrap().starts_with("gateway"));
    let manifests = work.unwrap()["spec"]["workload"]["manifests"].as_array().unwrap();
    let text = |object: &Value| {
        let [kind, name] = [&object["kind"], &object["metadata"]["name"]].map(|text| text.as_str().unwrap());
        if kind == "ReferenceGrant" { kind.to_owned() } else { format!("{kind} {name}") }
    };
    manifests.iter().map(text).collect()
}

#[test]
fn given_secrets_are_copied_with_hidden_contents() {
    let given =
        [hub(r#"{"tlsSecrets": "copy"}"#), secret("shop", "own"), secret("tls", "theirs"), GRANT.to_owned()];
    let ran = plan(&given, "yaml");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let expected = [
        "Namespace kuadrant-shop",
        "Namespace kuadrant-tls",
        "Secret own",
        "Secret theirs",
        "ReferenceGrant",
        "Gateway web",
    ];
    assert_eq!(manifest_names(&ran), expected);
    assert_eq!(ran.stdout.matches("tls.key: <hidden, blake3 ").count(), 2, "{}", ran.stdout);
    assert!(plan(&given, "json").stdout.contains(r#""tls.key": "<hidden, blake3 "#));
    let rotated =
        [given[0].clone(), given[1].replace("Y2VydA", "b3RoZXI"), given[2].clone(), given[3].clone()];
    assert_ne!(plan(&rotated, "yaml").stdout, ran.stdout, "a rotated certificate does not change the output");
}

#[test]
fn missing_secrets_and_grants_cause_warnings() {
    let ran = plan(&[hub(r#"{"tlsSecrets": "copy"}"#), secret("tls", "theirs")], "yaml");
    assert_eq!(manifest_names(&ran), ["Namespace kuadrant-shop", "Gateway web"]);
    for text in [
        "Gateway shop/web: warning: listener https: Secret shop/own is not copied: there is no such Secret of type \
         kubernetes.io/tls\n",
        "Gateway shop/web: warning: listener https: Secret tls/theirs is not copied: no ReferenceGrant in its namespace \
         allows the reference\n",
    ] {
        assert!(ran.stderr.contains(text), "{}", ran.stderr);
    }
    assert_eq!(ran.code, 0);
}

#[test]
fn secrets_are_unused_without_the_parameter() {
    let ran = plan(&[hub("{}"), secret("shop", "own"), GRANT.to_owned()], "yaml");
    assert_eq!(manifest_names(&ran), ["Namespace kuadrant-shop", "Gateway web"]);
    for object in ["Secret shop/own", "ReferenceGrant tls/g"] {
        let note =
            format!("{object}: note: not used: no GatewayClass of this controller has tlsSecrets \"copy\"\n");
        assert!(ran.stderr.contains(&note), "{}", ran.stderr);
    }
    assert_eq!(ran.code, 0);
}
