//! The applying loop: writes a work's manifests to the spoke, and removes the objects when the work is deleted. A
//! work is *held* while it has the agent's finalizer. The *record* is its AppliedManifestWork on the spoke.
//!
//! ```text
//! no finalizer ──hold──▶ held ──apply──▶ Applied ──resync──▶ apply …
//!                         │ deleted: Deleting, remove the record's objects by uid, the record, the finalizer
//! ```

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use policy_sync_api::work::ManifestWork;

use super::hub;
use super::manifest::{Configuration, kind_of, meta_of, order, owned};
use super::record::{owner, recorded};
use super::removal::untracked;
use super::spoke::{ManifestWrite, WriteError, text};
use super::state::Agent;
use super::status::{self, Outcome};
use crate::api::{AppliedManifestWork, AppliedResource};

/// Result of a successful run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// The objects are up to date until the next change or resync.
    Settled,
    /// Objects are still terminating.
    Pending,
    /// The work is not held: its finalizer is missing, was just added, or was removed.
    Idle,
}

/// Result of applying one manifest, with the uid of the written object.
struct Applied {
    outcome: Outcome,
    uid: Option<String>,
    retry: bool,
}

/// Applies or removes the work's objects, depending on the finalizer and the deletion timestamp of the work.
pub(super) async fn run(agent: &Agent, work: &ManifestWork) -> Result<Run, String> {
    let deleted = work.metadata.deletion_timestamp.is_some();
    match (hub::has_finalizer(work), deleted) {
        (false, true) => Ok(Run::Idle),
        (false, false) => {
            hub::add_finalizer(&agent.works, work).await.map(|()| Run::Idle).map_err(|error| text(&error))
        }
        (true, false) => apply(agent, work).await,
        (true, true) => remove(agent, work).await,
    }
}

async fn apply(agent: &Agent, work: &ManifestWork) -> Result<Run, String> {
    let record = agent.records.ensure(work).await.map_err(|error| text(&error))?;
    if record.metadata.deletion_timestamp.is_some() {
        // A user deleted the record on the spoke. The record is created again once its objects are gone.
        finalize(agent, &record).await?;
        return Ok(Run::Pending);
    }
    let results = apply_manifests(agent, work, &record).await;

    let outcomes: Vec<_> = results.iter().map(|result| result.outcome.clone()).collect();
    let generation = work.metadata.generation.unwrap_or_default();
    let before = work.status.clone().unwrap_or_default();
    let after = status::applied(&before, &outcomes, generation, Timestamp::now());
    let mut errors: Vec<String> = Vec::new();
    errors.extend(
        results.iter().filter(|result| result.retry).filter_map(|result| result.outcome.error.clone()),
    );

    // A work without the condition `Applied` has never had manifests. Its recorded objects are kept, because a hub that
    // is restored from a backup may not have the manifests yet.
    let ever_applied = after.conditions.iter().any(|condition| condition.type_ == "Applied");
    let existing = if ever_applied { existing(agent, &results).await } else { Err(Vec::new()) };
    let mut resources = None;
    match existing {
        Ok(mut existing) => {
            let dropped = untracked(recorded(&record), &existing);
            let (pending, failed) = agent.spoke.remove(&dropped, &owner(&record)).await;
            if failed.is_empty() {
                existing.extend(pending.iter().cloned());
                resources = Some((existing, !pending.is_empty()));
            }
            errors.extend(failed);
        }
        Err(failed) => errors.extend(failed),
    }

    hub::write_status(&agent.works, work, &after).await.map_err(|error| text(&error))?;
    let mut run = Run::Settled;
    if let Some((resources, pending)) = resources {
        agent.records.write(&record, resources).await.map_err(|error| text(&error))?;
        if pending {
            run = Run::Pending;
        }
    }
    if errors.is_empty() { Ok(run) } else { Err(errors.join(", ")) }
}

