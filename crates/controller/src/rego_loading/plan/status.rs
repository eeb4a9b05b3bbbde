//! The status of carriers: an annotation on a ConfigMap, in the format of kube-mgmt, or a condition of a
//! RegoPolicy.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::denials::{UNCHECKED, affected};
use crate::rego_loading::key::CarrierKey;
use crate::rego_loading::rows::{Carrier, CarrierStatus};
use crate::rego_loading::shared::{Registered, Unregistered};
use crate::rego_loading::verdict::{MOMENT, Verdict, Verdicts};
use crate::rego_loading::view::View;
use policy_sync_api::condition::condition;
use policy_sync_api::moment::Moment;
use policy_sync_api::text::capped;
use policy_sync_rego::asked::PLACEMENT;
use policy_sync_rego::carrier::Carried;
use policy_sync_rego::fault::{Fault, Faults};
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::settle::Outcome;

/// The type of the condition.
pub(crate) const LOADED: &str = "Loaded";
/// Maximum size of a condition's message, in bytes.
const MESSAGE: usize = 16 * 1024;
/// The maximum size of an annotation with warnings and notes, in bytes. A control character may take six.
const ANNOTATION: usize = 128 << 10;
/// The maximum number of warnings, and of notes, in an annotation: all annotations of an object together have a limit of 256 KiB.
const WARNINGS: usize = 20;
/// The combined state of a carrier's modules.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fare {
    /// Faults of the modules or of the carrier.
    pub faults: Faults,
    /// Kinds or components that modules wait for.
    pub waits: Vec<String>,
    /// Whether each rejected or pending module has an earlier text in force.
    pub good_stays: bool,
    /// Whether data is missing because it cannot be parsed.
    pub data_is_missing: bool,
    /// The address of the external engine that decides instead of the texts.
    pub elsewhere: Option<Arc<str>>,
    /// Warnings; the modules are loaded nevertheless.
    pub warnings: Vec<Fault>,
    /// Conflicts between patches of these Rego policies and older ones.
    pub conflicts: Vec<Fault>,
    /// Information for the owner.
    pub notes: BTreeSet<String>,
}

/// The combined state of the modules of `carrier`; `None` if it carries nothing, or a text is not checked
/// yet.
#[must_use]
pub(in crate::rego_loading) fn fare(
    carrier: &Carrier,
    verdicts: &Verdicts,
    registered: &Registered,
) -> Option<Fare> {
    let carried = carrier.carried.as_ref()?;
    let mut fare = Fare { good_stays: true, ..Fare::default() };
    let (mut faults, mut more) = (carried.faults.clone(), 0);
    let is_module = |fault: &&Fault| carried.texts.iter().any(|text| text.id == fault.module);
    let is_there = |fault: &Fault| carried.data.keys().any(|path| path.join("/") == fault.module.as_str());
    fare.data_is_missing =
        carried.faults.iter().filter(|fault| !is_module(fault)).any(|fault| !is_there(fault));
    fare.warnings.extend(carried.ignored.iter().cloned());
    if let Some(elsewhere) = verdicts.elsewhere.as_ref().filter(|_| !carried.texts.is_empty()) {
        fare.elsewhere = Some(elsewhere.clone());
        fare.notes.insert(format!("not loaded: {elsewhere} decides placement"));
    }
    for text in carried.texts.iter().filter(|_| verdicts.elsewhere.is_none()) {
        let is_judged = |verdict: &&Verdict| {
            verdict.text == text.text && verdict.enforcement == carried.enforcement.as_ref().ok().copied()
        };
        let verdict = verdicts.modules.get(&text.id).filter(is_judged)?;
        fare.add(verdict);
        if let Some(slow) = registered.slow.get(&text.id).filter(|slow| slow.counts(&text.id, verdicts)) {
            fare.warnings.push(Fault::new(&text.id, None, &slow.why));
        }
        if let Some(conflict) = registered.conflicts.get(&text.id) {
            fare.conflicts.push(Fault::new(&text.id, None, conflict));
        }
        if let Outcome::Refused { faults: found, .. } = &verdict.outcome {
            faults.extend(found.told.iter().cloned());
            more += found.more;
        }
    }
    fare.faults = Faults::new(faults);
    fare.faults.more += more;
    match unregistered(carried, verdicts, registered) {
        Some(Unregistered { why, is_asked: true }) => {
            fare.notes.insert(format!("its webhook registration cannot be updated: {why}"));
        }
        Some(Unregistered { why, is_asked: false }) => {
            fare.good_stays &= !fare.faults.is_empty();
            fare.waits.push(format!("its webhook registration ({why})"));
        }
        None => {}
    }
    if let Some(why) = &registered.unfilled
        && in_force(carried, verdicts).next().is_some()
    {
        fare.good_stays &= !fare.faults.is_empty();
        fare.waits.push(format!("its upload to OPA ({why})"));
    }
    Some(fare)
}

/// The problem with the webhook registration of the modules in force.
fn unregistered<'r>(
    carried: &Carried,
    verdicts: &Verdicts,
    registered: &'r Registered,
) -> Option<&'r Unregistered> {
    if verdicts.elsewhere.is_some() && !carried.texts.is_empty() {
        return registered.packages.get(PLACEMENT)?.as_ref();
    }
    let mut asked =
        in_force(carried, verdicts).flat_map(|verdict| affected(verdicts, verdict.package.as_deref()));
    asked.find_map(|package| registered.packages.get(package)?.as_ref())
}

/// The verdicts of the modules in force.
fn in_force<'v>(carried: &Carried, verdicts: &'v Verdicts) -> impl Iterator<Item = &'v Verdict> {
    let of = |text: &Text| verdicts.modules.get(&text.id).filter(|verdict| verdict.in_force.is_some());
    carried.texts.iter().filter_map(of)
}

