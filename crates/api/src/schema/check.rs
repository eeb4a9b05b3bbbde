//! Checks a value against a schema.
//!
//! Like the API server, it first removes disallowed nulls and considers defaults. An unknown field, which the API
//! server would drop, is a fault here; server-side apply rejects it, too. CEL rules, formats, `multipleOf` and
//! uniqueness in sets are not checked; the spokes' API servers check them and their result is reported.

use std::fmt;

use serde_json::{Map, Number, Value};

use super::{Bounds, Rules, Schema, Type};
use crate::json::step::Step;
use crate::json::type_of;
use crate::text::excerpt;

/// The fields of an embedded resource that its schema need not declare.
const OBJECT_KEYS: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// The maximum number of allowed values in a message.
const NAMED: usize = 10;

/// An invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its path.
    pub path: Vec<Step>,
    /// The missing key, if that is the fault.
    pub missing: Option<String>,
    /// The description.
    pub text: String,
}

impl Fault {
    fn here(text: impl Into<String>) -> Self {
        Self { path: Vec::new(), missing: None, text: text.into() }
    }

    fn under(mut self, step: Step) -> Self {
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
    pub fn check(&self, value: &Value) -> Result<(), Fault> {
        let mut value = value.clone();
        self.drop_nulls(&mut value);
        self.admits(&value, true)
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
    fn admits(&self, value: &Value, whole: bool) -> Result<(), Fault> {
        // Only the whole schema decides whether null is allowed.
        let is_null = value.is_null() && (self.nullable || !whole);
        if !is_null && !self.is.fits(value) {
            return Err(Fault::here(format!("expected {}, found {}", self.is, found(value))));
        }
        match value {
            Value::Object(fields) => self.admits_fields(fields, whole)?,
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for (index, item) in items.iter().enumerate() {
                        schema.admits(item, whole).map_err(|fault| fault.under(Step::Item(index)))?;
                    }
                }
            }
            _ => {}
        }
        self.rules.as_ref().map_or(Ok(()), |rules| rules.admit(value))
    }

    fn admits_fields(&self, fields: &Map<String, Value>, whole: bool) -> Result<(), Fault> {
        for (key, value) in fields {
            let under = |fault: Fault| fault.under(Step::key(key));
            let implied = self.embedded && OBJECT_KEYS.contains(&key.as_str());
            match self.property(key).or(self.values.as_deref()) {
                Some(schema) => schema.admits(value, whole).map_err(under)?,
                None if self.keeps_unknown || implied || !whole || self.is == Type::Any => {}
                None => return Err(under(Fault::here("unknown field"))),
            }
        }
        let filled_in = |name: &str| self.property(name).is_some_and(|property| property.has_default);
        let mut required = self.required.iter().map(|name| &**name);
        match required.find(|name| !fields.contains_key(*name) && !filled_in(name)) {
            None => Ok(()),
            Some(name) => {
                Err(Fault { missing: Some(name.to_owned()), ..Fault::here(format!("{name} is required")) })
            }
        }
    }
}

impl Rules {
    fn admit(&self, value: &Value) -> Result<(), Fault> {
        let fault = |text: String| Err(Fault::here(text));
        if !self.one_of_values.is_empty() && !self.one_of_values.contains(value) {
            let named: Vec<String> = self.one_of_values.iter().take(NAMED).map(found).collect();
            return fault(format!("expected one of {}, found {}", named.join(", "), found(value)));
        }
        match value {
            Value::Number(number) => self.admit_number(number)?,
            Value::String(text) => {
                self.length.admit(text.chars().count(), "characters")?;
                if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.admits(text)) {
                    return fault(format!("{} does not match {}", found(value), pattern.text));
                }
            }
            Value::Array(items) => self.items.admit(items.len(), "items")?,
            Value::Object(fields) => self.keys.admit(fields.len(), "keys")?,
            Value::Null | Value::Bool(_) => {}
        }
        self.all.iter().try_for_each(|schema| schema.admits(value, false))?;
        let fitting =
            |schemas: &[Schema]| schemas.iter().filter(|schema| schema.admits(value, false).is_ok()).count();
        if !self.any.is_empty() && fitting(&self.any) == 0 {
            return fault("matches none of the alternatives of anyOf".to_owned());
        }
        if !self.one.is_empty() && fitting(&self.one) != 1 {
            return fault(format!("matches {} of the alternatives of oneOf", fitting(&self.one)));
        }
        if self.not.as_ref().is_some_and(|not| not.admits(value, false).is_ok()) {
            return fault("matches the schema under not".to_owned());
        }
        Ok(())
    }

    fn admit_number(&self, number: &Number) -> Result<(), Fault> {
        let float = |number: &Number| number.as_f64().unwrap_or_default();
        let value = float(number);
        if let Some(minimum) = &self.minimum {
            let (least, fits) = match self.above_minimum {
                true => ("more than", value > float(minimum)),
                false => ("at least", value >= float(minimum)),
            };
            if !fits {
                return Err(Fault::here(format!("expected {least} {minimum}, found {number}")));
            }
        }
        if let Some(maximum) = &self.maximum {
            let (most, fits) = match self.below_maximum {
                true => ("less than", value < float(maximum)),
                false => ("at most", value <= float(maximum)),
            };
            if !fits {
                return Err(Fault::here(format!("expected {most} {maximum}, found {number}")));
            }
        }
        Ok(())
    }
}

impl Bounds {
    fn admit(self, count: usize, of: &str) -> Result<(), Fault> {
        match self {
            Self { least: Some(least), .. } if count < least => {
                Err(Fault::here(format!("expected at least {least} {of}, found {count}")))
            }
            Self { most: Some(most), .. } if count > most => {
                Err(Fault::here(format!("expected at most {most} {of}, found {count}")))
            }
            _ => Ok(()),
        }
    }
}

impl Type {
    fn fits(self, value: &Value) -> bool {
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

impl fmt::Display for Type {
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
fn found(value: &Value) -> String {
    match value {
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("{:?}", excerpt(text)),
        other => type_of(other).to_owned(),
    }
}
