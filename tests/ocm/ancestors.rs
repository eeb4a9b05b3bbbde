//! Policies with a status for each target Gateway (`status.ancestors`), which the agent evaluates by a
//! condition rule.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{Patch, PatchParams};
use policy_sync_api::annotations::{Summary, Synced};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::fixtures::timeout_policy;
use policy_sync_testenv::{Fleet, FleetOptions, Tenant};
use serde_json::{Value, json};

use crate::{downstream, tenant, until_copied};

/// The conditions, sorted by type: `Enforced=True/Enforced web (example.com/timeouts): …`.
fn condition_texts(entry: &Synced) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let conditions = entry.conditions.iter();
    conditions
        .map(|condition| {
            format!(
                "{}={}/{} {}",
                condition.condition_type,
                condition.status,
                text(&condition.reason),
                text(&condition.message)
            )
        })
        .collect()
}

#[tokio::test]
async fn worst_status_of_several_controllers_is_reported() -> Result<()> {
    let (tenant, fleet) = tenant("voices", &["eu-1"]).await?;
    let controller = tenant.controller().await?;
    let timeouts = timeout_policy(tenant.name(), "timeouts", &["web"]);
    tenant.apply(&timeouts).await?;
    let (entries, _) =
        tenant.until_folded(&timeouts, |_, summary| summary.enforced == 1 && summary.pending == 0).await?;
    let expected = [
        "Accepted=True/Accepted web (example.com/audit) and 1 more: TimeoutPolicy has been accepted",
        "Enforced=True/Enforced web (example.com/timeouts): TimeoutPolicy has been successfully enforced",
    ];
    ensure!(condition_texts(&entries[0]) == expected, "{entries:?}");
    tenant.settled(&controller).await?;

    let spoke = fleet.spoke("eu-1")?.client()?;
    let mut local = downstream(&timeouts);
    local["metadata"]["name"] = "local".into();
    apply(&spoke, &local).await?;
    let (entries, _) =
        tenant.until_folded(&timeouts, |_, summary| summary.overridden == 1 && summary.enforced == 0).await?;
    let overridden = "Enforced=False/Overridden web (example.com/timeouts): Policy is overridden by \
                      [kuadrant-voices/local]";
    ensure!(condition_texts(&entries[0])[1] == overridden, "{entries:?}");
    let (api, name) = api_for(&spoke, &local).await?;
    api.delete(&name, &Default::default()).await?;
    tenant.until_folded(&timeouts, |_, summary| summary.enforced == 1).await?;
    tenant.settled(&controller).await.map(drop)
}

/// An ancestor status, as a policy controller on the spoke writes it.
fn ancestor_status(controller: &str, gateway: &str, enforced: (&str, &str, &str), observed: i64) -> Value {
    let (status, reason, message) = enforced;
    json!({
        "ancestorRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": gateway},
        "controllerName": controller,
        "conditions": [{
            "type": "Enforced", "status": status, "reason": reason, "message": message,
            "observedGeneration": observed, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    })
}

struct CopiedTimeouts<'w> {
    tenant: Tenant<'w>,
    spoke: Client,
    timeouts: Value,
}

impl CopiedTimeouts<'_> {
    /// Sets `status.ancestors` of the copy.
    async fn status(&self, ancestors: Value) -> Result<()> {
        let (api, name) = api_for(&self.spoke, &downstream(&self.timeouts)).await?;
        let patch = Patch::Merge(json!({"status": {"ancestors": ancestors}}));
        api.patch_status(&name, &PatchParams::default(), &patch).await.context("patching the status")?;
        Ok(())
    }

    async fn until(&self, fits: impl Fn(&Synced) -> bool) -> Result<Synced> {
        let fits = |entries: &[Synced], _: &Summary| entries.len() == 1 && fits(&entries[0]);
        Ok(self.tenant.until_folded(&self.timeouts, fits).await?.0.remove(0))
    }

    async fn until_conditions(&self, expected: &str) -> Result<()> {
        self.until(|entry| !entry.pending && condition_texts(entry) == [expected]).await.map(drop)
    }

    async fn until_pending(&self) -> Result<Synced> {
        let entry = self.until(|entry| entry.applied && entry.pending).await?;
        ensure!(entry.conditions.is_empty(), "{entry:?}");
        Ok(entry)
    }
}

