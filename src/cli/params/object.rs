//! Previews the values that the paths of `statusFields` select in an object.

use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::sources::Source;
use crate::cli::columns::table;
use crate::cli::documents::{self, Document, documents};
use policy_sync_api::names::{GroupVersionResource, ObjectKey};
use policy_sync_api::params::{Role, StatusField, StatusPath};

/// An object, with the values that the `statusFields` of the object's kind select in it.
pub(super) struct ObjectFields {
    /// The kind and the name, such as `RateLimitPolicy shop/limits`.
    object: String,
    fields: Vec<Field>,
}

/// A field with the values that its path selects.
struct Field {
    name: String,
    path: String,
    values: Vec<Value>,
}

impl Field {
    fn new(field: &StatusField, object: &Value) -> anyhow::Result<Self> {
        let path = StatusPath::parse(&field.path)?;
        let values = path.values(object).into_iter().cloned().collect();
        Ok(Self { name: field.name.clone(), path: field.path.clone(), values })
    }

    /// How a work agent reports the values, unless it reports them unchanged.
    fn message(&self) -> Option<&'static str> {
        match &self.values[..] {
            [] | [Value::Null] => Some("no value is reported"),
            [Value::String(_) | Value::Bool(_)] => None,
            [Value::Number(number)] if !number.is_f64() => None,
            [_] => Some("reported as JSON if the agent has RawFeedbackJsonString, otherwise not reported"),
            [..] => Some(
                "reported as a list if the agent has RawFeedbackJsonString, otherwise only the first value",
            ),
        }
    }

    fn value(&self) -> String {
        match &self.values[..] {
            [] | [Value::Null] => "-".to_owned(),
            [value] => value.to_string(),
            values => json!(values).to_string(),
        }
    }
}

/// Reads the objects in `file`, or from standard input if it is `-`, and evaluates the fields of `sources`.
///
/// # Errors
///
/// If the file cannot be read or contains no object, or if no valid parameters list the kind of an object.
pub(super) fn read(file: &Path, sources: &[Source]) -> anyhow::Result<Vec<ObjectFields>> {
    let (place, text) = documents::read(file)?;
    let documents = documents(&text).map_err(|fault| fault.in_file(&place))?;
    if documents.is_empty() {
        bail!("{place}: no object");
    }
    let fields = |document: &Document| {
        fields_of(&document.value, sources).with_context(|| format!("{place}:{}", document.line))
    };
    documents.iter().map(fields).collect()
}

fn fields_of(object: &Value, sources: &[Source]) -> anyhow::Result<ObjectFields> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    if api_version.is_empty() || kind.is_empty() {
        bail!("expected a Kubernetes object");
    }
    let metadata = &object["metadata"];
    let key = ObjectKey::new(&text(&metadata["namespace"]), &text(&metadata["name"]));
    let valid = sources.iter().filter(|source| source.checked.faults.is_empty());
    let is_it = |(_, gvr): &(Role, GroupVersionResource)| {
        gvr.api_version() == api_version && gvr.kind.is_plural_of(&kind)
    };
    let (mut is_listed, mut fields) = (false, Vec::new());
    for params in valid.map(|source| &source.checked.params) {
        for (role, gvr) in params.all_listed().filter(is_it) {
            is_listed = true;
            let listed = params.status_fields(role, &gvr).map(|field| Field::new(field, object));
            fields.extend(listed.collect::<anyhow::Result<Vec<_>>>()?);
        }
    }
    if !is_listed {
        bail!("the parameters do not list the kind {kind} of {api_version}");
    }
    Ok(ObjectFields { object: format!("{kind} {key}"), fields })
}

/// Formats a row for each field.
pub(super) fn text(all: &[ObjectFields]) -> String {
    let rows = all.iter().flat_map(|of| {
        of.fields.iter().map(|field| {
            let message = field.message().unwrap_or("-").to_owned();
            vec![of.object.clone(), field.name.clone(), field.path.clone(), field.value(), message]
        })
    });
    table(&["OBJECT", "FIELD", "PATH", "VALUE", "MESSAGE"], 2, rows)
}

/// The fields as JSON.
pub(super) fn list(all: &[ObjectFields]) -> Value {
    let field = |field: &Field| {
        json!({
            "name": field.name, "path": field.path, "values": field.values,
            "message": field.message().unwrap_or_default(),
        })
    };
    let object = |of: &ObjectFields| {
        let fields: Vec<Value> = of.fields.iter().map(field).collect();
        json!({"object": of.object, "fields": fields})
    };
    all.iter().map(object).collect()
}
