//! A JSON Patch operation ([RFC 6902](https://www.rfc-editor.org/rfc/rfc6902)) from a Rego policy.

use json_patch::PatchOperation;
use regorus::Value as Rego;
use serde_json::Value;

use policy_sync_rego::queries::expected;

/// Fields that Rego policies may not patch: the API server would reject the change, or the patched object would count
/// as another object.
const IMMUTABLE_PATHS: [&str; 7] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/generateName",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/resourceVersion",
];

/// One patch operation of a denial.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The id of the denial.
    pub(super) id: String,
    pub(super) operation: PatchOperation,
}

impl Operation {
    /// Parses an operation of the denial `id`. Adds a missing leading slash to its paths.
    ///
    /// # Errors
    ///
    /// If the operation is invalid. The error text begins like `.path: …`. The caller prepends the location of the
    /// operation.
    pub(super) fn read(id: &str, value: &Rego) -> Result<Self, String> {
        let unread = |_| ": expected an operation of a JSON Patch".to_owned();
        let mut json = serde_json::to_value(value).map_err(unread)?;
        let Some(fields) = json.as_object_mut() else {
            return Err(format!(": {}", expected("an object", value)));
        };
        for name in ["path", "from"] {
            if let Some(Value::String(path)) = fields.get_mut(name) {
                if !path.starts_with('/') && !path.is_empty() {
                    path.insert(0, '/');
                }
                pointer(path).map_err(|fault| format!(".{name}: {fault}"))?;
            }
        }
        // Do not return serde's error: it quotes values, which may be secret.
        let operation = serde_json::from_value(json).map_err(unread)?;
        Ok(Self { id: id.to_owned(), operation })
    }

    /// The paths that the operation writes. For a move, also the source.
    pub(super) fn paths(&self) -> impl Iterator<Item = String> + use<> {
        let from = match &self.operation {
            PatchOperation::Move(moved) => Some(moved.from.to_string()),
            _ => None,
        };
        std::iter::once(self.operation.path().to_string()).chain(from)
    }

    /// Whether the operation reads or writes the value at `place` or a part of it.
    pub(super) fn touches(&self, place: &str) -> bool {
        let from = match &self.operation {
            PatchOperation::Copy(copied) => Some(copied.from.to_string()),
            _ => None,
        };
        self.paths().chain(from).any(|path| is_within(place, &path))
    }

    /// Whether the operation reads the value at `place`, a part of it, or a parent of it: by `copy`, `move` or `test`.
    pub(super) fn reads(&self, place: &str) -> bool {
        let read = match &self.operation {
            PatchOperation::Copy(copied) => copied.from.to_string(),
            PatchOperation::Move(moved) => moved.from.to_string(),
            PatchOperation::Test(tested) => tested.path.to_string(),
            PatchOperation::Add(_) | PatchOperation::Remove(_) | PatchOperation::Replace(_) => return false,
        };
        is_within(place, &read) || is_within(&read, place)
    }

    /// Whether the operation writes a Secret as part of a larger object.
    pub(super) fn writes_secret(&self) -> bool {
        match &self.operation {
            PatchOperation::Add(added) => has_secret(&added.value),
            PatchOperation::Replace(replaced) => has_secret(&replaced.value),
            _ => false,
        }
    }

    /// The JSON Patch operation, without the id.
    #[must_use]
    pub fn operation(&self) -> &PatchOperation {
        &self.operation
    }

    /// A short description: `replace /spec/replicas`.
    #[must_use]
    pub fn text(&self) -> String {
        let word = match self.operation {
            PatchOperation::Add(_) => "add",
            PatchOperation::Remove(_) => "remove",
            PatchOperation::Replace(_) => "replace",
            PatchOperation::Move(_) => "move to",
            PatchOperation::Copy(_) => "copy to",
            PatchOperation::Test(_) => "test",
        };
        format!("{word} {}", self.operation.path())
    }

    /// If the operation inserts or removes an item of a list in `object`, returns the path of the list and the first
    /// index that shifts.
    pub(super) fn shifts(&self, object: &Value) -> Option<(String, usize)> {
        let path = match &self.operation {
            PatchOperation::Add(added) => added.path.to_string(),
            PatchOperation::Remove(removed) => removed.path.to_string(),
            _ => return None,
        };
        let (list, place) = path.rsplit_once('/')?;
        object.pointer(list)?.as_array()?;
        Some((list.to_owned(), place.parse().ok()?))
    }
}

/// Checks that `path` is a JSON pointer to a field that Rego policies may patch.
fn pointer(path: &str) -> Result<(), String> {
    let is_escaped = path.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if path.is_empty() {
        return Err("a Rego policy cannot replace the whole object".to_owned());
    }
    if !is_escaped {
        return Err(format!("{} is not a JSON pointer", serde_json::to_string(path).unwrap_or_default()));
    }
    if IMMUTABLE_PATHS.into_iter().any(|fixed| is_within(fixed, path) || is_within(path, fixed)) {
        return Err(format!("a Rego policy cannot change {path}"));
    }
    Ok(())
}

/// Whether `value` is a Secret, or contains one.
fn has_secret(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            matches!(value["kind"].as_str(), Some("Secret" | "SecretList")) || fields.values().any(has_secret)
        }
        Value::Array(items) => items.iter().any(has_secret),
        _ => false,
    }
}

/// Whether the JSON pointer `inner` equals the JSON pointer `outer`, or is below `outer`.
pub(super) fn is_within(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
