//! A controller without permission to list Secrets.

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::fixtures::{gateway, tls_secret};
use policy_sync_testenv::tenant::{LIMIT, Tenant};
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use super::{copying, until_secrets_in_work, web};
use crate::kinds::{cluster_role, grant, limited, limited_controller};

/// Sets the verbs that the tenant's limited user has on Secrets and ReferenceGrants.
async fn may_read(tenant: &Tenant<'_>, verbs: &[&str]) -> Result<()> {
    let name = format!("limited-{}-secrets", tenant.name());
    let rule =
        |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let rules = json!([rule("", "secrets"), rule("gateway.networking.k8s.io", "referencegrants")]);
    let user = format!("limited-{}", tenant.name());
    grant(tenant.client(), &user, &cluster_role(&name, &rules)).await
}

/// Waits until the condition `Accepted` of a Gateway is `<status> <reason>`, and returns its message.
pub(crate) async fn until_accepted(tenant: &Tenant<'_>, gateway: &Value, expected: &str) -> Result<String> {
    wait::until(&format!("Accepted is {expected}"), LIMIT, || async {
        let found = serde_json::to_value(tenant.get(gateway).await?)?;
        let mut conditions = found["status"]["conditions"].as_array().into_iter().flatten();
        let accepted =
            conditions.find(|condition| condition["type"] == "Accepted").context("no condition Accepted")?;
        let text = |field: &str| accepted[field].as_str().unwrap_or_default().to_owned();
        ensure!(format!("{} {}", text("status"), text("reason")) == expected, "{accepted}");
        Ok(text("message"))
    })
    .await
}

#[tokio::test]
async fn gateway_with_secrets_waits_for_permission_to_list_them() -> Result<()> {
    let tenant = copying("no-right").await?;
    tenant.apply(&gateway(tenant.name(), "plain", tenant.name(), Some("all"))).await?;
    tenant.apply(&tls_secret(tenant.name(), "a", "first")).await?;
    tenant.apply(&web(&tenant, &[json!({"name": "a"})])).await?;
    let user = limited(&tenant, &["get", "list", "watch", "patch"]).await?;
    let controller = limited_controller(&tenant, user.clone()).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-plain"]).await?;
    let message = until_accepted(&tenant, &web(&tenant, &[]), "False SecretsUnread").await?;
    let expected = "cannot determine which Secrets of its listeners may be copied: \
                    cannot list secrets: secrets is forbidden: ";
    ensure!(message.starts_with(expected), "{message}");
    let (code, ready) = controller.readiness().await?;
    ensure!(code == 200 && ready.contains("[!]secrets failing: secrets is forbidden"), "{code}: {ready}");
    let metrics = controller.metrics().await?;
    ensure!(metrics.problems("SecretsUnread") > 0.0, "{metrics}");

    may_read(&tenant, &["list", "watch"]).await?;
    until_secrets_in_work(&tenant, &["Secret kuadrant-no-right/a"]).await?;
    until_accepted(&tenant, &web(&tenant, &[]), "True Accepted").await?;

    // After a restart without the permission, the copies on the spoke are unchanged.
    let before = tenant.work("eu-1", "gateway-web").await?;
    controller.terminate().await?;
    may_read(&tenant, &["get"]).await?;
    let controller = limited_controller(&tenant, user).await?;
    until_accepted(&tenant, &web(&tenant, &[]), "False SecretsUnread").await?;
    tenant.settled(&controller).await?;
    let after = tenant.work("eu-1", "gateway-web").await?;
    ensure!(after.spec == before.spec, "{:?}", after.spec);
    // Known works can still be deleted.
    tenant.place("all", &[]).await?;
    tenant.until_works(&[]).await
}
