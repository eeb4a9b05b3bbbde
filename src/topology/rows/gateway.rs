//! Gateways and ListenerSets.

use std::sync::Arc;

use serde::Deserialize;

use super::Created;
use super::listener::{self, Allowed, AllowedSets, Listener};
use super::parent::{self, ParentReference};
use super::wire::{self, Limited, Name, or_default};
use crate::api::gateway::LISTENERS_LIMIT;
use crate::api::object::HubObject;
use crate::topology::fault::Fault;
use crate::topology::locator::{GATEWAY_CLASS, Locator};

/// A Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// When it was made.
    pub created: Created,
    /// Its GatewayClass.
    pub class: Arc<str>,
    /// Its own listeners.
    pub listeners: Box<[Listener]>,
    /// The namespaces whose ListenerSets may attach.
    pub sets: Allowed,
}

impl Gateway {
    /// Its GatewayClass.
    #[must_use]
    pub fn class_locator(&self) -> Locator<'_> {
        Locator { kind: GATEWAY_CLASS, namespace: "", name: &self.class, section: None }
    }

    /// The row of `object`.
    ///
    /// # Errors
    ///
    /// What the API server would refuse.
    pub fn read(object: &HubObject) -> Result<Self, Fault> {
        let spec: GatewaySpec = wire::spec(object)?;
        let sets = spec.allowed_listeners.and_then(|allowed| allowed.namespaces);
        Ok(Self {
            created: Created::of(&object.metadata),
            class: spec.gateway_class_name.0,
            listeners: listener::listeners(spec.listeners)?,
            sets: sets.map_or(Allowed::None, |AllowedSets(allowed)| allowed),
        })
    }
}

/// A ListenerSet: listeners that others add to a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerSet {
    /// When it was made.
    pub created: Created,
    /// The Gateway.
    pub parent: ParentReference,
    /// Its listeners.
    pub listeners: Box<[Listener]>,
}

impl ListenerSet {
    /// The row of `object`.
    ///
    /// # Errors
    ///
    /// What the API server would refuse.
    pub fn read(object: &HubObject) -> Result<Self, Fault> {
        let spec: SetSpec = wire::spec(object)?;
        Ok(Self {
            created: Created::of(&object.metadata),
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
    listeners: Limited<listener::Written, LISTENERS_LIMIT>,
    allowed_listeners: Option<AllowedListeners>,
}

#[derive(Deserialize)]
struct AllowedListeners {
    namespaces: Option<AllowedSets>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetSpec {
    parent_ref: parent::Written,
    #[serde(default, deserialize_with = "or_default")]
    listeners: Limited<listener::Written, LISTENERS_LIMIT>,
}
