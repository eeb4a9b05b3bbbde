//! What a spoke's agent says about a work.
//!
//! It may say anything, and as much as an object holds, so it is kept within limits: 16 KiB of texts in the order in which
//! they come ([`Room`]), and 64 values of those that parameters ask for. What has no room is cut where it is a text for people,
//! and dropped by name where it is such a value. Of all other values there are no more than what they are about has: four
//! conditions, and of a Gateway as many addresses, listeners, and kinds and conditions of each, as its status can hold.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::ancestors::Ancestors;
use super::condition::{AnsweredCondition, TEXT_LIMIT, applied, as_revision, of_type};
use super::dropped;
use super::gateway::GatewayAnswer;
use super::room::Room;
use super::value::ValueName;
use crate::rows::purpose::Purpose;
use policy_sync_api::interned::Weigh;
use policy_sync_api::json::{DEPTH_LIMIT, depth};
use policy_sync_api::moment::Moment;
use policy_sync_api::object::HubObject;
use policy_sync_api::text::capped;
use policy_sync_api::work::{FieldValue, ManifestStatus, ManifestWorkSpec, ManifestWorkStatus};

/// The most values that are kept of those that parameters ask for, and the most that are named as dropped.
const FIELDS_LIMIT: usize = 64;

/// The most bytes of a moment in RFC 3339.
const CREATED_LIMIT: usize = 40;

/// What a spoke's agent says about a work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Answer {
    /// Whether `Applied` is true for the work's present generation.
    pub applied: bool,
    /// Why it is not, in the agent's words.
    pub message: Option<Box<str>>,
    /// The revision of the copy on the spoke.
    pub revision: Option<Box<str>>,
    /// The generation of the copy on the spoke.
    pub generation: Option<i64>,
    /// The generation for which the copy's status was written.
    pub observed_generation: Option<i64>,
    /// The copy's conditions.
    pub conditions: Vec<AnsweredCondition>,
    /// What the copy says of its ancestors, where its kind has some.
    pub ancestors: Option<Ancestors>,
    /// The values of the configured `statusFields`, as JSON texts: parsed, a short one can take a lot of memory.
    pub fields: Vec<(Arc<str>, Box<str>)>,
    /// The configured `statusFields` whose values are there and were dropped on their way here.
    pub dropped: Vec<Arc<str>>,
    /// What only a Gateway says.
    pub gateway: Option<Box<GatewayAnswer>>,
}

