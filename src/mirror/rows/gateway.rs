//! Gateways.

use std::sync::Arc;

use serde::Deserialize;

use super::{RawSpec, Strings, Version, raw_spec};
use crate::api::cluster::PLACEMENT_LABEL;
use crate::api::object::HubObject;

/// A Gateway on the hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// Resource version.
    pub version: Version,
    /// Unique over time.
    pub uid: Arc<str>,
    /// Whether it was asked to go.
    pub deleting: bool,
    /// Its GatewayClass.
    pub class: Arc<str>,
    /// Labels.
    pub labels: Strings,
    /// Annotations.
    pub annotations: Strings,
    /// Spec.
    pub spec: RawSpec,
}

impl From<&HubObject> for Gateway {
    fn from(object: &HubObject) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            gateway_class_name: String,
        }
        Self {
            version: Version(object.metadata.version()),
            uid: object.metadata.uid.as_str().into(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            class: object.spec_as::<Spec>().gateway_class_name.into(),
            labels: object.metadata.labels.clone(),
            annotations: object.metadata.annotations.clone(),
            spec: raw_spec(object),
        }
    }
}

impl Gateway {
    /// The Placement that its label names.
    #[must_use]
    pub fn placement(&self) -> Option<&str> {
        self.labels.get(PLACEMENT_LABEL).map(String::as_str).filter(|name| !name.is_empty())
    }
}
