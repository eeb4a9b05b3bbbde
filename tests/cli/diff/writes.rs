//! The changes in `plan --diff` match the controller's writes.

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{https_gateway, rate_limit_policy, timeout_policy, tls_secret};
use policy_sync_testenv::tenant::{WorkReport, all_kinds};
use serde_json::json;

use super::{check_predicted_changes, edits, synced, tenant};

#[tokio::test]
async fn first_run_creates_everything_and_later_runs_only_changes() -> Result<()> {
    let tenant = tenant("diff-changes", &["eu-1", "us-1"]).await?;
    let mut limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    check_predicted_changes(
        &tenant,
        &[
            "change GatewayClass diff-changes",
            "create ManifestWork eu-1/access",
            "create ManifestWork eu-1/gateway-web",
            "create ManifestWork eu-1/ratelimitpolicy-limits",
            "create ManifestWork us-1/access",
            "create ManifestWork us-1/gateway-web",
            "create ManifestWork us-1/ratelimitpolicy-limits",
            "change RateLimitPolicy diff-changes/limits",
            "change Gateway diff-changes/web",
        ],
    )
    .await?;

    limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(20);
    tenant.apply(&limits).await?;
    let text = check_predicted_changes(
        &tenant,
        &[
            "change ManifestWork eu-1/ratelimitpolicy-limits",
            "change ManifestWork us-1/ratelimitpolicy-limits",
        ],
    )
    .await?;
    let edits = edits(&text.stdout);
    let (revisions, others): (Vec<_>, Vec<_>) =
        edits.iter().partition(|edit| edit.contains("kuadrant.io/revision"));
    let edited = |cluster: &str| {
        format!("change ManifestWork {cluster}/ratelimitpolicy-limits|- - limit: 10|+ - limit: 20")
    };
    let expected = ["eu-1", "us-1"].map(edited).join("|");
    ensure!(revisions.len() == 4, "{revisions:#?}");
    ensure!(others.iter().map(|edit| edit.as_str()).collect::<Vec<_>>().join("|") == expected, "{others:#?}");
    Ok(())
}

#[tokio::test]
async fn override_changes_only_its_cluster() -> Result<()> {
    let (tenant, limits) = synced("diff-overrides", &["eu-1", "us-1"]).await?;

    let patch = json!({"limits": {"all": {"rates": [{"limit": 5, "window": "10s"}]}}});
    let overrides = json!([{"clusterSelector": "region=us", "patch": patch}]).to_string();
    tenant
        .merge(&limits, &json!({"metadata": {"annotations": {"kuadrant.io/cluster-overrides": overrides}}}))
        .await?;
    let text = check_predicted_changes(&tenant, &["change ManifestWork us-1/ratelimitpolicy-limits"]).await?;
    let edits = edits(&text.stdout);
    ensure!(edits.iter().any(|edit| edit == "+ - limit: 5"), "{edits:#?}");
    Ok(())
}

#[tokio::test]
async fn changed_work_is_pending_until_it_is_reported_again() -> Result<()> {
    let tenant = tenant("diff-answers", &["eu-1"]).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let controller = tenant.controller().await?;
    let work = tenant.until_work("eu-1", "ratelimitpolicy-limits", |_| true).await?;
    tenant.report(&work, &WorkReport::applied()).await?;
    tenant.until_folded(&limits, |_, summary| summary.applied == 1).await?;
    tenant.settled(&controller).await?;
    controller.terminate().await?;

    // The copy and its revision stay the same; only the update strategy changes.
    let mut parameters = all_kinds();
    parameters["conflicts"] = json!("overwrite");
    tenant.parameters(&parameters).await?;
    let text = check_predicted_changes(
        &tenant,
        &[
            "change ManifestWork eu-1/gateway-web",
            "change ManifestWork eu-1/ratelimitpolicy-limits",
            "change RateLimitPolicy diff-answers/limits",
        ],
    )
    .await?;
    for edit in ["- - applied: true", "+ - applied: false", "+ pending: true", "- pending: 0", "+ pending: 1"]
    {
        ensure!(edits(&text.stdout).iter().any(|found| found == edit), "{edit}: {}", text.stdout);
    }
    Ok(())
}

#[tokio::test]
async fn deleted_policy_is_withdrawn_and_a_new_kind_extends_access() -> Result<()> {
    let (tenant, limits) = synced("diff-deletes", &["eu-1"]).await?;

    tenant.delete(&limits).await?;
    tenant.apply(&timeout_policy(tenant.name(), "timeouts", &["web"])).await?;
    let text = check_predicted_changes(
        &tenant,
        &[
            "change ManifestWork eu-1/access",
            "delete ManifestWork eu-1/ratelimitpolicy-limits",
            "create ManifestWork eu-1/timeoutpolicy-timeouts",
            "change TimeoutPolicy diff-deletes/timeouts",
        ],
    )
    .await?;
    for edit in ["- - ratelimitpolicies", "+ - timeoutpolicies"] {
        ensure!(edits(&text.stdout).iter().any(|found| found == edit), "{edit}: {}", text.stdout);
    }
    Ok(())
}

#[tokio::test]
async fn rotated_secret_is_shown_as_changed_without_contents() -> Result<()> {
    let tenant = tenant("diff-secrets", &["eu-1"]).await?;
    tenant.parameters(&json!({"tlsSecrets": "copy"})).await?;
    tenant.apply(&tls_secret(tenant.name(), "a", "first-key")).await?;
    let references = [json!({"name": "a"})];
    tenant.apply(&https_gateway(tenant.name(), "web", tenant.name(), &references)).await?;
    let controller = tenant.controller().await?;
    tenant.until_work("eu-1", "access", |_| true).await?;
    tenant.settled(&controller).await?;
    controller.terminate().await?;

    tenant.apply(&tls_secret(tenant.name(), "a", "second-key")).await?;
    let text = check_predicted_changes(&tenant, &["change ManifestWork eu-1/gateway-web"]).await?;
    let edits = edits(&text.stdout);
    let hidden = |sign: &str| format!("{sign} tls.key: <hidden, blake3 ");
    ensure!(
        edits.len() == 3 && edits[1].starts_with(&hidden("-")) && edits[2].starts_with(&hidden("+")),
        "{edits:#?}"
    );
    Ok(())
}

#[tokio::test]
async fn edits_by_others_are_reverted() -> Result<()> {
    let (tenant, limits) = synced("diff-edits", &["eu-1"]).await?;

    let work = serde_json::to_value(tenant.work("eu-1", "ratelimitpolicy-limits").await?)?;
    tenant.merge(&work, &json!({"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}})).await?;
    // The diff ignores fields of other writers.
    tenant.merge(&work, &json!({"metadata": {"labels": {"example.com/kept": "yes"}}})).await?;
    let summary = "kuadrant.io/policies-synced-summary";
    let written = tenant.annotations(&limits).await?[summary].clone();
    tenant
        .merge(&limits, &json!({"metadata": {"annotations": {summary: written.replace(',', ", ")}}}))
        .await?;
    let text = check_predicted_changes(
        &tenant,
        &["change ManifestWork eu-1/ratelimitpolicy-limits", "change RateLimitPolicy diff-edits/limits"],
    )
    .await?;
    let edits = edits(&text.stdout);
    ensure!(
        edits[1..3] == ["- propagationPolicy: Orphan", "+ propagationPolicy: SelectivelyOrphan"],
        "{edits:#?}"
    );
    // The diff shows a JSON value as it is written, even if only its formatting differs.
    ensure!(edits.len() == 6 && edits[5] == format!("+ {summary}: {}", json!(written)), "{edits:#?}");
    Ok(())
}
