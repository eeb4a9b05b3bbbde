//! Invalid clusters, works and agent feedback.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use policy_sync_api::names::{ControllerName, Origin, WorkName};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::fixtures::{namespace, rate_limit_policy, timeout_policy};
use policy_sync_testenv::tenant::WorkReport;
use serde_json::json;

use super::page::{Row, holds};
use super::{syncs_changes, until_event};
use crate::{synced, tenant};

fn silent(input: &'static str, place: &'static str) -> Row {
    Row { input, place, reason: String::new(), message: String::new() }
}

#[tokio::test]
async fn messages_for_invalid_clusters() -> Result<()> {
    let tenant = tenant("clusters", &["eu-1", "homeless-1", "unknown-1"]).await?;
    // `unknown-1` has a namespace but no ManagedCluster; `homeless-1` has neither.
    tenant.apply(&namespace("unknown-1")).await?;
    let _controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_work("unknown-1", "ratelimitpolicy-limits", |_| true).await?;
    let place = "Event on the policy and its Gateway; retried, the cluster is pending";
    let (reason, message) = until_event(&tenant, &limits, "homeless-1").await?;
    let (entries, summary) = tenant.until_folded(&limits, |entries, _| entries.len() == 3).await?;
    ensure!(entries.iter().all(|entry| entry.pending) && summary.pending == 3, "{entries:?}");
    let rows = [
        Row { input: "a placed cluster without a namespace on the hub", place, reason, message },
        silent(
            "a placed cluster without a ManagedCluster",
            "works are written; selectors match it as a cluster without labels",
        ),
    ];
    syncs_changes(&tenant, &limits).await?;
    holds("clusters", &rows)
}

#[tokio::test]
async fn messages_for_works_written_by_other_clients() -> Result<()> {
    let (tenant, controller, limits) = synced("works").await?;
    let ours = tenant.work("us-1", "ratelimitpolicy-limits").await?;
    let object = serde_json::to_value(&ours)?;
    tenant.merge(&object, &json!({"spec": {"workload": {"manifests": []}}})).await?;
    tenant.until_work("us-1", "ratelimitpolicy-limits", |work| work.spec == ours.spec).await?;
    tenant.delete(&object).await?;
    tenant
        .until_work("us-1", "ratelimitpolicy-limits", |work| work.metadata.uid != ours.metadata.uid)
        .await?;
    let nonsense = json!({"metadata": {"annotations": {"kuadrant.io/policies-synced": "nonsense"}}});
    tenant.merge(&limits, &nonsense).await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 2).await?;

    // Two foreign works with planned names. The first has the controller's labels, the second is outside the
    // controller's watch.
    controller.terminate().await?;
    let other = rate_limit_policy(tenant.name(), "other", "web");
    tenant.apply(&other).await?;
    let api: Api<ManifestWork> = Api::namespaced(tenant.client().clone(), "us-1");
    let mut theirs = ManifestWork::new(&ours.name_any(), Default::default());
    theirs.metadata.labels = ours.metadata.labels.clone();
    tenant.delete(&object).await?;
    let labelled = api.create(&PostParams::default(), &theirs).await?;
    let name = WorkName::planned(
        &ControllerName::new(&tenant.controller_name()),
        "RateLimitPolicy",
        &Origin::parse(&format!("ratelimitpolicies.kuadrant.io/{}/other", tenant.name()))
            .context("invalid origin")?,
    );
    let unlabelled =
        api.create(&PostParams::default(), &ManifestWork::new(&name.0, Default::default())).await?;
    let _controller = tenant.controller().await?;
    let message = super::until_message(&tenant, &limits).await?;
    let (reason, _) = until_event(&tenant, &limits, &message).await?;
    let (other_reason, other_message) = until_event(&tenant, &other, "of another owner").await?;
    for theirs in [labelled, unlabelled] {
        let after = api.get(&theirs.name_any()).await?;
        ensure!(
            after.metadata.resource_version == theirs.metadata.resource_version,
            "the controller changed a foreign work"
        );
    }
    let rows = [
        silent("an edited work of the controller", "restored"),
        silent("a deleted work of the controller", "created again"),
        silent("an edited annotation of the controller", "restored"),
        Row {
            input: "a work of the planned name by another client",
            place: "Event, annotation `kuadrant.io/policy-sync-message`; not changed, other clusters are synced",
            reason,
            message,
        },
        Row {
            input: "such a work without the labels that the controller watches",
            place: "Event; not changed, other clusters are synced",
            reason: other_reason,
            message: other_message,
        },
    ];
    let mut changed = limits.clone();
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(78);
    tenant.apply(&changed).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |work| crate::limit_of(work) == 78).await?;
    holds("works", &rows)
}

