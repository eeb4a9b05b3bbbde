//! Rows of Services and of other backends with the same fields.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;

use super::wire::{self, Port, or_default};
use crate::fault::Fault;
use policy_sync_api::json::step::Step;
use policy_sync_api::object::HubObject;
use policy_sync_api::syntax::is_dns_label;
use policy_sync_api::text::excerpt;

/// The fields of a Service or a ServiceImport that the graph reads. A Backend of Envoy Gateway is read as a Service
/// without ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// The ports, in the order of the spec.
    pub ports: Box<[ServicePort]>,
    /// Whether the Service's type is `ExternalName`: a DNS name without endpoints.
    pub is_external: bool,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// The port's name. Only a Service with one port may omit the name.
    pub name: Option<Arc<str>>,
    /// The port's number.
    pub port: u16,
}

impl Service {
    /// Reads the row from `object`.
    ///
    /// # Errors
    ///
    /// If the API server would reject the object.
    pub fn read(object: &HubObject) -> Result<Self, Fault> {
        let spec: Spec = wire::spec(wire::text(object))?;
        let mut names = HashSet::new();
        for (index, port) in spec.ports.iter().enumerate() {
            let fault =
                |text: String| Err(Fault { place: format!("spec.ports{}.name", Step::Item(index)), text });
            match port.name.as_deref().unwrap_or_default() {
                "" if spec.ports.len() > 1 => {
                    return fault("is required if there are several ports".into());
                }
                "" => {}
                name if !is_dns_label(name) => {
                    return fault(format!("{:?} is not a valid port name", excerpt(name)));
                }
                name if !names.insert(name) => {
                    return fault(format!("duplicate port name {name:?}"));
                }
                _ => {}
            }
        }
        let ports = spec.ports.into_iter().map(|port| ServicePort {
            name: port.name.filter(|name| !name.is_empty()).map(Into::into),
            port: port.port.0,
        });
        Ok(Self { ports: ports.collect(), is_external: spec.service_type.as_deref() == Some(EXTERNAL_NAME) })
    }
}

/// The type of Services that are DNS names.
const EXTERNAL_NAME: &str = "ExternalName";

#[derive(Deserialize)]
struct Spec {
    #[serde(default, rename = "type")]
    service_type: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    ports: Vec<Written>,
}

#[derive(Deserialize)]
struct Written {
    name: Option<String>,
    port: Port,
}
