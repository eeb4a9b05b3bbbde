//! Checks a value against a schema.
//!
//! Like the API server, the check first removes disallowed nulls and considers defaults. An unknown field, which the
//! API server would drop, is a fault here; server-side apply rejects it, too. CEL rules, formats, `multipleOf` and
//! uniqueness in sets are not checked here. The spokes' API servers check them, and their result is reported.

use std::fmt;

use serde_json::{Map, Number, Value};

use super::{Bounds, Constraints, Schema, ValueType};
use crate::json::step::Step;
use crate::json::type_of;
use crate::text::excerpt;

/// The fields of an embedded resource that its schema need not declare.
const OBJECT_KEYS: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// The maximum number of allowed values in a message.
const VALUES_LIMIT: usize = 10;

/// An invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// The path of the invalid value.
    pub path: Vec<Step>,
    /// The missing key, if the fault is a missing key.
    pub missing: Option<String>,
    /// The description of the error.
    pub text: String,
}

impl SchemaError {
    fn new(text: impl Into<String>) -> Self {
        Self { path: Vec::new(), missing: None, text: text.into() }
    }

    fn within(mut self, step: Step) -> Self {
        self.path.insert(0, step);
        self
    }
}

impl Schema {
    /// Checks `value`, whose numbers must be [normalized](crate::json::normalize).
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn check(&self, value: &Value) -> Result<(), SchemaError> {
        let mut value = value.clone();
        self.drop_nulls(&mut value);
        self.validate(&value, true)
    }

    /// Removes nulls that the schema does not allow.
    fn drop_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                let schema = |key: &str| self.property(key).or(self.values.as_deref());
                fields.retain(|key, value| {
                    !value.is_null() || schema(key).is_none_or(|schema| schema.nullable)
                });
                for (key, value) in fields {
                    if let Some(schema) = schema(key) {
                        schema.drop_nulls(value);
                    }
                }
            }
            Value::Array(items) => {
                let schemas = self.items.iter().cycle();
                schemas.zip(items).for_each(|(schema, item)| schema.drop_nulls(item));
            }
            _ => {}
        }
    }

    /// Checks `value`. `whole` is false for alternatives (`anyOf` and the like), which need not declare all fields.
    fn validate(&self, value: &Value, whole: bool) -> Result<(), SchemaError> {
        // Only the whole schema decides whether null is allowed.
        let is_null = value.is_null() && (self.nullable || !whole);
        if !is_null && !self.value_type.accepts(value) {
            return Err(SchemaError::new(format!("expected {}, found {}", self.value_type, describe(value))));
        }
        match value {
            Value::Object(fields) => self.validate_fields(fields, whole)?,
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for (index, item) in items.iter().enumerate() {
                        schema.validate(item, whole).map_err(|error| error.within(Step::Item(index)))?;
                    }
                }
            }
            _ => {}
        }
        self.constraints.as_ref().map_or(Ok(()), |constraints| constraints.validate(value))
    }

    fn validate_fields(&self, fields: &Map<String, Value>, whole: bool) -> Result<(), SchemaError> {
        for (key, value) in fields {
            let within = |error: SchemaError| error.within(Step::key(key));
            let implied = self.embedded && OBJECT_KEYS.contains(&key.as_str());
            match self.property(key).or(self.values.as_deref()) {
                Some(schema) => schema.validate(value, whole).map_err(within)?,
                None if self.preserves_unknown || implied || !whole || self.value_type == ValueType::Any => {}
                None => return Err(within(SchemaError::new("unknown field"))),
            }
        }
        let has_default = |name: &str| self.property(name).is_some_and(|property| property.has_default);
        let mut required = self.required.iter().map(|name| &**name);
        match required.find(|name| !fields.contains_key(*name) && !has_default(name)) {
            None => Ok(()),
            Some(name) => Err(SchemaError {
                missing: Some(name.to_owned()),
                ..SchemaError::new(format!("{name} is required"))
            }),
        }
    }
}

impl Constraints {
    fn validate(&self, value: &Value) -> Result<(), SchemaError> {
        let error = |text: String| Err(SchemaError::new(text));
        if !self.enum_values.is_empty() && !self.enum_values.contains(value) {
            let named: Vec<String> = self.enum_values.iter().take(VALUES_LIMIT).map(describe).collect();
            return error(format!("expected one of {}, found {}", named.join(", "), describe(value)));
        }
        match value {
            Value::Number(number) => self.validate_number(number)?,
            Value::String(text) => {
                self.length.validate(text.chars().count(), "characters")?;
                if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.may_match(text)) {
                    return error(format!("{} does not match {}", describe(value), pattern.text));
                }
            }
            Value::Array(items) => self.items.validate(items.len(), "items")?,
            Value::Object(fields) => self.keys.validate(fields.len(), "keys")?,
            Value::Null | Value::Bool(_) => {}
        }
        self.all.iter().try_for_each(|schema| schema.validate(value, false))?;
        let valid_count = |schemas: &[Schema]| {
            schemas.iter().filter(|schema| schema.validate(value, false).is_ok()).count()
        };
        if !self.any.is_empty() && valid_count(&self.any) == 0 {
            return error("matches none of the alternatives of anyOf".to_owned());
        }
        if !self.one.is_empty() && valid_count(&self.one) != 1 {
            return error(format!("matches {} of the alternatives of oneOf", valid_count(&self.one)));
        }
        if self.not.as_ref().is_some_and(|not| not.validate(value, false).is_ok()) {
            return error("matches the schema under not".to_owned());
        }
        Ok(())
    }

    fn validate_number(&self, number: &Number) -> Result<(), SchemaError> {
        let float = |number: &Number| number.as_f64().unwrap_or_default();
        let value = float(number);
        if let Some(minimum) = &self.minimum {
            let (least, fits) = match self.exclusive_minimum {
                true => ("more than", value > float(minimum)),
                false => ("at least", value >= float(minimum)),
            };
            if !fits {
                return Err(SchemaError::new(format!("expected {least} {minimum}, found {number}")));
            }
        }
        if let Some(maximum) = &self.maximum {
            let (most, fits) = match self.exclusive_maximum {
                true => ("less than", value < float(maximum)),
                false => ("at most", value <= float(maximum)),
            };
            if !fits {
                return Err(SchemaError::new(format!("expected {most} {maximum}, found {number}")));
            }
        }
        Ok(())
    }
}

impl Bounds {
    fn validate(self, count: usize, of: &str) -> Result<(), SchemaError> {
        match self {
            Self { least: Some(least), .. } if count < least => {
                Err(SchemaError::new(format!("expected at least {least} {of}, found {count}")))
            }
            Self { most: Some(most), .. } if count > most => {
                Err(SchemaError::new(format!("expected at most {most} {of}, found {count}")))
            }
            _ => Ok(()),
        }
    }
}

impl ValueType {
    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Object => value.is_object(),
            Self::List => value.is_array(),
            Self::Text => value.is_string(),
            Self::Integer => value.is_i64(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::IntegerOrText => value.is_i64() || value.is_string(),
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "anything",
            Self::Object => "an object",
            Self::List => "a list",
            Self::Text => "a string",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::IntegerOrText => "an integer or a string",
        })
    }
}

/// Formats a value for a message.
fn describe(value: &Value) -> String {
    match value {
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("{:?}", excerpt(text)),
        other => type_of(other).to_owned(),
    }
}
