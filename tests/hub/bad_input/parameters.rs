//! Invalid parameters of GatewayClasses.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use policy_sync_testenv::audit::Request;
use policy_sync_testenv::fixtures::gateway_class;
use policy_sync_testenv::tenant::Tenant;
use serde_json::{Value, json};

use super::page::{Row, holds};
use super::{syncs_changes, until_refused};
use crate::synced;

const PLACE: &str = "GatewayClass, `Accepted=False`";
/// Description of the fault in the value of one key, name of the class, and the parameters.
const VALUES: [(&str, &str, &str); 29] = [
    ("`tlsSecrets` in capitals", "tls-capital", r#"{"tlsSecrets": "Copy"}"#),
    ("`tlsSecrets` empty", "tls-empty", r#"{"tlsSecrets": ""}"#),
    ("`tlsSecrets` as a boolean", "tls-boolean", r#"{"tlsSecrets": true}"#),
    ("`tlsSecrets` as a list", "tls-list", r#"{"tlsSecrets": ["copy"]}"#),
    ("`tlsSecrets` as a duplicate key", "tls-twice", r#"{"tlsSecrets": "none", "tlsSecrets": "copy"}"#),
    ("`conflicts` in capitals", "conflicts-capital", r#"{"conflicts": "Keep"}"#),
    ("`conflicts` as a number", "conflicts-number", r#"{"conflicts": 1}"#),
    ("`conflicts` as an object", "conflicts-object", r#"{"conflicts": {"keep": true}}"#),
    ("an unknown `policyWaitAction`", "action-none", r#"{"policyWaitAction": "wait"}"#),
    ("`policyWaitAction` in capitals", "action-capital", r#"{"policyWaitAction": "Hold"}"#),
    ("`policyWaitAction` as a boolean", "action-boolean", r#"{"policyWaitAction": true}"#),
    ("`policyWaitAction` as a list", "action-list", r#"{"policyWaitAction": ["hold"]}"#),
    (
        "`policyWaitAction` as a duplicate key",
        "action-twice",
        r#"{"policyWaitAction": "hold", "policyWaitAction": "serve"}"#,
    ),
    ("`policyWaitSeconds` as a string", "seconds-text", r#"{"policyWaitSeconds": "10"}"#),
    ("`policyWaitSeconds` above the maximum", "seconds-great", r#"{"policyWaitSeconds": 4294967296}"#),
    ("`policyWaitSeconds` with a fraction", "seconds-fraction", r#"{"policyWaitSeconds": 1.5}"#),
    ("`policyWaitSeconds` as a boolean", "seconds-boolean", r#"{"policyWaitSeconds": true}"#),
    ("`metadataToSkip` as a string", "skip-text", r#"{"metadataToSkip": "team.example.com/*"}"#),
    ("`metadataToSkip` as an object", "skip-object", r#"{"metadataToSkip": {"team.example.com/*": true}}"#),
    ("`metadataToSkip` with a null", "skip-null", r#"{"metadataToSkip": [null]}"#),
    ("`metadataToSkip` with a number", "skip-number", r#"{"metadataToSkip": ["team.example.com/*", 1]}"#),
    ("`metadataToSkip` as a duplicate key", "skip-twice", r#"{"metadataToSkip": [], "metadataToSkip": []}"#),
    ("`policiesToSync` as an object", "kinds-object", r#"{"policiesToSync": {}}"#),
    ("`policiesToSync` with a null", "kinds-null", r#"{"policiesToSync": [null]}"#),
    ("`downstreamClass` as a number", "class-number", r#"{"downstreamClass": 5}"#),
    ("`resourcesToSync` as a string", "resources-text", r#"{"resourcesToSync": "deployments"}"#),
    (
        "a resource kind without a group",
        "resources-group",
        r#"{"resourcesToSync": [{"version": "v1", "resource": "configmaps"}]}"#,
    ),
    (
        "a subresource",
        "resources-slash",
        r#"{"resourcesToSync": [{"group": "apps", "version": "v1", "resource": "deployments/status"}]}"#,
    ),
    (
        "a `placement` that is not a valid name",
        "resources-placement",
        r#"{"resourcesToSync": [{"group": "", "version": "v1", "resource": "configmaps", "placement": "Every Where"}]}"#,
    ),
];

/// Description of the fault, name of the class and of its ConfigMap, and the ConfigMap's data.
fn cases() -> Vec<(&'static str, &'static str, Option<Value>)> {
    let params = |text: &str| Some(json!({ "params": text }));
    let list = |count: usize| {
        let kinds: Vec<Value> = (0..count)
            .map(
                |index| json!({"group": "example.com", "version": "v1", "resource": format!("kinds{index}")}),
            )
            .collect();
        params(&json!({ "policiesToSync": kinds }).to_string())
    };
    let fields = |fields: Value| {
        let kind =
            json!({"group": "example.com", "version": "v1", "resource": "limits", "statusFields": fields});
        params(&json!({ "policiesToSync": [kind] }).to_string())
    };
    let merge = |merge: Value| {
        let kind = json!({"group": "example.com", "version": "v1", "resource": "limits", "merge": merge});
        params(&json!({ "policiesToSync": [kind] }).to_string())
    };
    let mut cases = vec![
        ("no ConfigMap", "no-config-map", None),
        ("a ConfigMap without the key", "no-key", Some(json!({"parameters": "{}"}))),
        ("not JSON", "no-json", params("downstreamClass: istio")),
        ("truncated JSON", "cut-off", params(r#"{"downstreamClass": "istio""#)),
        ("not an object", "no-object", params("[]")),
        (
            "a value of the wrong type",
            "wrong-type",
            params(r#"{"policiesToSync": [{"group": "a", "version": 2, "resource": "b"}]}"#),
        ),
        ("an unknown key", "unknown-key", params(r#"{"policyToSync": []}"#)),
        (
            "an unknown key in a kind",
            "unknown-field",
            params(r#"{"policiesToSync": [{"group": "a", "version": "v1", "resource": "b", "kind": "B"}]}"#),
        ),
        ("a duplicate key", "twice", params(r#"{"conflicts": "keep", "conflicts": "overwrite"}"#)),
        ("a missing key", "missing-key", params(r#"{"policiesToSync": [{"group": "a", "version": "v1"}]}"#)),
        (
            "a duplicate kind",
            "kind-twice",
            params(
                &json!({"policiesToSync": vec![json!({"group": "a", "version": "v1", "resource": "b"}); 2]})
                    .to_string(),
            ),
        ),
        (
            "a duplicate field name",
            "field-twice",
            fields(json!([{"name": "a", "path": ".a"}, {"name": "a", "path": ".b"}])),
        ),
        ("a reserved field name", "own-field", fields(json!([{"name": "_generation", "path": ".a"}]))),
        ("a path with a wildcard", "bad-path", fields(json!([{"name": "a", "path": ".status.list[*]"}]))),
        ("101 kinds", "too-many", list(101)),
        ("10,000 kinds", "far-too-many", list(10_000)),
        ("a value that is not one of the choices", "no-choice", params(r#"{"conflicts": "force"}"#)),
        ("a negative number", "no-number", params(r#"{"policyWaitSeconds": -1}"#)),
        (
            "`policiesToSync` and its old name",
            "both-names",
            params(r#"{"policiesToSync": [], "experimentalPolicySync": []}"#),
        ),
        ("an empty `downstreamClass`", "no-class", params(r#"{"downstreamClass": ""}"#)),
        ("a `downstreamClass` of this controller", "loop", params(r#"{"downstreamClass": "platform"}"#)),
        ("lists nested 200 deep", "deep", params(&format!("{}{}", "[".repeat(200), "]".repeat(200)))),
        ("a field without a path", "field-pathless", fields(json!([{"name": "a"}]))),
        ("a field that is a string", "field-text", fields(json!([".status.observedGeneration"]))),
        ("fields that are not a list", "fields-object", fields(json!({"name": "a", "path": ".a"}))),
        ("a field with an unknown key", "field-key", fields(json!([{"name": "a", "jsonPath": ".a"}]))),
        ("an unknown level", "merge-level", merge(json!({"level": "service"}))),
        (
            "overlapping paths of rules",
            "merge-rules",
            merge(json!({"level": "rule", "rules": [".limits", ".limits.night"]})),
        ),
        (
            "a path of rules with an index or a filter",
            "merge-path",
            merge(json!({"level": "rule", "rules": [".limits[0]"]})),
        ),
    ];
    cases.extend(VALUES.map(|(input, class, text)| (input, class, params(text))));
    cases
}

async fn refused(tenant: &Tenant<'_>, class: &str, data: Option<Value>) -> Result<(String, String)> {
    if let Some(data) = data {
        let metadata = json!({"name": class, "namespace": tenant.name()});
        tenant
            .apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}))
            .await?;
    }
    tenant.apply(&gateway_class(class, &tenant.controller_name(), Some((tenant.name(), class)))).await?;
    until_refused(tenant, class, "Accepted").await
}

/// A class whose `parametersRef` is `reference`.
fn referring(tenant: &Tenant<'_>, class: &str, reference: Value) -> Value {
    let mut class = gateway_class(class, &tenant.controller_name(), None);
    class["spec"]["parametersRef"] = reference;
    class
}

#[tokio::test]
async fn messages_for_invalid_parameters() -> Result<()> {
    let (tenant, controller, limits) = synced("platform").await?;
    let mut rows = Vec::new();
    for (input, class, data) in cases() {
        let (reason, message) = refused(&tenant, class, data).await?;
        rows.push(Row { input, place: PLACE, reason, message });
    }
    for (input, class, reference) in [
        (
            "`parametersRef` to another kind than ConfigMap",
            "other-kind",
            json!({"group": "", "kind": "Secret", "namespace": tenant.name(), "name": "params"}),
        ),
        (
            "`parametersRef` without a namespace",
            "no-namespace",
            json!({"group": "", "kind": "ConfigMap", "name": "params"}),
        ),
    ] {
        tenant.apply(&referring(&tenant, class, reference)).await?;
        let (reason, message) = until_refused(&tenant, class, "Accepted").await?;
        rows.push(Row { input, place: PLACE, reason, message });
    }
    syncs_changes(&tenant, &limits).await?;
    // The writes must end. On a busy hub, the policy's status may be written after `settled` returns.
    let (mut looks, mut before) = (3, tenant.settled(&controller).await?.len());
    loop {
        let writes = tenant.settled(&controller).await?;
        if writes.len() == before {
            break;
        }
        looks -= 1;
        ensure!(looks > 0, "writes do not end: {:?}", &writes[before..]);
        before = writes.len();
    }
    // Each class gets exactly one status write.
    let is_reported = |write: &Request| write.object().resource == "gatewayclasses" && write.code() == 200;
    let reported: Vec<Request> = tenant.writes(&controller)?.into_iter().filter(is_reported).collect();
    let names: BTreeSet<String> = reported.iter().map(|write| write.object().name).collect();
    ensure!(names.len() == reported.len(), "several status writes for one class: {reported:?}");
    holds("parameters", &rows)
}
