//! Parses denials: elements of `data.admission.deny` and `data.authorization.deny`. Each is a string, or an
//! object `{"id", "resource"?: {"kind", "namespace", "name"}, "resolution"?: {"message"?, "patches"?}}`.

use std::collections::BTreeSet;

use regorus::Value;

use super::operation::Operation;
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_api::text::{one_line, truncate_bytes};
use policy_sync_rego::queries::expected;

/// Maximum length of a message, in bytes.
pub(super) const MAX_MESSAGE_BYTES: usize = 1 << 10;
/// How many denials a message lists.
pub(super) const MAX_LISTED: usize = 20;

/// The reason to reject a write or a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Denial {
    /// The `id` from the Rego policy; empty if the denial is a plain string.
    pub id: String,
    /// The Rego module, if the denial has a `policy` field.
    pub policy: Option<String>,
    /// The reason, on one line.
    pub message: String,
    /// Operations that repair the object. If empty, the denial is final.
    pub patches: Vec<Operation>,
    /// Whether the Rego policy returned an invalid value.
    pub is_fault: bool,
}

/// The object or request under review, as Rego policies see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceRef<'p> {
    /// The plural name of the resource.
    pub kind: &'p str,
    /// The namespace; empty if cluster-scoped.
    pub namespace: &'p str,
    /// The name of the object; for a non-resource request, its path.
    pub name: &'p str,
}

impl ResourceRef<'_> {
    /// The value of `input.reviewed`.
    pub(super) fn reviewed(self, object: Value) -> Value {
        let resource_ref = [self.kind, self.namespace, self.name].map(Value::from).into_iter();
        resource_ref.chain([object]).collect::<Vec<_>>().into()
    }
}

/// Sorts `denials` and removes duplicates.
pub(super) fn sorted_unique(mut denials: Vec<Denial>) -> Vec<Denial> {
    denials.sort_by(|one, other| (&one.id, &one.message).cmp(&(&other.id, &other.message)));
    denials.dedup();
    denials
}

impl Denial {
    /// Parses the denials in the result of a query. Denials of a resource other than `resource_ref` are omitted.
    ///
    /// # Errors
    ///
    /// If the result is neither a set nor an array.
    pub fn read(value: &Value, resource_ref: ResourceRef<'_>) -> Result<Vec<Self>, String> {
        match value {
            Value::Set(items) => Ok(items.iter().filter_map(|item| Self::of(item, resource_ref)).collect()),
            Value::Array(items) => Ok(items.iter().filter_map(|item| Self::of(item, resource_ref)).collect()),
            other => Err(expected("a set", other)),
        }
    }

    fn of(value: &Value, resource_ref: ResourceRef<'_>) -> Option<Self> {
        if let Value::String(text) = value {
            return Some(Self { message: sanitized(text), ..Self::default() });
        }
        let text = |name: &str| value[name].as_string().ok().map(ToString::to_string);
        let (id, policy) = (text("id").filter(|id| !id.is_empty()), text("policy"));
        let is_another = |(name, expected): (&str, &str)| {
            let found = &value["resource"][name];
            *found != Value::Undefined && *found != Value::from(expected)
        };
        let parts =
            [("kind", resource_ref.kind), ("namespace", resource_ref.namespace), ("name", resource_ref.name)];
        if value["resource"].as_object().is_ok() && parts.into_iter().any(is_another) {
            return None;
        }
        let name = id.clone().or_else(|| policy.clone()).unwrap_or_default();
        let (message, patches, is_fault) = match resolution(value, id.is_some(), &name) {
            Ok((message, patches)) => (message, patches, false),
            Err(fault) => (sanitized(&fault), Vec::new(), true),
        };
        Some(Self { id: sanitized(&name), policy, message, patches, is_fault })
    }

    /// The enforcement of the Rego policy that returned the denial, looked up with `of`. `deny` if the denial names no
    /// Rego policy.
    pub(super) fn enforcement(&self, of: impl Fn(&str) -> EnforcementAction) -> EnforcementAction {
        self.policy.as_deref().map_or(EnforcementAction::Deny, of)
    }

    /// The message for users: `ingress-conflict: host a.example.com is taken`.
    #[must_use]
    pub fn text(&self) -> String {
        match (self.id.is_empty(), self.message.is_empty()) {
            (true, _) => self.message.clone(),
            (false, true) => format!("{}: denied", self.id),
            (false, false) => format!("{}: {}", self.id, self.message),
        }
    }
}

/// One message that lists the first of `denials` and states how many more there are.
pub(super) fn summary<'d>(denials: impl ExactSizeIterator<Item = &'d Denial>) -> String {
    let more = denials.len().saturating_sub(MAX_LISTED);
    let named = denials.take(MAX_LISTED).map(Denial::text);
    let more = (more > 0).then(|| format!("and {more} more"));
    named.chain(more).collect::<Vec<_>>().join("; ")
}

/// Makes `text` safe for a message: on one line, and capped in length.
fn sanitized(text: &str) -> String {
    truncate_bytes(&one_line(text), MAX_MESSAGE_BYTES).into_owned()
}

/// Parses the message and the patches of a denial.
fn resolution(value: &Value, has_id: bool, id: &str) -> Result<(String, Vec<Operation>), String> {
    let expected = |at: &str, what: &str, value: &Value| format!("{at}: {}", expected(what, value));
    if value.as_object().is_err() {
        return Err(expected("deny", "a string or an object", value));
    }
    if !has_id {
        return Err(expected("deny", "an object with an id", value));
    }
    if !matches!(&value["resource"], Value::Undefined) {
        let resource = value["resource"].as_object();
        resource.map_err(|_| expected("resource", "an object", &value["resource"]))?;
    }
    let resolution = &value["resolution"];
    if *resolution == Value::Undefined {
        return Ok(Default::default());
    }
    resolution.as_object().map_err(|_| expected("resolution", "an object", resolution))?;
    let text = match &resolution["message"] {
        Value::Undefined => String::new(),
        Value::String(text) => sanitized(text),
        other => return Err(expected("resolution.message", "a string", other)),
    };
    let patches = match &resolution["patches"] {
        Value::Undefined => Vec::new(),
        Value::Array(items) => items.iter().collect(),
        Value::Set(items) => items.iter().collect(),
        other => return Err(expected("resolution.patches", "a list", other)),
    };
    let mut seen = BTreeSet::new();
    let mut operations = Vec::new();
    for (number, patch) in patches.into_iter().enumerate() {
        let at = |fault: String| format!("resolution.patches[{number}]{fault}");
        if seen.insert(patch) {
            operations.push(Operation::read(id, patch).map_err(at)?);
        }
    }
    Ok((text, operations))
}

#[cfg(test)]
mod tests;
