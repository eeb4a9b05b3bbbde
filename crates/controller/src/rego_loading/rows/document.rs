//! A row with an object of the hub, without the fields that Rego policies do not need.

use std::collections::BTreeMap;
use std::fmt;

use regorus::Value;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::rego_loading::weight::weight;
use policy_sync_api::annotations::LAST_APPLIED;
use policy_sync_api::names::ControllerName;
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{ObjectRow, Row};
use policy_sync_rego::contents::strip_work;

/// The maximum depth of an object. The engine walks through values recursively, so deeper parts are removed.
const MAX_DEPTH: usize = 100;

/// An object without `managedFields` and the annotation of `kubectl apply`. If the object is a work, the contents of
/// Secrets among its manifests are also removed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    /// The object; undefined if it is left out.
    pub value: Value,
    /// The estimated size of the object in bytes, as if it shared no parts with other objects. Also set if the object
    /// is left out.
    pub weight: usize,
}

impl Document {
    /// The object, unless it is left out.
    #[must_use]
    pub(crate) fn object(&self) -> Option<&Value> {
        (self.value != Value::Undefined).then_some(&self.value)
    }

    /// A copy of the row without the object.
    #[must_use]
    pub(crate) fn left_out(&self) -> Self {
        Self { value: Value::Undefined, weight: self.weight }
    }
}

impl From<Value> for Document {
    fn from(value: Value) -> Self {
        Self { weight: weight(&value), value }
    }
}

impl Row for Document {}

impl ObjectRow for Document {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        let text = object.text.as_deref().map_or("{}", serde_json::value::RawValue::get);
        let mut deserializer = serde_json::Deserializer::from_str(text);
        // The text is valid JSON, because the metadata was parsed from it before.
        let mut value =
            ObjectPart::Object.deserialize(&mut deserializer).unwrap_or_else(|_| Value::new_object());
        if let Ok(fields) = value.as_object_mut() {
            // Items of a list response lack `apiVersion` and `kind`.
            for (name, text) in [("apiVersion", &object.api_version), ("kind", &object.kind)] {
                fields.insert(name.into(), text.as_str().into());
            }
        }
        strip_work(&mut value);
        value.into()
    }
}

/// Parses `text` into the form that Rego policies see.
///
/// # Errors
///
/// If `text` is not valid JSON.
pub fn document(text: &str) -> Result<Value, serde_json::Error> {
    let mut value = ObjectPart::Object.deserialize(&mut serde_json::Deserializer::from_str(text))?;
    strip_work(&mut value);
    Ok(value)
}

/// The parts of an object that the parser treats differently.
#[derive(Clone, Copy)]
enum ObjectPart {
    Object,
    Metadata,
    Annotations,
    /// A nested part at this depth.
    Other(usize),
}

impl ObjectPart {
    /// Classifies the part under `key`; `None` if the part is dropped.
    fn part(self, key: &str) -> Option<Self> {
        match (self, key) {
            (Self::Object, "metadata") => Some(Self::Metadata),
            (Self::Metadata, "managedFields") | (Self::Annotations, LAST_APPLIED) => None,
            (Self::Metadata, "annotations") => Some(Self::Annotations),
            (Self::Other(depth), _) => Some(Self::Other(depth + 1)),
            _ => Some(Self::Other(2)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for ObjectPart {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if matches!(self, Self::Other(depth) if depth > MAX_DEPTH) {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(|_| Value::Null);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ObjectPart {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        let part = self.part("").unwrap_or(self);
        while let Some(value) = items.next_element_seed(part)? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut values = BTreeMap::new();
        while let Some(key) = fields.next_key::<String>()? {
            match self.part(&key) {
                Some(part) => drop(values.insert(Value::from(key), fields.next_value_seed(part)?)),
                None => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(values.into())
    }
}

#[cfg(test)]
mod tests;
