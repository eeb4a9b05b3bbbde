//! Reads JSON that users have written, strictly: the first fault is told with its place.

use std::collections::BTreeMap;

use super::step::Step;
use super::tree::Json;

/// What is wrong, and where.
pub(crate) struct Fault {
    /// `[1].patch.limits`, empty for the whole text.
    pub(crate) place: String,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn here(text: impl Into<String>) -> Self {
        Self { place: String::new(), text: text.into() }
    }

    pub(crate) fn expected(expected: &str, found: &Json) -> Self {
        Self::here(format!("expected {expected}, found {found}"))
    }

    /// The same, where the place is inside `outer`.
    pub(crate) fn under(self, outer: &Step) -> Self {
        Self { place: format!("{outer}{}", self.place), ..self }
    }
}

pub(crate) fn parse(text: &str) -> Result<Json, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::here(format!("not JSON: {error}")))
}

/// The items of a list of no more than `limit`, each of them `read`; `what` they are, is for the words.
pub(crate) fn list<T>(
    json: Json,
    (limit, what): (usize, &str),
    read: impl Fn(Json) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let items = match json {
        Json::List(items) => items,
        other => return Err(Fault::expected("a list", &other)),
    };
    if items.len() > limit {
        return Err(Fault::here(format!("has {} {what}, at most {limit} are allowed", items.len())));
    }
    let items = items.into_iter().enumerate();
    items.map(|(index, json)| read(json).map_err(|fault| fault.under(&Step::Item(index)))).collect()
}

/// The fields of an object that has no others than `known`, each of them once.
pub(crate) fn object(json: Json, known: &[&str]) -> Result<BTreeMap<String, Json>, Fault> {
    let fields = entries(json)?;
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => {
            let text = format!("unknown key, expected one of {}", known.join(", "));
            Err(Fault::here(text).under(&Step::key(key)))
        }
        None => Ok(fields),
    }
}

/// The same of an object that may have any.
pub(crate) fn entries(json: Json) -> Result<BTreeMap<String, Json>, Fault> {
    match json {
        Json::Object(entries) => distinct(entries),
        other => Err(Fault::expected("an object", &other)),
    }
}

/// The field `key`, which has to be among `fields`.
pub(crate) fn required(fields: &mut BTreeMap<String, Json>, key: &str) -> Result<Json, Fault> {
    fields.remove(key).ok_or_else(|| Fault::here(format!("{key} is required")))
}

/// Entries by their key, each there once.
pub(crate) fn distinct(entries: Vec<(String, Json)>) -> Result<BTreeMap<String, Json>, Fault> {
    let mut fields = BTreeMap::new();
    for (key, json) in entries {
        if fields.contains_key(&key) {
            return Err(Fault::here("the key is there twice").under(&Step::key(&key)));
        }
        fields.insert(key, json);
    }
    Ok(fields)
}
