//! Selectors of Kubernetes federation: a list of requirements, for example `[{"key": "zone", "operator": "In",
//! "values": ["eu-1", "eu-2"]}]`. A cluster must meet all requirements.
//!
//! The operators are those of Kubernetes label selectors, by name or symbol, and case-insensitive. Values may also be a
//! single string, as in some published policies: `"[true]"` is a list with the value `true`.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Expression, Selector, SelectorExt};

use super::REQUIREMENT_LIMIT;
use crate::json::step::Step;
use crate::json::strict::{JsonError, list, object, parse as parse_json, required};
use crate::json::tree::Json;
use crate::syntax::{is_label_key, is_label_value};

/// A requirement on a cluster's labels.
#[derive(Clone, Debug)]
pub(super) enum Requirement {
    /// A requirement that Kubernetes label selectors support.
    Expression(Selector),
    /// The label's value is an integer above this integer.
    Above(String, i64),
    /// The label's value is an integer below this integer.
    Below(String, i64),
}

impl Requirement {
    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let number = |key: &String| labels.get(key).and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Expression(selector) => selector.matches(labels),
            Self::Above(key, least) => number(key).is_some_and(|number| number > *least),
            Self::Below(key, most) => number(key).is_some_and(|number| number < *most),
        }
    }
}

/// Parses a selector.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, JsonError> {
    list(parse_json(text)?, (REQUIREMENT_LIMIT, "requirements"), requirement)
}

fn requirement(json: Json) -> Result<Requirement, JsonError> {
    let mut fields = object(json, &["key", "operator", "values"])?;
    let values = match fields.remove("values") {
        None | Some(Json::Null) => Vec::new(),
        Some(json) => values(json).map_err(|fault| fault.within(&Step::key("values")))?,
    };
    let [key, operator] = ["key", "operator"].map(|field| match required(&mut fields, field)? {
        Json::Text(text) => Ok(text),
        other => Err(JsonError::expected("a string", &other).within(&Step::key(field))),
    });
    let (key, operator) = (key?, operator?);
    if !is_label_key(&key) {
        return Err(JsonError::new(format!("{key:?} is not a label key")).within(&Step::key("key")));
    }
    let expect_count = |wanted: &str, fits: bool| {
        let text = format!("operator {operator} takes {wanted}, found {}", values.len());
        if fits { Ok(()) } else { Err(JsonError::new(text).within(&Step::key("values"))) }
    };
    let some = || expect_count("one value or more", !values.is_empty());
    let one = || expect_count("one value", values.len() == 1);
    let none = || expect_count("no values", values.is_empty());
    let number = || {
        one()?;
        let whole = |value: &String| format!("expected a whole number, found {value:?}");
        values[0].parse().map_err(|_| JsonError::new(whole(&values[0])).within(&Step::key("values")))
    };
    let set = || values.iter().cloned().collect::<BTreeSet<String>>();
    let expression = match operator.to_lowercase().as_str() {
        "in" => some().map(|()| Expression::In(key, set())),
        "notin" => some().map(|()| Expression::NotIn(key, set())),
        "=" | "==" => one().map(|()| Expression::In(key, set())),
        "!=" => one().map(|()| Expression::NotIn(key, set())),
        "exists" => none().map(|()| Expression::Exists(key)),
        "doesnotexist" | "!" => none().map(|()| Expression::DoesNotExist(key)),
        "gt" => return number().map(|number| Requirement::Above(key, number)),
        "lt" => return number().map(|number| Requirement::Below(key, number)),
        _ => {
            let expected = "In, NotIn, Exists, DoesNotExist, Gt, Lt, =, ==, != or !";
            let text = format!("expected {expected}, found {operator:?}");
            Err(JsonError::new(text).within(&Step::key("operator")))
        }
    };
    Ok(Requirement::Expression([expression?].into_iter().collect()))
}

fn values(json: Json) -> Result<Vec<String>, JsonError> {
    match json {
        Json::List(items) => {
            let items = items.into_iter().enumerate();
            items.map(|(index, json)| value(json).map_err(|fault| fault.within(&Step::Item(index)))).collect()
        }
        Json::Text(text) => match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            Some(inside) => {
                let parts = inside.split(',').map(|part| part.trim().trim_matches('"'));
                parts.map(|part| value(Json::Text(part.to_owned()))).collect()
            }
            None => Ok(vec![value(Json::Text(text))?]),
        },
        other => Err(JsonError::expected("a list, or a string", &other)),
    }
}

/// A label value. Numbers and booleans are converted to text.
fn value(json: Json) -> Result<String, JsonError> {
    let text = match json {
        Json::Text(text) => text,
        Json::Number(number) => number.to_string(),
        Json::Bool(value) => value.to_string(),
        other => return Err(JsonError::expected("a string", &other)),
    };
    if is_label_value(&text) {
        Ok(text)
    } else {
        Err(JsonError::new(format!("{text:?} is not a label value")))
    }
}
