//! A server in memory with the kinds of a hub.

use std::sync::OnceLock;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::MemoryServer;
use super::kinds::Kind;
use crate::crds::{ClusterType, Crd, generated};

impl MemoryServer {
    /// A server with the kinds of a hub: the kinds of OCM, the sample policies, GatewayClasses, Gateways and
    /// ReferenceGrants.
    ///
    /// # Errors
    ///
    /// Returns an error if a definition cannot be generated.
    pub fn hub() -> Result<Self> {
        static DEFINITIONS: OnceLock<Vec<Crd>> = OnceLock::new();
        let definitions = match DEFINITIONS.get() {
            Some(definitions) => definitions,
            None => {
                let mut definitions = generated(ClusterType::Hub)?;
                definitions.push(gateway_api("gatewayclasses", "GatewayClass", "Cluster", "v1")?);
                definitions.push(gateway_api("gateways", "Gateway", "Namespaced", "v1")?);
                definitions.push(gateway_api("referencegrants", "ReferenceGrant", "Namespaced", "v1beta1")?);
                DEFINITIONS.get_or_init(|| definitions)
            }
        };
        let server = Self::new();
        definitions.iter().try_for_each(|definition| server.define(definition))?;
        Ok(server)
    }

    /// Adds the kind HTTPRoute.
    ///
    /// # Errors
    ///
    /// Returns an error if the definition cannot be generated.
    pub fn define_routes(&self) -> Result<()> {
        self.define(&gateway_api("httproutes", "HTTPRoute", "Namespaced", "v1")?)
    }

    /// Adds the kind in `definition` without events, as if it had been installed long ago.
    ///
    /// # Errors
    ///
    /// Returns an error if the definition has no served version.
    pub fn define(&self, definition: &Crd) -> Result<()> {
        let mut object = definition.value().clone();
        let kind = Kind::defined_by(&object)
            .with_context(|| format!("{} has no served version", definition.name()))?;
        let mut store = self.0.store.lock();
        object["metadata"]["uid"] = json!(store.new_uid());
        object["metadata"]["generation"] = json!(1);
        super::write::establish(&mut object, "2026-01-01T00:00:00Z");
        store.register(kind);
        let definitions = ("apiextensions.k8s.io".to_owned(), "customresourcedefinitions".to_owned());
        store.put(&definitions, &(String::new(), definition.name().to_owned()), object, Vec::new());
        Ok(())
    }
}

/// A minimal definition of a Gateway API kind, because the published definitions require a download with Go.
fn gateway_api(plural: &str, kind: &str, scope: &str, version: &str) -> Result<Crd> {
    let conditions: Value = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    });
    Crd::new(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.gateway.networking.k8s.io")},
        "spec": {
            "group": "gateway.networking.k8s.io",
            "scope": scope,
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"status": {"type": "object", "properties": {
                        "conditions": conditions,
                        "listeners": {
                            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                            "items": {"type": "object", "properties": {"conditions": conditions}},
                        },
                    }}},
                }},
            }],
        },
    }))
}
