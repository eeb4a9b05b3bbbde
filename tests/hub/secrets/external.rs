//! The example in `docs/secrets.md`: each cluster gets an ExternalSecret with its own key of the store, and no Secret.

use anyhow::{Context, Result, ensure};
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::fixtures::{gateway, gateway_class, namespace};
use policy_sync_testenv::tenant::{Tenant, WorkReport};
use serde_json::{Value, json};

use super::{output_of, reads_of_secrets};
use crate::kinds::{
    apply_once_served, cluster_role, definition_of, grant, limited, limited_controller, until_resolved,
};
use crate::tenant;

const PAGE: &str = include_str!("../../../docs/secrets.md");

/// The object of this kind in the YAML blocks of the page.
fn on_page(kind: &str) -> Result<Value> {
    for block in PAGE.split("\n```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next()) {
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(block).with_context(|| format!("parsing {block}"))?;
        if let Some(object) = objects.into_iter().find(|object| object["kind"] == kind) {
            return Ok(object);
        }
    }
    anyhow::bail!("the page has no {kind}")
}

/// A CustomResourceDefinition with the fields of ExternalSecrets that the page uses. Other fields of the spec are errors.
fn definition() -> Value {
    let text = || json!({"type": "string"});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let template = object(
        json!({"type": text(), "metadata": object(json!({"labels": texts(), "annotations": texts()}))}),
    );
    let policies = json!({"type": "string", "enum": ["Owner", "Orphan", "Merge", "None"]});
    let mut remote = object(json!({"key": text(), "property": text()}));
    remote["required"] = json!(["key"]);
    let mut entry = object(json!({"secretKey": text(), "remoteRef": remote}));
    entry["required"] = json!(["secretKey", "remoteRef"]);
    let kinds = json!({"type": "string", "enum": ["SecretStore", "ClusterSecretStore"]});
    let spec = object(json!({
        "refreshInterval": text(),
        "secretStoreRef": object(json!({"name": text(), "kind": kinds})),
        "target": object(json!({"name": text(), "creationPolicy": policies, "template": template})),
        "data": {"type": "array", "items": entry},
    }));
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let versions = json!([{
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": object(json!({"spec": spec, "status": status}))},
    }]);
    definition_of("external-secrets.io", "ExternalSecret", "externalsecrets", &versions)
}

/// A user with the rights of a controller to AuthPolicies and the rights in the ClusterRole of the page.
async fn user_with_rights_of_the_page(tenant: &Tenant<'_>) -> Result<User> {
    let verbs = ["get", "list", "watch", "patch"];
    let user = limited(tenant, &verbs).await?;
    let rules = json!([{"apiGroups": ["kuadrant.io"], "resources": ["authpolicies"], "verbs": verbs}]);
    let own = cluster_role(&format!("{}-policies", tenant.name()), &rules);
    for role in [own, on_page("ClusterRole")?] {
        // The hub has no controller that aggregates roles.
        grant(tenant.client(), &user.name, &role).await?;
    }
    Ok(user)
}

fn copy(work: &ManifestWork) -> &Value {
    &work.spec.workload.manifests[1].0
}

/// A report with the condition `Ready`. Like the External Secrets Operator, it has no observed generation.
fn ready(status: &str, reason: &str) -> WorkReport {
    WorkReport::applied()
        .value("_Ready_status", status.into())
        .value("_Ready_reason", reason.into())
        .value("syncedVersion", "1-5f1c".into())
}

/// The output of the command on the page that begins with these words.
fn output_on_page(command: &str, tenant: &Tenant<'_>) -> Result<String> {
    let line = PAGE.lines().find_map(|line| line.strip_prefix(&format!("    policy-sync {command} ")));
    let arguments = line.with_context(|| format!("the page has no command {command}"))?;
    output_of(tenant, &[command].into_iter().chain(arguments.split(' ')).collect::<Vec<_>>(), &[])
}