async fn apply_manifests(agent: &Agent, work: &ManifestWork, record: &AppliedManifestWork) -> Vec<Applied> {
    let mut results: Vec<_> = Vec::new();
    for index in order(&work.spec) {
        results.push((index, apply_manifest(agent, work, record, index).await));
    }
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

async fn apply_manifest(
    agent: &Agent,
    work: &ManifestWork,
    record: &AppliedManifestWork,
    index: usize,
) -> Applied {
    let manifest = &work.spec.workload.manifests[index].0;
    let mapping = match agent.spoke.mapping(&kind_of(manifest)).await {
        Ok(mapping) => mapping,
        Err(error) => {
            let outcome = Outcome { meta: meta_of(index, manifest, None), error: Some(error.to_string()) };
            return Applied { outcome, uid: None, retry: true };
        }
    };
    let meta = meta_of(index, manifest, Some(&mapping));
    let write = ManifestWrite {
        manifest,
        mapping: &mapping,
        meta: &meta,
        configuration: &Configuration::new(&meta, &work.spec.manifest_configs),
        owned: owned(&meta, work.spec.delete_option.as_ref()),
    };
    let (uid, error) = match agent.spoke.apply(&write, &owner(record)).await {
        Ok(uid) => (Some(uid), None),
        Err(error) => (None, Some(error)),
    };
    let retry = matches!(error, Some(WriteError::Failed(_)));
    Applied { outcome: Outcome { meta, error: error.map(|error| error.to_string()) }, uid, retry }
}

/// The work's objects on the spoke, including objects of manifests that failed in this run.
async fn existing(agent: &Agent, results: &[Applied]) -> Result<Vec<AppliedResource>, Vec<String>> {
    let (mut existing, mut errors) = (Vec::new(), Vec::new());
    for result in results {
        let meta = &result.outcome.meta;
        let uid = match &result.uid {
            Some(uid) => Some(uid.clone()),
            None if meta.resource.is_empty() => {
                errors.push(format!("resource with key {}/{} not found", meta.namespace, meta.name));
                continue;
            }
            None => match agent.spoke.get(meta).await {
                Ok(object) => object.and_then(|object| object.metadata.uid),
                Err(error) => {
                    errors.push(text(&error));
                    continue;
                }
            },
        };
        if let Some(uid) = uid {
            let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
            existing.push(AppliedResource {
                group: some(&meta.group),
                version: meta.version.clone(),
                resource: meta.resource.clone(),
                namespace: some(&meta.namespace),
                name: meta.name.clone(),
                uid: Some(uid),
            });
        }
    }
    if errors.is_empty() { Ok(existing) } else { Err(errors) }
}

async fn remove(agent: &Agent, work: &ManifestWork) -> Result<Run, String> {
    let name = work.name_any();
    agent.watches.listen(&name, &[]);
    let Some(record) = agent.records.get(&name).await.map_err(|error| text(&error))? else {
        hub::remove_finalizer(&agent.works, work).await.map_err(|error| text(&error))?;
        return Ok(Run::Idle);
    };
    if record.metadata.deletion_timestamp.is_none() {
        let before = work.status.clone().unwrap_or_default();
        let generation = work.metadata.generation.unwrap_or_default();
        let after = status::deleting(&before, generation, Timestamp::now());
        hub::write_status(&agent.works, work, &after).await.map_err(|error| text(&error))?;
        agent.records.delete(&record).await.map_err(|error| text(&error))?;
        return Ok(Run::Pending);
    }
    finalize(agent, &record).await?;
    Ok(Run::Pending)
}

/// Deletes the objects of a deleted record, and releases the record once all are gone.
async fn finalize(agent: &Agent, record: &AppliedManifestWork) -> Result<(), String> {
    let (pending, errors) = agent.spoke.remove(recorded(record), &owner(record)).await;
    if !errors.is_empty() {
        return Err(errors.join(", "));
    }
    if pending.is_empty() {
        agent.records.remove_finalizer(record).await.map_err(|error| text(&error))
    } else {
        agent.records.write(record, pending).await.map_err(|error| text(&error))
    }
}
