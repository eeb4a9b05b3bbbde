//! The JSON patch ([RFC 6902](https://www.rfc-editor.org/rfc/rfc6902)) of an override. Its paths are relative to the
//! spec. Operations that copy or move values are not supported, because they could multiply the size of a copy.

use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, PatchErrorKind, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation,
    patch_unsafe,
};
use serde_json::Value;

use super::{OPERATIONS_LIMIT, TARGETS, reach, value};
use policy_sync_api::json::step::{Step, place};
use policy_sync_api::json::strict::{JsonError, list, object, required};
use policy_sync_api::json::tree::Json;
use policy_sync_api::json::{DEPTH_LIMIT, depth, normalize, type_of};
use policy_sync_api::text::{escaped_excerpt, excerpt};

/// The maximum number of list items that all patches of one copy may move. An operation that adds or removes an item
/// moves the items of the list.
const MOVED_ITEMS_LIMIT: usize = 50_000;

const KEYS: [&str; 3] = ["op", "path", "value"];

/// The operations of a JSON patch.
#[derive(Clone, Debug)]
pub(super) struct JsonPatch(Vec<PatchOperation>);

/// A failed operation of a patch.
pub(super) struct OperationError {
    /// The position of the operation in the patch.
    pub(super) index: usize,
    /// The description of the error.
    pub(super) text: String,
}

impl JsonPatch {
    /// Reads the list of operations.
    pub(super) fn read(json: Json) -> Result<Self, JsonError> {
        list(json, (OPERATIONS_LIMIT, "operations"), operation).map(Self)
    }

    /// The size of the operations as JSON, in bytes. The patched spec grows by at most this much.
    pub(super) fn bytes(&self) -> usize {
        policy_sync_api::json::length(&self.0)
    }

    /// Applies the operations to `spec` in their order. `moved` counts the list items that all patches of a copy have
    /// moved. After an error, `spec` is useless.
    pub(super) fn apply(&self, spec: &mut Value, moved: &mut usize) -> Result<(), OperationError> {
        for (index, operation) in self.0.iter().enumerate() {
            *moved += moved_items(spec, operation);
            if *moved > MOVED_ITEMS_LIMIT {
                let text =
                    format!("adding and removing items moves more than {MOVED_ITEMS_LIMIT} list items");
                return Err(OperationError { index, text });
            }
            if let Err(error) = patch_unsafe(spec, std::slice::from_ref(operation)) {
                return Err(OperationError { index, text: fault(spec, operation, &error.kind) });
            }
        }
        Ok(())
    }

    /// The paths in the spec that the operations set or remove, such as `rules[0].name`.
    pub(super) fn places(&self) -> impl Iterator<Item = String> {
        let changes = self.0.iter().filter(|operation| !matches!(operation, PatchOperation::Test(_)));
        changes.map(|operation| {
            let mut path = steps(operation);
            // An appended item has no index yet.
            path.pop_if(|last| *last == Step::key("-"));
            place(&path).trim_start_matches('.').to_owned()
        })
    }

    /// The largest number of leading `steps` that an operation changes, and the position of the last such operation.
    /// `None` if no operation changes the first step.
    pub(super) fn reach(&self, steps: &[Step]) -> Option<(usize, usize)> {
        let changes =
            self.0.iter().enumerate().filter(|(_, operation)| !matches!(operation, PatchOperation::Test(_)));
        let reached = changes.map(|(index, operation)| {
            let path = self::steps(operation);
            let shared = path.iter().zip(steps).take_while(|(path, step)| is_same(path, step)).count();
            let inside = match operation {
                _ if shared < path.len() => 0,
                PatchOperation::Add(AddOperation { value, .. })
                | PatchOperation::Replace(ReplaceOperation { value, .. }) => reach(value, &steps[shared..]),
                _ => 0,
            };
            (shared + inside, index)
        });
        reached.max().filter(|(reached, _)| *reached > 0)
    }
}

