//! Works: of each only what comparing it with the plan, and folding its answer, needs.
//!
//! The spoke's agent may write anything into its works. So the payload is kept as a hash of what the work really
//! holds, never as one that it says it holds, and what came back is capped.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::ancestors::Ancestors;
pub use super::content::{ANNOTATIONS, Content, LABELS};
use super::gateway_answer::GatewayAnswer;
use super::{Version, dropped};
use crate::api::annotations;
use crate::api::condition::{self, is_reason};
use crate::api::gateway;
use crate::api::json::{DEPTH_LIMIT, depth};
use crate::api::names::{ControllerName, GroupResource, Parent, WorkName};
use crate::api::object::HubObject;
use crate::api::text;
use crate::api::work::{FieldValue, Manifest, ManifestStatus, ManifestWorkSpec, ManifestWorkStatus};
use crate::mirror::Moment;

/// The most bytes that are kept of one text from a spoke.
pub const TEXT_LIMIT: usize = 1024;

/// What a work is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A Gateway or a policy.
    Parent(Arc<Parent>),
    /// The agent's access to the kinds that our works there carry.
    Access(Vec<GroupResource>),
    /// Not proven to be ours: its name does not follow from its parent.
    Foreign,
}

/// A work on the hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Resource version.
    pub version: Version,
    /// Unique over time.
    pub uid: Arc<str>,
    /// Changes with the spec.
    pub generation: i64,
    /// When it was made.
    pub created: Moment,
    /// When it was asked to go.
    pub deleting: Option<Moment>,
    /// Since when the cluster of a Gateway's work is no longer chosen. The spoke's agent may have written it.
    pub displaced: Option<Moment>,
    /// Since when its agent has applied what it holds; `None` where it has not. The agent may have written any moment.
    pub applied_since: Option<Moment>,
    /// What it is for.
    pub purpose: Purpose,
    /// What it holds.
    pub content: Content,
    /// The names of the hub Gateways that it serves, by its own word.
    pub gateways: Arc<[Arc<str>]>,
    /// The revision of the copy that it holds.
    pub revision: Option<Arc<str>>,
    /// Whether it is a Gateway's and carries ReferenceGrants.
    pub grants: bool,
    /// What the spoke's agent says.
    pub answer: Option<Arc<Answer>>,
}

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
    /// The values of the configured `statusFields`.
    pub fields: Vec<(Arc<str>, Value)>,
    /// The configured `statusFields` whose values are there and were dropped on their way here.
    pub dropped: Vec<Arc<str>>,
    /// What only a Gateway says.
    pub gateway: Option<Box<GatewayAnswer>>,
}

/// A condition of a copy, as fed back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AnsweredCondition {
    /// `Accepted`, `Enforced`, `Programmed` or `Ready`.
    pub condition_type: Arc<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Box<str>,
    /// A word for programs.
    pub reason: Option<Box<str>>,
    /// A sentence for people.
    pub message: Option<Box<str>>,
    /// The generation for which it was written.
    pub observed_generation: Option<i64>,
}

impl Work {
    /// The row of `object`, for the works of `controller`.
    #[must_use]
    pub fn new(object: &HubObject, controller: &ControllerName) -> Self {
        let metadata = &object.metadata;
        let spec: ManifestWorkSpec = object.spec_as();
        let purpose = purpose(object, &spec, controller);
        let status: Option<ManifestWorkStatus> = object.status.is_some().then(|| object.status_as());
        let gateways: Vec<Arc<str>> = metadata
            .annotations
            .get(annotations::GATEWAYS)
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        Self {
            version: Version(metadata.version()),
            uid: metadata.uid.as_str().into(),
            generation: metadata.generation,
            created: moment(metadata.creation_timestamp.as_ref()).unwrap_or_default(),
            deleting: moment(metadata.deletion_timestamp.as_ref()),
            displaced: displaced(object, &purpose),
            content: Content::of(&spec, &metadata.labels, &metadata.annotations),
            gateways: gateways.into(),
            revision: revision(&spec),
            applied_since: status.as_ref().and_then(|status| applied_since(object, status)),
            grants: carries_grants(&spec, &purpose),
            answer: status.map(|status| Arc::new(answer(object, &status, &purpose, &spec))),
            purpose,
        }
    }

