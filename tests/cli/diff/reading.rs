//! `plan --diff` reports problems, and needs only the right to read.

use anyhow::{Result, ensure};
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::audit::requests_of;
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::{Tenant, wait};
use serde_json::{Value, json};

use super::{changes, diff, diff_as, tenant};

#[tokio::test]
async fn problems_are_named_and_freeze_nothing_else() -> Result<()> {
    let tenant = tenant("diff-problems", &["eu-1"]).await?;
    let mut limits = rate_limit_policy(tenant.name(), "limits", "web");
    limits["metadata"]["annotations"] = json!({"kuadrant.io/cluster-selector": "region in"});
    tenant.apply(&limits).await?;
    let none = json!({"group": "example.com", "version": "v1", "resource": "nonepolicies"});
    let limits = json!({"group": "kuadrant.io", "version": "v1", "resource": "ratelimitpolicies"});
    tenant.parameters(&json!({"policiesToSync": [limits, none]})).await?;
    let ran = diff(&tenant, &["-o", "json"]);
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
                "change Gateway diff-problems/web",
            ],
        "{ran:?}"
    );
    let yaml: Value = serde_saphyr::from_str(&diff(&tenant, &["-o", "yaml"]).stdout)?;
    ensure!(yaml == serde_json::from_str::<Value>(&ran.stdout)?, "{yaml}");
    Ok(())
}

/// Gives `user` the right to read these resources.
async fn allow(tenant: &Tenant<'_>, user: &str, resources: &[&str]) -> Result<()> {
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
    apply(tenant.client(), &role).await?;
    apply(tenant.client(), &binding).await.map(drop)
}

#[tokio::test]
async fn diff_needs_only_the_right_to_read_and_writes_nothing() -> Result<()> {
    let tenant = tenant("diff-reads", &["eu-1"]).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
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
    let kubeconfig = tenant.hub().kubeconfig_for(&user)?;
    for missing in needed {
        let others: Vec<&str> = needed.into_iter().filter(|resource| *resource != missing).collect();
        allow(&tenant, &user.name, &others).await?;
        // A changed role takes effect a moment later.
        let ran = wait::until(missing, LIMIT, || async {
            let ran = diff_as(&kubeconfig, &tenant, &[]);
            ensure!(ran.stderr.contains(&format!("resource \"{missing}\" in API group")), "{ran:?}");
            Ok(ran)
        })
        .await?;
        ensure!((ran.code, ran.stdout.as_str(), ran.stderr.lines().count()) == (2, "", 1), "{ran:?}");
        ensure!(ran.stderr.starts_with("policy-sync: cannot "), "{ran:?}");
    }
    allow(&tenant, &user.name, &needed).await?;
    let ran = wait::until("the user can read all resources", LIMIT, || async {
        let ran = diff_as(&kubeconfig, &tenant, &[]);
        ensure!(ran.code == 1, "{ran:?}");
        Ok(ran)
    })
    .await?;
    ensure!(ran.stdout == diff(&tenant, &[]).stdout, "{ran:?}");
    let requests = requests_of(tenant.hub(), &user.name)?;
    let writes: Vec<_> = requests.iter().filter(|request| request.is_write()).collect();
    ensure!(requests.len() > needed.len() && writes.is_empty(), "{writes:?}");
    Ok(())
}
