//! Strict parsing of JSON that users write. Duplicate keys and wrong types are errors, and callers reject unknown keys.
//! Only the first error is returned, with its place. A syntax error has no place; its text contains line and column.

use std::collections::BTreeMap;

use super::step::Step;
use super::tree::Json;

/// An error in a text, with its place.
pub struct JsonError {
    /// The place, such as `[1].patch.limits`; empty for the whole text.
    pub place: String,
    /// The description of the error.
    pub text: String,
}

impl JsonError {
    /// Creates an error about the whole text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { place: String::new(), text: text.into() }
    }

    /// Creates an error about a value of the wrong type.
    pub fn expected(expected: &str, found: &Json) -> Self {
        Self::new(format!("expected {expected}, found {found}"))
    }

    /// Prefixes the place with a step, for an error in a part of a value.
    pub fn within(self, outer: &Step) -> Self {
        Self { place: format!("{outer}{}", self.place), ..self }
    }
}

/// Parses a text.
///
/// # Errors
///
/// If it is not JSON.
pub fn parse(text: &str) -> Result<Json, JsonError> {
    serde_json::from_str(text).map_err(|error| JsonError::new(format!("not JSON: {error}")))
}

/// The items of a list, each parsed by `read`. More than `limit` items are an error, whose text calls the items `what`.
pub fn list<T>(
    json: Json,
    (limit, what): (usize, &str),
    read: impl Fn(Json) -> Result<T, JsonError>,
) -> Result<Vec<T>, JsonError> {
    let items = match json {
        Json::List(items) => items,
        other => return Err(JsonError::expected("a list", &other)),
    };
    if items.len() > limit {
        return Err(JsonError::new(format!("has {} {what}, at most {limit} are allowed", items.len())));
    }
    let items = items.into_iter().enumerate();
    items.map(|(index, json)| read(json).map_err(|fault| fault.within(&Step::Item(index)))).collect()
}

/// The fields of an object. Unknown and duplicate keys are errors.
pub fn object(json: Json, known: &[&str]) -> Result<BTreeMap<String, Json>, JsonError> {
    let fields = entries(json)?;
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => {
            let text = format!("unknown key, expected one of {}", known.join(", "));
            Err(JsonError::new(text).within(&Step::key(key)))
        }
        None => Ok(fields),
    }
}

/// The fields of an object. Duplicate keys are errors.
pub fn entries(json: Json) -> Result<BTreeMap<String, Json>, JsonError> {
    match json {
        Json::Object(entries) => distinct(entries),
        other => Err(JsonError::expected("an object", &other)),
    }
}

/// Removes and returns the field `key`; an error if it is absent.
pub fn required(fields: &mut BTreeMap<String, Json>, key: &str) -> Result<Json, JsonError> {
    fields.remove(key).ok_or_else(|| JsonError::new(format!("{key} is required")))
}

/// Converts entries to a map. Duplicate keys are errors.
pub fn distinct(entries: Vec<(String, Json)>) -> Result<BTreeMap<String, Json>, JsonError> {
    let mut fields = BTreeMap::new();
    for (key, json) in entries {
        if fields.contains_key(&key) {
            return Err(JsonError::new("duplicate key").within(&Step::key(&key)));
        }
        fields.insert(key, json);
    }
    Ok(fields)
}