    /// `deleting`, `applied`, `refused` or, while its agent has not answered for what it holds now, `pending`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match &self.answer {
            _ if self.deleting.is_some() => "deleting",
            Some(answer) if answer.applied => "applied",
            Some(answer) if answer.message.is_some() => "refused",
            _ => "pending",
        }
    }

    /// Its parent, where it is proven to have one.
    #[must_use]
    pub fn parent(&self) -> Option<&Arc<Parent>> {
        match &self.purpose {
            Purpose::Parent(parent) => Some(parent),
            Purpose::Access(_) | Purpose::Foreign => None,
        }
    }
}

fn moment(time: Option<&Time>) -> Option<Moment> {
    time.map(|time| Moment(time.0.as_millisecond()))
}

/// What is no moment is none.
fn displaced(object: &HubObject, purpose: &Purpose) -> Option<Moment> {
    let text = object.metadata.annotations.get(annotations::DISPLACED_SINCE)?;
    let of_gateway = matches!(purpose, Purpose::Parent(parent) if parent.is_gateway());
    let time: Timestamp = text.parse().ok().filter(|_| of_gateway)?;
    Some(Moment(time.as_millisecond()))
}

fn purpose(object: &HubObject, spec: &ManifestWorkSpec, controller: &ControllerName) -> Purpose {
    let name = WorkName(object.metadata.name.as_str().into());
    if name == WorkName::access(controller) {
        return Purpose::Access(access_kinds(spec));
    }
    let parent = object.metadata.annotations.get(annotations::PARENT).and_then(|text| Parent::parse(text));
    match parent {
        Some(parent)
            if name.is_for(controller, &parent) || is_for_carried_kind(&name, spec, controller, &parent) =>
        {
            Purpose::Parent(Arc::new(parent))
        }
        _ => Purpose::Foreign,
    }
}

/// A kind too long to stand whole in a name is taken from the manifests instead; the hash still proves it.
fn is_for_carried_kind(
    name: &WorkName,
    spec: &ManifestWorkSpec,
    controller: &ControllerName,
    parent: &Parent,
) -> bool {
    let kinds = spec.workload.manifests.iter().filter_map(|manifest| manifest.0["kind"].as_str());
    kinds.into_iter().any(|kind| WorkName::of(controller, kind, parent) == *name)
}

fn access_kinds(spec: &ManifestWorkSpec) -> Vec<GroupResource> {
    let rules =
        spec.workload.manifests.iter().filter_map(|manifest| manifest.0["rules"].as_array()).flatten();
    let first = |rule: &Value, field: &str| rule[field][0].as_str().unwrap_or_default().to_owned();
    rules.map(|rule| GroupResource::new(&first(rule, "apiGroups"), &first(rule, "resources"))).collect()
}

fn revision(spec: &ManifestWorkSpec) -> Option<Arc<str>> {
    let mut revisions = spec
        .workload
        .manifests
        .iter()
        .filter_map(|manifest| manifest.0["metadata"]["annotations"][annotations::REVISION].as_str());
    revisions.next().map(Into::into)
}

fn carries_grants(spec: &ManifestWorkSpec, purpose: &Purpose) -> bool {
    let is_grant = |manifest: &Manifest| {
        let group = manifest.0["apiVersion"].as_str().and_then(|version| version.split_once('/'));
        manifest.0["kind"] == "ReferenceGrant" && group.is_some_and(|(group, _)| group == gateway::GROUP)
    };
    let of_gateway = matches!(purpose, Purpose::Parent(parent) if parent.is_gateway());
    of_gateway && spec.workload.manifests.iter().any(is_grant)
}

/// The names of the values that the work asks its agent for.
fn asked_for(spec: &ManifestWorkSpec) -> HashSet<&str> {
    let rules = spec.manifest_configs.iter().flat_map(|config| &config.feedback_rules);
    rules.flat_map(|rule| &rule.json_paths).map(|path| path.name.as_str()).collect()
}

/// What the agent says of having applied what `object` holds now.
fn applied<'s>(object: &HubObject, status: &'s ManifestWorkStatus) -> Option<&'s Condition> {
    let current = |applied: &&Condition| applied.observed_generation == Some(object.metadata.generation);
    condition(&status.conditions, "Applied").filter(current)
}

