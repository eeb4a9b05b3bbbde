//! Rows of GatewayClasses and of the ConfigMaps that hold their parameters.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Deserialize;

use policy_sync_api::gateway::{GatewayClassSpec, ParametersReference};
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::{self, Params, ParamsError};
use policy_sync_api::pause::Pause;
use policy_sync_mirror::{ObjectRow, Row};

/// A GatewayClass.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The uid, which is unique over time.
    pub uid: Arc<str>,
    /// The creation time.
    pub created: Moment,
    /// The generation, which changes with the spec.
    pub generation: i64,
    /// The name of the controller that implements the class.
    pub controller_name: Arc<str>,
    /// The reference to the parameters of the class.
    pub parameters_ref: Option<ParametersReference>,
    /// The conditions in the status of the class, from all writers.
    pub conditions: Vec<Condition>,
    /// Whether changes of the Gateways of the class, and of their policies, are paused.
    pub paused: Pause,
}

impl From<&HubObject> for Class {
    fn from(object: &HubObject) -> Self {
        #[derive(Default, Deserialize)]
        struct Status {
            #[serde(default)]
            conditions: Vec<Condition>,
        }
        let spec: GatewayClassSpec = object.spec_as();
        Self {
            uid: object.metadata.uid.as_str().into(),
            created: object.metadata.created().unwrap_or_default(),
            generation: object.metadata.generation,
            controller_name: spec.controller_name.into(),
            parameters_ref: spec.parameters_ref,
            conditions: object.status_as::<Status>().conditions,
            paused: Pause::read(&object.metadata.annotations),
        }
    }
}

impl Class {
    /// Whether both rows agree in all fields on which decisions depend. No decision depends on the status.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        fn decides(row: &Class) -> impl PartialEq + '_ {
            (&row.uid, &row.controller_name, &row.parameters_ref, &row.paused)
        }
        decides(self) == decides(other)
    }

    /// The ConfigMap with the parameters; `None` without a reference.
    ///
    /// # Errors
    ///
    /// If `spec.parametersRef` refers to anything but a ConfigMap.
    pub fn config_map(&self) -> Result<Option<ObjectKey>, ParamsError> {
        let Some(reference) = &self.parameters_ref else { return Ok(None) };
        let fault = |field: &str, fault: String| {
            Err(ParamsError { place: format!("spec.parametersRef.{field}"), fault })
        };
        if !reference.group.is_empty() || reference.kind != "ConfigMap" {
            return fault(
                "kind",
                format!("expected a core ConfigMap, found {} of {:?}", reference.kind, reference.group),
            );
        }
        match reference.namespace.as_deref() {
            None | Some("") => fault("namespace", "is required for a ConfigMap".into()),
            Some(namespace) => Ok(Some(ObjectKey::new(namespace, &reference.name))),
        }
    }
}

/// The row of a ConfigMap that a class names. Its parameters are parsed once.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigMap {
    /// The parameters under the key `params` of the ConfigMap.
    pub params: Result<Arc<Params>, ParamsError>,
    /// The hash of the ConfigMap's text, for comparisons.
    text: Hash,
}

impl From<&HubObject> for ConfigMap {
    fn from(object: &HubObject) -> Self {
        let data: BTreeMap<String, String> =
            object.data.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let text = data.get(params::KEY);
        let params = match text {
            Some(text) => Params::parse(text).map(Arc::new),
            None => Err(ParamsError { place: String::new(), fault: format!("has no key {:?}", params::KEY) }),
        };
        Self { params, text: Hash::of_value(&text) }
    }
}

impl Row for Class {
    fn deletion_hash(&self) -> Option<Hash> {
        Some(Hash::of_value(&(&self.uid, self.generation)))
    }
}

impl ObjectRow for Class {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        object.into()
    }
}

impl Row for ConfigMap {
    fn deletion_hash(&self) -> Option<Hash> {
        Some(self.text)
    }
}

impl ObjectRow for ConfigMap {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        object.into()
    }
}
