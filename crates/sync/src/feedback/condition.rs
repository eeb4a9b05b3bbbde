//! Conditions in agents' reports, and the rules that decide which conditions count.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::budget::TextBudget;
use super::value::ConditionField;
use policy_sync_api::condition::{self, is_reason};
use policy_sync_api::names::HASH_DIGITS;
use policy_sync_api::object::HubObject;
use policy_sync_api::work::{FieldValue, ManifestWorkStatus};

/// The maximum number of bytes that are kept of one text from a spoke.
pub const TEXT_LIMIT: usize = 1024;

/// A condition of a copy, as its agent reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReportedCondition {
    /// `Accepted`, `Enforced`, `Programmed` or `Ready`.
    pub condition_type: Arc<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Box<str>,
    /// The reason, in CamelCase for programs.
    pub reason: Option<Box<str>>,
    /// The message for people.
    pub message: Option<Box<str>>,
    /// The generation of the copy for which the condition was written.
    pub observed_generation: Option<i64>,
}

impl ReportedCondition {
    pub(super) fn take(&mut self, part: ConditionField, value: &FieldValue, budget: &mut TextBudget) {
        let text = value.string.as_deref();
        match part {
            ConditionField::Status => {
                self.status = text.and_then(condition::parse_status).unwrap_or_default().into()
            }
            ConditionField::Reason => {
                self.reason = text.filter(|text| is_reason(text)).map(|text| budget.text(text, TEXT_LIMIT));
            }
            ConditionField::Message => self.message = text.map(|text| budget.text(text, TEXT_LIMIT)),
            ConditionField::ObservedGeneration => self.observed_generation = value.integer,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.reason, &self.message].into_iter().flatten().map(|text| text.len());
        size_of::<Self>() + self.condition_type.len() + self.status.len() + texts.sum::<usize>()
    }
}

/// The condition `Applied` in `status`, the status of the work `object`. `None` if the condition is not for the current
/// generation of the work.
pub(crate) fn applied<'s>(object: &HubObject, status: &'s ManifestWorkStatus) -> Option<&'s Condition> {
    let current = |applied: &&Condition| applied.observed_generation == Some(object.metadata.generation);
    of_type(&status.conditions, "Applied").filter(current)
}

pub(super) fn of_type<'c>(conditions: &'c [Condition], condition_type: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == condition_type)
}

/// The text, if it can be a revision. A revision is a hash, so longer texts are invalid.
pub(crate) fn as_revision(text: &str) -> Option<&str> {
    (text.len() <= HASH_DIGITS).then_some(text)
}
