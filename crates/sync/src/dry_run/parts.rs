//! Plans the controller's parts of users' objects: the status of classes, the annotations of policies, and the metadata
//! and status of Gateways.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::change::Change;
use super::diagnostic::{Diagnostic, Regarding};
use super::snapshot::HubSnapshot;
use super::{Planned, keys, regarding};
use crate::desired::eligibility::{conflict, not_in_role, not_resolved};
use crate::rows::kind::Resolution;
use crate::status::class;
use crate::status::contest::Contest;
use crate::status::gateway::GatewayFold;
use crate::status::policy::Fold;
use crate::{ClassParams, Key, Settings, View, status};
use policy_sync_api::gateway::{self, GatewayStatus};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ObjectKey, Origin};

/// The changes of the status of this controller's classes.
pub(super) fn classes(hub: &HubSnapshot, now: Moment) -> Planned {
    let (mut changes, mut diagnostics) = Planned::default();
    keys(hub, now, |view, key| {
        let Key::Class(key) = key else { return };
        let regarding = Regarding::new(format_args!("GatewayClass {key}"));
        match view.class_params(&key.name) {
            Some(ClassParams::Invalid { fault, .. }) => {
                diagnostics.push(regarding.error(fault));
            }
            Some(ClassParams::Valid(params)) => {
                for (role, gvr) in params.all_listed() {
                    let unresolved = view.kind(&gvr).filter(|state| !state.resolution.fault().is_empty());
                    let problem = match unresolved {
                        _ if let Some(fault) = not_in_role(view, role, &gvr.kind) => {
                            Some(not_resolved(gvr, &Resolution::NotSyncable(fault)))
                        }
                        Some(state) => Some(not_resolved(gvr, &state.resolution)),
                        None => conflict(view, &gvr),
                    };
                    diagnostics.extend(problem.map(|problem| regarding.error(problem.text())));
                }
            }
            Some(ClassParams::Unread { .. }) | None => {}
        }
        if let (Some(class), Some(status)) = (view.class(key), class::plan(view, key)) {
            let ours = |condition: &&Condition| {
                status.conditions.iter().any(|planned| planned.type_ == condition.type_)
            };
            let before = conditions(key, class.conditions.iter().filter(ours));
            let after = conditions(key, &status.conditions);
            changes.push(Change::of_part("GatewayClass", key.clone(), before, after));
        }
    });
    (changes, diagnostics)
}

/// The GatewayClass `key` with these conditions. The times of conditions are omitted, because they are not compared.
fn conditions<'c>(key: &ObjectKey, conditions: impl IntoIterator<Item = &'c Condition>) -> Value {
    let condition = |condition: &Condition| {
        json!({
            "type": condition.type_, "status": condition.status, "reason": condition.reason,
            "message": condition.message, "observedGeneration": condition.observed_generation,
        })
    };
    let conditions: Vec<Value> = conditions.into_iter().map(condition).collect();
    json!({
        "apiVersion": format!("{}/v1", gateway::GROUP),
        "kind": "GatewayClass",
        "metadata": {"name": key.name},
        "status": {"conditions": conditions},
    })
}

/// The change of the metadata and status of a Gateway.
fn gateway(
    hub: &HubSnapshot,
    view: View<'_>,
    settings: &Settings,
    origin: &Origin,
) -> (Option<Change>, Option<Diagnostic>) {
    let key = origin.object();
    let GatewayFold { mut metadata, contest, status, .. } = status::gateway::plan(view, settings, key);
    let contest = contest.map(|(contest, _)| contest).filter(|contest| !is_ours(view, contest));
    if contest.is_some() {
        metadata = None;
    }
    let diagnostic = contest.map(|contest| contested(view, origin, &contest));
    let Some(there) = view.gateway(key).filter(|_| metadata.is_some() || status.is_some()) else {
        return (None, diagnostic);
    };
    let (mut before, mut after) = (gateway_named(key), gateway_named(key));
    if let Some(metadata) = metadata {
        before["metadata"]["labels"] = json!(there.fields.labels);
        before["metadata"]["annotations"] = json!(hub.annotations.get(origin));
        after["metadata"]["labels"] = json!(metadata.labels);
        after["metadata"]["annotations"] = json!(metadata.annotations);
    }
    if let Some(status) = status {
        before["status"] = timeless(&there.fields.status);
        after["status"] = timeless(&status);
    }
    (Some(Change::of_part("Gateway", key.clone(), before, after)), diagnostic)
}

fn gateway_named(key: &ObjectKey) -> Value {
    json!({
        "apiVersion": format!("{}/v1", gateway::GROUP),
        "kind": "Gateway",
        "metadata": {"name": key.name, "namespace": key.namespace},
    })
}

/// A status without the times of its conditions. These times are not compared.
fn timeless(status: &GatewayStatus) -> Value {
    let mut status = json!(status);
    let without = |conditions: &mut Value| {
        for condition in conditions.as_array_mut().into_iter().flatten() {
            condition.as_object_mut().map(|condition| condition.remove("lastTransitionTime"));
        }
    };
    without(&mut status["conditions"]);
    let listeners = status["listeners"].as_array_mut().into_iter().flatten();
    listeners.for_each(|listener| without(&mut listener["conditions"]));
    status
}

/// The changes of policies and Gateways, planned as if their works had been written.
pub(super) fn folds(hub: &HubSnapshot, settings: &Settings, now: Moment) -> Planned {
    let (mut changes, mut diagnostics) = Planned::default();
    keys(hub, now, |view, key| {
        let Key::Fold(origin) = key else { return };
        if let Origin::Gateway(_) = origin {
            let (change, diagnostic) = gateway(hub, view, settings, origin);
            changes.extend(change);
            diagnostics.extend(diagnostic);
            return;
        }
        let fold = match status::policy::plan(view, settings, origin).fold {
            Fold::Contested { contest, ours, .. } if is_ours(view, &contest) => *ours,
            fold => fold,
        };
        match fold {
            Fold::Settled => {}
            Fold::Contested { contest, .. } => diagnostics.push(contested(view, origin, &contest)),
            Fold::Write { gvr, kind, annotations, .. } => {
                let policy = |annotations: Value| {
                    json!({
                        "apiVersion": gvr.api_version(),
                        "kind": &*kind,
                        "metadata": {
                            "name": &origin.object().name, "namespace": &origin.object().namespace,
                            "annotations": annotations,
                        },
                    })
                };
                let before = hub.annotations.get(origin);
                let (before, after) = (policy(json!(before)), policy(json!(annotations)));
                changes.push(Change::of_part(&kind, origin.object().clone(), before, after));
            }
        }
    });
    changes.sort_by(|left, right| (&left.key, &left.kind).cmp(&(&right.key, &right.kind)));
    (changes, diagnostics)
}

/// Whether this controller wins the [`Contest`] even if all other controllers have works for the object. A dry run does
/// not read the works of other controllers.
fn is_ours(view: View<'_>, contest: &Contest) -> bool {
    contest.is_won_anyway(&view.controller().hub_field_manager())
}

fn contested(view: View<'_>, origin: &Origin, contest: &Contest) -> Diagnostic {
    regarding(view, origin).warning(contest.problem().text())
}
