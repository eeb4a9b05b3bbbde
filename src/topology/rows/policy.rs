//! Policies: any object with target references.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Deserialize;

use super::Created;
use super::wire::{self, Group, KindName, Name};
use crate::api::object::HubObject;
use crate::topology::fault::Fault;
use crate::topology::locator::{GATEWAY_CLASS, Kind, Locator, Section};

/// A policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// When it was made.
    pub created: Created,
    /// Whether it was asked to go.
    pub deleting: bool,
    /// Whether its status refuses its present generation.
    pub refused: bool,
    /// What it refers to.
    pub targets: Box<[Target]>,
    /// Its spec, as JSON.
    pub spec: Arc<str>,
}

/// A target reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Of what kind it is.
    pub kind: Kind,
    /// Its namespace, the policy's own where none is given.
    pub namespace: Option<Arc<str>>,
    /// Its name.
    pub name: Arc<str>,
    /// A section of it.
    pub section: Option<Arc<str>>,
}

impl Target {
    /// What it means, in a policy of the namespace `own`.
    #[must_use]
    pub fn locator<'l>(&'l self, own: &'l str) -> Locator<'l> {
        let kind = self.kind.as_ref();
        let namespace = if kind == GATEWAY_CLASS { "" } else { self.namespace.as_deref().unwrap_or(own) };
        let section = self.section.as_deref().map(Section::Named);
        Locator { kind, namespace, name: &self.name, section }
    }
}

impl Policy {
    /// The row of `object`.
    ///
    /// # Errors
    ///
    /// Where a target reference has another shape.
    pub fn read(object: &HubObject) -> Result<Self, Fault> {
        let spec: Spec = wire::spec(object)?;
        let targets = spec.target_ref.into_iter().chain(spec.target_refs.unwrap_or_default());
        Ok(Self {
            created: Created::of(&object.metadata),
            deleting: object.metadata.deletion_timestamp.is_some(),
            refused: is_refused(object),
            targets: targets.map(Target::from).collect(),
            spec: object.spec.as_deref().map_or("{}", |spec| spec.get()).into(),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    target_ref: Option<Written>,
    target_refs: Option<Vec<Written>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    group: Option<Group>,
    kind: KindName,
    namespace: Option<wire::Namespace>,
    name: Name,
    section_name: Option<Name>,
}

impl From<Written> for Target {
    fn from(written: Written) -> Self {
        Self {
            kind: Kind {
                group: written.group.map_or_else(|| "".into(), |group| group.0),
                kind: written.kind.0,
            },
            namespace: written.namespace.map(|namespace| namespace.0),
            name: written.name.0,
            section: written.section_name.map(|name| name.0),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: Option<i64>,
    conditions: Vec<Condition>,
    ancestors: Vec<Ancestor>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Ancestor {
    conditions: Vec<Condition>,
}

/// Whether its status says `Accepted=False` of its present generation; where it says so of ancestors, of all of them.
fn is_refused(object: &HubObject) -> bool {
    let status: Status = object.status_as();
    let refuses = |conditions: &[Condition]| {
        let accepted = conditions.iter().find(|condition| condition.type_ == "Accepted");
        accepted.is_some_and(|condition| {
            let generation = condition.observed_generation.or(status.observed_generation);
            condition.status == "False" && generation.is_none_or(|seen| seen == object.metadata.generation)
        })
    };
    refuses(&status.conditions)
        || (!status.ancestors.is_empty()
            && status.ancestors.iter().all(|ancestor| refuses(&ancestor.conditions)))
}
