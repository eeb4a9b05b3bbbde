//! The status of a GatewayClass of ours: whether its parameters are valid, and whether its kinds can be synced.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::names::ObjectKey;
use crate::api::params::Params;
use crate::api::text::capped;
use crate::sync::condition::{named, transition};
use crate::sync::desired::eligibility::{conflict, not_resolved};
use crate::sync::problem::{INVALID_PARAMETERS, PARAMETERS_UNREAD, TEXT_LIMIT};
use crate::sync::rows::kind::Resolution;
use crate::sync::{ClassParams, View};

/// A status to write.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassStatus {
    /// The class that was seen.
    pub uid: Arc<str>,
    /// Its conditions of ours, whole.
    pub conditions: Vec<Condition>,
}

/// Plans the status of the GatewayClass `key`: `None` where it already says what it should, or where that is not
/// known yet.
#[must_use]
pub fn plan(view: View<'_>, key: &ObjectKey) -> Option<ClassStatus> {
    let class = view.class(key)?;
    let wanted = match view.class_params(&key.name)? {
        ClassParams::Unread { fault: None, .. } => return None,
        ClassParams::Unread { fault: Some(fault), .. } => {
            let message = capped(&fault, TEXT_LIMIT).into_owned();
            [
                ("Accepted", "Unknown", PARAMETERS_UNREAD, message.clone()),
                ("PoliciesResolved", "Unknown", PARAMETERS_UNREAD, message),
            ]
        }
        ClassParams::Invalid { fault, .. } => {
            let message = capped(&fault.to_string(), TEXT_LIMIT).into_owned();
            [
                ("Accepted", "False", INVALID_PARAMETERS, message.clone()),
                ("PoliciesResolved", "Unknown", INVALID_PARAMETERS, message),
            ]
        }
        ClassParams::Valid(params) => {
            let (status, reason, message) = resolved(view, &params)?;
            [
                ("Accepted", "True", "Accepted", "the parameters are valid".to_owned()),
                ("PoliciesResolved", status, reason, message),
            ]
        }
    };
    let wanted = wanted.map(|(condition, status, reason, message)| Condition {
        type_: condition.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: Some(class.generation),
        last_transition_time: transition(&class.conditions, condition, status, view.now),
    });
    let settled = wanted.iter().all(|condition| class.conditions.contains(condition));
    (!settled).then(|| ClassStatus { uid: class.uid.clone(), conditions: wanted.into() })
}

fn resolved(view: View<'_>, params: &Params) -> Option<(&'static str, &'static str, String)> {
    let mut faults = Vec::new();
    for policy in &params.policies_to_sync {
        let gvr = policy.gvr();
        match &view.kind(&gvr) {
            Some(state) => match &state.resolution {
                Resolution::Resolved(info) => {
                    let conflict = conflict(view, &gvr);
                    if let Some(problem) = conflict {
                        faults.push((problem.category(), problem.text()));
                    } else if !info.can_patch {
                        let text =
                            format!("{gvr}: the controller may not patch it: its annotations are missing");
                        faults.push(("Forbidden", text));
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
        return Some(("True", "Resolved", format!("{} kinds are synced", params.policies_to_sync.len())));
    };
    Some(("False", reason, named(faults.iter().map(|(_, fault)| fault.clone()))))
}
