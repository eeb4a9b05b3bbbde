//! Writes the statuses of works in place of the work agents. Each status reports that the copy is applied and enforced,
//! and each message has 64 bytes.

use anyhow::{Context, Result};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use policy_sync_api::work::ManifestWork;
use serde_json::json;

use super::raw::{self, PreparedRequest};
use policy_sync_testenv::tenant::WorkReport;

/// Number of concurrent status patches.
pub(super) const AT_ONCE: usize = 32;

/// A condition's message: `text`, padded or truncated to 64 bytes.
fn message(text: &str) -> String {
    format!("{text:.<64.64}")
}

/// The agent's status patch for `work`, with a message that starts with `text`.
pub(super) fn report(work: &ManifestWork, text: &str) -> Result<PreparedRequest> {
    let report = WorkReport::applied().condition("Enforced", "True", "Enforced", &message(text));
    let patch = Patch::Merge(json!({ "status": report.status_of(work) }));
    let request = raw::works_of(&work.namespace().unwrap_or_default())
        .patch_subresource("status", &work.name_any(), &PatchParams::default(), &patch)
        .context("building a status request")?;
    Ok(raw::with_metadata_response(request))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_64_bytes() {
        assert_eq!(message("all is well").len(), 64);
        assert!(message("all is well").starts_with("all is well."));
        assert_eq!(message(&"x".repeat(100)).len(), 64);
    }
}
