//! How an object stands, whatever it holds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use k8s_openapi::api::core::v1::ObjectReference;
use regorus::Value as Rego;
use tracing::error;

use crate::placement::compliance::{Compliance, compliance};
use crate::rego::snapshot::{Snapshot, Unanswered};

/// How `object` stands. Whatever it holds, it ends nothing.
pub(super) fn judge(snapshot: &Snapshot, object: &Rego) -> Result<Compliance, Unanswered> {
    let judged = catch_unwind(AssertUnwindSafe(|| match serde_json::to_value(object) {
        Ok(object) => compliance(snapshot, &object),
        Err(fault) => Ok(Compliance::Breaks(format!("it cannot be read: {fault}"))),
    }));
    judged.unwrap_or_else(|_| {
        error!("asking policies about an object panicked");
        Ok(Compliance::Breaks("asking policies about it panicked: see the log of the controller".to_owned()))
    })
}

/// For Events about it.
pub(super) fn reference(object: &Rego) -> ObjectReference {
    let text = |value: &Rego| value.as_string().ok().map(ToString::to_string);
    let metadata = &object["metadata"];
    ObjectReference {
        api_version: text(&object["apiVersion"]),
        kind: text(&object["kind"]),
        namespace: text(&metadata["namespace"]),
        name: text(&metadata["name"]),
        uid: text(&metadata["uid"]),
        ..ObjectReference::default()
    }
}
