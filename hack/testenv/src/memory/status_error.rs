//! Error responses: Kubernetes `Status` objects with the text of a real API server.

use serde_json::{Value, json};

use super::kinds::Kind;

/// An error response.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StatusError {
    pub(super) code: u16,
    reason: &'static str,
    message: String,
    details: Value,
}

impl StatusError {
    fn new(code: u16, reason: &'static str, message: String) -> Self {
        Self { code, reason, message, details: Value::Null }
    }

    fn about(self, kind: &Kind, name: &str) -> Self {
        let kind_name = if self.code == 422 { &kind.kind } else { &kind.resource };
        Self { details: json!({"name": name, "group": kind.group, "kind": kind_name}), ..self }
    }

    pub(super) fn unknown_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource".into())
    }

    pub(super) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", kind.name())).about(kind, name)
    }

    pub(super) fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", kind.name())).about(kind, name)
    }

    pub(super) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.name());
        Self::new(409, "Conflict", message).about(kind, name)
    }

    pub(super) fn modified(kind: &Kind, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    /// The uid or resource version in a precondition differs.
    pub(super) fn precondition(kind: &Kind, name: &str, field: &str, wanted: &str, found: &str) -> Self {
        let why = format!(
            "the {field} in the precondition ({wanted}) does not match the {field} in record ({found})"
        );
        Self::conflict(kind, name, &why)
    }

    /// An apply without force would change fields of other managers.
    pub(super) fn owned(conflicts: &[(String, String)]) -> Self {
        let count =
            if conflicts.len() == 1 { "1 conflict".into() } else { format!("{} conflicts", conflicts.len()) };
        let named: Vec<String> =
            conflicts.iter().map(|(field, manager)| format!("conflict with {manager:?}: {field}")).collect();
        let message = format!("Apply failed with {count}: {}", named.join(", "));
        let causes: Vec<Value> = conflicts
            .iter()
            .map(|(field, manager)| {
                json!({"reason": "FieldManagerConflict", "field": field, "message": format!("conflict with {manager:?}")})
            })
            .collect();
        Self { details: json!({"causes": causes}), ..Self::new(409, "Conflict", message) }
    }

    pub(super) fn invalid(kind: &Kind, name: &str, fault: &str) -> Self {
        let qualified =
            if kind.group.is_empty() { kind.kind.clone() } else { format!("{}.{}", kind.kind, kind.group) };
        Self::new(422, "Invalid", format!("{qualified} {name:?} is invalid: {fault}")).about(kind, name)
    }

    /// A JSON patch that cannot be applied to the object.
    pub(super) fn inapplicable_patch() -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request".into())
    }

    pub(super) fn bad_request(message: &str) -> Self {
        Self::new(400, "BadRequest", message.to_owned())
    }

    pub(super) fn unsupported(content: &str) -> Self {
        let message = format!("the body of the request was in an unknown format: {content:?}");
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(super) fn not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource".into(),
        )
    }

    pub(super) fn expired(message: String) -> Self {
        Self::new(410, "Expired", message)
    }

    /// An injected fault.
    pub(super) fn injected(code: u16, retry_after: Option<u32>) -> Self {
        let reason = match code {
            403 => "Forbidden",
            409 => "Conflict",
            410 => "Expired",
            413 => "RequestEntityTooLarge",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            _ => "Unknown",
        };
        let details = retry_after.map_or(Value::Null, |seconds| json!({"retryAfterSeconds": seconds}));
        Self { details, ..Self::new(code, reason, format!("injected fault: {reason}")) }
    }

    pub(super) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}
