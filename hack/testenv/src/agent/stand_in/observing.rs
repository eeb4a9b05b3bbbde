//! The observing loop: reads the objects on the spoke and writes `Available` and feedback to the work's status.
//!
//! Like OCM's agent, the loop reads the manifests in the status, not the manifests in the spec. So the loop can report
//! objects of the previous generation while the current generation is still being applied. Producers must handle this.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use policy_sync_api::work::{ManifestWork, ResourceMeta};

use super::conditions::computed;
use super::feedback::evaluate;
use super::hub;
use super::manifest::Configuration;
use super::spoke::text;
use super::state::Agent;
use super::status::{self, Observation};
use super::watches::CachedObject;

/// Reads every object of the work and updates the work's status.
pub(super) async fn run(agent: &Agent, work: &ManifestWork) -> Result<(), String> {
    let Some(before) = work.status.as_ref() else { return Ok(()) };
    let applied = before.conditions.iter().any(|condition| condition.type_ == "Applied");
    if !hub::has_finalizer(work) || !applied {
        return Ok(());
    }
    let manifests: Vec<_> =
        before.resource_status.manifests.iter().map(|manifest| &manifest.resource_meta).collect();
    let configurations: Vec<_> =
        manifests.iter().map(|meta| Configuration::new(meta, &work.spec.manifest_configs)).collect();

    // Starts the watches before the reads, so that changes in between cause another run.
    if work.metadata.deletion_timestamp.is_none() {
        let watched = manifests.iter().zip(&configurations).filter(|(meta, configuration)| {
            configuration.watched && !meta.resource.is_empty() && !meta.name.is_empty()
        });
        let watched: Vec<ResourceMeta> = watched.map(|(meta, _)| (*meta).clone()).collect();
        agent.watches.listen(&work.name_any(), &watched);
    }
    let generation = work.metadata.generation.unwrap_or_default();
    let mut observations = Vec::new();
    for (meta, configuration) in manifests.iter().zip(&configurations) {
        observations.push(observe_object(agent, meta, configuration, generation).await);
    }
    let after = status::observed(before, &observations, generation, Timestamp::now());
    hub::write_status(&agent.works, work, &after).await.map_err(|error| text(&error))
}

async fn observe_object(
    agent: &Agent,
    meta: &ResourceMeta,
    configuration: &Configuration,
    generation: i64,
) -> Observation {
    if meta.resource.is_empty() || meta.version.is_empty() || meta.name.is_empty() {
        return Observation::NotServed;
    }
    let object = match agent.watches.read(meta) {
        CachedObject::Object(object) => object.map(|object| serde_json::to_value(&*object)),
        CachedObject::NotCached => match agent.spoke.get(meta).await {
            Ok(object) => object.map(serde_json::to_value),
            Err(error) => return Observation::Unreadable(text(&error)),
        },
    };
    match object {
        None => Observation::Missing,
        Some(Ok(object)) => Observation::Observed(
            evaluate(&configuration.feedback_rules, &object, agent.raw_feedback),
            computed(&configuration.condition_rules, &object, generation),
        ),
        Some(Err(error)) => Observation::Unreadable(error.to_string()),
    }
}