#[tokio::test]
async fn messages_for_invalid_feedback() -> Result<()> {
    let (tenant, controller, limits) = synced("answers").await?;
    let work = tenant.work("us-1", "ratelimitpolicy-limits").await?;
    let mut rows = Vec::new();
    let place = "the cluster's entry in `kuadrant.io/policies-synced`";
    let shown = |input, place, reason: &str, message: &str| Row {
        input,
        place,
        reason: reason.into(),
        message: message.into(),
    };

    tenant.report(&work, &WorkReport::refused("conflict with \"istioctl\" using v1: .spec.limits")).await?;
    let (entries, _) = tenant.until_folded(&limits, |entries, _| entries[1].message.is_some()).await?;
    rows.push(shown(
        "the agent rejects the copy",
        place,
        "",
        entries[1].message.as_deref().unwrap_or_default(),
    ));

    let odd = "quotes \" and ' and `, a\nnew line, \u{1b}[31mcontrol\u{0}, | and <script>";
    tenant.report(&work, &WorkReport::applied().condition("Enforced", "False", "Overridden", odd)).await?;
    let says = |text: &str| {
        let text = text.to_owned();
        move |entries: &[policy_sync_api::annotations::Synced], _: &_| {
            entries[1].conditions.iter().any(|condition| condition.message.as_deref() == Some(&*text))
        }
    };
    tenant.until_folded(&limits, says(odd)).await?;
    rows.push(silent(
        "quotes, line breaks, control characters and markup in a message",
        "shown unchanged, escaped as JSON; `status` on a terminal omits control characters",
    ));

    let long = "x".repeat(5_000);
    tenant.report(&work, &WorkReport::applied().condition("Enforced", "False", "Overridden", &long)).await?;
    tenant.until_folded(&limits, says(&"x".repeat(256))).await?;
    rows.push(silent(
        "a value of 5,000 characters",
        "truncated to 1,024 bytes, with `…`; to 256 characters in an entry over 1 KiB, which has `cut`",
    ));

    let twice = WorkReport::applied()
        .condition("Enforced", "False", "Overridden", "first")
        .condition("Enforced", "True", "Enforced", "second");
    let result = tenant.report(&work, &twice).await;
    if let Err(error) = &result {
        // An API server may reject a status with duplicate names. Then the controller has nothing to read.
        ensure!(format!("{error:#}").contains("Duplicate"), "{error:#}");
    } else {
        tenant.until_folded(&limits, says("second")).await?;
    }
    rows.push(silent("two values with the same name", "the last one is used"));

    tenant.report(&work, &WorkReport::applied().value("unasked", json!("x"))).await?;
    let (entries, _) = tenant.until_folded(&limits, |entries, _| entries[1].conditions.is_empty()).await?;
    ensure!(entries[1].fields.is_empty(), "{entries:?}");
    rows.push(silent("a value that no feedback rule requests", "ignored"));

    for write in tenant.writes(&controller)? {
        ensure!(!write.is_rejected(), "the hub rejected {write:?}");
    }
    syncs_changes(&tenant, &limits).await?;
    holds("answers", &rows)
}

#[tokio::test]
async fn messages_for_invalid_feedback_on_ancestors() -> Result<()> {
    let (tenant, controller, limits) = synced("ancestors").await?;
    let timeouts = timeout_policy(tenant.name(), "timeouts", &["web"]);
    tenant.apply(&timeouts).await?;
    let work = tenant.until_work("us-1", "timeoutpolicy-timeouts", |_| true).await?;
    let fine = "policy-sync/1 32:REVISION1:1";
    let message_with = |revision: &str, observed: &str| {
        let enforced = "8:Enforced4:True";
        let enforced = format!("{enforced}{}:{observed}8:Enforced", observed.len());
        let ancestor = format!("3:web0:1:c{}:{}:{enforced}", enforced.len() + 3, enforced.len());
        let length = ancestor.len();
        format!("{}{}:{length}:{ancestor}2:0:", fine.replace("REVISION", revision), length + 3)
    };
    let whole = message_with("REVISION", "1");
    let is_reported = |entries: &[policy_sync_api::annotations::Synced], pending: bool| {
        entries.len() == 2 && entries[1].applied && entries[1].pending == pending
    };
    let mut rows = Vec::new();
    for (input, evaluated, message) in [
        (
            "the rule fails, for example because a field has another type",
            "ConditionRuleEvaluated",
            "no such overload".into(),
        ),
        ("the rule is rejected", "ConditionRuleExpressionError", "undeclared reference to 'join'".into()),
        ("the condition has another reason", "ConditionRuleInvalid", whole.clone()),
        (
            "the value is longer or shorter than its length fields",
            "ConditionRuleEvaluated",
            format!("{whole}1:x"),
        ),
        (
            "the names exceed 16,384 characters",
            "ConditionRuleEvaluated",
            format!("{fine}{}", "20000:".to_owned() + &"x".repeat(16_400)),
        ),
        ("the result is for another revision", "ConditionRuleEvaluated", message_with(&"0".repeat(32), "1")),
        ("a condition is for another generation", "ConditionRuleEvaluated", message_with("REVISION", "7")),
    ] {
        // Valid feedback in between shows that recovery is immediate.
        tenant.report(&work, &WorkReport::applied().computed("ConditionRuleEvaluated", &whole)).await?;
        let (entries, _) = tenant.until_folded(&timeouts, |entries, _| is_reported(entries, false)).await?;
        ensure!(entries[1].conditions[0].message.as_deref() == Some("web (c)"), "{entries:?}");
        tenant.report(&work, &WorkReport::applied().computed(evaluated, &message)).await?;
        let (entries, _) = tenant.until_folded(&timeouts, |entries, _| is_reported(entries, true)).await?;
        ensure!(entries[1].conditions.is_empty(), "{entries:?}");
        // The rest of the message contains a hash that differs in each run.
        let note = entries[1].message.clone().unwrap_or_default();
        let note = if note.contains("policy-sync/1") {
            "the agent cannot report status.ancestors: policy-sync/1 …".into()
        } else {
            note
        };
        rows.push(Row { input, place: "the entry's `message`", reason: String::new(), message: note });
    }
    for row in rows.iter_mut().filter(|row| row.message.is_empty()) {
        row.place = "no message: the current result is missing";
    }
    for write in tenant.writes(&controller)? {
        ensure!(!write.is_rejected(), "the hub rejected {write:?}");
    }
    syncs_changes(&tenant, &limits).await?;
    holds("ancestors", &rows)
}