impl Fare {
    fn add(&mut self, verdict: &Verdict) {
        self.notes.extend(verdict.notes.iter().cloned());
        match &verdict.outcome {
            Outcome::Loaded => self.warnings.extend(verdict.advice.iter().cloned()),
            Outcome::Pending(awaited) => {
                self.waits.extend(awaited.iter().map(ToString::to_string));
                self.good_stays &= verdict.in_force.is_some();
            }
            Outcome::Unchecked => {
                self.waits.push(UNCHECKED.to_owned());
                self.good_stays &= verdict.in_force.is_some();
            }
            Outcome::Refused { .. } => self.good_stays &= verdict.in_force.is_some(),
        }
    }

    /// Whether all modules are loaded.
    #[must_use]
    pub(crate) fn is_ok(&self) -> bool {
        self.faults.is_empty() && self.waits.is_empty()
    }

    /// One sentence about the faults or the waiting.
    fn message(&self) -> String {
        let what = if self.faults.is_empty() {
            let mut waits = self.waits.clone();
            waits.dedup();
            format!("not in force yet: waits for {}", waits.join(", "))
        } else {
            "rejected".to_owned()
        };
        let then = match (self.good_stays, self.faults.is_empty()) {
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
                let message = capped(&message, MESSAGE);
                json!({"status": "error", "error": {"message": message, "errors": entries(&self.faults.told)}})
            }
        };
        if self.faults.more > 0 {
            status["error"]["more"] = self.faults.more.into();
        }
        let warnings: Vec<&Fault> = self.told_as_warnings().collect();
        if !warnings.is_empty() {
            status["warnings"] = entries(warnings.iter().copied().take(WARNINGS));
        }
        if warnings.len() > WARNINGS {
            status["moreWarnings"] = (warnings.len() - WARNINGS).into();
        }
        if !self.notes.is_empty() {
            status["notes"] = self.notes.iter().take(WARNINGS).cloned().collect();
        }
        let text = status.to_string();
        if text.len() <= ANNOTATION {
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
        let (status, reason) = match (self.faults.is_empty(), self.waits.is_empty()) {
            (true, true) => ("True", "Loaded"),
            (true, false) => ("False", "Pending"),
            (false, _) => ("False", "Refused"),
        };
        let mut message = match &self.elsewhere {
            _ if !self.is_ok() => self.message(),
            Some(_) => "evaluated by the external engine".to_owned(),
            None => "in force".to_owned(),
        };
        if !self.faults.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(message, "\n{}", self.faults.to_string().trim_end());
        }
        for warning in self.told_as_warnings() {
            let _ = write!(message, "\nwarning: {warning}");
        }
        for note in &self.notes {
            let _ = write!(message, "\n{note}");
        }
        let message = capped(&message, MESSAGE).into_owned();
        condition(before, LOADED, (status, reason), message, generation, now)
    }

    fn told_as_warnings(&self) -> impl Iterator<Item = &Fault> {
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
        let first = self.faults.told.first()?;
        let more = self.faults.told.len() - 1 + self.faults.more;
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

/// The key in the ConfigMap; for a RegoPolicy, the whole module id.
fn file(id: &ModuleId) -> &str {
    id.as_str().splitn(3, '/').nth(2).unwrap_or(id.as_str())
}

/// When a waiting module of `key` is reported. Short waits are not reported.
#[must_use]
pub(in crate::rego_loading) fn status_due(
    view: View<'_>,
    verdicts: &Verdicts,
    registered: &Registered,
    key: &CarrierKey,
) -> Option<Moment> {
    let carried = view.carrier(key)?.carried.as_ref()?;
    let modules = carried.texts.iter().filter_map(|text| verdicts.modules.get(&text.id));
    let waiting = modules.filter(|verdict| matches!(verdict.outcome, Outcome::Pending(_)));
    let unasked = unregistered(carried, verdicts, registered).filter(|fault| !fault.is_asked);
    let unfilled = registered.unfilled.as_ref().filter(|_| in_force(carried, verdicts).next().is_some());
    let unasked = unasked.map(|_| ()).or(unfilled.map(|_| ())).map(|()| registered.since);
    let since = waiting.map(|verdict| verdict.since).chain(unasked).max();
    since.map(|since| since.after(MOMENT)).filter(|at| *at > view.now)
}

/// The desired status of `key`; `None` if it must not change.
#[must_use]
pub(in crate::rego_loading) fn desired_status(
    view: View<'_>,
    verdicts: &Verdicts,
    registered: &Registered,
    key: &CarrierKey,
) -> Option<(CarrierStatus, Option<Fare>)> {
    let carrier = view.carrier(key)?;
    if carrier.carried.is_none() {
        // The annotation may belong to another controller that uses such ConfigMaps.
        return carrier.status.is_ours.then(|| (CarrierStatus::default(), None));
    }
    if status_due(view, verdicts, registered, key).is_some() {
        return None;
    }
    let fare = fare(carrier, verdicts, registered)?;
    let status = if key.is_rego_policy() {
        let condition = fare.condition(carrier.generation, &carrier.status.conditions, view.now);
        CarrierStatus { conditions: vec![condition], ..CarrierStatus::default() }
    } else {
        CarrierStatus { annotation: Some(fare.annotation()), is_ours: true, conditions: Vec::new() }
    };
    let differs = status.annotation != carrier.status.annotation
        || status.conditions.iter().any(|condition| !carrier.status.conditions.contains(condition));
    differs.then_some((status, Some(fare)))
}

#[cfg(test)]
mod tests;
