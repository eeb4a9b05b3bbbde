//! Reads the report of a spoke's agent from the status of a work.
//!
//! An agent may write anything, in any amount that fits into an object, so the report is limited. It has at most 16 KiB
//! of text, in the order of arrival ([`TextBudget`]), and 64 values of configured `statusFields`. Messages that exceed
//! the space are cut. Values of `statusFields` that exceed the space are dropped and recorded by name. The number of
//! built-in values is limited, too. A copy has four conditions. A Gateway has at most as many addresses, listeners,
//! route kinds and listener conditions as its status can hold.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::ancestors::Ancestors;
use super::budget::TextBudget;
use super::condition::{ReportedCondition, TEXT_LIMIT, applied, as_revision, of_type};
use super::gateway::ReportedGateway;
use super::value::ValueName;
use crate::rows::purpose::Purpose;
use policy_sync_api::interned::MemorySize;
use policy_sync_api::json::{DEPTH_LIMIT, depth};
use policy_sync_api::moment::Moment;
use policy_sync_api::object::HubObject;
use policy_sync_api::text::truncate_bytes;
use policy_sync_api::work::{FieldValue, ManifestStatus, ManifestWorkSpec, ManifestWorkStatus};

/// The maximum number of kept values of configured `statusFields`, and of kept names of dropped values.
const FIELDS_LIMIT: usize = 64;

/// The maximum length in bytes of a moment in RFC 3339.
const CREATED_LIMIT: usize = 40;

/// The maximum number of bytes of the message of `StatusFeedbackSynced` that are searched: the API's limit for the
/// message of a condition.
const MESSAGE_LIMIT: usize = 32 * 1024;

/// The report of a spoke's agent on a work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AgentReport {
    /// Whether `Applied` is true for the current generation of the work.
    pub applied: bool,
    /// The agent's message if the work is not applied.
    pub message: Option<Box<str>>,
    /// The revision of the copy on the spoke.
    pub revision: Option<Box<str>>,
    /// The generation of the copy on the spoke.
    pub generation: Option<i64>,
    /// The generation for which the copy's status was written.
    pub observed_generation: Option<i64>,
    /// The copy's conditions.
    pub conditions: Vec<ReportedCondition>,
    /// The ancestors in the status of the copy; `None` if the work has no rule that requests them.
    pub ancestors: Option<Ancestors>,
    /// The values of the configured `statusFields` as JSON texts: a short text can take much memory once parsed.
    pub fields: Vec<(Arc<str>, Box<str>)>,
    /// The configured `statusFields` whose values exist but were dropped.
    pub dropped: Vec<Arc<str>>,
    /// Addresses and listeners, if the copy is a Gateway.
    pub gateway: Option<Box<ReportedGateway>>,
}

impl AgentReport {
    /// Reads the report in `status` of `object`, a work for `purpose` with this spec.
    pub(crate) fn read(
        object: &HubObject,
        status: &ManifestWorkStatus,
        purpose: &Purpose,
        spec: &ManifestWorkSpec,
    ) -> Self {
        let mut budget = TextBudget::default();
        let ancestors = Ancestors::requests_condition(spec).then(Ancestors::default);
        let mut report = AgentReport { ancestors, ..AgentReport::default() };
        if let Some(applied) = applied(object, status) {
            report.applied = applied.status == "True";
            if !report.applied {
                // The manifest's own message names the object and the conflict; the message of the work only gives
                // numbers.
                let manifests = status.resource_status.manifests.iter();
                let failed = manifests
                    .filter_map(|manifest| of_type(&manifest.conditions, "Applied"))
                    .find(|condition| condition.status == "False");
                report.message = Some(budget.text(&failed.unwrap_or(applied).message, TEXT_LIMIT));
            }
        }
        let Some(manifest) = copy_of(status, purpose) else { return report };
        // Values without a feedback rule are ignored, so that a spoke cannot add values. A spoke can still forge values
        // that have a rule.
        let requested_values = requested_values(spec);
        let known: HashSet<&str> = requested_values.iter().copied().collect();
        for value in &manifest.status_feedback.values {
            if known.contains(value.name.as_str()) {
                report.take(&value.name, &value.field_value, &mut budget);
            }
        }
        report.conditions.retain(|condition| !condition.status.is_empty());
        if let Some(ancestors) = &mut report.ancestors {
            *ancestors = Ancestors::new(&manifest.conditions, &mut budget);
        }
        let fields = requested_values.into_iter().filter(|name| !name.starts_with('_')).take(FIELDS_LIMIT);
        for name in fields {
            let is_known = report
                .fields
                .iter()
                .map(|(known, _)| known)
                .chain(&report.dropped)
                .any(|known| **known == *name);
            if !is_known && is_dropped_by_agent(&manifest.conditions, name) {
                report.drop(name, &mut budget);
            }
        }
        report.dropped.sort();
        report
    }
}

/// The status of the copy in a work for `purpose`.
fn copy_of<'s>(status: &'s ManifestWorkStatus, purpose: &Purpose) -> Option<&'s ManifestStatus> {
    let Purpose::Copy(origin) = purpose else { return None };
    status.resource_status.manifests.iter().find(|manifest| {
        *manifest.resource_meta.resource == *origin.kind().resource
            && *manifest.resource_meta.group == *origin.kind().group
    })
}