fn applied_since(object: &HubObject, status: &ManifestWorkStatus) -> Option<Moment> {
    let applied = applied(object, status).filter(|applied| applied.status == "True")?;
    moment(Some(&applied.last_transition_time))
}

fn answer(
    object: &HubObject,
    status: &ManifestWorkStatus,
    purpose: &Purpose,
    spec: &ManifestWorkSpec,
) -> Answer {
    let ancestors = Ancestors::asked_for(spec).then(Ancestors::default);
    let mut answer = Answer { ancestors, ..Answer::default() };
    if let Some(applied) = applied(object, status) {
        answer.applied = applied.status == "True";
        if !answer.applied {
            // The manifest's own message names the object and the conflict; the work's only counts.
            let manifests = status.resource_status.manifests.iter();
            let failed = manifests
                .filter_map(|manifest| condition(&manifest.conditions, "Applied"))
                .find(|condition| condition.status == "False");
            answer.message = Some(capped(&failed.unwrap_or(applied).message));
        }
    }
    if let Purpose::Parent(parent) = purpose {
        let carries = |manifest: &&ManifestStatus| {
            *manifest.resource_meta.resource == *parent.kind.resource
                && *manifest.resource_meta.group == *parent.kind.group
        };
        if let Some(manifest) = status.resource_status.manifests.iter().find(carries) {
            let values = manifest.status_feedback.values.iter();
            // A spoke adds no value that nobody asked for.
            let asked_for = asked_for(spec);
            for value in values.filter(|value| asked_for.contains(value.name.as_str())) {
                answer.take(&value.name, &value.field_value);
            }
            answer.conditions.retain(|condition| !condition.status.is_empty());
            let broken = std::mem::take(&mut answer.dropped);
            for name in asked_for.into_iter().filter(|name| !name.starts_with('_')) {
                let is_there = answer.fields.iter().any(|(known, _)| **known == *name);
                let is_broken = || broken.iter().any(|known| **known == *name);
                if !is_there && (is_broken() || dropped::by_agent(&manifest.conditions, name)) {
                    answer.dropped.push(name.into());
                }
            }
            answer.dropped.sort();
            if let Some(ancestors) = &mut answer.ancestors {
                *ancestors = Ancestors::of(&manifest.conditions);
            }
        }
    }
    answer
}

impl Answer {
    /// Takes a fed-back value in: ours by their names, all others as fields.
    fn take(&mut self, name: &str, value: &FieldValue) {
        let text = || value.string.as_deref().map(capped);
        match name.strip_prefix('_') {
            None => match field(value) {
                Some(field) => self.fields.push((name.into(), field)),
                None => self.dropped.push(name.into()),
            },
            Some("revision") => self.revision = text(),
            Some("generation") => self.generation = value.integer,
            Some("observedGeneration") => self.observed_generation = value.integer,
            Some(other) if GatewayAnswer::has(other) => {
                self.gateway.get_or_insert_default().take(other, value);
            }
            Some(other) => {
                let Some((condition_type, part)) = other.split_once('_') else { return };
                if !annotations::CONDITIONS.contains(&condition_type) {
                    return;
                }
                let condition = self.condition_mut(condition_type);
                match part {
                    "status" => {
                        let status = value.string.as_deref().and_then(condition::status);
                        condition.status = status.unwrap_or_default().into();
                    }
                    "reason" => {
                        condition.reason =
                            value.string.as_deref().filter(|text| is_reason(text)).map(Into::into)
                    }
                    "message" => condition.message = text(),
                    "observedGeneration" => condition.observed_generation = value.integer,
                    _ => {}
                }
            }
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

fn field(value: &FieldValue) -> Option<Value> {
    let text = || value.string.as_deref().map(|text| Value::from(&*capped(text)));
    let json =
        || serde_json::from_str(value.json_raw.as_deref()?).ok().filter(|json| depth(json) <= DEPTH_LIMIT);
    value.integer.map(Value::from).or_else(|| value.boolean.map(Value::from)).or_else(text).or_else(json)
}

fn condition<'c>(conditions: &'c [Condition], condition_type: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == condition_type)
}

pub(super) fn capped(text: &str) -> Box<str> {
    text::capped(text, TEXT_LIMIT).into()
}
