//! The status of carriers: an annotation on a ConfigMap, in the format of kube-mgmt, or a condition of a
//! RegoPolicy. Plans the status, and builds the request that writes it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::PatchParams;
use kube::core::request;
use serde_json::{Value, json};

use super::denials::{UNCHECKED, affected};
use crate::rego_loading::key::CarrierKey;
use crate::rego_loading::rows::{Carrier, CarrierStatus, STATUS};
use crate::rego_loading::shared::{ServingState, WebhookProblem};
use crate::rego_loading::verdict::{NEW_MODULE_WAIT, Verdict, Verdicts};
use crate::rego_loading::view::View;
use policy_sync_api::condition::condition;
use policy_sync_api::moment::Moment;
use policy_sync_api::text::truncate_bytes;
use policy_sync_hub::reconcile::{apply, of_kind};
use policy_sync_rego::carrier::CarrierContents;
use policy_sync_rego::fault::{Fault, Faults};
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::queries::PLACEMENT;
use policy_sync_rego::selection::LoadOutcome;

/// The type of the condition on RegoPolicies.
pub(crate) const LOADED: &str = "Loaded";
/// Maximum size of a condition's message, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;
/// The maximum size of an annotation with warnings and notes, in bytes. In JSON, a control character may take six
/// bytes.
const MAX_ANNOTATION_BYTES: usize = 128 << 10;
/// The maximum number of warnings in an annotation. The maximum number of notes is the same. All annotations of an
/// object together are limited to 256 KiB.
const MAX_WARNINGS: usize = 20;
/// The combined state of a carrier's modules.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CarrierState {
    /// Faults of the modules or of the carrier.
    pub faults: Faults,
    /// Kinds or components that modules wait for.
    pub waiting_for: Vec<String>,
    /// Whether an earlier text is in force for each rejected or pending module.
    pub previous_in_force: bool,
    /// Whether data is missing because it cannot be parsed.
    pub data_is_missing: bool,
    /// The address of the external engine. The external engine evaluates its own Rego policies, not the modules of the
    /// carrier.
    pub external_engine: Option<Arc<str>>,
    /// Warnings; the modules are loaded nevertheless.
    pub warnings: Vec<Fault>,
    /// Conflicts between patches of the carrier's Rego policies and patches of older Rego policies.
    pub conflicts: Vec<Fault>,
    /// Notes for the owner of the carrier.
    pub notes: BTreeSet<String>,
}

/// The combined state of the modules of `carrier`. `None` if `carrier` has neither modules nor data, or if one of its
/// texts is not checked yet.
#[must_use]
pub(in crate::rego_loading) fn carrier_state(
    carrier: &Carrier,
    verdicts: &Verdicts,
    registered: &ServingState,
) -> Option<CarrierState> {
    let carried = carrier.carried.as_ref()?;
    let mut carrier_state = CarrierState { previous_in_force: true, ..CarrierState::default() };
    let (mut faults, mut more) = (carried.faults.clone(), 0);
    let is_module = |fault: &&Fault| carried.texts.iter().any(|text| text.id == fault.module);
    let is_loaded = |fault: &Fault| carried.data.keys().any(|path| path.join("/") == fault.module.as_str());
    carrier_state.data_is_missing =
        carried.faults.iter().filter(|fault| !is_module(fault)).any(|fault| !is_loaded(fault));
    carrier_state.warnings.extend(carried.ignored.iter().cloned());
    if let Some(external_engine) = verdicts.external_engine.as_ref().filter(|_| !carried.texts.is_empty()) {
        carrier_state.external_engine = Some(external_engine.clone());
        carrier_state.notes.insert(format!("not loaded: {external_engine} decides placement"));
    }
    for text in carried.texts.iter().filter(|_| verdicts.external_engine.is_none()) {
        let is_checked = |verdict: &&Verdict| {
            verdict.text == text.text && verdict.enforcement == carried.enforcement.as_ref().ok().copied()
        };
        let verdict = verdicts.modules.get(&text.id).filter(is_checked)?;
        carrier_state.add(verdict);
        if let Some(slow) = registered.slow.get(&text.id).filter(|slow| slow.is_in_force(&text.id, verdicts))
        {
            carrier_state.warnings.push(Fault::new(&text.id, None, &slow.why));
        }
        if let Some(conflict) = registered.conflicts.get(&text.id) {
            carrier_state.conflicts.push(Fault::new(&text.id, None, conflict));
        }
        if let LoadOutcome::Rejected { faults: found, .. } = &verdict.outcome {
            faults.extend(found.listed.iter().cloned());
            more += found.more;
        }
    }
    carrier_state.faults = Faults::new(faults);
    carrier_state.faults.more += more;
    match webhook_problem(carried, verdicts, registered) {
        Some(WebhookProblem { why, is_still_registered: true }) => {
            carrier_state.notes.insert(format!("its webhook registration cannot be updated: {why}"));
        }
        Some(WebhookProblem { why, is_still_registered: false }) => {
            carrier_state.previous_in_force &= !carrier_state.faults.is_empty();
            carrier_state.waiting_for.push(format!("its webhook registration ({why})"));
        }
        None => {}
    }
    if let Some(why) = &registered.opa_problem
        && in_force(carried, verdicts).next().is_some()
    {
        carrier_state.previous_in_force &= !carrier_state.faults.is_empty();
        carrier_state.waiting_for.push(format!("its upload to OPA ({why})"));
    }
    Some(carrier_state)
}

