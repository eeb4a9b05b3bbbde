//! Messages for invalid objects, found on a real hub and compared with the tables in
//! `docs/reference/bad-input`. Other objects are not affected.

mod gateways;
mod kinds;
mod overrides;
mod page;
mod parameters;
mod policies;
mod preferences;
mod secrets;
mod spokes;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use policy_sync_testenv::fixtures::gateway_class;
use policy_sync_testenv::tenant::{LIMIT, Tenant};
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use crate::limit_of;

/// The annotation with the message for the policy's owner.
const MESSAGE: &str = "kuadrant.io/policy-sync-message";

/// Waits until the condition of a class is `False`, and returns its reason and message.
async fn until_refused(tenant: &Tenant<'_>, class: &str, condition: &str) -> Result<(String, String)> {
    let class = gateway_class(class, &tenant.controller_name(), None);
    wait::until(&format!("{condition} of {} is False", class["metadata"]["name"]), LIMIT, || async {
        let class = tenant.get(&class).await?;
        let conditions = class.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|found| found["type"] == condition && found["status"] == "False");
        let found = found.with_context(|| format!("found {conditions:?}"))?;
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        Ok((text("reason"), text("message")))
    })
    .await
}

/// Waits for an Event on `object` with `part` in its note, and returns its reason and note.
pub(crate) async fn until_event(tenant: &Tenant<'_>, object: &Value, part: &str) -> Result<(String, String)> {
    let [namespace, name] =
        ["namespace", "name"].map(|field| object["metadata"][field].as_str().unwrap_or_default());
    let events: Api<Event> = Api::namespaced(tenant.client().clone(), namespace);
    let selector = ListParams::default().fields(&format!("involvedObject.name={name}"));
    wait::until(&format!("an Event for {name} contains {part:?}"), LIMIT, || async {
        let events = events.list(&selector).await?.items;
        let mut notes =
            events.iter().filter_map(|event| Some((event.reason.as_ref()?, event.message.as_ref()?)));
        let found = notes.find(|(_, note)| note.contains(part));
        let (reason, note) = found.with_context(|| format!("found {events:?}"))?;
        Ok((reason.clone(), note.clone()))
    })
    .await
}

/// Waits until the Gateway's `Accepted` has `part` in its message, and returns its reason and message.
async fn until_gateway_message(tenant: &Tenant<'_>, gateway: &Value, part: &str) -> Result<(String, String)> {
    wait::until(&format!("Accepted of {} contains {part:?}", gateway["metadata"]["name"]), LIMIT, || async {
        let found = serde_json::to_value(tenant.get(gateway).await?)?;
        let mut conditions = found["status"]["conditions"].as_array().into_iter().flatten();
        let accepted =
            conditions.find(|condition| condition["type"] == "Accepted").context("no condition Accepted")?;
        let text = |field: &str| accepted[field].as_str().unwrap_or_default().to_owned();
        ensure!(text("message").contains(part), "{accepted}");
        Ok((text("reason"), text("message")))
    })
    .await
}

/// Waits until the policy's annotation has a message, and returns it.
async fn until_message(tenant: &Tenant<'_>, policy: &Value) -> Result<String> {
    wait::until(&format!("{} has a message", policy["metadata"]["name"]), LIMIT, || async {
        tenant.annotations(policy).await?.remove(MESSAGE).context("no message")
    })
    .await
}

/// Waits until the policy's annotation has no message.
async fn until_no_message(tenant: &Tenant<'_>, policy: &Value) -> Result<()> {
    wait::until(&format!("{} has no message", policy["metadata"]["name"]), LIMIT, || async {
        let annotations = tenant.annotations(policy).await?;
        ensure!(!annotations.contains_key(MESSAGE), "found {annotations:?}");
        Ok(())
    })
    .await
}

/// Changes the policy and waits until the change is on `eu-1`, to show that invalid objects do not block it.
async fn syncs_changes(tenant: &Tenant<'_>, policy: &Value) -> Result<()> {
    let mut changed = policy.clone();
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(77);
    tenant.apply(&changed).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |work| limit_of(work) == 77).await?;
    until_no_message(tenant, policy).await
}