impl Answer {
    /// What `status` says of `object`, a work for `purpose` with this spec.
    pub(crate) fn read(
        object: &HubObject,
        status: &ManifestWorkStatus,
        purpose: &Purpose,
        spec: &ManifestWorkSpec,
    ) -> Self {
        let mut room = Room::default();
        let ancestors = Ancestors::asked_for(spec).then(Ancestors::default);
        let mut answer = Answer { ancestors, ..Answer::default() };
        if let Some(applied) = applied(object, status) {
            answer.applied = applied.status == "True";
            if !answer.applied {
                // The manifest's own message names the object and the conflict; the work's only counts.
                let manifests = status.resource_status.manifests.iter();
                let failed = manifests
                    .filter_map(|manifest| of_type(&manifest.conditions, "Applied"))
                    .find(|condition| condition.status == "False");
                answer.message = Some(room.text(&failed.unwrap_or(applied).message, TEXT_LIMIT));
            }
        }
        let Some(manifest) = copy_of(status, purpose) else { return answer };
        // A spoke adds no value that nobody asked for. But it may write what is asked for as well.
        let asked_for = asked_for(spec);
        let known: HashSet<&str> = asked_for.iter().copied().collect();
        for value in &manifest.status_feedback.values {
            if known.contains(value.name.as_str()) {
                answer.take(&value.name, &value.field_value, &mut room);
            }
        }
        answer.conditions.retain(|condition| !condition.status.is_empty());
        if let Some(ancestors) = &mut answer.ancestors {
            *ancestors = Ancestors::new(&manifest.conditions, &mut room);
        }
        let fields = asked_for.into_iter().filter(|name| !name.starts_with('_')).take(FIELDS_LIMIT);
        for name in fields {
            let is_known = answer
                .fields
                .iter()
                .map(|(known, _)| known)
                .chain(&answer.dropped)
                .any(|known| **known == *name);
            if !is_known && dropped::by_agent(&manifest.conditions, name) {
                answer.drop(name, &mut room);
            }
        }
        answer.dropped.sort();
        answer
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

/// The creation time of the copy in a work for `purpose`, by the clock of the spoke. Only an object with a revision is a copy: for
/// another object of that name the agent reports a creation time without a revision.
///
/// It is separate from [`Answer`], because clusters with equal conditions share one value of that type.
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

/// The names of the values that the work asks its agent for.
fn asked_for(spec: &ManifestWorkSpec) -> Vec<&str> {
    let rules = spec.manifest_configs.iter().flat_map(|config| &config.feedback_rules);
    rules.flat_map(|rule| &rule.json_paths).map(|path| path.name.as_str()).collect()
}

impl Answer {
    /// Takes a fed-back value in: ours by their names, all others as fields.
    fn take(&mut self, name: &str, value: &FieldValue, room: &mut Room) {
        if !name.starts_with('_') {
            return match field(value) {
                Some(field) if self.fields.len() < FIELDS_LIMIT && room.takes(&[name, &field]) => {
                    self.fields.push((name.into(), field));
                }
                _ => self.drop(name, room),
            };
        }
        match ValueName::parse(name) {
            None => {}
            Some(ValueName::Revision) => {
                self.revision = value.string.as_deref().and_then(as_revision).map(Into::into);
            }
            // `created` reads it.
            Some(ValueName::Created) => {}
            Some(ValueName::Generation) => self.generation = value.integer,
            Some(ValueName::ObservedGeneration) => self.observed_generation = value.integer,
            Some(ValueName::Condition(condition_type, part)) => {
                self.condition_mut(condition_type).take(part, value, room);
            }
            Some(of_gateway @ (ValueName::Address(_) | ValueName::Listener(..))) => {
                self.gateway.get_or_insert_default().take(of_gateway, value, room);
            }
        }
    }

    /// Names a value as dropped, where there is room for its name.
    fn drop(&mut self, name: &str, room: &mut Room) {
        if self.dropped.len() < FIELDS_LIMIT && room.takes(&[name]) {
            self.dropped.push(name.into());
        }
    }

    fn condition_mut(&mut self, condition_type: &str) -> &mut AnsweredCondition {
        let index = self.conditions.iter().position(|condition| &*condition.condition_type == condition_type);
        let index = index.unwrap_or_else(|| {
            let new = AnsweredCondition { condition_type: condition_type.into(), ..Default::default() };
            self.conditions.push(new);
            self.conditions.len() - 1
        });
        &mut self.conditions[index]
    }
}

/// A value as a JSON text, `None` where it is none.
fn field(value: &FieldValue) -> Option<Box<str>> {
    let text = || value.string.as_deref().map(|text| Value::from(&*capped(text, TEXT_LIMIT)));
    let json =
        || serde_json::from_str(value.json_raw.as_deref()?).ok().filter(|json| depth(json) <= DEPTH_LIMIT);
    let found = value.integer.map(Value::from).or_else(|| value.boolean.map(Value::from)).or_else(text);
    found.or_else(json).map(|field| field.to_string().into())
}

impl Weigh for Answer {
    fn bytes(&self) -> usize {
        let texts = [&self.message, &self.revision].into_iter().flatten().map(|text| text.len());
        let fields =
            self.fields.iter().map(|(name, field)| size_of_val(&(name, field)) + name.len() + field.len());
        let dropped = self.dropped.iter().map(|name| size_of_val(name) + name.len());
        let conditions = self.conditions.iter().map(AnsweredCondition::bytes);
        let ancestors = self.ancestors.as_ref().map(Ancestors::bytes);
        let gateway = self.gateway.as_ref().map(|gateway| gateway.bytes());
        let parts = texts.chain(fields).chain(dropped).chain(conditions).chain(ancestors).chain(gateway);
        size_of::<Self>() + parts.sum::<usize>()
    }
}

#[cfg(test)]
impl Answer {
    /// What these values say.
    pub(super) fn of_values<'n>(values: impl Iterator<Item = (&'n str, FieldValue)>) -> Self {
        let (mut answer, mut room) = (Self::default(), Room::default());
        values.for_each(|(name, value)| answer.take(name, &value, &mut room));
        answer
    }
}
