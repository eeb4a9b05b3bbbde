//! Rows of Gateways and ListenerSets.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::listener::{self, AllowedNamespaces, AllowedSets, Listener};
use super::parent::{self, ParentReference, SetKind};
use super::wire::{self, AssignedPort, Limited, Name, Port, or_default};
use super::{Created, Labels};
use crate::fault::Fault;
use crate::locator::{GATEWAY_CLASS, Locator};
use policy_sync_api::annotations::{GATEWAY_CLUSTERS, MANAGED};
use policy_sync_api::gateway::LISTENERS_LIMIT;
use policy_sync_api::object::{HubObject, Metadata};

/// A Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// The creation time.
    pub created: Created,
    /// The Gateway's labels.
    pub labels: Labels,
    /// The name of the Gateway's GatewayClass.
    pub class: Arc<str>,
    /// The listeners in the Gateway's spec, without listeners of ListenerSets.
    pub listeners: Box<[Listener]>,
    /// The namespaces whose ListenerSets may attach.
    pub sets: AllowedNamespaces,
    /// Whether the Gateway is a copy that a hub delivered.
    pub copy: bool,
    /// On a hub: the clusters with a copy of the Gateway, from an annotation.
    pub clusters: Box<[Arc<str>]>,
}

impl Gateway {
    /// The locator of the Gateway's GatewayClass.
    #[must_use]
    pub fn class_locator(&self) -> Locator<'_> {
        Locator { kind: GATEWAY_CLASS, namespace: "", name: &self.class, section: None }
    }

    /// Reads the row from `object`.
    ///
    /// # Errors
    ///
    /// If the API server would reject the object.
    pub fn read(object: &HubObject) -> Result<Self, Fault> {
        let Metadata { labels, annotations, .. } = &object.metadata;
        let clusters = annotations.get(GATEWAY_CLUSTERS).and_then(|text| serde_json::from_str(text).ok());
        Ok(Self {
            created: Created::of(&object.metadata),
            labels: super::labels(&object.metadata),
            copy: labels.get(MANAGED).is_some_and(|value| value == "true"),
            clusters: clusters.unwrap_or_default(),
            ..Self::of_spec(wire::text(object))?
        })
    }

    /// Reads the row of a Gateway from its `spec`, as JSON. All other fields are unknown.
    ///
    /// # Errors
    ///
    /// If the API server would reject the spec.
    pub fn of_spec(spec: &str) -> Result<Self, Fault> {
        let spec: GatewaySpec = wire::spec(spec)?;
        let sets = spec.allowed_listeners.and_then(|allowed| allowed.namespaces);
        Ok(Self {
            created: Created::default(),
            labels: None,
            copy: false,
            clusters: Box::default(),
            class: spec.gateway_class_name.0,
            listeners: listener::listeners(spec.listeners)?,
            sets: sets.map_or(AllowedNamespaces::None, |AllowedSets(allowed)| allowed),
        })
    }
}

/// A ListenerSet: listeners that other users add to a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerSet {
    /// The creation time.
    pub created: Created,
    /// The ListenerSet's labels.
    pub labels: Labels,
    /// The Gateway that the ListenerSet attaches to.
    pub parent: ParentReference,
    /// The ListenerSet's listeners.
    pub listeners: Box<[Listener]>,
}

impl ListenerSet {
    /// Reads the row from `object`, which is of `kind`.
    ///
    /// # Errors
    ///
    /// If the API server would reject the object.
    pub fn read(kind: SetKind, object: &HubObject) -> Result<Self, Fault> {
        match kind {
            SetKind::Standard => Self::with_ports::<Port>(object),
            SetKind::Experimental => Self::with_ports::<AssignedPort>(object),
        }
    }

    fn with_ports<P: DeserializeOwned + Into<u16>>(object: &HubObject) -> Result<Self, Fault> {
        let spec: SetSpec<P> = wire::spec(wire::text(object))?;
        Ok(Self {
            created: Created::of(&object.metadata),
            labels: super::labels(&object.metadata),
            parent: spec.parent_ref.into(),
            listeners: listener::listeners(spec.listeners)?,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GatewaySpec {
    gateway_class_name: Name,
    #[serde(default, deserialize_with = "or_default")]
    listeners: Limited<listener::Written<Port>, LISTENERS_LIMIT>,
    allowed_listeners: Option<AllowedListeners>,
}

#[derive(Deserialize)]
struct AllowedListeners {
    namespaces: Option<AllowedSets>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "P: DeserializeOwned")]
struct SetSpec<P> {
    parent_ref: parent::Written,
    #[serde(default, deserialize_with = "or_default")]
    listeners: Limited<listener::Written<P>, LISTENERS_LIMIT>,
}
