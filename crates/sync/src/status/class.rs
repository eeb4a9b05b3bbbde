//! The status of a GatewayClass: whether its parameters are valid, and whether its kinds can be synced.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::reason::{ClassAccepted, PoliciesResolved};
use crate::desired::eligibility::{conflict, not_in_role, not_resolved};
use crate::problem::TEXT_LIMIT;
use crate::rows::kind::{KindReason, Resolution};
use crate::{ClassParams, View};
use policy_sync_api::condition::condition;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::params::Params;
use policy_sync_api::text::{join_limited, truncate_bytes};

/// The status to write to a GatewayClass.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassStatus {
    /// The uid of the class for which this status was planned.
    pub uid: Arc<str>,
    /// The conditions that this controller owns.
    pub conditions: Vec<Condition>,
}

/// Plans the status of the GatewayClass `key`. `None` if the status is up to date, or if the parameters or kinds of the
/// class are not known yet.
#[must_use]
pub fn plan(view: View<'_>, key: &ObjectKey) -> Option<ClassStatus> {
    let class = view.class(key)?;
    let wanted = match view.class_params(&key.name)? {
        ClassParams::Unread { fault: None, .. } => return None,
        ClassParams::Unread { fault: Some(fault), .. } => {
            let message = truncate_bytes(&fault, TEXT_LIMIT).into_owned();
            planned_conditions(
                ClassAccepted::ParametersUnread,
                message.clone(),
                PoliciesResolved::ParametersUnread,
                message,
            )
        }
        ClassParams::Invalid { fault, .. } => {
            let message = truncate_bytes(&fault.to_string(), TEXT_LIMIT).into_owned();
            planned_conditions(
                ClassAccepted::InvalidParameters,
                message.clone(),
                PoliciesResolved::InvalidParameters,
                message,
            )
        }
        ClassParams::Valid(params) => {
            let (reason, message) = resolved(view, &params)?;
            let accepted = "the parameters are valid".to_owned();
            planned_conditions(ClassAccepted::Accepted, accepted, PoliciesResolved::Kinds(reason), message)
        }
    };
    let wanted = wanted.map(|(name, status_and_reason, message)| {
        condition(&class.conditions, name, status_and_reason, message, class.generation, view.now)
    });
    let settled = wanted.iter().all(|condition| class.conditions.contains(condition));
    (!settled).then(|| ClassStatus { uid: class.uid.clone(), conditions: wanted.into() })
}

type PlannedCondition = (&'static str, (&'static str, &'static str), String);

fn planned_conditions(
    accepted: ClassAccepted,
    of_parameters: String,
    resolved: PoliciesResolved,
    of_kinds: String,
) -> [PlannedCondition; 2] {
    [
        ("Accepted", accepted.status_and_reason(), of_parameters),
        ("PoliciesResolved", resolved.status_and_reason(), of_kinds),
    ]
}

fn resolved(view: View<'_>, params: &Params) -> Option<(KindReason, String)> {
    let (mut faults, mut kinds) = (Vec::new(), 0);
    for (role, gvr) in params.all_listed() {
        kinds += 1;
        if let Some(fault) = not_in_role(view, role, &gvr.kind) {
            faults.push((KindReason::NotSyncable, not_resolved(gvr, &Resolution::NotSyncable(fault)).text()));
            continue;
        }
        match &view.kind(&gvr) {
            Some(state) => match &state.resolution {
                Resolution::Resolved(info) => {
                    let conflict = conflict(view, &gvr);
                    if let Some(problem) = conflict {
                        faults.push((KindReason::VersionConflict, problem.text()));
                    } else if !info.can_patch {
                        let text = format!(
                            "{gvr}: the controller has no right to patch it, so it cannot write annotations"
                        );
                        faults.push((KindReason::Forbidden, text));
                    }
                }
                fault => {
                    faults.push((fault.reason(), not_resolved(gvr, fault).text()));
                }
            },
            None => return None,
        }
    }
    let Some((reason, _)) = faults.first() else {
        return Some((KindReason::Resolved, format!("{kinds} kinds are synced")));
    };
    Some((*reason, join_limited(faults.iter().map(|(_, fault)| fault.clone()))))
}
