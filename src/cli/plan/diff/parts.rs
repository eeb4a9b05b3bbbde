//! What the controller writes of users' objects: the status of classes, the annotations of policies.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::change::Change;
use super::read::Found;
use super::{Planned, keys, subject};
use crate::api::gateway;
use crate::api::names::ObjectKey;
use crate::cli::plan::remark::Subject;
use crate::mirror::{ClassParams, Key, Moment};
use crate::plan::fold::{self, Fold};
use crate::plan::{Settings, class};

/// The status of our classes.
pub(super) fn classes(found: &Found, now: Moment) -> Planned {
    let (mut changes, mut remarks) = Planned::default();
    keys(found, now, |view, key| {
        let Key::Class(key) = key else { return };
        let subject = Subject::on_hub(format_args!("GatewayClass {key}"));
        match view.class_params(&key.name) {
            Some(ClassParams::Invalid { place, error, .. }) => {
                remarks.push(subject.error(format!("{place}: {error}")));
            }
            Some(ClassParams::Valid(params)) => {
                for gvr in params.policies_to_sync.iter().map(|policy| policy.gvr()) {
                    let fault = view.kind(&gvr).map(|state| state.resolution.fault());
                    let fault = fault.unwrap_or("another GatewayClass lists another version");
                    if !fault.is_empty() {
                        remarks.push(subject.error(format!("{gvr}: {fault}")));
                    }
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
    (changes, remarks)
}

/// A class with these conditions, without their times: when something became so is no difference.
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

/// The annotations of policies, once their works are written.
pub(super) fn folds(found: &Found, settings: &Settings, now: Moment) -> Planned {
    let (mut changes, mut remarks) = Planned::default();
    keys(found, now, |view, key| {
        let Key::Fold(parent) = key else { return };
        match fold::plan(view, settings, parent).fold {
            Fold::Settled => {}
            Fold::OwnedBy(owners) => {
                let owners: Vec<&str> = owners.iter().map(|owner| &**owner).collect();
                let text = format!("its annotations are left alone: they are those of {}", owners.join(", "));
                remarks.push(subject(view, parent).warning(text));
            }
            Fold::Write { gvr, kind, annotations, .. } => {
                let policy = |annotations: Value| {
                    json!({
                        "apiVersion": gvr.api_version(),
                        "kind": &*kind,
                        "metadata": {
                            "name": parent.object.name, "namespace": parent.object.namespace,
                            "annotations": annotations,
                        },
                    })
                };
                let before = found.annotations.get(parent);
                let (before, after) = (policy(json!(before)), policy(json!(annotations)));
                changes.push(Change::of_part(&kind, parent.object.clone(), before, after));
            }
        }
    });
    changes.sort_by(|left, right| (&left.key, &left.kind).cmp(&(&right.key, &right.kind)));
    (changes, remarks)
}
