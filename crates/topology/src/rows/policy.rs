//! Policies: any object with target references.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::Selector;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::Created;
use super::listener::selector;
use super::wire::{self, Group, KindName, Limited, Name, or_default};
use crate::fault::Fault;
use crate::locator::{GATEWAY_CLASS, Kind, Locator, Section};
use policy_sync_api::annotations::POLICY_SYNCED;
use policy_sync_api::condition::refusal;
use policy_sync_api::gateway::GROUP;
use policy_sync_api::object::HubObject;

/// The most target selectors of a policy.
const SELECTORS_LIMIT: usize = 64;

/// A policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// When it was made.
    pub created: Created,
    /// Whether it was asked to go.
    pub deleting: bool,
    /// The reason and the message of `Accepted=False` of its present generation, if its status has that condition.
    pub refused: Option<Box<str>>,
    /// What it refers to.
    pub targets: Box<[Target]>,
    /// Labels by which it selects further targets.
    pub selectors: Box<[TargetSelector]>,
    /// Its spec, as JSON.
    pub spec: Arc<str>,
    /// Where it is a copy that a hub has sent: the hub's own, `<namespace>/<name>`, as its annotation says.
    pub origin: Option<Arc<str>>,
}

/// A [target selector](https://gateway.envoyproxy.io/docs/api/extension_types/#targetselector) of Envoy Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetSelector {
    /// The kind of the targets, by default of the group of Gateway API.
    pub kind: Kind,
    /// Their labels.
    pub labels: Selector,
    /// Whether they may be in other namespaces.
    pub other_namespaces: bool,
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
        Ok(Self {
            created: Created::of(&object.metadata),
            deleting: object.metadata.deletion_timestamp.is_some(),
            refused: refusal(object),
            origin: object.metadata.annotations.get(POLICY_SYNCED).map(|origin| origin.as_str().into()),
            ..Self::of_spec(wire::text(object).into())?
        })
    }

    /// The row of a policy whose spec is `spec`, as JSON, and of which nothing else is known.
    ///
    /// # Errors
    ///
    /// Where a target reference has another shape.
    pub fn of_spec(spec: Arc<str>) -> Result<Self, Fault> {
        let Spec { target_ref, target_refs, target_selectors } = wire::spec(&spec)?;
        let targets = target_ref.into_iter().chain(target_refs.unwrap_or_default());
        Ok(Self {
            targets: targets.map(Target::from).collect(),
            selectors: target_selectors.0.into(),
            spec,
            ..Self::default()
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    target_ref: Option<Written>,
    target_refs: Option<Vec<Written>>,
    #[serde(default, deserialize_with = "or_default")]
    target_selectors: Limited<TargetSelector, SELECTORS_LIMIT>,
}

impl<'de> Deserialize<'de> for TargetSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let WrittenSelector { group, kind, match_labels, match_expressions, namespaces } =
            WrittenSelector::deserialize(deserializer)?;
        let kind = Kind { group: group.map_or_else(|| GROUP.into(), |group| group.0), kind: kind.0 };
        let labels = selector(LabelSelector { match_labels, match_expressions }).map_err(D::Error::custom)?;
        Ok(Self { kind, labels, other_namespaces: namespaces.is_some() })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenSelector {
    group: Option<Group>,
    kind: KindName,
    match_labels: Option<BTreeMap<String, String>>,
    match_expressions: Option<Vec<LabelSelectorRequirement>>,
    namespaces: Option<IgnoredAny>,
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