#[tokio::test]
async fn documented_external_secret_has_a_key_for_each_cluster_and_no_secret_is_copied() -> Result<()> {
    let [parameters, policy, external] =
        [on_page("ConfigMap")?, on_page("AuthPolicy")?, on_page("ExternalSecret")?];
    let tenant = tenant("payments", &[]).await?;
    let placement = external["metadata"]["labels"][PLACEMENT_LABEL].as_str().context("no Placement")?;
    tenant.place(placement, &["eu-1", "us-1"]).await?;
    let mut web = gateway(tenant.name(), "web", tenant.name(), Some(placement));
    web["metadata"]["annotations"]["kuadrant.io/grace-timeout"] = "600".into();
    tenant.apply(&web).await?;
    let text = |field: &str| parameters["metadata"][field].as_str().unwrap_or_default();
    tenant.apply(&namespace(text("namespace"))).await?;
    tenant.apply(&parameters).await?;
    let class =
        gateway_class(tenant.name(), &tenant.controller_name(), Some((text("namespace"), text("name"))));
    tenant.apply(&class).await?;
    tenant.apply(&definition()).await?;
    // An operator on the hub would create this Secret.
    let contents = "the-key-of-the-hub";
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"api_key": contents},
        "metadata": {"name": external["metadata"]["name"], "namespace": tenant.name()},
    });
    tenant.apply(&secret).await?;
    tenant.apply(&policy).await?;
    apply_once_served(&tenant, &external).await?;

    let user = user_with_rights_of_the_page(&tenant).await?;
    let controller = limited_controller(&tenant, user).await?;
    until_resolved(&tenant, tenant.name(), "Resolved", "2 kinds are synced").await?;
    // The Gateway waits for its policy.
    for cluster in ["eu-1", "us-1"] {
        let work = tenant.until_work(cluster, "authpolicy-partners", |_| true).await?;
        tenant.report(&work, &WorkReport::applied()).await?;
    }
    let works = ["access", "authpolicy-partners", "externalsecret-partner-key", "gateway-web"];
    let on = |cluster: &'static str| works.map(|work| format!("{cluster}/{work}"));
    let until_works = async |expected: &[String]| {
        tenant.until_works(&expected.iter().map(String::as_str).collect::<Vec<_>>()).await
    };
    until_works(&[on("eu-1"), on("us-1")].concat()).await?;
    for (cluster, key) in [("eu-1", "eu/payments/partner"), ("us-1", "us/payments/partner")] {
        let has_key = |work: &ManifestWork| copy(work)["spec"]["data"][0]["remoteRef"]["key"] == key;
        let work = tenant.until_work(cluster, "externalsecret-partner-key", has_key).await?;
        check_references(copy(&work), &policy)?;
    }

    // Neither a Secret nor its contents are in a work, and the controller has not read any Secret.
    tenant.settled(&controller).await?;
    for work in tenant.works().await? {
        let mut kinds = work.spec.workload.manifests.iter().map(|manifest| &manifest.0["kind"]);
        ensure!(kinds.all(|kind| kind != "Secret"), "a work has a Secret: {work:?}");
        let text = serde_json::to_string(&work)?;
        ensure!(!text.contains(contents) && !text.contains("dGhlLWtleS1vZi10aGUtaHVi"), "{text}");
    }
    let reads = reads_of_secrets(&tenant, &controller)?;
    ensure!(reads.is_empty(), "{reads:?}");

    for (cluster, report) in
        [("eu-1", ready("True", "SecretSynced")), ("us-1", ready("False", "SecretSyncedError"))]
    {
        let work = tenant.work(cluster, "externalsecret-partner-key").await?;
        tenant.report(&work, &report).await?;
    }
    let is_reported = |entry: &policy_sync_api::annotations::Synced| {
        entry.fields.get("syncedVersion").is_some_and(|version| version == "1-5f1c")
    };
    tenant
        .until_folded(&external, |entries, _| entries.iter().filter(|entry| is_reported(entry)).count() == 2)
        .await?;
    let output = output_on_page("status", &tenant)?;
    let row = |cluster: &str| output.lines().find(|line| line.contains(cluster)).unwrap_or_default();
    ensure!(row("eu-1").contains("Accepted") && row("us-1").contains("NotEnforced"), "{output}");

    // The ExternalSecret leaves a cluster at once, while the Gateway and its policy stay for the grace period.
    tenant.place(placement, &["eu-1"]).await?;
    let rest = on("us-1").into_iter().filter(|work| !work.contains("externalsecret"));
    until_works(&on("eu-1").into_iter().chain(rest).collect::<Vec<_>>()).await
}

/// Checks that an ExternalSecret refers to the SecretStore on the page, and that the Secret that it describes contains a
/// key for the policy.
fn check_references(copy: &Value, policy: &Value) -> Result<()> {
    let store = on_page("SecretStore")?;
    ensure!(copy["metadata"]["namespace"] == store["metadata"]["namespace"], "{copy}");
    let reference = &copy["spec"]["secretStoreRef"];
    ensure!(reference["kind"] == store["kind"] && reference["name"] == store["metadata"]["name"], "{copy}");
    let key = &policy["spec"]["rules"]["authentication"]["partners"]["apiKey"];
    ensure!(key["allNamespaces"] == true, "{policy}");
    let labels = &copy["spec"]["target"]["template"]["metadata"]["labels"];
    let selected = key["selector"]["matchLabels"].as_object().context("the policy selects no labels")?;
    ensure!(
        !selected.is_empty() && selected.iter().all(|(label, value)| labels[label] == *value),
        "{labels}"
    );
    ensure!(labels["authorino.kuadrant.io/managed-by"] == "authorino", "{labels}");
    Ok(())
}
