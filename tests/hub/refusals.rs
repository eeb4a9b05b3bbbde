//! Works that an admission policy of the hub rejects: they are reported to the owner and do not block their
//! Gateway forever.

use anyhow::{Result, ensure};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::apply::api_for;
use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::tenant::{LIMIT, Tenant, rate_limit_policies};
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use crate::bad_input::until_event;
use crate::{ON_EU, limit_of, tenant};

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// A ValidatingAdmissionPolicy that denies `operation` on the works of the policy `policy`, and its binding.
fn nobody_may(tenant: &Tenant<'_>, operation: &str, policy: &str) -> [Value; 2] {
    let name = format!("{}-{}", tenant.name(), operation.to_lowercase());
    let is_meant = format!(
        "has(object.metadata.annotations) && 'kuadrant.io/parent' in object.metadata.annotations \
         && object.metadata.annotations['kuadrant.io/parent'].endsWith('/{}/{policy}')",
        tenant.name()
    );
    [
        json!({
            "apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["work.open-cluster-management.io"], "apiVersions": ["v1"],
                    "operations": [operation], "resources": ["manifestworks"],
                }]},
                "matchConditions": [{"name": "policy", "expression": is_meant}],
                "validations": [{"expression": "false", "message": format!("nobody may {operation}")}],
            },
        }),
        json!({
            "apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ]
}

/// Waits until the hub rejects a dry-run apply of the work `name` on `eu-1` for the policy `policy`.
async fn until_in_force(tenant: &Tenant<'_>, name: &str, policy: &str) -> Result<()> {
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {
            "name": name, "namespace": "eu-1",
            "annotations": {"kuadrant.io/parent": format!("ratelimitpolicies.kuadrant.io/{}/{policy}", tenant.name())},
        },
        "spec": {},
    });
    let (api, name): (Api<DynamicObject>, _) = api_for(tenant.client(), &work).await?;
    let params = PatchParams { dry_run: true, ..PatchParams::apply("test").force() };
    wait::until("the hub rejects the work", LIMIT, || async {
        let response = api.patch(&name, &params, &Patch::Apply(&work)).await;
        ensure!(matches!(&response, Err(kube::Error::Api(status)) if status.code == 422), "{response:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn denied_works_are_reported_and_do_not_block_their_gateway() -> Result<()> {
    let tenant = tenant("refused", &["eu-1"]).await?;
    let parameters = json!({
        "policiesToSync": [rate_limit_policies()], "policyWaitSeconds": 2, "policyWaitAction": "serve",
    });
    tenant.parameters(&parameters).await?;
    let denies_create = nobody_may(&tenant, "CREATE", "limits");
    for object in &denies_create {
        tenant.apply(object).await?;
    }
    until_in_force(&tenant, "unheard-of", "limits").await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let _controller = tenant.controller().await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web"]).await?;
    let (reason, note) = until_event(&tenant, &limits, "nobody may CREATE").await?;
    ensure!(
        reason == "WriteRefused" && note.starts_with("cannot create ManifestWork eu-1/"),
        "{reason}: {note}"
    );
    for object in &denies_create {
        tenant.delete(object).await?;
    }
    tenant.until_works(&ON_EU).await?;

    // The code 422 also means that a `test` of a JSON Patch has failed.
    let mut quota = rate_limit_policy(tenant.name(), "quota", "web");
    tenant.apply(&quota).await?;
    let work = tenant.until_work("eu-1", "ratelimitpolicy-quota", |_| true).await?;
    let denies_update = nobody_may(&tenant, "UPDATE", "quota");
    for object in &denies_update {
        tenant.apply(object).await?;
    }
    until_in_force(&tenant, work.metadata.name.as_deref().unwrap_or_default(), "quota").await?;
    quota["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(77);
    tenant.apply(&quota).await?;
    let (reason, note) = until_event(&tenant, &quota, "nobody may UPDATE").await?;
    ensure!(
        reason == "WriteRefused" && note.starts_with("cannot patch ManifestWork eu-1/"),
        "{reason}: {note}"
    );
    for object in &denies_update {
        tenant.delete(object).await?;
    }
    tenant
        .until_work("eu-1", "ratelimitpolicy-quota", |work: &ManifestWork| limit_of(work) == 77)
        .await
        .map(drop)
}