/// The creation time of the copy in a work for `purpose`, by the clock of the spoke. Only an object with a revision is
/// a copy. For a different object of the same name, the agent reports a creation time but no revision.
///
/// The time is not part of [`AgentReport`], because clusters with equal conditions share one value of that type.
pub(crate) fn created(status: &ManifestWorkStatus, purpose: &Purpose) -> Option<Moment> {
    let values = &copy_of(status, purpose)?.status_feedback.values;
    let text = |wanted: ValueName<'_>| {
        let value = values.iter().find(|value| ValueName::parse(&value.name) == Some(wanted))?;
        value.field_value.string.as_deref()
    };
    text(ValueName::Revision).and_then(as_revision)?;
    let created = text(ValueName::Created).filter(|text| text.len() <= CREATED_LIMIT)?;
    let created: Timestamp = created.parse().ok()?;
    Some(Moment(created.as_second().saturating_mul(1000)))
}

/// The names of the values that the work's feedback rules request.
fn requested_values(spec: &ManifestWorkSpec) -> Vec<&str> {
    let rules = spec.manifest_configs.iter().flat_map(|config| &config.feedback_rules);
    rules.flat_map(|rule| &rule.json_paths).map(|path| path.name.as_str()).collect()
}

impl AgentReport {
    /// Stores a value from the agent's feedback. Names with a leading `_` are built in; all others are configured
    /// fields.
    fn take(&mut self, name: &str, value: &FieldValue, budget: &mut TextBudget) {
        if !name.starts_with('_') {
            return match field(value) {
                Some(field) if self.fields.len() < FIELDS_LIMIT && budget.reserve(&[name, &field]) => {
                    self.fields.push((name.into(), field));
                }
                _ => self.drop(name, budget),
            };
        }
        match ValueName::parse(name) {
            None => {}
            Some(ValueName::Revision) => {
                self.revision = value.string.as_deref().and_then(as_revision).map(Into::into);
            }
            // The function `created` reads this value.
            Some(ValueName::Created) => {}
            Some(ValueName::Generation) => self.generation = value.integer,
            Some(ValueName::ObservedGeneration) => self.observed_generation = value.integer,
            Some(ValueName::Condition(condition_type, part)) => {
                self.condition_mut(condition_type).take(part, value, budget);
            }
            Some(of_gateway @ (ValueName::Address(_) | ValueName::Listener(..))) => {
                self.gateway.get_or_insert_default().take(of_gateway, value, budget);
            }
        }
    }

    /// Records a value as dropped, if there is space for its name.
    fn drop(&mut self, name: &str, budget: &mut TextBudget) {
        if self.dropped.len() < FIELDS_LIMIT && budget.reserve(&[name]) {
            self.dropped.push(name.into());
        }
    }

    fn condition_mut(&mut self, condition_type: &str) -> &mut ReportedCondition {
        let index = self.conditions.iter().position(|condition| &*condition.condition_type == condition_type);
        let index = index.unwrap_or_else(|| {
            let new = ReportedCondition { condition_type: condition_type.into(), ..Default::default() };
            self.conditions.push(new);
            self.conditions.len() - 1
        });
        &mut self.conditions[index]
    }
}

/// A value as JSON text; `None` if it has no valid content.
fn field(value: &FieldValue) -> Option<Box<str>> {
    let text = || value.string.as_deref().map(|text| Value::from(&*truncate_bytes(text, TEXT_LIMIT)));
    let json =
        || serde_json::from_str(value.json_raw.as_deref()?).ok().filter(|json| depth(json) <= DEPTH_LIMIT);
    let found = value.integer.map(Value::from).or_else(|| value.boolean.map(Value::from)).or_else(text);
    found.or_else(json).map(|field| field.to_string().into())
}

/// Whether the manifest's `StatusFeedbackSynced` condition reports `value` as dropped: the agent found it but could not
/// send it.
///
/// A path without a match yields no value, which is not an error. A value that the agent cannot send is missing in the
/// same way. The agent cannot send JSON of more than 1,024 bytes. Without the feature gate `RawFeedbackJsonString`, it
/// cannot send lists, objects or fractions. Only the message of one condition shows whether a value is absent or could
/// not be sent. This function recognizes the messages of all known agent versions. If a later version words its
/// messages differently, the value counts as absent.
fn is_dropped_by_agent(conditions: &[Condition], value: &str) -> bool {
    let Some(condition) = conditions.iter().find(|condition| condition.type_ == "StatusFeedbackSynced")
    else {
        return false;
    };
    let message = truncate_bytes(&condition.message, MESSAGE_LIMIT);
    // The fast checks come first. Most values fail them, because the message names only few values.
    condition.status == "False"
        && message.contains(value)
        && [
            format!("of the value for {value} is not found"),
            format!("json raw string for name {value} is larger than"),
            format!("to json string for name {value}: "),
            format!("failed to find value for {value} with error: "),
            format!(" of {value} with error: "),
        ]
        .iter()
        .any(|words| message.contains(words))
}

impl MemorySize for AgentReport {
    fn bytes(&self) -> usize {
        let texts = [&self.message, &self.revision].into_iter().flatten().map(|text| text.len());
        let fields =
            self.fields.iter().map(|(name, field)| size_of_val(&(name, field)) + name.len() + field.len());
        let dropped = self.dropped.iter().map(|name| size_of_val(name) + name.len());
        let conditions = self.conditions.iter().map(ReportedCondition::bytes);
        let ancestors = self.ancestors.as_ref().map(Ancestors::bytes);
        let gateway = self.gateway.as_ref().map(|gateway| gateway.bytes());
        let parts = texts.chain(fields).chain(dropped).chain(conditions).chain(ancestors).chain(gateway);
        size_of::<Self>() + parts.sum::<usize>()
    }
}

#[cfg(test)]
impl AgentReport {
    /// The report with only these values.
    pub(super) fn of_values<'n>(values: impl Iterator<Item = (&'n str, FieldValue)>) -> Self {
        let (mut report, mut budget) = (Self::default(), TextBudget::default());
        values.for_each(|(name, value)| report.take(name, &value, &mut budget));
        report
    }
}

#[cfg(test)]
mod tests;