#[tokio::test]
async fn any_ancestor_status_is_reported_or_marked_as_pending() -> Result<()> {
    let fleet =
        Fleet::start(FleetOptions { policy_controllers: false, ..FleetOptions::spokes(["eu-1"]) }).await?;
    let binary = Path::new(env!("CARGO_BIN_EXE_policy-sync"));
    let tenant = Tenant::new(fleet.hub(), binary, "odd", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    let mut copied =
        CopiedTimeouts { timeouts: timeout_policy(tenant.name(), "timeouts", &["web"]), tenant, spoke };
    copied.tenant.apply(&copied.timeouts).await?;
    until_copied(&copied.spoke, &copied.timeouts, |_| true).await?;
    // No controller has written a status yet.
    copied.until(|entry| entry.applied && !entry.pending && entry.conditions.is_empty()).await?;

    let fine = || ancestor_status("example.com/a", "web", ("True", "Enforced", "fine"), 1);
    copied.status(json!([fine()])).await?;
    copied.until_conditions("Enforced=True/Enforced web (example.com/a): fine").await?;

    // The status has a Gateway that the hub did not place on the spoke, and a target that is not a Gateway.
    let mut service = ancestor_status("example.com/a", "web", ("False", "No", "of a Service"), 1);
    service["ancestorRef"]["kind"] = "Service".into();
    let theirs = ancestor_status("example.com/a", "theirs", ("False", "No", "of theirs"), 1);
    let unsure = ancestor_status("example.com/b", "web", ("Unknown", "Soon", "wait"), 1);
    copied.status(json!([theirs, service, fine(), unsure])).await?;
    copied.until_conditions("Enforced=Unknown/Soon web (example.com/b): wait").await?;

    let long = "ü".repeat(40_000);
    copied
        .status(json!([ancestor_status("example.com/a", "web", ("False", "Long", &long), 1), fine()]))
        .await?;
    let cut = copied
        .until(|entry| condition_texts(entry).iter().any(|condition| condition.contains("/Long ")))
        .await?;
    ensure!(!cut.pending && cut.cut && condition_texts(&cut)[0].ends_with("üü"), "{cut:?}");

    // A message that imitates the agent's own format, with everything enforced.
    let lie = "policy-sync/1 1:r1:166:63:3:web0:1:a51:46:8:Enforced4:True1:18:Enforced8:0:";
    copied.status(json!([ancestor_status("example.com/a", "web", ("False", "Lie", lie), 1)])).await?;
    copied.until_conditions(&format!("Enforced=False/Lie web (example.com/a): {lie}")).await?;

    // A condition for an older generation beside a condition for the current generation.
    copied.status(json!([ancestor_status("example.com/b", "web", ("True", "Old", ""), 0), fine()])).await?;
    copied.until_pending().await?;
    copied.status(json!([fine()])).await?;
    copied.until_conditions("Enforced=True/Enforced web (example.com/a): fine").await?;

    let mut odd = fine();
    odd["ancestorRef"]["sectionName"] = 5.into();
    copied.status(json!([fine(), odd])).await?;
    let entry = copied.until_pending().await?;
    let message = entry.message.as_deref().unwrap_or_default();
    ensure!(message.starts_with("the agent cannot report status.ancestors: "), "{message}");
    copied.status(json!([fine()])).await?;
    copied.until_conditions("Enforced=True/Enforced web (example.com/a): fine").await?;

    // The status has more ancestors than fit into a message.
    let long = "c".repeat(250);
    let many: Vec<Value> =
        (0..60).map(|n| ancestor_status(&format!("{long}{n}"), "web", ("True", "Enforced", ""), 1)).collect();
    copied.status(json!(many)).await?;
    let entry = copied.until_pending().await?;
    let message = entry.message.as_deref().unwrap_or_default();
    ensure!(message == "status.ancestors is too large for the agent's report", "{message}");
    copied.status(json!([fine()])).await?;
    copied.until_conditions("Enforced=True/Enforced web (example.com/a): fine").await?;

    // The copy changes while its status is still for the old generation; then the agent stops.
    copied.timeouts["spec"]["request"] = "9s".into();
    copied.tenant.apply(&copied.timeouts).await?;
    until_copied(&copied.spoke, &copied.timeouts, |copy| copy.data["spec"]["request"] == "9s").await?;
    copied.until_pending().await?;
    let fine = || ancestor_status("example.com/a", "web", ("True", "Enforced", "again"), 2);
    copied.status(json!([fine()])).await?;
    copied.until_conditions("Enforced=True/Enforced web (example.com/a): again").await?;
    fleet.spoke("eu-1")?.stop_agent().await;
    copied.timeouts["spec"]["request"] = "12s".into();
    copied.tenant.apply(&copied.timeouts).await?;
    copied.until(|entry| !entry.applied && entry.pending && entry.conditions.is_empty()).await?;
    fleet.spoke("eu-1")?.start_agent().await?;
    copied.until_pending().await?;
    copied
        .status(json!([ancestor_status("example.com/a", "web", ("True", "Enforced", "at last"), 3)]))
        .await?;
    copied.until_conditions("Enforced=True/Enforced web (example.com/a): at last").await
}