/// The problem with the webhook registration of the modules in force.
fn webhook_problem<'r>(
    carried: &CarrierContents,
    verdicts: &Verdicts,
    registered: &'r ServingState,
) -> Option<&'r WebhookProblem> {
    if verdicts.external_engine.is_some() && !carried.texts.is_empty() {
        return registered.packages.get(PLACEMENT)?.as_ref();
    }
    let mut packages =
        in_force(carried, verdicts).flat_map(|verdict| affected(verdicts, verdict.package.as_deref()));
    packages.find_map(|package| registered.packages.get(package)?.as_ref())
}

/// The verdicts of the modules in force.
fn in_force<'v>(carried: &CarrierContents, verdicts: &'v Verdicts) -> impl Iterator<Item = &'v Verdict> {
    let of = |text: &Text| verdicts.modules.get(&text.id).filter(|verdict| verdict.in_force.is_some());
    carried.texts.iter().filter_map(of)
}

impl CarrierState {
    fn add(&mut self, verdict: &Verdict) {
        self.notes.extend(verdict.notes.iter().cloned());
        match &verdict.outcome {
            LoadOutcome::Loaded => self.warnings.extend(verdict.advice.iter().cloned()),
            LoadOutcome::Pending(awaited) => {
                self.waiting_for.extend(awaited.iter().map(ToString::to_string));
                self.previous_in_force &= verdict.in_force.is_some();
            }
            LoadOutcome::Unchecked => {
                self.waiting_for.push(UNCHECKED.to_owned());
                self.previous_in_force &= verdict.in_force.is_some();
            }
            LoadOutcome::Rejected { .. } => self.previous_in_force &= verdict.in_force.is_some(),
        }
    }

    /// Whether all modules are loaded.
    #[must_use]
    pub(crate) fn is_ok(&self) -> bool {
        self.faults.is_empty() && self.waiting_for.is_empty()
    }

    /// One sentence about the faults, or about the dependencies for which the modules wait.
    fn message(&self) -> String {
        let what = if self.faults.is_empty() {
            let mut waiting_for = self.waiting_for.clone();
            waiting_for.dedup();
            format!("not in force yet: waits for {}", waiting_for.join(", "))
        } else {
            "rejected".to_owned()
        };
        let then = match (self.previous_in_force, self.faults.is_empty()) {
            (true, _) if self.data_is_missing => "it is not loaded into data",
            (true, _) => "the previous version stays in force",
            (false, true) => return what,
            (false, false) => "everything that it would evaluate is denied",
        };
        format!("{what}; {then}")
    }

    /// The annotation in the format of kube-mgmt.
    #[must_use]
    pub(crate) fn annotation(&self) -> String {
        let mut status = match self.is_ok() {
            true => json!({"status": "ok"}),
            false => {
                let message = self.message();
                let message = truncate_bytes(&message, MAX_MESSAGE_BYTES);
                json!({"status": "error", "error": {"message": message, "errors": entries(&self.faults.listed)}})
            }
        };
        if self.faults.more > 0 {
            status["error"]["more"] = self.faults.more.into();
        }
        let warnings: Vec<&Fault> = self.all_warnings().collect();
        if !warnings.is_empty() {
            status["warnings"] = entries(warnings.iter().copied().take(MAX_WARNINGS));
        }
        if warnings.len() > MAX_WARNINGS {
            status["moreWarnings"] = (warnings.len() - MAX_WARNINGS).into();
        }
        if !self.notes.is_empty() {
            status["notes"] = self.notes.iter().take(MAX_WARNINGS).cloned().collect();
        }
        let text = status.to_string();
        if text.len() <= MAX_ANNOTATION_BYTES {
            return text;
        }
        if let Some(status) = status.as_object_mut() {
            status.retain(|part, _| part != "warnings" && part != "notes");
        }
        status.to_string()
    }

