//! Rows of policies: objects of any kind with target references.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::Selector;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::Created;
use super::listener::selector;
use super::wire::{self, GroupName, KindName, Limited, Name, or_default};
use crate::fault::Fault;
use crate::locator::{GATEWAY_CLASS, Kind, Locator, Section};
use policy_sync_api::annotations::POLICY_SYNCED;
use policy_sync_api::condition::rejection;
use policy_sync_api::gateway::GROUP;
use policy_sync_api::object::HubObject;

/// The maximum number of target selectors of a policy.
const SELECTORS_LIMIT: usize = 64;

/// A policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The creation time.
    pub created: Created,
    /// Whether the policy is being deleted.
    pub deleting: bool,
    /// The reason and message of `Accepted=False` for the current generation, if the status has this
    /// condition.
    pub rejected: Option<Box<str>>,
    /// The policy's target references.
    pub targets: Box<[Target]>,
    /// The policy's target selectors.
    pub selectors: Box<[TargetSelector]>,
    /// The policy's spec, as JSON.
    pub spec: Arc<str>,
    /// For a copy that a hub delivered: the hub's policy, `<namespace>/<name>`, from its annotation.
    pub origin: Option<Arc<str>>,
}

/// A [target selector](https://gateway.envoyproxy.io/docs/api/extension_types/#targetselector) of Envoy Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetSelector {
    /// The kind of the targets. The default group is the group of Gateway API.
    pub kind: Kind,
    /// The labels that targets must have.
    pub labels: Selector,
    /// Whether the targets may be in other namespaces.
    pub other_namespaces: bool,
}

/// A target reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The kind of the target.
    pub kind: Kind,
    /// The target's namespace; `None` for the policy's namespace.
    pub namespace: Option<Arc<str>>,
    /// The target's name.
    pub name: Arc<str>,
    /// The name of a section, such as a listener.
    pub section: Option<Arc<str>>,
}

impl Target {
    /// The locator of the target, for a policy in the namespace `own`.
    #[must_use]
    pub fn locator<'l>(&'l self, own: &'l str) -> Locator<'l> {
        let kind = self.kind.as_ref();
        let namespace = if kind == GATEWAY_CLASS { "" } else { self.namespace.as_deref().unwrap_or(own) };
        let section = self.section.as_deref().map(Section::Named);
        Locator { kind, namespace, name: &self.name, section }
    }
}

impl Policy {
    /// Reads the row from `object`.
    ///
    /// # Errors
    ///
    /// If a target reference or selector is invalid.
    pub fn read(object: &HubObject) -> Result<Self, Fault> {
        Ok(Self {
            created: Created::of(&object.metadata),
            deleting: object.metadata.deletion_timestamp.is_some(),
            rejected: rejection(object),
            origin: object.metadata.annotations.get(POLICY_SYNCED).map(|origin| origin.as_str().into()),
            ..Self::of_spec(wire::text(object).into())?
        })
    }

    /// Reads the row of a policy from its `spec`, as JSON. All other fields are unknown.
    ///
    /// # Errors
    ///
    /// If a target reference or selector is invalid.
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
    group: Option<GroupName>,
    kind: KindName,
    match_labels: Option<BTreeMap<String, String>>,
    match_expressions: Option<Vec<LabelSelectorRequirement>>,
    namespaces: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    group: Option<GroupName>,
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
