//! Work agents of all spokes of a server in memory. The agents apply each work, and clean up each deleted work, after a
//! short delay.

use std::time::Duration;

use anyhow::{Context, Result};
use kube::api::{Api, Patch, PatchParams};
use policy_sync_api::work::ManifestWork;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Faultless, MemoryServer};
use crate::hostile::ROGUE;
use crate::tenant::WorkReport;

/// Delay of the agents.
const AGENT_DELAY: Duration = Duration::from_millis(200);
/// The finalizer of OCM's agent.
const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// Runs the agents of all spokes except [`ROGUE`] until an error.
///
/// # Errors
///
/// Returns an error if the server rejects a write of an agent.
pub async fn agents(server: MemoryServer) -> Result<()> {
    let client = server.client_of("agent", Faultless);
    let mut changed = server.changed();
    loop {
        changed.mark_unchanged();
        sleep(AGENT_DELAY).await;
        for work in server.objects_of("work.open-cluster-management.io", "manifestworks") {
            let text = |field: &str| work["metadata"][field].as_str().unwrap_or_default();
            if text("namespace") == ROGUE {
                continue;
            }
            let api: Api<ManifestWork> = Api::namespaced(client.clone(), text("namespace"));
            match reconcile_work(&api, text("name"), &work).await {
                // The controller has changed the work meanwhile. The next pass handles the change.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                other => other.with_context(|| format!("reconciling the work {}", text("name")))?,
            }
        }
        changed.changed().await?;
    }
}

/// Performs the agent's next step for a work.
pub(super) async fn reconcile_work(api: &Api<ManifestWork>, name: &str, work: &Value) -> kube::Result<()> {
    let metadata = &work["metadata"];
    let held = metadata["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
    let params = PatchParams::default();
    if !metadata["deletionTimestamp"].is_null() {
        api.patch(name, &params, &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await?;
        return Ok(());
    }
    if !held {
        api.patch(name, &params, &Patch::Merge(json!({"metadata": {"finalizers": [FINALIZER]}}))).await?;
    }
    if work["status"]["conditions"][0]["observedGeneration"] != metadata["generation"] {
        let work: ManifestWork = serde_json::from_value(work.clone()).map_err(kube::Error::SerdeError)?;
        let answer = WorkReport::applied().condition("Accepted", "True", "Accepted", "");
        let status = json!({ "status": answer.status_of(&work) });
        api.patch_status(name, &params, &Patch::Merge(status)).await?;
    }
    Ok(())
}