    /// The condition of a RegoPolicy with this generation and the conditions `before`.
    #[must_use]
    pub(crate) fn condition(&self, generation: i64, before: &[Condition], now: Moment) -> Condition {
        let (status, reason) = match (self.faults.is_empty(), self.waiting_for.is_empty()) {
            (true, true) => ("True", "Loaded"),
            (true, false) => ("False", "Pending"),
            (false, _) => ("False", "Refused"),
        };
        let mut message = match &self.external_engine {
            _ if !self.is_ok() => self.message(),
            Some(_) => "evaluated by the external engine".to_owned(),
            None => "in force".to_owned(),
        };
        if !self.faults.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(message, "\n{}", self.faults.to_string().trim_end());
        }
        for warning in self.all_warnings() {
            let _ = write!(message, "\nwarning: {warning}");
        }
        for note in &self.notes {
            let _ = write!(message, "\n{note}");
        }
        let message = truncate_bytes(&message, MAX_MESSAGE_BYTES).into_owned();
        condition(before, LOADED, (status, reason), message, generation, now)
    }

    fn all_warnings(&self) -> impl Iterator<Item = &Fault> {
        self.warnings.iter().chain(&self.conflicts)
    }

    /// The note of the Event about conflicts with older Rego policies.
    #[must_use]
    pub(crate) fn conflict(&self) -> Option<String> {
        let texts: Vec<String> = self.conflicts.iter().map(ToString::to_string).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// The note of the Event about a rejection.
    #[must_use]
    pub(crate) fn note(&self) -> Option<String> {
        let first = self.faults.listed.first()?;
        let more = self.faults.listed.len() - 1 + self.faults.more;
        Some(match more {
            0 => format!("{}: {first}", self.message()),
            more => format!("{}: {first}, and {more} more", self.message()),
        })
    }
}

fn entries<'f>(faults: impl IntoIterator<Item = &'f Fault>) -> Value {
    let entry = |fault: &Fault| {
        let mut location = json!({"file": file(&fault.module)});
        if let Some(place) = fault.place {
            location["row"] = place.line.into();
            location["col"] = place.column.into();
        }
        json!({"message": fault.text, "location": location})
    };
    faults.into_iter().map(entry).collect()
}

/// The key in the ConfigMap. For a RegoPolicy, the whole module id.
fn file(id: &ModuleId) -> &str {
    id.as_str().splitn(3, '/').nth(2).unwrap_or(id.as_str())
}

/// The time at which the waiting modules of `key` are reported. Short waits are not reported.
#[must_use]
pub(in crate::rego_loading) fn status_due_at(
    view: View<'_>,
    verdicts: &Verdicts,
    registered: &ServingState,
    key: &CarrierKey,
) -> Option<Moment> {
    let carried = view.carrier(key)?.carried.as_ref()?;
    let modules = carried.texts.iter().filter_map(|text| verdicts.modules.get(&text.id));
    let waiting = modules.filter(|verdict| matches!(verdict.outcome, LoadOutcome::Pending(_)));
    let unserved = webhook_problem(carried, verdicts, registered).filter(|fault| !fault.is_still_registered);
    let opa_problem =
        registered.opa_problem.as_ref().filter(|_| in_force(carried, verdicts).next().is_some());
    let unserved = unserved.map(|_| ()).or(opa_problem.map(|_| ())).map(|()| registered.since);
    let since = waiting.map(|verdict| verdict.since).chain(unserved).max();
    since.map(|since| since.after(NEW_MODULE_WAIT)).filter(|at| *at > view.now)
}

/// The desired status of `key`; `None` if the present status must not change.
#[must_use]
pub(in crate::rego_loading) fn desired_status(
    view: View<'_>,
    verdicts: &Verdicts,
    registered: &ServingState,
    key: &CarrierKey,
) -> Option<(CarrierStatus, Option<CarrierState>)> {
    let carrier = view.carrier(key)?;
    if carrier.carried.is_none() {
        // The annotation is removed only if this controller wrote it, because another controller may also use the
        // ConfigMap.
        return carrier.status.is_ours.then(|| (CarrierStatus::default(), None));
    }
    if status_due_at(view, verdicts, registered, key).is_some() {
        return None;
    }
    let carrier_state = carrier_state(carrier, verdicts, registered)?;
    let status = if key.is_rego_policy() {
        let condition = carrier_state.condition(carrier.generation, &carrier.status.conditions, view.now);
        CarrierStatus { conditions: vec![condition], ..CarrierStatus::default() }
    } else {
        CarrierStatus { annotation: Some(carrier_state.annotation()), is_ours: true, conditions: Vec::new() }
    };
    let differs = status.annotation != carrier.status.annotation
        || status.conditions.iter().any(|condition| !carrier.status.conditions.contains(condition));
    differs.then_some((status, Some(carrier_state)))
}

/// A server-side apply of `status` to the carrier `key` with this uid.
///
/// # Errors
///
/// If the request cannot be built.
pub(in crate::rego_loading) fn status_request(
    manager: &str,
    key: &CarrierKey,
    uid: &str,
    status: &CarrierStatus,
) -> Result<Request<Vec<u8>>, request::Error> {
    let (api_version, kind) = key.type_meta();
    let mut metadata = json!({"name": key.0.name, "uid": uid});
    let params = PatchParams::apply(manager).force();
    let objects = of_kind(&key.gvr(), &key.0.namespace);
    if key.is_rego_policy() {
        let conditions = json!({"conditions": status.conditions});
        let body =
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "status": conditions});
        return objects.patch_subresource("status", &key.0.name, &params, &apply::body(&body)?);
    }
    metadata["namespace"] = (*key.0.namespace).into();
    if let Some(annotation) = &status.annotation {
        metadata["annotations"] = json!({STATUS: annotation});
    }
    let body = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    objects.patch(&key.0.name, &params, &apply::body(&body)?)
}

#[cfg(test)]
mod tests;