fn operation(json: Json) -> Result<PatchOperation, JsonError> {
    let mut fields = object(json, &KEYS)?;
    let [op, path] = ["op", "path"].map(|key| {
        required(&mut fields, key).and_then(|json| match json {
            Json::Text(text) => Ok(text),
            other => Err(JsonError::expected("a string", &other).within(&Step::key(key))),
        })
    });
    let op = op?;
    let within_path = |text: String| JsonError::new(text).within(&Step::key("path"));
    let path = PointerBuf::parse(path?).map_err(|error| {
        let found = escaped_excerpt(error.subject());
        within_path(format!("expected a JSON pointer such as /limits/night, found \"{found}\""))
    })?;
    let changes_targets = path.first().is_none_or(|token| TARGETS.contains(&&*token.decoded()));
    if op != "test" && changes_targets {
        let whole = if path.is_root() { "the path is the whole spec, and " } else { "" };
        return Err(within_path(format!("{whole}a patch cannot change the target references")));
    }
    if path.count() > DEPTH_LIMIT {
        return Err(within_path(format!("more than {DEPTH_LIMIT} nested lists and objects")));
    }
    let given = fields.remove("value");
    if op == "remove" {
        return match given {
            None => Ok(PatchOperation::Remove(RemoveOperation { path })),
            Some(_) => Err(JsonError::new("remove has no value").within(&Step::key("value"))),
        };
    }
    if !["add", "replace", "test"].contains(&&*op) {
        let text = format!("expected add, remove, replace or test, found \"{}\"", escaped_excerpt(&op));
        return Err(JsonError::new(text).within(&Step::key("op")));
    }
    let given = given.ok_or_else(|| JsonError::new(format!("{op} requires a value")))?;
    let mut value = value(given).map_err(|fault| fault.within(&Step::key("value")))?;
    if path.count() + depth(&value) > DEPTH_LIMIT {
        return Err(JsonError::new(format!("more than {DEPTH_LIMIT} nested lists and objects")));
    }
    normalize(&mut value);
    Ok(match &*op {
        "add" => PatchOperation::Add(AddOperation { path, value }),
        "replace" => PatchOperation::Replace(ReplaceOperation { path, value }),
        _ => PatchOperation::Test(TestOperation { path, value }),
    })
}

/// The number of items of the list in which `operation` adds or removes an item; 0 for other operations.
fn moved_items(spec: &Value, operation: &PatchOperation) -> usize {
    if !matches!(operation, PatchOperation::Add(_) | PatchOperation::Remove(_)) {
        return 0;
    }
    let parent = operation.path().parent().and_then(|parent| spec.pointer(parent.as_str()));
    parent.and_then(Value::as_array).map_or(0, Vec::len)
}

/// The text for an operation that failed on `spec`.
fn fault(spec: &Value, operation: &PatchOperation, error: &PatchErrorKind) -> String {
    let path = escaped_excerpt(operation.path().as_str());
    match (error, spec.pointer(operation.path().as_str())) {
        (PatchErrorKind::TestFailed, Some(found)) => {
            let found = match found {
                Value::Array(_) | Value::Object(_) => type_of(found).to_owned(),
                other => excerpt(&other.to_string()),
            };
            format!("the test failed: {path} of the spec is {found}")
        }
        _ => format!("the spec has no path {path}"),
    }
}

/// The path of an operation. An index of a list and a key of digits cannot be distinguished, so both are an index.
fn steps(operation: &PatchOperation) -> Vec<Step> {
    let is_index =
        |token: &str| token == "0" || !token.starts_with('0') && token.bytes().all(|b| b.is_ascii_digit());
    let step = |token: &str| {
        let index = token.parse().ok().filter(|_| is_index(token));
        index.map_or_else(|| Step::key(token), Step::Item)
    };
    operation.path().tokens().map(|token| step(&token.decoded())).collect()
}

/// Whether the step `path` of an operation is `step`, a step into a value. `-` is the index of an item that the
/// operation appended.
fn is_same(path: &Step, step: &Step) -> bool {
    match (path, step) {
        (Step::Item(index), Step::Key(key)) => index.to_string() == *key,
        (Step::Key(key), Step::Item(_)) => key == "-",
        (path, step) => path == step,
    }
}
