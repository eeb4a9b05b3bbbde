//! The structural schema of a kind's spec, from its CustomResourceDefinition
//! ([Kubernetes](https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema)).
//!
//! The schema keeps only the parts that a check of values needs; descriptions make up most of a definition. A general
//! JSON Schema validator does not fit: it lacks the extensions of structural schemas (unknown fields, `nullable`,
//! defaults, embedded resources).

mod check;

use std::sync::OnceLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::{Regex, RegexBuilder};
use serde_json::{Number, Value};

use super::json::normalize;
pub use check::SchemaError;

/// The maximum size of a compiled regular expression, in bytes. The check omits a larger regular expression.
const PATTERN_LIMIT: usize = 1 << 20;

/// The schema of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    value_type: ValueType,
    nullable: bool,
    /// Whether the API server sets a default if the value is missing.
    has_default: bool,
    /// Whether undeclared keys are allowed.
    preserves_unknown: bool,
    /// Whether the value is a complete Kubernetes object, whose kind and metadata need no declaration.
    embedded: bool,
    /// The declared keys with their schemas, sorted by name.
    properties: Box<[(Box<str>, Schema)]>,
    required: Box<[Box<str>]>,
    /// The schema for the values of undeclared keys.
    values: Option<Box<Schema>>,
    items: Option<Box<Schema>>,
    constraints: Option<Box<Constraints>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueType {
    Any,
    Object,
    List,
    Text,
    Integer,
    Number,
    Boolean,
    IntegerOrText,
}

/// Constraints that only few schemas have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Constraints {
    enum_values: Vec<Value>,
    minimum: Option<Number>,
    exclusive_minimum: bool,
    maximum: Option<Number>,
    exclusive_maximum: bool,
    length: Bounds,
    items: Bounds,
    keys: Bounds,
    pattern: Option<Pattern>,
    all: Vec<Schema>,
    any: Vec<Schema>,
    one: Vec<Schema>,
    not: Option<Schema>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bounds {
    least: Option<usize>,
    most: Option<usize>,
}

#[derive(Clone, Debug)]
struct Pattern {
    text: Box<str>,
    /// The compiled regular expression; `None` if it cannot be compiled. Compiled at the first use.
    compiled: OnceLock<Option<Regex>>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// Whether `text` matches or might match the regular expression. The API server uses Go's regular expressions,
    /// which differ in a few escapes and in their meaning beyond ASCII.
    fn may_match(&self, text: &str) -> bool {
        let compile = || RegexBuilder::new(&self.text).size_limit(PATTERN_LIMIT).build().ok();
        let is_unsure = !text.is_ascii() && self.text.contains('\\');
        is_unsure || self.compiled.get_or_init(compile).as_ref().is_none_or(|regex| regex.is_match(text))
    }
}

impl Schema {
    /// Converts the schema `props` of a CustomResourceDefinition.
    #[must_use]
    pub fn new(props: &JSONSchemaProps) -> Self {
        let flag = |flag: Option<bool>| flag.unwrap_or_default();
        let properties = props.properties.iter().flatten();
        let (values, any_value) = match &props.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(schema)) => (Some(Self::boxed(schema)), false),
            Some(JSONSchemaPropsOrBool::Bool(any)) => (None, *any),
            None => (None, false),
        };
        let items = match &props.items {
            Some(JSONSchemaPropsOrArray::Schema(schema)) => Some(Self::boxed(schema)),
            Some(JSONSchemaPropsOrArray::Schemas(_)) | None => None,
        };
        let constraints = Constraints::new(props);
        Self {
            value_type: ValueType::new(props),
            nullable: flag(props.nullable),
            has_default: props.default.is_some(),
            preserves_unknown: any_value || flag(props.x_kubernetes_preserve_unknown_fields),
            embedded: flag(props.x_kubernetes_embedded_resource),
            properties: properties.map(|(name, props)| (name.as_str().into(), Self::new(props))).collect(),
            required: props.required.iter().flatten().map(|name| name.as_str().into()).collect(),
            values,
            items,
            constraints: (constraints != Constraints::default()).then(|| Box::new(constraints)),
        }
    }

    fn boxed(props: &JSONSchemaProps) -> Box<Self> {
        Box::new(Self::new(props))
    }

    fn property(&self, name: &str) -> Option<&Self> {
        let found = self.properties.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        self.properties.get(found).map(|(_, schema)| schema)
    }
}

impl ValueType {
    fn new(props: &JSONSchemaProps) -> Self {
        if props.x_kubernetes_int_or_string == Some(true) {
            return Self::IntegerOrText;
        }
        match props.type_.as_deref() {
            Some("object") => Self::Object,
            Some("array") => Self::List,
            Some("string") => Self::Text,
            Some("integer") => Self::Integer,
            Some("number") => Self::Number,
            Some("boolean") => Self::Boolean,
            _ => Self::Any,
        }
    }
}

impl Constraints {
    fn new(props: &JSONSchemaProps) -> Self {
        let all =
            |schemas: &Option<Vec<JSONSchemaProps>>| schemas.iter().flatten().map(Schema::new).collect();
        let bounds = |least: Option<i64>, most: Option<i64>| {
            let bound = |bound: Option<i64>| bound.and_then(|bound| usize::try_from(bound).ok());
            Bounds { least: bound(least), most: bound(most) }
        };
        let value = |JSON(value): &JSON| normalized(value.clone());
        let number = |number: f64| normalized(number.into()).as_number().cloned();
        Self {
            enum_values: props.enum_.iter().flatten().map(value).collect(),
            minimum: props.minimum.and_then(number),
            exclusive_minimum: props.exclusive_minimum.unwrap_or_default(),
            maximum: props.maximum.and_then(number),
            exclusive_maximum: props.exclusive_maximum.unwrap_or_default(),
            length: bounds(props.min_length, props.max_length),
            items: bounds(props.min_items, props.max_items),
            keys: bounds(props.min_properties, props.max_properties),
            pattern: props
                .pattern
                .as_deref()
                .map(|text| Pattern { text: text.into(), compiled: OnceLock::new() }),
            all: all(&props.all_of),
            any: all(&props.any_of),
            one: all(&props.one_of),
            not: props.not.as_deref().map(Schema::new),
        }
    }
}

fn normalized(mut value: Value) -> Value {
    normalize(&mut value);
    value
}

#[cfg(test)]
mod tests;
